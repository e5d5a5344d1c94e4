# SPDX-License-Identifier: GPL-2.0-or-later
"""The loop of planned looks."""

from dataclasses import replace

from kentry.stats.sequential import Look
from kentry.stats.verdict import Effect
from kentry.time.comparing import Ending, Rows, run_looks

UNDECIDED = Effect(0.0, (-1.0, 1.0), 0.99, 0.1, 0.01, 0.2, "undecided", 9, None, 1.0)
DECIDED = replace(UNDECIDED, verdict="worse")


def run(*rows: Rows, least: int = 6) -> tuple[Ending, list[tuple[int, int]]]:
    """The ending if the looks find these rows in turn, and the units measured at each look."""
    measured: list[int] = []
    looks: list[tuple[int, int]] = []

    def measure(before: int, count: int) -> None:
        assert before == (measured[-1] if measured else 0)
        measured.append(count)

    def estimate(look: Look) -> Rows:
        looks.append((look.number, measured[-1]))
        return rows[min(len(looks), len(rows)) - 1]

    ending = run_looks(100, least, "groups", measure, estimate)
    return ending, looks


def test_it_ends_at_the_first_look_that_decides_every_row() -> None:
    ending, looks = run([UNDECIDED, DECIDED], [DECIDED, DECIDED])
    assert looks == [(1, 10), (2, 20)]
    assert ending.options == {"groups": 20, "looks": 5, "look": 2}


def test_an_undecided_row_takes_all_planned_looks_and_no_other() -> None:
    ending, looks = run([UNDECIDED])
    assert looks == [(1, 10), (2, 20), (3, 40), (4, 70), (5, 100)]
    assert (ending.done, ending.planned, ending.rows) == (100, 100, [UNDECIDED])


def test_no_look_has_fewer_units_than_an_interval_needs() -> None:
    _, looks = run([UNDECIDED], least=30)
    assert [units for _, units in looks] == [30, 30, 40, 70, 100]


def test_a_row_that_was_not_measured_is_not_waited_for() -> None:
    assert run([None, DECIDED])[0].look.number == 1
    assert run([None])[0].look.number == 5
