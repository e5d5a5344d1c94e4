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


def test_enough_boots_a_side_decide() -> None:
    found = compare_unpaired(boots(8), boots(8, 110, seed=2))
    assert found.verdict == "worse"
    assert found.interval[0] < 0.1 < found.interval[1]
    assert found.groups == 160
    sides = boots(8), boots(8, 90, seed=2)
    assert compare_unpaired(*sides).verdict == "better"
    assert compare_unpaired(*sides, higher_is_better=True).verdict == "worse"


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


@pytest.mark.parametrize(
    ("count", "reason", "more"),
    [
        (1, "each measured in a boot of its own, and only one", None),
        (3, "too few boots: 3 of 6", 2),
    ],
)
def test_few_boots_a_side_show_a_change_and_decide_nothing(
    count: int, reason: str, more: float | None
) -> None:
    found = compare_unpaired(boots(count), boots(1 if count == 1 else 8, 200, seed=2))
    assert (found.verdict, found.reason, found.more) == ("undecided", reason, more)
    assert found.interval[0] > 0.5
    assert found.confidence == pytest.approx(0.99)


def test_single_processes_have_no_interval() -> None:
    found = compare_unpaired([[1.0]], [[2.0]])
    assert found.effect == pytest.approx(1.0)
    assert math.isnan(found.interval[0])
    assert found.verdict == "undecided"


@pytest.mark.slow
def test_no_change_is_rarely_one() -> None:
    seeds = range(0, 2000, 2)
    found = [
        compare_unpaired(boots(6, seed=s), boots(6, seed=s + 1), threshold=0.0001) for s in seeds
    ]
    assert sum(one.verdict in ("better", "worse") for one in found) <= 5
    assert np.mean([one.interval[0] < 0 < one.interval[1] for one in found]) > 0.98


def test_drift_from_boot_to_boot_raises_the_floor() -> None:
    slower = [[value + 3 * at for value in boot] for at, boot in enumerate(boots(8))]
    assert compare_unpaired(slower, boots(8, seed=2)).floor > 0.03


@pytest.mark.parametrize("old", [[], [[0.0, 1.0]]])
def test_no_value_and_one_of_zero_are_errors(old: list[list[float]]) -> None:
    with pytest.raises(ValueError):
        compare_unpaired(old, [[1.0, 2.0]])
