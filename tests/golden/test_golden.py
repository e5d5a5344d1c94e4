# SPDX-License-Identifier: GPL-2.0-or-later
"""Whole outputs on recordings of real kernels, compared with the files beside this one."""

from collections.abc import Callable
from pathlib import Path

import pytest

from kentry.cli import main
from kentry.compare.counted import compare
from kentry.compare.series import tabulate
from kentry.model.recording import read_recording
from kentry.model.series import NO_BUILD, Problem, Series
from kentry.report.changelog import comparison_changelog, series_changelog
from kentry.report.series import series_text
from kentry.report.text import recording_table
from tests.builders import outcome

Golden = Callable[[str, str], None]
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


@pytest.mark.parametrize("name", COMMANDS)
def test_output(
    name: str,
    golden: Golden,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(HERE)
    assert main(COMMANDS[name]) == 0
    got = capsys.readouterr().out
    assert got.isascii()
    golden(name, got)


def test_the_table_of_a_recording(golden: Golden) -> None:
    golden("record.txt", recording_table(read_recording(HERE / NEW)))


def a_series() -> Series:
    """Real recordings as rows: a change, a cosmetic patch, one that fails, a way back."""
    old, new = (read_recording(HERE / name) for name in (OLD, NEW))
    failed = Problem(
        NO_BUILD,
        "does not build: arch/arm64/kernel/syscall.c:52:9: error: implicit declaration of"
        " function 'el0_svc_uncommon' [-Werror=implicit-function-declaration]",
        "arch/arm64/kernel/syscall.c: In function 'do_el0_svc':\n"
        "arch/arm64/kernel/syscall.c:52:9: error: implicit declaration",
    )
    rows = [
        outcome(0, "baseline", old),
        outcome(1, "arm64: entry: convert to generic entry", new),
        outcome(2, "arm64: entry: rename what nobody will ever call by its old name again", new),
        outcome(3, "arm64: syscall: call el0_svc_uncommon()", ("arm64", failed)),
        outcome(4, 'Revert "arm64: entry: convert to generic entry"', old),
        outcome(5, "arm64: entry: convert to generic entry, again", new),
    ]
    return tabulate(
        rows, {"base": "debian:6.1", "change-id": "20260101-generic-entry-0a1b2c3d4e5f"}
    )


def test_the_table_of_a_series(golden: Golden) -> None:
    golden("series.txt", series_text(a_series(), functions=True))


def test_the_changelog_of_a_series(golden: Golden) -> None:
    golden("series-changelog.txt", series_changelog(a_series()))


def test_the_changelog_of_a_comparison(golden: Golden) -> None:
    old, new = (read_recording(HERE / name) for name in (OLD, NEW))
    golden("diff-changelog.txt", comparison_changelog(compare(old, new)))
