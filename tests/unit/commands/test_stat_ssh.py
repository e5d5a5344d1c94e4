# SPDX-License-Identifier: GPL-2.0-or-later
"""kentry stat over ssh, the whole way: a real server on the loopback."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from kentry.cli import build_parser
from kentry.commands.stat_modes import mode_of
from kentry.runners.machine import MachineOptions
from kentry.runners.open import open_machine
from tests import ROOT
from tests.unit.runners.sshd import Server, serving

SCHEMAS = ROOT / "schema"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with serving(tmp_path) as made:
        made.start()
        yield made


def stat(server: Server, *words: str) -> int:
    args = build_parser().parse_args(["stat", "ssh:target", *words, "--json", "-q"])
    args.of_kernels = False
    with open_machine("ssh:target", MachineOptions(ssh_options=server.options)) as place:
        return mode_of(args)(place, args)


def printed(capsys: pytest.CaptureFixture[str], schema: str) -> dict[str, object]:
    document: dict[str, object] = json.loads(capsys.readouterr().out)
    Draft202012Validator(json.loads((SCHEMAS / schema).read_text())).validate(document)
    return document


def test_a_table_over_ssh(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    assert stat(server, "--case", "getppid,read", "--groups", "6") == 0
    document = printed(capsys, "recording-1.schema.json")
    assert document["target"]["kind"] == "ssh"  # type: ignore[index]
    assert [one["name"] for one in document["cases"]] == ["getppid", "read"]  # type: ignore[attr-defined]
    assert not list(server.tmp.iterdir())


def test_a_comparison_over_ssh(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--compare", "getppid", "openat+close", "--groups", "60", "--no-preflight")
    assert stat(server, *words) == 0
    cases: Any = printed(capsys, "comparison-1.schema.json")["cases"]
    (row,) = cases
    assert (row["metric"], row["verdict"], row["paired"]) == ("ns", "worse", True)
