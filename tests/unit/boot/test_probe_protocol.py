# SPDX-License-Identifier: GPL-2.0-or-later
"""What the probe says on the console, where a kernel lies about it."""

import pytest

from kentry.boot.guest_tasks import read_ending
from kentry.boot.probe_protocol import ProbeReport, read_files, read_report

# Python reads no number of more than 4,300 digits.
DIGITS = "9" * 5000
LINES = (
    *("end cases={}", "vector sve {}", "block read {} 1 1", "block read 1 1 {}"),
    "register read p0 byte={} is=1 filled=1 promised=1",
)


@pytest.mark.parametrize("line", LINES)
def test_a_number_of_too_many_digits_is_none(line: str) -> None:
    assert read_report([f"kentry-probe {line.format(1)}"]) != ProbeReport()
    assert read_report([f"kentry-probe {line.format(DIGITS)}"]) == ProbeReport()


def test_an_error_or_an_ending_of_too_many_digits_is_none() -> None:
    assert read_files([f"kentry-probe nofile /proc/stat {DIGITS}"])[1] == {"/proc/stat": 0}
    assert read_ending("kentry-workload end 7\n").status == 7
    assert read_ending(f"kentry-workload end {DIGITS}\n").status is None
