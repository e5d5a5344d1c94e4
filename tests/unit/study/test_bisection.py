# SPDX-License-Identifier: GPL-2.0-or-later
"""The search for steps on lines of values, some of which are missing, and for a change's middle."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kentry.kernels.tree import Commit, Range
from kentry.study.bisection import Question, Search, all_steps, first_step
from kentry.study.commits import Commits, Difference


class Line:
    """Values by place; None where a place has none.  Counts what was tried."""

    def __init__(self, *values: int | None) -> None:
        self.values = values
        self.tried: list[int] = []

    @property
    def last(self) -> int:
        return len(self.values) - 1

    def measure(self, places: Sequence[int]) -> list[bool]:
        self.tried += places
        return [self.values[place] is not None for place in places]

    def value(self, place: int) -> int:
        found = self.values[place]
        assert found is not None, f"{place} has no value"
        assert place in (*self.tried, 0, self.last), f"{place} was not measured"
        return found

    def differ(self, old: int, new: int) -> bool:
        return self.value(old) != self.value(new)

    def like_last(self, place: int) -> bool:
        first, last = self.value(0), self.value(self.last)
        return abs(self.value(place) - last) < abs(self.value(place) - first)

    def first(self, at_once: int = 1) -> tuple[int, int]:
        return first_step(self.last, self.measure, self.like_last, at_once)

    def all(self, at_once: int = 1) -> list[tuple[int, int]]:
        return all_steps(self.last, self.measure, self.differ, at_once)


@given(st.integers(1, 200), st.data(), st.integers(1, 4))
def test_one_step_is_found_in_the_logarithm_of_the_line(
    last: int, data: st.DataObject, at_once: int
) -> None:
    step = data.draw(st.integers(1, last))
    line = Line(*(5 if place >= step else 3 for place in range(last + 1)))
    assert line.first(at_once) == (step - 1, step)
    if at_once == 1:
        assert len(line.tried) <= math.ceil(math.log2(last + 1))
    assert len(set(line.tried)) == len(line.tried)


@given(
    st.lists(st.one_of(st.none(), st.sampled_from([1, 2, 3])), min_size=0, max_size=60),
    st.integers(1, 3),
)
def test_a_step_lies_between_neighbours_that_differ(
    between: list[int | None], at_once: int
) -> None:
    line = Line(1, *between, 4)
    low, high = line.first(at_once)
    assert line.values[low] is not None and line.values[high] is not None
    assert line.values[low] != line.values[high]
    assert all(value is None for value in line.values[low + 1 : high])
    assert len(set(line.tried)) == len(line.tried)


@given(st.lists(st.sampled_from([0, 0, 0, 0, 1, 3, None]), max_size=60), st.integers(1, 3))
def test_all_steps_of_a_line_that_only_grows_are_found(
    grows: list[int | None], at_once: int
) -> None:
    values: list[int | None] = [0]
    level = 0
    for step in [*grows, 1]:
        level += step or 0
        values.append(None if step is None else level)
    line = Line(*values)
    known = [place for place, value in enumerate(values) if value is not None]
    wanted = [(low, high) for low, high in itertools.pairwise(known) if values[low] != values[high]]
    assert line.all(at_once) == wanted


@pytest.mark.parametrize("at_once", [1, 2])
def test_a_step_up_and_a_step_down_that_do_not_cancel_out_are_both_found(at_once: int) -> None:
    for up in range(1, 44):
        for down in {1, 7, 20, 40} - {up}:
            deltas = {up: 8, down: -6}
            values = [sum(by for at, by in deltas.items() if at <= place) for place in range(45)]
            assert Line(*values).all(at_once) == sorted([(up - 1, up), (down - 1, down)])


@given(st.integers(1, 60), st.integers(1, 60), st.integers(1, 60), st.data())
def test_a_run_without_values_costs_its_bits_and_not_its_length(
    before: int, run: int, after: int, data: st.DataObject
) -> None:
    last = before + run + after
    step = data.draw(st.integers(1, last - 1))
    values = [5 if place >= step else 3 for place in range(last + 1)]
    line = Line(*values[:before], *[None] * run, *values[before + run :])
    low, high = line.first()
    assert low < step <= high
    # Between its ends each must be tried, since any of the run may have a value.
    inside = run if high - low > 1 else 0
    assert len(line.tried) <= 3 * (last + 1).bit_length() + inside


def test_a_run_without_values_is_left_soon() -> None:
    line = Line(*[0] * 50, *[None] * 40, *[1] * 150)
    assert line.first() == (49, 90)
    line = Line(*[0] * 100, *[None] * 60, *[0] * 60, *[1] * 20)
    assert line.first() == (219, 220)
    assert len(line.tried) < 20


def test_a_place_that_cannot_be_told_is_passed() -> None:
    line = Line(0, 0, 5, 9, 9, 9)
    found = first_step(5, line.measure, lambda place: None if place == 2 else line.value(place) > 5)
    assert found == (1, 3)


LINE = [Commit(name, (), "", "", "") for name in ("first", "between", "last")]


class Measured:
    """Commits, and how far each of them is from the first."""

    def __init__(self, **apart: Difference) -> None:
        self._apart = apart

    def line(self) -> list[Commit]:
        return LINE

    def apart(self, old: str, new: str, case: str) -> Difference:
        assert (old, case) == ("first", "getppid")
        return self._apart[new]


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(
    ("low", "high", "is_like_last"),
    [
        (6, 7, True),
        (5.1, 9, True),
        (5, 6, None),
        (4, 5.1, None),
        (4, 5, False),
        (-1, 1, False),
        (5, 5, False),
        (None, None, None),
    ],
)
def test_a_commit_is_past_the_middle_where_its_whole_interval_is(
    low: float | None, high: float | None, sign: int, is_like_last: bool | None
) -> None:
    """Of a change of 10, or of -10, from the first commit to the last."""
    ends = () if low is None or high is None else sorted((sign * low, sign * high))
    measured = Measured(
        last=Difference(10 * sign, 10 * sign, 10 * sign),
        between=Difference(6 * sign, *(ends or (None, None))),
    )
    search = Search(
        cast(Range, measured),
        Question(cases=("getppid",), metric="ns"),
        cast(Commits, measured),
        "getppid",
    )
    assert search.like_last(LINE, 1) is is_like_last
