# SPDX-License-Identifier: GPL-2.0-or-later
"""kentry export: what it writes where, and what it says where it cannot."""

from pathlib import Path

import pytest

from kentry.cli import main
from kentry.results.recording import write_recording
from tests.builders import recording, timed


def test_it_writes_a_file_to_the_byte(tmp_path: Path) -> None:
    counts, times, file = (tmp_path / name for name in ("counts.json", "times.json", "out.csv"))
    write_recording(recording({"getppid": [("el0_svc", 250)]}), counts)
    write_recording(timed({"getppid": 80.0, "getuid": 75.0}, groups=2), times)
    assert main(["export", str(counts), str(times), "--format", "csv", "-o", str(file)]) == 0
    lines = file.read_bytes().split(b"\r\n")
    assert lines[0].startswith(b"kernel,arch,case,metric,") and len(lines) > 3
    assert lines[-1] == b""


def test_it_prints_and_names_what_is_left_out_on_standard_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    odd = recording(
        {"getppid": [("f", 5)], "read": [("f", 9)]}, {"read": {9: 400, 11: 300, 12: 300}}
    )
    write_recording(odd, tmp_path / "odd.json")
    assert main(["export", str(tmp_path / "odd.json"), "--format", "benchfmt"]) == 0
    captured = capsys.readouterr()
    assert captured.out.endswith("\nBenchmarkGetppid 1000 5 insns/op\n")
    assert "Read" not in captured.out and captured.err.endswith(": read\n")
