# SPDX-License-Identifier: GPL-2.0-or-later
"""Looks at a measurement before its end: against published boundaries, and simulated."""

import numpy as np
import pytest

from kentry.stats.sequential import OBRIEN_FLEMING, POCOCK, Sequential

# Two-sided alpha 0.05, equally spaced looks: Lan and DeMets' spending functions as tabulated for
# the programs of Reboussin, DeMets, Kim and Lan (2000).
PUBLISHED = [
    (OBRIEN_FLEMING, 5, [4.877, 3.357, 2.680, 2.290, 2.031]),
    (OBRIEN_FLEMING, 2, [2.963, 1.969]),
    (POCOCK, 5, [2.438, 2.427, 2.410, 2.397, 2.386]),
]


@pytest.mark.parametrize(("kind", "looks", "expected"), PUBLISHED)
def test_boundaries_are_the_published_ones(kind: str, looks: int, expected: list[float]) -> None:
    plan = Sequential(0.05, looks, kind)
    assert [look.boundary for look in plan.looks] == pytest.approx(expected, abs=6e-4)


@pytest.mark.parametrize("kind", [OBRIEN_FLEMING, POCOCK])
@pytest.mark.parametrize("looks", [3, (0.1, 0.15, 0.5, 0.9, 1.0)])
def test_all_looks_together_miss_with_alpha(kind: str, looks: int | tuple[float, ...]) -> None:
    plan = Sequential(0.1, looks, kind)
    rng = np.random.default_rng(5)
    steps = np.diff([0.0, *plan.fractions])
    sums = np.cumsum(rng.normal(0, np.sqrt(steps), (200_000, len(steps))), axis=1)
    bounds = np.array([look.boundary for look in plan.looks])
    crossed = np.abs(sums) / np.sqrt(plan.fractions) > bounds
    for number, look in enumerate(plan.looks, 1):
        spent = crossed[:, :number].any(axis=1).mean()
        assert spent == pytest.approx(look.spent, abs=0.003)


def test_one_look_is_no_plan_at_all() -> None:
    look = Sequential(0.01, 1).look(1)
    assert look.confidence == pytest.approx(0.99)
    assert look.adjusted(1e-4) == pytest.approx(1e-4, rel=0.01)


def test_an_early_look_is_never_asked_for_what_numbers_do_not_have() -> None:
    look = Sequential(0.01, (0.02, 1.0)).look(1)
    assert 0 < look.alpha < 1e-10
    assert look.boundary > 7


@pytest.mark.parametrize("number", [1, 2, 3, 4, 5])
def test_a_p_at_the_boundary_is_alpha(number: int) -> None:
    look = Sequential(0.01, 5).look(number)
    assert look.adjusted(look.alpha) == pytest.approx(0.01, rel=0.01)
    assert look.adjusted(look.alpha / 2) < 0.01 < look.adjusted(look.alpha * 2)
    assert look.adjusted(1.0) == 1
    assert look.adjusted(0.0) > 0


@pytest.mark.parametrize(
    ("alpha", "looks", "kind"),
    [
        (0.0, 5, POCOCK),
        (0.01, 0, POCOCK),
        (0.01, (0.5, 0.4, 1.0), POCOCK),
        (0.01, (0.5, 0.9), POCOCK),
        (0.01, 5, "both"),
    ],
)
def test_what_is_no_plan(alpha: float, looks: int | tuple[float, ...], kind: str) -> None:
    with pytest.raises(ValueError):
        Sequential(alpha, looks, kind)
