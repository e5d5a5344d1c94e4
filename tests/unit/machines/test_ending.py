# SPDX-License-Identifier: GPL-2.0-or-later
"""How a workload ended, read from a console."""

import pytest

from kentry.boot.guest_tasks import read_ending


def test_a_workload_that_ended() -> None:
    console = (
        "OpenSBI v1.5\r\nkentry-workload start\r\n\x1b[31mone\x1b[0m line\r\nlast\r\n"
        "kentry-workload end 0\r\n[  2.5] reboot: Power down\r\n"
    )
    ending = read_ending(console)
    assert (ending.status, ending.output, ending.problems) == (0, "one line\nlast", ())
    assert ending.clause == "ended with exit code 0"


@pytest.mark.parametrize(
    ("status", "clause"),
    [
        (3, "ended with exit code 3"),
        (137, "was ended by SIGKILL"),
        (128, "ended with exit code 128"),
        (255, "ended with exit code 255"),
    ],
)
def test_a_status_above_128_is_a_signal(status: int, clause: str) -> None:
    assert read_ending(f"kentry-workload end {status}\n").clause == clause


def test_without_an_end_mark_there_is_no_status() -> None:
    ending = read_ending("kentry-workload start\nhalf\nkentry-workload end")
    assert ending.status is None
    assert ending.clause == "did not end"
    assert ending.output == "half"
    assert read_ending("").status is None


def test_only_the_last_40_lines_of_output_are_kept() -> None:
    text = "".join(f"line {number}\n" for number in range(1000))
    ending = read_ending(f"kentry-workload start\n{text}kentry-workload end 1\n")
    assert len(ending.output.splitlines()) == 40
    assert ending.output.endswith("line 999")


def test_cut_output_and_the_runners_failures_are_reported() -> None:
    ending = read_ending(
        "kentry-workload failed lo 19\nkentry-workload start\nkentry-workload failed /x 2\n"
        "a\nkentry-workload cut 100\nz\nkentry-workload end 127\n"
    )
    assert ending.output == "a\n[100 bytes of output are left out here]\nz"
    assert ending.problems == ("lo 19", "/x 2")


def test_control_sequences_are_not_output() -> None:
    assert read_ending("\x1b[!p\x1b]104\x07\x1bP+q6E\x1b\\\x1b[?7htext\x1b(B").output == "text"


def test_output_without_a_last_newline_does_not_hide_the_end() -> None:
    ending = read_ending("kentry-workload start\nhikentry-workload end 3\n")
    assert (ending.status, ending.output) == (3, "hi")
