# SPDX-License-Identifier: GPL-2.0-or-later
"""Planned looks: against published boundaries, and simulated."""

import numpy as np
import pytest

from kentry.stats.sequential import Look, plan_looks


@pytest.mark.parametrize("boundaries", [(4.877, 3.357, 2.680, 2.290, 2.031), (2.963, 1.969)])
def test_boundaries_are_the_published_ones(boundaries: tuple[float, ...]) -> None:
    """Lan and DeMets at two-sided alpha 0.05: Reboussin, DeMets, Kim and Lan (2000)."""
    looks = plan_looks(0.05, len(boundaries))
    assert [look.boundary for look in looks] == pytest.approx(boundaries, abs=6e-4)


@pytest.mark.parametrize("planned", [3, (0.1, 0.15, 0.5, 0.9, 1.0)])
def test_all_looks_together_miss_with_alpha(planned: int | tuple[float, ...]) -> None:
    looks = plan_looks(0.1, planned)
    fractions = np.array([look.fraction for look in looks])
    rng = np.random.default_rng(5)
    steps = np.diff([0.0, *fractions])
    sums = np.cumsum(rng.normal(0, np.sqrt(steps), (200_000, len(steps))), axis=1)
    crossed = np.abs(sums) / np.sqrt(fractions) > np.array([look.boundary for look in looks])
    assert crossed.any(axis=1).mean() == pytest.approx(0.1, abs=0.003)
    assert crossed[:, 0].mean() < 0.02


def test_the_fractions_of_the_usual_plan_are_those_of_recordings() -> None:
    """A recording has only the number of its looks."""
    assert [look.fraction for look in plan_looks(0.01)] == [0.1, 0.2, 0.4, 0.7, 1.0]


def test_one_look_at_the_end_has_the_whole_alpha() -> None:
    (look,) = plan_looks(0.01, 1)
    assert look.alpha == pytest.approx(0.01)
    assert look.adjusted(1e-4) == pytest.approx(1e-4, rel=0.01)


def test_the_level_of_an_early_look_is_bounded() -> None:
    look = plan_looks(0.01, (0.02, 1.0))[0]
    assert 0 < look.alpha < 1e-10
    assert look.boundary > 7


@pytest.mark.parametrize("look", plan_looks(0.01, 5), ids=lambda look: str(look.number))
def test_p_at_the_boundary_of_a_look_is_alpha_of_the_plan(look: Look) -> None:
    assert look.adjusted(look.alpha) == pytest.approx(0.01, rel=0.01)
    assert look.adjusted(look.alpha / 2) < 0.01 < look.adjusted(look.alpha * 2)
    assert look.adjusted(1.0) == 1
    assert look.adjusted(0.0) > 0


@pytest.mark.parametrize(
    ("alpha", "looks"), [(0.0, 5), (0.01, 0), (0.01, (0.5, 0.4, 1.0)), (0.01, (0.5, 0.9))]
)
def test_a_plan_needs_an_alpha_and_rising_fractions(
    alpha: float, looks: int | tuple[float, ...]
) -> None:
    with pytest.raises(ValueError):
        plan_looks(alpha, looks)
