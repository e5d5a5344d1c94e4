# SPDX-License-Identifier: GPL-2.0-or-later
"""Interim analyses ("looks") of a run that keep the chance of a false verdict: alpha spending.

The chance of a false verdict, alpha, is spent over looks that are planned as fractions of a
maximum, both fixed before measuring (Lan and DeMets, Biometrika 70, 1983), with a spending function
like O'Brien and Fleming's, which spends little early.  The boundaries follow from the joint
distribution of the looks, integrated look by look (Armitage, McPherson and Rowe, 1969).  An
interval at the level of its look is a repeated confidence interval: all of them together miss with
probability alpha at most (Jennison and Turnbull, 1989).
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy import optimize, special

from kentry.stats.estimators import Array

# The fractions of the maximum at which a run is analysed.  A recording stores only their number,
# so a change of these fractions needs another number of looks.
LOOKS = (0.1, 0.2, 0.4, 0.7, 1.0)

# The least level of a look: smaller tails have no meaning in doubles or in measurements.
LEAST_ALPHA = 1e-12
# The integrals end at this many standard deviations: 2e-19 of a normal distribution is beyond.
_REACH = 9.0

_legendre = lru_cache(maxsize=32)(special.roots_legendre)


class Look(NamedTuple):
    """One planned look; its interval has the confidence 1 - `alpha`."""

    number: int  # from 1
    fraction: float  # of the planned maximum
    boundary: float  # in standard errors of a normal estimate
    alpha: float  # two-sided
    fractions: tuple[float, ...]  # of all looks of the plan

    def adjusted(self, p: float) -> float:
        """Returns the two-sided p of the whole plan: the least alpha with which it rejects here."""
        levels, alphas = _levels(self.fractions)
        at_look = levels[:, self.number - 1]
        if p >= at_look[-1]:
            return 1.0
        p = max(p, at_look[0])
        return float(np.exp(np.interp(np.log(p), np.log(at_look), np.log(alphas))))


def plan_looks(alpha: float, looks: int | Sequence[float] = LOOKS) -> tuple[Look, ...]:
    """Plans looks: `looks` is their number if equally spaced, or their fractions, which rise to 1.

    ValueError for anything else, and for an alpha outside of 0 to 1.
    """
    fractions = tuple(
        [(at + 1) / looks for at in range(looks)] if isinstance(looks, int) else looks
    )
    rising = all(a < b for a, b in zip((0.0, *fractions), fractions, strict=False))
    if not 0 < alpha < 1 or not fractions or not rising or abs(fractions[-1] - 1) > 1e-9:
        raise ValueError(f"no plan of looks: {alpha}, {looks}")
    return tuple(
        Look(number, part, bound, max(_two_sided(bound), LEAST_ALPHA), fractions)
        for number, (part, bound) in enumerate(
            zip(fractions, boundaries(alpha, fractions), strict=True), start=1
        )
    )


def _two_sided(boundary: float) -> float:
    return float(2 * special.ndtr(-boundary))


@lru_cache(maxsize=512)
def boundaries(alpha: float, fractions: tuple[float, ...]) -> tuple[float, ...]:
    """Returns the two-sided boundary of each look, in standard errors.

    Each side gets alpha / 2.  Paths that cross both are neglected, as usual: their share is below
    alpha^2.
    """
    late = special.ndtri(alpha / 4)
    spent = [float(2 * special.ndtr(late / np.sqrt(part))) for part in fractions]
    # The sum of a normal process has variance `part`.  `nodes`, `weights` and `density` describe
    # its distribution over the paths that have not crossed a boundary yet.
    nodes, weights, density, before = np.zeros(1), np.ones(1), np.ones(1), 0.0
    bounds = []
    for part, spend in zip(fractions, np.diff([0.0, *spent]), strict=True):
        step, root = np.sqrt(part - before), np.sqrt(part)
        mass = weights * density
        bounds.append(_bound(nodes / step, root / step, mass, spend))
        reach = min(bounds[-1], _REACH) * root
        unit, unit_weights = _legendre(int(np.clip(8 * reach / step, 64, 1024)))
        after = unit * reach
        gap = (after[:, None] - nodes[None, :]) / step
        density = (np.exp(-0.5 * gap * gap) @ mass) / (step * np.sqrt(2 * np.pi))
        nodes, weights, before = after, unit_weights * reach, part
    return tuple(bounds)


def _bound(nodes: Array, scale: float, mass: Array, spend: float) -> float:
    """Finds the boundary that paths at `nodes` with this `mass` cross with probability `spend`."""
    target = np.log(max(spend, 1e-300))

    def excess(bound: float) -> float:
        crossing = mass @ special.ndtr(nodes - bound * scale)
        return float(np.log(max(crossing, 1e-300)) - target)

    return float(optimize.brentq(excess, -1.0, 36.0, xtol=1e-10))


@lru_cache(maxsize=32)
def _levels(fractions: tuple[float, ...]) -> tuple[Array, Array]:
    """(each look's own level for each alpha of a plan, those alphas), from small to large."""
    alphas = np.geomspace(1e-11, 0.5, 40)
    rows = [[_two_sided(b) for b in boundaries(float(a), fractions)] for a in alphas]
    return np.maximum(np.array(rows), 1e-300), alphas
