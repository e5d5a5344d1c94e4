# SPDX-License-Identifier: GPL-2.0-or-later
"""A case's own value: how often its interval holds what it should."""

import math

import numpy as np
import pytest
from scipy import stats

from kentry.stats.estimators import level_interval, quantile_t, tail_t


def test_quantiles_are_exact_far_out() -> None:
    assert quantile_t(0.01, 5) == pytest.approx(stats.t.isf(0.005, 5))
    assert quantile_t(1e-12, 40) == pytest.approx(stats.t.isf(5e-13, 40))
    assert tail_t(quantile_t(1e-10, 9), 1.0, 9) == pytest.approx(1e-10)


def test_without_spread_a_difference_is_sure() -> None:
    assert tail_t(0.0, 0.0, 5) == 1
    assert tail_t(1e-9, 0.0, 5) == 0


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


def test_no_process_is_an_error() -> None:
    with pytest.raises(ValueError):
        level_interval([[]])
