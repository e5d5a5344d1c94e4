# SPDX-License-Identifier: GPL-2.0-or-later
"""Verdicts of runs whose truth is known."""

import math
from dataclasses import astuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kentry.stats.estimators import Mean
from kentry.stats.sequential import plan_looks
from kentry.stats.verdict import (
    Criteria,
    Group,
    apply_holm,
    compare_groups,
    contrasts,
    decide,
    holm,
    more_groups,
)


def run(
    groups: int, change: float = 0.0, noise: float = 0.01, boots: int = 1, seed: int = 1
) -> list[Group]:
    """A B B A with independent noise and a drift that all of a group share."""
    rng = np.random.default_rng(seed)
    values = np.exp(rng.normal(0, noise, (groups, 4)) + rng.normal(0, 0.1, (groups, 1))) * 300
    values[:, 1:3] *= 1 + change
    return [
        Group(at * boots // groups, (row[0], row[3]), (row[1], row[2]))
        for at, row in enumerate(values.tolist())
    ]


def test_a_change_is_found_with_its_size() -> None:
    found = compare_groups(run(100, 0.02))
    assert found.verdict == "worse"
    assert found.interval[0] < 0.02 < found.interval[1]
    assert found.interval[0] < found.effect < found.interval[1]
    assert found.confidence == pytest.approx(0.99)
    assert found.p < 1e-6
    assert found.groups == 100
    assert found.more is None
    assert found.reason == ""


@pytest.mark.parametrize(
    ("change", "is_rate", "verdict"),
    [(-0.02, False, "better"), (-0.02, True, "worse"), (0.02, True, "better")],
)
def test_what_is_better_depends_on_the_unit(change: float, is_rate: bool, verdict: str) -> None:
    assert compare_groups(run(100, change), higher_is_better=is_rate).verdict == verdict


def test_no_change_is_same_when_enough_was_measured() -> None:
    found = compare_groups(run(400, noise=0.005))
    assert found.verdict == "same"
    assert max(-found.interval[0], found.interval[1], found.floor) <= found.threshold


def test_swapping_sides_turns_the_sign() -> None:
    groups = run(40, 0.03)
    swapped = [Group(one.boot, one.new, one.old) for one in groups]
    there, back = compare_groups(groups), compare_groups(swapped)
    assert (1 + there.effect) * (1 + back.effect) == pytest.approx(1)
    assert (1 + there.interval[0]) * (1 + back.interval[1]) == pytest.approx(1)
    assert (there.verdict, back.verdict) == ("worse", "better")


def test_a_slot_that_is_slower_by_itself_raises_the_floor() -> None:
    groups = [Group(0, (old[0] * 1.01, old[1]), new) for _, old, new in map(astuple, run(200))]
    found = compare_groups(groups)
    assert found.interval[1] < 0
    assert found.floor > 0.0075
    assert found.verdict == "undecided"
    assert found.reason == f"identical processes may differ by {found.floor:.2%} in this run"


@pytest.mark.parametrize("count", [0, 1, 5])
def test_too_few_groups(count: int) -> None:
    found = compare_groups(run(count, 0.5))
    assert found.verdict == "undecided"
    assert found.reason == f"too few groups: {count} of 6"
    assert found.more == (6 / count if count else None)
    assert math.isnan(found.interval[0])
    assert found.p == 1
    assert found.confidence == pytest.approx(0.99)
    assert not count or found.effect == pytest.approx(0.5, abs=0.05)


# Error 0.001 and many degrees of freedom: the interval reaches 0.0025758 to each side at 99 %, the
# floor of null contrasts of 0 is 0.00196 at 95 %, and the threshold is log1p(0.0025) = 0.0024969.
@pytest.mark.parametrize(
    ("effect", "error", "null", "verdict", "reason"),
    [
        (0.0026, 1e-3, 0.0, "worse", ""),
        (-0.0026, 1e-3, 0.0, "better", ""),
        (0.00257, 1e-3, 0.0, "undecided", "too noisy"),
        (0.0030, 1e-3, 0.002, "undecided", "identical processes"),
        (0.0041, 1e-3, 0.002, "worse", ""),
        (0.0023, 1e-4, 0.0, "undecided", "about as large"),
        (0.0022, 1e-4, 0.0, "same", ""),
        (0.0022, 1e-4, 0.0024, "undecided", "identical processes"),
        (0.0, 9e-4, 0.0, "same", ""),
        (0.0, 1e-3, 0.0, "undecided", "too noisy"),
    ],
)
def test_an_effect_is_held_against_its_interval_the_floor_and_the_threshold(
    effect: float, error: float, null: float, verdict: str, reason: str
) -> None:
    mean = Mean(np.array([effect, null, 0.0]), np.full(3, error), 1e9)
    found = decide(mean, Criteria(0.01, 0.0025, higher_is_better=False), 40)
    assert (found.verdict, found.reason[: len(reason)]) == (verdict, reason)
    assert bool(found.reason) == (verdict == "undecided")
    ends = [math.expm1(effect - 2.575829 * error), math.expm1(effect + 2.575829 * error)]
    assert found.interval == pytest.approx(ends, abs=1e-8)
    assert math.log1p(found.floor) == pytest.approx(null + 1.959964 * error, abs=1e-8)
    # 95 % of a normal distribution lie below 1.644854; effect and bar vary alike.
    bar = max(2.575829 * error, null + 1.959964 * error, math.log1p(0.0025))
    detectable = bar + 1.644854 * math.sqrt(2) * error
    assert math.log1p(found.detectable) == pytest.approx(detectable, abs=1e-8)


@pytest.mark.parametrize(
    ("size", "half", "floor", "more"),
    [
        # A change: its size is to be beyond the interval and the floor.
        (0.020, 0.030, 0.010, 2.25),
        (0.020, 0.010, 0.040, 4.0),
        (0.020, 0.021, 0.010, 1.25),
        (0.020, 0.300, 0.010, None),
        # None: the interval and the floor are to be within the threshold of 0.01.
        (0.000, 0.020, 0.010, 4.0),
        (0.004, 0.012, 0.010, 4.0),
        (0.001, 0.002, 0.030, 9.0),
        (0.009, 0.004, 0.001, 16.0),
        # One that is closer to the threshold counts as half of it away.
        (0.009, 0.010, 0.001, 4.0),
    ],
)
def test_more_groups_shrink_what_stands_in_the_way_with_their_root(
    size: float, half: float, floor: float, more: float | None
) -> None:
    assert more_groups(size, half, floor, 0.01) == (more and pytest.approx(more))


@pytest.mark.parametrize(("old", "new"), [(2, 2), (2, 3), (4, 2)])
def test_null_contrasts_vary_as_the_effect_does(old: int, new: int) -> None:
    ones = np.exp(np.eye(old + new))
    rows = np.array([contrasts(Group(0, (*row[:old],), (*row[old:],))) for row in ones]).T
    assert rows[0] == pytest.approx([-1 / old] * old + [1 / new] * new)
    squares = (rows**2).sum(axis=1)
    assert squares == pytest.approx(squares[0])
    assert rows[1:].sum(axis=1) == pytest.approx(0, abs=1e-12)
    # Each side's part varies as the mean of that side.
    assert [(rows[1, :old] ** 2).sum(), (rows[1, old:] ** 2).sum()] == pytest.approx(
        [1 / old, 1 / new]
    )
    assert np.hstack([rows[1, :old], -rows[1, old:]]) == pytest.approx(rows[2])


def test_boots_are_the_sample_where_there_are_several() -> None:
    assert compare_groups(run(100, 0.05, boots=5)).reason == "too few boots: 5 of 6"
    found = compare_groups(run(120, 0.05, boots=6))
    assert found.verdict == "worse"
    assert found.groups == 120


def test_an_early_look_needs_as_many_as_it_has_to_be_sure() -> None:
    look = plan_looks(0.01, 5)[0]
    assert compare_groups(run(20, 0.5), look=look).reason == "too few groups: 20 of 30"
    found = compare_groups(run(60, 0.5), look=look)
    assert found.verdict == "worse"
    assert found.interval[0] < compare_groups(run(60, 0.5)).interval[0]
    assert found.confidence == 1 - look.alpha
    assert 0 < found.p < 0.01


def test_equal_groups_are_the_same() -> None:
    found = compare_groups([Group(0, (5.0, 5.0), (5.0, 5.0))] * 6)
    assert (found.verdict, found.effect, found.floor) == ("same", 0, 0)
    found = compare_groups([Group(0, (5.0, 5.0), (6.0, 6.0))] * 6)
    assert found.verdict == "worse"
    assert found.effect == pytest.approx(0.2)


def test_one_process_a_side_has_no_null_contrast_but_its_noise() -> None:
    rng = np.random.default_rng(6)
    groups = [Group(0, (v,), (1.05 * w,)) for v, w in np.exp(rng.normal(0, 0.01, (60, 2))).tolist()]
    found = compare_groups(groups)
    assert found.verdict == "worse"
    assert found.floor > 0


@pytest.mark.parametrize("old", [(0.0, 1.0), (-1.0, 1.0), (math.nan, 1.0), (math.inf, 1.0), ()])
def test_what_has_no_ratio_is_an_error(old: tuple[float, ...]) -> None:
    with pytest.raises(ValueError):
        compare_groups([Group(0, old, (1.0, 1.0))] * 10)


def test_wild_values_make_finite_numbers() -> None:
    rng = np.random.default_rng(8)
    rows = np.exp(rng.normal(0, 60, (40, 4))).tolist()
    groups = [Group(0, (a, d), (b, c)) for a, b, c, d in rows]
    found = compare_groups(groups, look=plan_looks(0.01, (0.1, 1.0))[0])
    assert all(math.isfinite(end) for end in (*found.interval, found.floor, found.detectable))
    assert found.verdict == "undecided"
    assert found.more is None


@pytest.mark.slow
def test_what_a_run_could_have_found_it_finds() -> None:
    """A run's `detectable`, put into other runs like it, is found 19 times of 20."""
    size = float(np.median([compare_groups(run(50, seed=s)).detectable for s in range(50)]))
    found = [compare_groups(run(50, size, seed=100 + s)).verdict for s in range(300)]
    assert found.count("worse") / 300 == pytest.approx(0.95, abs=0.04)


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
    assert apply_holm(unsure, alpha=sure.p)[0].reason.endswith("among 3 cases")
    assert [row.more for row in apply_holm(unsure, alpha=sure.p)] == [2.0] * 3
    assert apply_holm(unsure, alpha=3 * sure.p)[0].verdict == "worse"
