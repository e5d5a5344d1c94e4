# SPDX-License-Identifier: GPL-2.0-or-later
"""Exact samples: integers, no noise, no mean."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kentry.stats import exact

HISTOGRAMS = st.dictionaries(st.integers(0, 10_000), st.integers(1, 1000), min_size=1, max_size=5)


def test_no_spread_is_the_common_case_and_decided() -> None:
    assert exact.verdict({312: 1000}, {312: 1000}) == exact.SAME
    assert exact.verdict({312: 1000}, {313: 1000}) == exact.WORSE
    assert exact.verdict({312: 1}, {311: 1}) == exact.BETTER


def test_a_rare_outlier_changes_nothing() -> None:
    assert exact.verdict({312: 999, 9000: 1}, {312: 1000}) == exact.SAME


@pytest.mark.parametrize(
    ("old", "new"),
    [({}, {312: 1}), ({312: 1}, {}), ({1: 500, 2: 500}, {1: 1000}), ({1: 1}, {1: 2, 2: 1, 3: 1})],
)
def test_without_a_majority_or_samples_it_is_undecided(
    old: dict[int, int], new: dict[int, int]
) -> None:
    assert exact.verdict(old, new) == exact.UNDECIDED


def test_of_two_equally_common_values_the_smaller_is_the_mode() -> None:
    assert exact.mode({7: 3, 5: 3, 9: 1}) == 5


def test_the_mode_of_nothing_is_an_error() -> None:
    with pytest.raises(ValueError):
        exact.mode({})


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 9)), min_size=1))
def test_a_histogram_loses_no_window_and_is_sorted(samples: list[tuple[int, int]]) -> None:
    found = exact.histogram(samples)
    assert sum(found.values()) == sum(times for _, times in samples)
    assert list(found) == sorted(found)


@given(HISTOGRAMS, HISTOGRAMS)
def test_the_verdict_turns_with_the_sides(old: dict[int, int], new: dict[int, int]) -> None:
    turned = {exact.WORSE: exact.BETTER, exact.BETTER: exact.WORSE}
    verdict = exact.verdict(old, new)
    assert exact.verdict(new, old) == turned.get(verdict, verdict)
