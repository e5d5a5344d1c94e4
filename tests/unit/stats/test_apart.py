# SPDX-License-Identifier: GPL-2.0-or-later
"""Old and new measured apart."""

import math

import numpy as np
import pytest
from scipy import stats

from kentry.stats.verdict import compare_unpaired, difference


def boots(
    count: int, level: float = 100.0, spread: float = 1.0, seed: int = 1
) -> list[list[float]]:
    """Boots that differ by `spread`, each with ten processes that differ by 1."""
    rng = np.random.default_rng(seed)
    values = level + rng.normal(0, spread, (count, 1)) + rng.normal(0, 1, (count, 10))
    return [[float(value) for value in boot] for boot in values]


@pytest.mark.parametrize("count", [1, 3, 8])
def test_a_change_is_shown_with_its_interval_and_decides_nothing(count: int) -> None:
    found = compare_unpaired(boots(count), boots(count, 110, seed=2))
    assert (found.verdict, found.reason, found.more) == ("undecided", "measured apart", None)
    assert 0.05 < found.interval[0] < 0.1 < found.interval[1]
    assert found.confidence == pytest.approx(0.99)
    assert found.groups == 2 * 10 * count


def test_the_difference_of_two_samples_is_welchs() -> None:
    old, new = np.array([1.0, 2.0, 3.0, 5.0]), np.array([10.0, 20.0, 30.0, 50.0, 40.0])
    mean, welch = difference(old, new), stats.ttest_ind(new, old, equal_var=False)
    assert mean.value[0] / mean.error[0] == pytest.approx(welch.statistic)
    assert mean.freedom == pytest.approx(welch.df)
    assert (mean.error == mean.error[0]).all()


def test_null_contrasts_are_halves_of_each_sample_against_each_other() -> None:
    """First against last values, then every other one: half of each difference."""
    old = np.array([1.0, 2.0, 3.0, 5.0])
    first, every_other = (1.5 - 4) / 2, (2 - 3.5) / 2
    assert difference(old, 10 * old).value[1:] == pytest.approx(
        [11 * first, -9 * first, 11 * every_other, -9 * every_other]
    )


def test_single_processes_have_no_interval() -> None:
    found = compare_unpaired([[1.0]], [[2.0]])
    assert found.effect == pytest.approx(1.0)
    assert math.isnan(found.interval[0])


@pytest.mark.slow
def test_the_interval_of_no_change_has_0_in_it() -> None:
    seeds = range(0, 2000, 2)
    found = [compare_unpaired(boots(6, seed=s), boots(6, seed=s + 1)) for s in seeds]
    assert np.mean([one.interval[0] < 0 < one.interval[1] for one in found]) > 0.98


def test_drift_from_boot_to_boot_raises_the_floor() -> None:
    slower = [[value + 3 * at for value in boot] for at, boot in enumerate(boots(8))]
    assert compare_unpaired(slower, boots(8, seed=2)).floor > 0.03


@pytest.mark.parametrize("old", [[], [[0.0, 1.0]]])
def test_no_value_and_one_of_zero_are_errors(old: list[list[float]]) -> None:
    with pytest.raises(ValueError):
        compare_unpaired(old, [[1.0, 2.0]])
