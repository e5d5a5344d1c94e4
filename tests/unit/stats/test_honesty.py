# SPDX-License-Identifier: GPL-2.0-or-later
"""Verdicts on made-up noise: how often they are wrong.  bench/honesty/simulated.py has more."""

import pytest
from bench.honesty import simulated

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("noise", simulated.NOISES)
def test_no_change_is_not_called_one(noise: str) -> None:
    rates = simulated.simulate(noise, 30, runs=700)
    assert rates.decided <= 0.01


@pytest.mark.parametrize("noise", ["normal", "two-layouts", "lasting", "disturbed-processes"])
def test_nor_where_one_looks_five_times(noise: str) -> None:
    rates = simulated.simulate(noise, 100, looks=5, runs=200)
    assert rates.decided <= 0.01


@pytest.mark.parametrize(
    "noise", ["normal", "lognormal", "disturbed-groups", "heavy-tails", "drift"]
)
@pytest.mark.parametrize("groups", [6, 12, 40])
def test_intervals_hold_the_truth(noise: str, groups: int) -> None:
    rates = simulated.simulate(noise, groups, runs=500)
    assert rates.covered > 0.98


def test_boots_that_differ_are_no_change() -> None:
    rates = simulated.simulate("normal", 60, boots=6, runs=300)
    assert rates.decided <= 0.01
    assert rates.covered > 0.97


@pytest.mark.parametrize("noise", simulated.NOISES)
def test_a_change_is_never_called_same_nor_the_other_way(noise: str) -> None:
    rates = simulated.simulate(noise, 100, change=0.005, runs=200)
    assert rates.same == 0
    assert rates.better == 0


def test_looking_early_saves_groups() -> None:
    rates = simulated.simulate("normal", 200, change=0.01, looks=5, runs=100)
    assert rates.worse == 1
    assert rates.groups < 120
