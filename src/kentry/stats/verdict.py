# SPDX-License-Identifier: GPL-2.0-or-later
"""New against old: the size of the change, its interval, and the verdict.

All arithmetic is on logarithms, so a change is a ratio and both sides are treated alike.  A
positive effect means a larger value.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from kentry.stats.estimators import Array, Mean
from kentry.stats.exact import BETTER, SAME, UNDECIDED, WORSE
from kentry.stats.intervals import half_width, quantile_t, tail_t
from kentry.stats.sequential import Look

# The confidence of the noise floor.
FLOOR_CONFIDENCE = 0.95
# An interval needs this many groups (or boots): all of them lie on one side of 0 by chance once
# in 2**5 runs.
LEAST_UNITS = 6
# The probability with which a run finds a change of the size that it calls detectable.
POWER = 0.95
# No estimate of the groups needed is given above this multiple of those measured.
HOPELESS = 100.0
# Replaces 0 in a denominator.
_TINY = 1e-12


@dataclass(frozen=True)
class Estimate:
    """The change of new against old and its verdict.  Changes are fractions: 0.01 is 1 % more."""

    effect: float
    interval: tuple[float, float]  # of effect; NaN where there are too few groups
    confidence: float  # of the interval
    floor: float  # noise floor: the largest change identical runs show here; NaN if unknown
    threshold: float  # changes up to this count as none
    detectable: float  # the smallest change that 19 of 20 such runs find; NaN if unknown
    verdict: str  # same, better, worse, undecided
    groups: int  # groups used; processes where nothing was paired
    more: float | None  # the multiple of groups that should decide; None: decided, or hopeless
    p: float  # two-sided p of no change; with planned looks, of the whole plan
    reason: str = ""  # why undecided, a clause


@dataclass(frozen=True)
class Criteria:
    """What a verdict is made by; the interval misses the truth with probability `alpha`."""

    alpha: float
    threshold: float
    higher_is_better: bool
    look: Look | None = None


def decide(mean: Mean, criteria: Criteria, groups: int) -> Estimate:
    """The estimate from the effect, first in `mean`, and the null contrasts behind it."""
    effect, error = float(mean.value[0]), float(mean.error[0])
    half, floor = float(half_width(mean, criteria.alpha)[0]), noise_floor(mean)
    bound = math.log1p(criteria.threshold)
    if max(abs(effect) + half, floor) <= bound:
        verdict = SAME
    elif abs(effect) > max(half, floor, bound):
        verdict = BETTER if (effect > 0) == criteria.higher_is_better else WORSE
    else:
        verdict = UNDECIDED
    p = tail_t(effect, error, mean.freedom)
    # The bar is measured too and varies between runs as the effect does: hence the root of two.
    margin = quantile_t(2 * (1 - POWER), mean.freedom) * error * math.sqrt(2)
    estimate = Estimate(
        effect=_fraction(effect),
        interval=(_fraction(effect - half), _fraction(effect + half)),
        confidence=1 - criteria.alpha,
        floor=_fraction(floor),
        threshold=criteria.threshold,
        detectable=_fraction(max(half, floor, bound) + margin),
        verdict=verdict,
        groups=groups,
        more=None,
        p=p if criteria.look is None else criteria.look.adjusted(p),
    )
    if verdict != UNDECIDED:
        return estimate
    size = abs(math.log1p(estimate.effect))
    if half < 0.5 * bound and size + half > bound:
        reason = f"about as large as the threshold of {criteria.threshold:.2%}"
    elif size > half or size + half <= bound:
        reason = f"identical processes may differ by {estimate.floor:.2%} in this run"
    else:
        reason = f"too noisy: changes below {estimate.detectable:.2%} may go unseen"
    return replace(estimate, more=more_groups(abs(effect), half, floor, bound), reason=reason)


def _fraction(logarithm: float) -> float:
    """A ratio's logarithm as a change; bounded, because JSON has no infinity."""
    return math.expm1(min(logarithm, 100.0))


def noise_floor(mean: Mean) -> float:
    """The noise floor: the null contrasts with their noise, or the effect's noise without any.

    A slot that is slower by its position puts as much into the effect as into the contrasts, with
    unknown sign, so the contrasts add like the legs of a right triangle.
    """
    halves = half_width(mean, 1 - FLOOR_CONFIDENCE)
    present = np.isfinite(mean.value[1:])
    if not present.any():
        return float(halves[0])
    return float(np.linalg.norm(mean.value[1:][present]) + halves[1:][present].max())


def more_groups(size: float, half: float, floor: float, bound: float) -> float | None:
    """The multiple of groups that should decide; bounds shrink with the root of the number.

    An effect closer to the threshold than half of it counts as half the threshold away.
    """
    if size > bound:
        ratio = size / max(half, floor)
    else:
        distance = max(bound - size, 0.5 * bound if half > 0.5 * bound else 0.0)
        ratio = min(distance / max(half, _TINY), bound / max(floor, _TINY))
    more = max(1.25, max(ratio, _TINY) ** -2)
    return more if more <= HOPELESS else None


def least_units(alpha: float) -> int:
    """How many groups (or boots) an interval needs that misses with probability `alpha`.

    However small their spread, a few units are no surer than their signs, which agree by chance:
    a level of 2**-k takes k - 1 units.  That is 6 at 1 % and 16 at 1e-5.
    """
    return max(LEAST_UNITS, math.ceil(-math.log2(alpha)) - 1)


def too_few(estimate: Estimate, criteria: Criteria, count: int, unit: str) -> Estimate:
    """The estimate without a verdict, from `count` groups or boots (`unit`)."""
    least = least_units(criteria.alpha)
    return replace(
        estimate,
        verdict=UNDECIDED,
        more=least / count if count else None,
        reason=f"too few {unit}: {count} of {least}",
    )


def without_spread(effect: float, criteria: Criteria, groups: int) -> Estimate:
    """The estimate of an effect (a logarithm) that has no interval."""
    return Estimate(
        effect=_fraction(effect),
        interval=(math.nan, math.nan),
        confidence=1 - criteria.alpha,
        floor=math.nan,
        threshold=criteria.threshold,
        detectable=math.nan,
        verdict=UNDECIDED,
        groups=groups,
        more=None,
        p=1.0,
        reason="a single process has no spread",
    )


def logarithms(values: Array) -> Array:
    """The logarithms; ValueError unless all values are finite and above 0."""
    if not np.all(np.isfinite(values) & (values > 0)):
        raise ValueError("only values that are finite and above 0 can be compared as ratios")
    result: Array = np.log(values)
    return result
