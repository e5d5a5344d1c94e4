# SPDX-License-Identifier: GPL-2.0-or-later
"""The matrix of vector states: numbers per call, what is not decided."""

import pytest
from msgspec.structs import replace

from kentry.arch import ARCHES
from kentry.compare.counted import compare
from kentry.results.case_name import USES
from kentry.results.comparison import EventDelta
from kentry.results.recording import Recording
from kentry.show.blocks import Table
from kentry.show.comparison import event_change_blocks
from kentry.show.recording import matrix_blocks, recording_layout
from kentry.show.text import to_text
from tests.unit.show.samples import DISCARD, measured

CASES = ("getppid", "use-after-fork", "sched_yield", "clock_gettime")


def rows(found: Recording) -> list[list[str]]:
    """Every row of the matrix: case, length, state, count, ratio, events; "" as above it."""
    table = matrix_blocks(found, ARCHES[found.kernel["arch"]])[0]
    assert isinstance(table, Table)
    return [["-" if cell is None else str(cell) for cell in row] for row in table.rows]


@pytest.mark.parametrize(
    ("count", "times", "shown", "ratio", "events"),
    [
        (2370, 10, "237", "1.19", "discard 1 (syscall)"),
        (2375, 10, "237.5", "1.19", "discard 1 (syscall)"),
        (2375, 1, "237.5", "1.19", "discard 0.1 (syscall)"),
        (2000, 25, "200", "1.00", "discard 2.5 (syscall)"),
        (5, 20, "0.5", "0.00", "discard 2 (syscall)"),
    ],
)
def test_once_every_so_many_calls_is_counted_per_call(
    count: int, times: int, shown: str, ratio: str, events: str
) -> None:
    found = measured(
        {"x+vec=none": 200, "x+vec=1/10": count},
        {"x+vec=1/10": [replace(DISCARD, times=times)]},
    )
    assert rows(found)[1] == ["", "", "vec=1/10", shown, ratio, events]


def test_events_of_several_functions_are_added_up_by_cause() -> None:
    name = "x+vec=once"
    other = replace(DISCARD, function="g", times=2)
    again = replace(DISCARD, cause="switch")
    [row] = rows(measured({name: 7}, {name: [DISCARD, again, other]}))
    assert row[-1] == "discard 3 (syscall), discard 1 (switch)"


def test_a_state_is_over_its_own_case_unit_and_length() -> None:
    found = measured(
        {
            "x+vec=none": 100,
            "y+vec=once": 300,
            "x+vec=once": 110,
            "x+vec=once+vl=256": 120,
            "y+vec=none+vl=256": 200,
            "y+vec=once+vl=256": 300,
            "x+za=once": 150,
        },
        arch="arm64",
    )
    assert [row[:5] for row in rows(found)] == [
        ["x", "128", "vec=none", "100", "1.00"],
        ["", "", "vec=once", "110", "1.10"],
        ["y", "128", "vec=once", "300", "-"],
        ["x", "256", "vec=once", "120", "-"],
        ["y", "256", "vec=none", "200", "1.00"],
        ["", "", "vec=once", "300", "1.50"],
        # QEMU has 256 bits of SME whatever it has of SVE.
        ["x", "256", "za=once", "150", "-"],
    ]


def test_what_is_not_decided_says_so_and_is_not_divided() -> None:
    vague = {300: 40, 200: 30, 250: 30}
    table = rows(
        measured({"x+vec=none": 100, "x+vec=once": vague, "y+vec=none": vague, "y+vec=each": 9})
    )
    assert table[1][3:] == ["300", "-", "- [undecided: 200 to 300 in 100 windows]"]
    assert table[2][4] == table[3][4] == "-"
    [row] = rows(measured({"x+vec=1/10": vague}))
    assert row[3] == "30"
    assert "[undecided: 20 to 30 in 100 windows]" in row[5]


def test_events_without_a_path_are_not_called_none() -> None:
    found = measured({"x+vec=once": 100}, {"x+vec=once": [DISCARD]})
    found.cases = [replace(case, paths=(), functions=()) for case in found.cases]
    [row] = rows(found)
    assert row[5].startswith("not known")
    assert "discard" not in row[5]


def test_nothing_is_divided_by_zero() -> None:
    found = measured({"x+vec=none": 0, "x+vec=once": 5})
    assert [row[4] for row in rows(found)] == ["-", "-"]


def test_the_functions_of_a_whole_matrix_are_not_compared() -> None:
    counts = {f"{case}+vec={use}": 5 + len(use) for case in CASES for use in USES}
    assert "over +vec=none" not in to_text(recording_layout(measured(counts)))


def test_events_that_did_not_change_or_are_not_known_are_not_named() -> None:
    found = measured({"x+vec=once": 5})
    events = EventDelta("trap", "first use", 1, 1, ("f",)), EventDelta("save", "x", None, 1, ("f",))
    (case,) = compare(found, found).cases
    assert event_change_blocks([replace(case, events=events)]) == []
