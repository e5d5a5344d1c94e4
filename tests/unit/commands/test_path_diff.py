# SPDX-License-Identifier: GPL-2.0-or-later
"""kentry annotate OLD NEW: what it prints, and what is refused."""

import json
from pathlib import Path

import jsonschema
import pytest

from kentry.cli import main
from kentry.results.recording import write_recording
from tests import ROOT
from tests.builders import recording, schema

OLD, NEW, ARM = (
    str(ROOT / "tests" / "golden" / name)
    for name in ("riscv64-6.1.json", "riscv64-6.12.json", "arm64-6.1.json")
)


def printed(words: list[str], capsys: pytest.CaptureFixture[str], code: int = 0) -> str:
    assert main(words) == code
    return capsys.readouterr().out


def test_the_json_has_its_schema_and_adds_up(capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(printed(["annotate", OLD, NEW, "--json"], capsys))
    jsonschema.validate(document, schema("path-diff-1"))
    (case,) = document["cases"]
    assert (case["old"], case["new"], case["delta"]) == (165, 223, 58)
    assert case["added"] - case["removed"] == 58
    sums = {
        change: sum(row["times"] for row in case["rows"] if row["change"] == change)
        for change in ("same", "added", "removed", "moved-to")
    }
    assert sums == {
        **{name: case[name] for name in ("same", "added", "removed")},
        "moved-to": case["moved"],
    }


def test_more_context_shows_more_and_changes_no_row(capsys: pytest.CaptureFixture[str]) -> None:
    texts = [
        printed(["annotate", OLD, NEW, "--context", str(n)], capsys).splitlines()
        for n in (0, 3, 1000)
    ]
    assert [len(text) for text in texts] == sorted(len(text) for text in texts)
    changes = [[line for line in text if line[:1] in ("+", "-")] for text in texts]
    assert changes[0] == changes[1] == changes[2]
    assert any("the same:" in line for line in texts[1])


def test_a_case_that_only_one_side_has_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [tmp_path / "old.json", tmp_path / "new.json"]
    write_recording(recording({"getppid": [("f", 9)], "read": [("g", 9)]}), files[0])
    write_recording(recording({"getppid": [("f", 9)]}), files[1])
    assert main(["annotate", *map(str, files), "--case", "read"]) == 2
    assert "has no case read" in capsys.readouterr().err
