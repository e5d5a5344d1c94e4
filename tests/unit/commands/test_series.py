# SPDX-License-Identifier: GPL-2.0-or-later
"""kentry series: rows that -o wrote, and ranges of commits; kernels are measured in tests/qemu/."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kentry.arch import ARCHES
from kentry.cli import build_parser, main
from kentry.commands.options import read
from kentry.commands.series import Options
from kentry.host.cache import write_atomically
from kentry.results.case_name import USES
from kentry.results.document import dump
from kentry.results.recording import write_recording
from kentry.results.studies import NO_BUILD, Problem
from kentry.study.series import PatchKernels, row_file, tabulate
from tests.builders import built
from tests.unit.kernels import sources


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """A folder of a baseline, a patch, and one that does not build."""
    kernels = []
    for patch, count in enumerate((60, 57)):
        recording = built({"getppid": [("a", count)], "read": [("b", 9)]})
        write_recording(recording, row_file(tmp_path, patch, "arm64"))
        kernels.append(PatchKernels(patch, f"patch {patch}", "a" * 40, {"arm64": recording}))
    problem = Problem(NO_BUILD, "does not build: x", "cc1: x")
    kernels.append(PatchKernels(2, "broken", "b" * 40, {}, {"arm64": problem}))
    series = tabulate(kernels, {"base": "source:6.12"}, notes=[{"kind": "series", "text": "odd"}])
    write_atomically(tmp_path / "series.json", dump(series))
    return tmp_path


def test_rows_that_were_written_are_printed_again(
    rows: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["series", str(rows), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads((rows / "series.json").read_text())
    assert main(["series", str(rows), "--json", "--case", "read"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert [list(row["cases"]) for row in again["rows"]] == [["read"], ["read"], []]
    for words in (["--changelog"], ["-v"]):
        assert main(["series", str(rows), *words]) == 0
        assert "57" in capsys.readouterr().out


def test_what_shapes_a_measurement_has_no_effect_on_rows(rows: Path) -> None:
    assert main(["series", str(rows), "--arch", "arm64"]) == 2
    assert main(["series", str(rows), "--case", "*+vec=*", "--vl", "256"]) == 2
    assert main(["series", str(rows), "--matrix", "vector"]) == 2
    assert main(["series", str(rows), "-o", str(rows / "more")]) == 2
    row_file(rows, 1, "arm64").unlink()
    assert main(["series", str(rows)]) == 2


def test_rows_of_an_interrupted_series_are_known(
    rows: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (rows / "series.json").unlink()
    assert main(["series", str(rows)]) == 2
    assert "tree:" not in capsys.readouterr().err


def test_a_row_has_each_state_at_each_length() -> None:
    words = ["series", "source:6.12", "a.mbox", "--case", "getpid+vec=*", "--vl", "128,256"]
    options = read(Options, build_parser().parse_args(words))
    names = [f"getpid+vec={use}" for use in USES]
    wanted = (*names, *(f"{name}+vl=256" for name in names))
    assert options.measurement(ARCHES["arm64"]).cases == wanted


def test_a_range_of_the_tree_here_is_a_series_of_its_commits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = sources.repository(tmp_path / "linux")
    sources.commit(folder, "one", {"kernel/fork.c": "int x;\n"})
    argv = [sys.executable, "-m", "kentry", "series", "HEAD~1..HEAD", "--arch", "arm64", "--case"]
    done = subprocess.run(
        [*argv, "nosuch"], cwd=folder, capture_output=True, text=True, check=False
    )
    # The case is refused, and --arch is not.
    assert done.returncode == 2
    assert "Unknown case 'nosuch'" in done.stderr
