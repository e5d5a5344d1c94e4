# SPDX-License-Identifier: GPL-2.0-or-later
"""Exact samples: integers, no noise, no mean."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kentry.stats import exact


@pytest.mark.parametrize(
    ("ends", "verdict"),
    [
        ((0, 0), "same"),
        ((1, 1), "worse"),
        ((-1, -1), "better"),
        ((1, 9), "worse"),
        ((-9, -1), "better"),
        ((0, 1), "undecided"),
        ((-1, 0), "undecided"),
        ((-1, 1), "undecided"),
    ],
)
def test_a_change_is_judged_by_both_its_ends(ends: tuple[int, int], verdict: str) -> None:
    assert exact.verdict(*ends) == verdict


@pytest.mark.parametrize(
    ("samples", "mode", "is_decided"),
    [
        ({312: 999, 9000: 1}, 312, True),
        ({1: 2, 2: 1}, 1, True),
        ({1: 500, 2: 500}, 1, False),
        ({1: 2, 2: 1, 3: 1}, 1, False),
        ({7: 3, 5: 3, 9: 1}, 5, False),
    ],
)
def test_the_mode_is_the_smallest_of_the_commonest_and_decided_by_a_majority(
    samples: dict[int, int], mode: int, is_decided: bool
) -> None:
    assert (exact.mode(samples), exact.is_decided(samples)) == (mode, is_decided)


def test_the_mode_of_nothing_is_an_error() -> None:
    with pytest.raises(ValueError):
        exact.mode({})


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 9)), min_size=1))
def test_a_histogram_loses_no_window_and_is_sorted(samples: list[tuple[int, int]]) -> None:
    found = exact.histogram(samples)
    assert sum(found.values()) == sum(times for _, times in samples)
    assert list(found) == sorted(found)
