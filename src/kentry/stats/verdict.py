# SPDX-License-Identifier: GPL-2.0-or-later
"""Two kernels' times: is there a difference, how large, and could this run have seen one?

Everything is done in logarithms, so that an effect is a ratio and old and new are treated alike.
A positive effect is a larger value: worse, where less is better.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from kentry.stats.estimators import Array, Mean
from kentry.stats.exact import BETTER, SAME, UNDECIDED, WORSE
from kentry.stats.intervals import half_width, quantile_t, tail_t
from kentry.stats.sequential import Look

# A change that nobody is told of, as a fraction: 0.25 %.
THRESHOLD = 0.0025
# How sure it is that identical things differ by no more than the floor.
FLOOR_CONFIDENCE = 0.95
# Fewer groups (or boots, or boots of a side) make no interval: all of so many are on the same
# side of 0 by chance once in 2**5.
LEAST_UNITS = 6
# What is said of a run's sensitivity holds with this probability.
POWER = 0.95
# Above so many times as many groups no number is given.
HOPELESS = 100.0
# Stands for 0 in a denominator.
_TINY = 1e-12


@dataclass(frozen=True)
class Comparison:
    """What a run says of new against old.  All changes are fractions: 0.01 is 1 % more."""

    effect: float
    interval: tuple[float, float]  # of effect; NaN where there are too few
    confidence: float  # of the interval
    floor: float  # by how much identical things may seem to differ in this run; NaN: unknown
    threshold: float  # changes up to this are none
    detectable: float  # the smallest change that this run would find, 19 times of 20; NaN: none
    verdict: str  # same, better, worse, undecided
    groups: int  # that it was made from; processes, where nothing was paired
    more: float | None  # so many times as many groups should decide; None: decided, or hopeless
    p: float  # two-sided, of no difference; of the whole plan, where there are several looks
    reason: str = ""  # why undecided, a clause


@dataclass(frozen=True)
class Rules:
    """By what a verdict is made."""

    alpha: float  # the interval misses with this probability
    threshold: float  # a fraction
    higher_is_better: bool
    look: Look | None = None


def decide(mean: Mean, rules: Rules, groups: int) -> Comparison:
    """The comparison from an effect, the first of `mean`, and its null contrasts, the others."""
    effect, error = float(mean.value[0]), float(mean.error[0])
    half, floor = float(half_width(mean, rules.alpha)[0]), _floor(mean)
    bound = math.log1p(rules.threshold)
    verdict = _verdict(effect, half, floor, bound)
    if verdict == WORSE and (effect > 0) == rules.higher_is_better:
        verdict = BETTER
    p = tail_t(effect, error, mean.freedom)
    found = Comparison(
        effect=_fraction(effect),
        interval=(_fraction(effect - half), _fraction(effect + half)),
        confidence=1 - rules.alpha,
        floor=_fraction(floor),
        threshold=rules.threshold,
        detectable=_fraction(max(half, floor, bound) + _margin(error, mean.freedom)),
        verdict=verdict,
        groups=groups,
        more=None,
        p=p if rules.look is None else rules.look.adjusted(p),
    )
    if verdict != UNDECIDED:
        return found
    return undecided(found, _more(abs(effect), half, floor, bound), _reason(found, half, bound))


def _margin(error: float, freedom: float) -> float:
    """How far above its bar an effect must be to pass it with probability POWER.

    The bar is measured, too: in another run like this it lies elsewhere, by about as much as the
    effect does.  Hence the root of two.
    """
    return quantile_t(2 * (1 - POWER), freedom) * error * math.sqrt(2)


def _fraction(logarithm: float) -> float:
    """A ratio's logarithm as a change; what no run can bound stays finite, for JSON."""
    return math.expm1(min(logarithm, 100.0))


