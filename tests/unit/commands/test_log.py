# SPDX-License-Identifier: GPL-2.0-or-later
"""kentry log over recordings; commits and packages are measured in tests/qemu/."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest

from kentry.cli import main
from kentry.errors import KernelError
from kentry.results.recording import Recording, write_recording
from kentry.results.studies import Log
from kentry.study.plan import Unit
from tests.builders import built, recording, validate
from tests.unit.compare.test_contexts import in_contexts, stat


def written(folder: Path, *recordings: Recording) -> list[str]:
    """The files of the recordings of kernels in order."""
    files = [folder / f"{place}.json" for place in range(len(recordings))]
    for kernel, file in zip(recordings, files, strict=True):
        write_recording(kernel, file)
    return list(map(str, files))


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Recordings of five kernels: 110, 110, 118, 118 and 112 instructions."""
    counts = ([("handle_exception", 100), ("syscall", own)] for own in (10, 10, 18, 18, 12))
    return written(tmp_path, *(recording({"getppid": functions}) for functions in counts))


def parsed(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    validate(document, "log-1")
    return document


def test_each_change_has_its_place_and_its_functions(
    files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["log", *files, "--json"]) == 0
    log = parsed(capsys)
    assert [one["value"] for one in log["points"]] == [110, 110, 118, 118, 112]
    for change, place, delta in zip(log["changes"], (2, 4), (8, -6), strict=True):
        assert (change["place"], change["names"], change["delta"]) == (place, [files[place]], delta)
        assert [(row["name"], row["delta"]) for row in change["functions"]] == [("syscall", delta)]
        assert change["new"] - change["old"] == delta
    assert main(["log", *files[:2], "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["changes"] == []
    # Of a file nothing but its name is known before it is read.
    assert all(
        line.removeprefix("kentry: ") in (*files, "looking for the kernels")
        for line in err.splitlines()
    )


def test_each_case_has_its_history_and_what_else_differs_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kernels = (
        built({"getppid": [("a", getppid)], "read": [("b", read)]}, config={"PREEMPT": preempt})
        for getppid, read, preempt in ((10, 20, "y"), (10, 25, "n"), (13, 25, "n"))
    )
    names = written(tmp_path, *kernels)
    assert main(["log", *names, "--case", "getppid,read", "--json"]) == 0
    log = parsed(capsys)
    [other] = log["others"]
    assert [one["value"] for one in log["points"]] == [10, 10, 13]
    assert [(one["place"], one["delta"]) for one in log["changes"]] == [(2, 3)]
    assert (other["case"], other["values"]) == ("read", [20, 25, 25])
    assert [(one["place"], one["delta"]) for one in other["changes"]] == [(1, 5)]
    [differs] = [one["text"] for one in log["caveats"] if one["kind"] == "differs"]
    assert names[1] in differs and names[2] not in differs


def test_the_processor_is_named_where_it_is_one_and_the_config_where_something_is_built(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def origin(*cpus: str, config: str = "") -> tuple[dict[str, str], list[str]]:
        origin = {"kind": "debian", **({"config": config} if config else {})}
        names = written(
            tmp_path,
            *(
                recording({"getppid": [("a", 9)]}, {}, {"origin": origin}, {"processor": cpu})
                for cpu in cpus
            ),
        )
        assert main(["log", *names, "--json"]) == 0
        log = parsed(capsys)
        return log["origin"], [one["target"]["processor"] for one in log["measured"]]

    both = ["rpi5", "rpi5"]
    assert origin("rpi5", "max", "rpi5") == ({"what": ANY}, both)
    assert origin("rpi5", "rpi5") == ({"what": ANY, "cpu": "rpi5"}, both)
    assert origin("rpi5", config="tiny") == (
        {"what": ANY, "cpu": "rpi5", "config": "tiny"},
        ["rpi5"],
    )


def test_a_kernel_beside_a_recording_is_measured_on_the_recordings_architecture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [file] = written(tmp_path, recording({"getppid": [("a", 9)]}, kernel={"arch": "riscv64"}))
    asked: list[str] = []

    def log_kernels(units: Sequence[Unit], origin: dict[str, str]) -> Log:
        asked.extend(unit.arch for unit in units)
        raise KernelError("It stops here.", "Do nothing.")

    monkeypatch.setattr("kentry.commands.log.log_kernels", log_kernels)
    assert main(["log", file, "debian:6.12"]) == 2
    assert main(["log", file, "debian:6.12", "--arch", "arm64"]) == 2
    assert asked == ["riscv64"] * 2 + ["arm64"] * 2


def test_the_picture_is_the_same_for_the_same_numbers(files: list[str], tmp_path: Path) -> None:
    pictures = []
    for number in (1, 2):
        picture = tmp_path / f"{number}.svg"
        assert main(["log", *files, "--picture", str(picture)]) == 0
        pictures.append(picture.read_text())
    assert pictures[0] == pictures[1]
    assert "+8" in pictures[0] and "-6" in pictures[0]
    assert all(file[-12:] in pictures[0] for file in files)


def test_a_count_that_no_context_has_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new = in_contexts(stat([1, 2, 1], entry=301), seed=2)
    names = written(tmp_path, in_contexts(stat([0, 0, 1])), new)
    assert main(["log", *names, "--case", "stat"]) == 0
    assert "447 instructions of stat is a sum" in capsys.readouterr().out
