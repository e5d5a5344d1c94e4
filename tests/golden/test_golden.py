# SPDX-License-Identifier: GPL-2.0-or-later
"""Whole outputs on recordings of real kernels, compared with the files beside this one.

KENTRY_BLESS=1 writes the expected files anew; a missing one fails.  What was printed
instead is left beside it as NAME.got.
"""

import difflib
import os
from pathlib import Path

import pytest

from kentry.cli import main
from kentry.recording import read_recording
from kentry.report.text import recording_table

HERE = Path(__file__).parent
OLD, NEW = "arm64-6.1.json", "arm64-6.12.json"

COMMANDS = {
    "diff.txt": ["diff", OLD, NEW],
    "diff-all.txt": ["diff", OLD, NEW, "--functions", "all", "--case", "getppid"],
    "diff-back.txt": ["diff", NEW, OLD, "--case", "invalid"],
    "diff-same.txt": ["diff", OLD, OLD],
    "diff.json": ["diff", OLD, NEW, "--json", "--case", "invalid"],
    "annotate.txt": ["annotate", NEW],
    "annotate-invalid.txt": ["annotate", OLD, "--case", "invalid"],
}


def check(name: str, got: str) -> None:
    expected = HERE / name
    if os.environ.get("KENTRY_BLESS"):
        expected.write_text(got)
    assert expected.exists(), f"{name} is missing; KENTRY_BLESS=1 writes it"
    text = expected.read_text()
    if got != text:
        expected.with_suffix(expected.suffix + ".got").write_text(got)
        lines = difflib.unified_diff(text.splitlines(), got.splitlines(), name, "got", lineterm="")
        pytest.fail("\n".join(lines) + "\nKENTRY_BLESS=1 accepts it")


@pytest.mark.parametrize("name", COMMANDS)
def test_output(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(HERE)
    assert main(COMMANDS[name]) == 0
    got = capsys.readouterr().out
    assert got.isascii()
    check(name, got)


def test_the_table_of_a_recording() -> None:
    check("record.txt", recording_table(read_recording(HERE / NEW)))
