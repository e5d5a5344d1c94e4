# SPDX-License-Identifier: GPL-2.0-or-later
"""Many rows in one table."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kentry.stats.verdict import Group, apply_holm, compare_groups, holm


def test_holms_own_steps() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx((0.03, 0.06, 0.06, 0.02))
    assert holm([]) == ()


@given(st.lists(st.floats(0, 1), max_size=20))
def test_adjusted_p_is_between_p_and_bonferronis(values: list[float]) -> None:
    for p, adjusted in zip(values, holm(values), strict=True):
        assert p <= adjusted <= min(1, p * len(values)) + 1e-12


def _change(percent: float) -> list[Group]:
    # A made-up noise of +-0.1 %, the same in every group but for its sign.
    return [
        Group(0, (100.0, 100.2), (100 + percent, 100 + percent + (0.2, -0.2)[at % 2]))
        for at in range(8)
    ]


def test_a_sure_row_stays_and_an_unsure_one_does_not() -> None:
    sure = compare_groups(_change(10))
    assert sure.verdict == "worse"
    many = [sure] + [compare_groups(_change(0))] * 9
    assert apply_holm(many)[0].verdict == "worse"
    unsure = [sure] * 3
    assert [row.verdict for row in apply_holm(unsure, alpha=sure.p)] == ["undecided"] * 3
    assert apply_holm(unsure, alpha=sure.p)[0].reason.startswith("one of 3 cases")
    assert [row.more for row in apply_holm(unsure, alpha=sure.p)] == [2.0] * 3
    assert apply_holm(unsure, alpha=3 * sure.p)[0].verdict == "worse"