def _floor(mean: Mean) -> float:
    """What the null contrasts show together, with their noise; without any, the effect's noise.

    Slots that differ by where they stand put as much into the effect as into the contrasts, in a
    direction that nobody knows, so the contrasts are added as the sides of a right angle.
    """
    halves = half_width(mean, 1 - FLOOR_CONFIDENCE)
    known = np.isfinite(mean.value[1:])
    if not known.any():
        return float(halves[0])
    return float(np.linalg.norm(mean.value[1:][known]) + halves[1:][known].max())


def _verdict(effect: float, half: float, floor: float, bound: float) -> str:
    """All four are logarithms of ratios; WORSE stands for any difference."""
    if max(abs(effect) + half, floor) <= bound:
        return SAME
    return WORSE if abs(effect) > max(half, floor, bound) else UNDECIDED


def _more(size: float, half: float, floor: float, bound: float) -> float | None:
    """How many times as many groups should decide: bounds shrink with the root of their number.

    An effect whose distance from the threshold is lost in the noise is planned for as if it were
    half the threshold away.
    """
    if size > bound:
        needed = size / max(half, floor)
    else:
        distance = max(bound - size, 0.5 * bound if half > 0.5 * bound else 0.0)
        needed = min(distance / max(half, _TINY), bound / max(floor, _TINY))
    more = max(1.25, max(needed, _TINY) ** -2)
    return more if more <= HOPELESS else None


def _reason(found: Comparison, half: float, bound: float) -> str:
    """Why there is no verdict, a clause."""
    size = abs(math.log1p(found.effect))
    if half < 0.5 * bound and size + half > bound:
        return f"about as large as the threshold of {found.threshold:.2%}"
    if size > half or size + half <= bound:
        return f"identical processes may differ by {found.floor:.2%} in this run"
    return f"too noisy: changes below {found.detectable:.2%} may go unseen"


def undecided(found: Comparison, more: float | None, reason: str) -> Comparison:
    """The comparison without a verdict, why, and how much more would help."""
    return replace(found, verdict=UNDECIDED, more=more, reason=reason)


def least_units(alpha: float) -> int:
    """How many units an interval that misses with probability `alpha` needs.

    However small their spread, few units cannot be surer than signs are: all on one side of 0 by
    chance.  A level of 2**-k takes k - 1 of them: 6 at 1 %, 16 at 1e-5.
    """
    return max(LEAST_UNITS, math.ceil(-math.log2(alpha)) - 1)


def too_few(count: int, rules: Rules, word: str) -> str:
    """The clause that says so; `word` is what there are too few of."""
    return f"too few {word}: {count} of {least_units(rules.alpha)}"


def nothing(effect: float, rules: Rules, groups: int) -> Comparison:
    """An effect, a logarithm, of which nothing more is known."""
    nan = math.nan
    return Comparison(
        effect=_fraction(effect),
        interval=(nan, nan),
        confidence=1 - rules.alpha,
        floor=nan,
        threshold=rules.threshold,
        detectable=nan,
        verdict=UNDECIDED,
        groups=groups,
        more=None,
        p=1.0,
        reason="a single process has no spread",
    )


def check_values(values: Array) -> None:
    """ValueError unless all have a logarithm."""
    if not np.all(np.isfinite(values) & (values > 0)):
        raise ValueError("only values that are finite and above 0 can be compared as ratios")


def needed_groups(found: Comparison, change: float) -> int | None:
    """How many groups like those of `found` would find a change of this size (a fraction).

    Found is: 19 times of 20.  None where no number would: not above the threshold, or unknown.
    """
    size, bound = math.log1p(abs(change)), math.log1p(found.threshold)
    if size <= bound or math.isnan(found.detectable):
        return None
    half = math.log1p(found.interval[1]) - math.log1p(found.effect)
    noise = max(half, math.log1p(found.floor))
    margin = max(math.log1p(found.detectable) - max(noise, bound), 0.0)
    shrunk = max((noise + margin) / size, margin / (size - bound))
    return max(LEAST_UNITS, math.ceil(found.groups * shrunk**2))
