# SPDX-License-Identifier: GPL-2.0-or-later
"""The search for a change: which side of its middle a commit is on."""

from typing import cast

import pytest

from kentry.kernels.history import Commit, Range
from kentry.study.bisection import Question, Search
from kentry.study.commits import Commits
from kentry.study.distance import Difference

LINE = [Commit(name, (), "", "", "") for name in ("first", "between", "last")]


class Measured:
    """Commits, and how far each of them is from the first."""

    def __init__(self, **apart: Difference) -> None:
        self._apart = apart

    def line(self) -> list[Commit]:
        return LINE

    def apart(self, old: Commit, new: Commit, case: str) -> Difference:
        assert (old.name, case) == ("first", "getppid")
        return self._apart[new.name]


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
    assert search._like_last(LINE)(1) is is_like_last
