# SPDX-License-Identifier: GPL-2.0-or-later
"""Many noisy numbers to one: against scipy's, and against what is known on paper."""

import math

import numpy as np
import pytest
from scipy import stats

from kentry.stats.estimators import (
    inflation,
    level_interval,
    process_value,
    quantile_t,
    tail_t,
    trimmed,
    trimmed_in_order,
    trimmed_mean,
)

RNG = np.random.default_rng(1)


@pytest.mark.parametrize("count", [1, 4, 5, 10, 29, 30, 200])
def test_a_trimmed_mean_is_scipys(count: int) -> None:
    values = RNG.lognormal(size=count)
    assert trimmed_mean(values, 0.2) == pytest.approx(stats.trim_mean(values, 0.2))


@pytest.mark.parametrize("count", [10, 15, 41, 200])
def test_the_error_of_symmetric_values_is_yuens(count: int) -> None:
    half = RNG.normal(size=count // 2)
    values = np.r_[half, -half, np.zeros(count % 2)] + 7
    mean = trimmed(values)
    cut = int(0.2 * count)
    held = np.asarray(stats.mstats.winsorize(values, (cut / count, cut / count)))
    kept = count - 2 * cut
    expected = np.sqrt((count - 1) * held.var(ddof=1) / (kept * (kept - 1)))
    assert mean.error == pytest.approx(expected)
    assert mean.value == pytest.approx(7)
    assert mean.freedom == kept - 1


def test_equal_values_have_no_spread_at_all() -> None:
    mean = trimmed([0.1] * 30)
    assert mean.error == 0
    assert mean.value == 0.1


def test_rows_are_done_at_once() -> None:
    rows = RNG.normal(size=(4, 25))
    assert trimmed(rows).error[2] == pytest.approx(float(trimmed(rows[2]).error))
    assert trimmed_mean(rows) == pytest.approx(stats.trim_mean(rows, 0.2, axis=1))


def test_values_whose_order_means_nothing_are_worth_what_they_are() -> None:
    found = [inflation(RNG.normal(size=(3, 100))) for _ in range(200)]
    assert 1 <= np.mean(found) < 1.1
    assert found.count(1) > 140  # of most rows chance alone


def test_values_that_hang_together_are_worth_less() -> None:
    rows = np.repeat(RNG.normal(size=(3, 100)), 4, axis=1)
    assert 2.5 < inflation(rows) < 5.5
    assert trimmed_in_order(rows[0]).error > 1.5 * trimmed(rows[0]).error
    assert trimmed_in_order(rows[0]).freedom < trimmed(rows[0]).freedom / 2


def test_few_or_equal_values_say_nothing_of_their_order() -> None:
    assert inflation(np.arange(9.0)[None, :]) == 1
    assert inflation(np.ones((3, 50))) == 1
    rows = np.repeat(RNG.normal(size=(1, 50)), 4, axis=1)
    assert inflation(np.r_[rows, np.ones((1, 200))]) == inflation(rows) > 2


def test_a_process_is_the_middle_of_its_turns_low_blocks() -> None:
    turns = [[100, 101, 102, 900], [200, 201, 202, 203], [102, 103, 104, 105], [104, 900, 900, 901]]
    lows = [np.quantile(turn, 0.1) for turn in turns]
    blocks = [float(value) for turn in turns for value in turn]
    assert process_value(blocks, 4) == pytest.approx(stats.trim_mean(lows, 0.25))


def test_an_unfinished_turn_counts_only_if_it_is_all_there_is() -> None:
    assert process_value([5.0, 5.0, 1.0], 2) == 5
    assert process_value([5.0], 2) == 5
    # Without turns a process is its median.
    assert process_value([3.0, 1.0, 100.0], 0) == 3


def test_what_has_no_values_or_no_spread_is_an_error() -> None:
    with pytest.raises(ValueError):
        trimmed([1.0])
    with pytest.raises(ValueError):
        process_value([], 8)
    with pytest.raises(ValueError):
        level_interval([[]])


def test_quantiles_are_exact_far_out() -> None:
    assert quantile_t(0.01, 5) == pytest.approx(stats.t.isf(0.005, 5))
    assert quantile_t(1e-12, 40) == pytest.approx(stats.t.isf(5e-13, 40))
    assert tail_t(quantile_t(1e-10, 9), 1.0, 9) == pytest.approx(1e-10)
    # Without spread a difference is sure.
    assert [tail_t(value, 0.0, 5) for value in (0.0, 1e-9)] == [1, 0]


def _covered(values: np.ndarray, truth: float) -> float:
    found = [level_interval(list(run)) for run in values]
    return float(np.mean([one.low <= truth <= one.high for one in found]))


@pytest.mark.parametrize("count", [6, 12, 30, 100])
def test_one_boot_is_covered_by_its_processes(count: int) -> None:
    runs = np.random.default_rng(2).normal(50, 1, (1000, 1, count))
    assert _covered(runs, 50) > 0.98


@pytest.mark.parametrize("boots", [2, 3, 6])
def test_boots_that_differ_widen_the_interval(boots: int) -> None:
    rng = np.random.default_rng(3)
    runs = rng.normal(50, 1, (1000, boots, 20)) + rng.normal(0, 2, (1000, boots, 1))
    assert _covered(runs, 50) > 0.98


def test_drift_within_a_boot_widens_the_interval() -> None:
    rng = np.random.default_rng(4)
    drift = np.repeat(rng.normal(0, 1, (500, 1, 40)), 5, axis=2)
    assert _covered(50 + drift + rng.normal(0, 0.5, (500, 1, 200)), 50) > 0.97


def test_the_interval_of_a_slow_drift_is_that_of_six_stretches() -> None:
    """What alternates hides it from the correlation of neighbours."""
    stretches = np.array([0.0, 1.0, -1.0, 2.0, -2.0, 0.0])
    values = 50 + np.repeat(stretches, 10) + np.tile([3.0, -3.0], 30)
    half = stats.t.ppf(0.995, 5) * stats.sem(stretches)
    assert level_interval([values.tolist()]) == pytest.approx((50, 50 - half, 50 + half))


def test_a_single_process_has_a_value_and_no_interval() -> None:
    found = level_interval([[], [42.0]])
    assert found.estimate == 42
    assert math.isnan(found.low)
    assert math.isnan(found.high)
