# SPDX-License-Identifier: GPL-2.0-or-later
"""New against old: the size of the change, its interval, and the verdict.

All arithmetic is on logarithms, so a change is a ratio and both sides are treated alike.  A
positive effect means a larger value.  What ran interleaved is compared group by group, because
drift moves both sides of a group and cancels out.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from kentry.stats import CONFIDENCE, THRESHOLD
from kentry.stats.estimators import (
    Array,
    Mean,
    half_width,
    quantile_t,
    tail_t,
    trimmed,
    trimmed_in_order,
    trimmed_mean,
)
from kentry.stats.exact import BETTER, SAME, UNDECIDED, WORSE
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


@dataclass(frozen=True, kw_only=True)
class Effect:
    """The change of new against old, in fractions (0.01: 1 % more); NaN where it is not known."""

    effect: float
    interval: tuple[float, float] = (math.nan, math.nan)  # of effect
    confidence: float  # of the interval
    floor: float = math.nan  # noise floor: the largest change identical runs show here
    threshold: float  # changes up to this count as none
    detectable: float = math.nan  # the smallest change that 19 of 20 such runs find
    verdict: str = UNDECIDED  # same, better, worse, undecided
    groups: int  # groups used; processes where nothing was paired
    more: float | None = None  # the multiple of groups that should decide; None: decided, hopeless
    p: float = 1.0  # two-sided p of no change; with planned looks, of the whole plan
    reason: str = ""  # why undecided, a clause


@dataclass(frozen=True)
class Criteria:
    """What a verdict is made by; the interval misses the truth with probability `alpha`."""

    alpha: float
    threshold: float
    higher_is_better: bool
    look: Look | None = None


def decide(mean: Mean, criteria: Criteria, groups: int) -> Effect:
    """Decides by the effect, first in `mean`, and the null contrasts behind it."""
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
    estimate = Effect(
        effect=_fraction(effect),
        interval=(_fraction(effect - half), _fraction(effect + half)),
        confidence=1 - criteria.alpha,
        floor=_fraction(floor),
        threshold=criteria.threshold,
        detectable=_fraction(max(half, floor, bound) + margin),
        verdict=verdict,
        groups=groups,
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
    """Returns a ratio's logarithm as a change; bounded, because JSON has no infinity."""
    return math.expm1(min(logarithm, 100.0))


def noise_floor(mean: Mean) -> float:
    """Combines the null contrasts and their noise; without any it is the effect's noise.

    A slot that is slower by its position puts as much into the effect as into the contrasts, with
    unknown sign, so the contrasts add like the legs of a right triangle.
    """
    halves = half_width(mean, 1 - FLOOR_CONFIDENCE)
    present = np.isfinite(mean.value[1:])
    if not present.any():
        return float(halves[0])
    return float(np.linalg.norm(mean.value[1:][present]) + halves[1:][present].max())


def more_groups(size: float, half: float, floor: float, bound: float) -> float | None:
    """Returns the multiple of groups that should decide; bounds shrink with the root of the number.

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
    """Returns how many groups (or boots) an interval needs that misses with probability `alpha`.

    However small their spread, a few units are no surer than their signs, which agree by chance:
    a level of 2**-k takes k - 1 units.  That is 6 at 1 % and 16 at 1e-5.
    """
    return max(LEAST_UNITS, math.ceil(-math.log2(alpha)) - 1)


def without_spread(effect: float, criteria: Criteria, groups: int) -> Effect:
    """Returns the estimate of an effect (a logarithm) that has no interval."""
    return Effect(
        effect=_fraction(effect),
        confidence=1 - criteria.alpha,
        threshold=criteria.threshold,
        groups=groups,
    )


def logarithms(values: Array) -> Array:
    """Returns the logarithms; ValueError unless all values are finite and above 0."""
    if not np.all(np.isfinite(values) & (values > 0)):
        raise ValueError("only values that are finite and above 0 can be compared as ratios")
    result: Array = np.log(values)
    return result


@dataclass(frozen=True)
class Group:
    """One fork of all slots: a value a process in the order of the slots, above 0, in one unit."""

    boot: int  # the boot; the round of boots where each kernel has its own boots
    old: tuple[float, ...]
    new: tuple[float, ...]


def compare_groups(
    groups: Sequence[Group],
    *,
    confidence: float = CONFIDENCE,
    threshold: float = THRESHOLD,
    look: Look | None = None,
    higher_is_better: bool = False,
) -> Effect:
    """Compares new with old by interleaved groups in their order; ValueError if a side is empty.

    The groups are the sample, or the boots if there are several.  At a planned `look` the
    interval has that look's level instead of `confidence`.
    """
    alpha = 1 - confidence if look is None else look.alpha
    criteria = Criteria(alpha, threshold, higher_is_better, look)
    # Rows: the effect and both null contrasts; columns: groups.
    units, unit = np.zeros((3, 0)), "groups"
    if groups:
        units = np.column_stack([contrasts(group) for group in groups])
        boots = np.array([group.boot for group in groups])
        kinds = np.unique(boots)
        if kinds.size > 1:
            unit = "boots"
            units = np.column_stack([trimmed_mean(units[:, boots == kind]) for kind in kinds])
    count, least = units.shape[1], least_units(alpha)
    if count < least:
        effect = float(trimmed_mean(units[0])) if count else math.nan
        estimate = without_spread(effect, criteria, len(groups))
        reason = f"too few {unit}: {count} of {least}"
        return replace(estimate, more=least / count if count else None, reason=reason)
    return decide(trimmed_in_order(units), criteria, len(groups))


def contrasts(group: Group) -> Array:
    """Returns a group's effect and two null contrasts; all vary alike if all processes are alike.

    ValueError if a side has no value, or a value has no logarithm.
    """
    if not group.old or not group.new:
        raise ValueError("a group needs old and new values")
    values = logarithms(np.array([*group.old, *group.new], dtype=np.float64))
    products: Array = _weights(len(group.old), len(group.new)) @ values
    return products


@lru_cache(maxsize=64)
def _weights(old: int, new: int) -> Array:
    """Three rows of weights for `old` + `new` logarithms, NaN without a null contrast."""
    effect = np.r_[np.full(old, -1 / old), np.full(new, 1 / new)]
    within_old = np.r_[_alternating(old), np.zeros(new)]
    within_new = np.r_[np.zeros(old), _alternating(new)]
    nulls = np.array([within_old + within_new, within_old - within_new])
    squares = (nulls**2).sum(axis=1, keepdims=True)
    nulls = nulls * np.sqrt((effect**2).sum() / np.where(squares > 0, squares, np.nan))
    return np.vstack([effect, nulls])


def _alternating(count: int) -> Array:
    """Weighs every other slot against the rest; the weights add up to 0 and vary like the mean."""
    if count < 2:
        return np.zeros(count)
    even = np.arange(count) % 2 == 0
    weights = np.where(even, 1 / even.sum(), -1 / (~even).sum())
    scaled: Array = weights * np.sqrt(1 / count / (weights**2).sum())
    return scaled


def compare_unpaired(
    old_by_boot: Sequence[Sequence[float]],
    new_by_boot: Sequence[Sequence[float]],
    *,
    threshold: float = THRESHOLD,
) -> Effect:
    """Compares new with old, the values of processes by boot; ValueError without values.

    The boots are the sample; if a side has one boot only, the interval covers just these two boots,
    with their drift.  The verdict is undecided: what else changed between two runs is not known.
    This is Welch's test on trimmed means (Yuen 1974) with one change: trimmed() Winsorises both
    sides to the farther of the two.  So scipy.stats.ttest_ind(trim=0.2) gives other errors from ten
    values on, and the same below.
    """
    criteria = Criteria(1 - CONFIDENCE, threshold, higher_is_better=False)
    sides = []
    for by_boot in (old_by_boot, new_by_boot):
        values = [np.asarray(boot, dtype=np.float64) for boot in by_boot if len(boot)]
        if not values:
            raise ValueError("no process has a value")
        sides.append([logarithms(boot) for boot in values])
    processes = sum(boot.size for side in sides for boot in side)
    boots = min(len(side) for side in sides)
    old, new = (
        np.array([float(trimmed_mean(boot)) for boot in side]) if boots > 1 else side[0]
        for side in sides
    )
    if min(old.size, new.size) < 2:
        estimate = without_spread(float(new.mean() - old.mean()), criteria, processes)
    else:
        estimate = decide(difference(old, new), criteria, processes)
    return replace(estimate, verdict=UNDECIDED, more=None, reason="measured apart")


def difference(old: Array, new: Array) -> Mean:
    """Subtracts two samples, and each sample's halves from each other: the null contrasts.

    The errors add up as in Welch (1947).  The halves are odd and even values, which noise moves,
    and first and last values, which drift moves too.
    """
    means = [trimmed(old), trimmed(new)]
    squares = [float(mean.error) ** 2 for mean in means]
    total = sum(squares)
    parts = sum(square**2 / mean.freedom for square, mean in zip(squares, means, strict=True))
    freedom = total**2 / parts if parts > 0 else min(mean.freedom for mean in means)
    # Half the difference of two halves of a sample varies as much as the sample's mean.
    halves = [
        [(side[: side.size // 2], side[side.size // 2 :]), (side[::2], side[1::2])]
        for side in (old, new)
    ]
    nulls = []
    for sides in zip(*halves, strict=True):
        a, b = (float(trimmed_mean(half) - trimmed_mean(other)) / 2 for half, other in sides)
        nulls += [a + b, a - b]
    values = np.array([float(means[1].value - means[0].value), *nulls])
    return Mean(values, np.full(values.size, math.sqrt(total)), freedom)


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Returns the adjusted p of several questions asked at once, in their order (Holm 1979)."""
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    steps = p[order] * np.arange(p.size, 0, -1)
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return tuple(float(value) for value in adjusted)


def apply_holm(rows: Sequence[Effect], alpha: float = 1 - CONFIDENCE) -> list[Effect]:
    """Adjusts p in the rows of one table; a difference that fails the test becomes undecided.

    The intervals stay those of each row alone.  A row without one decides nothing and does not
    count.
    """
    asked = [row.p for row in rows if math.isfinite(row.interval[0])]
    adjusted = iter(holm(asked))
    corrected = []
    for row in rows:
        p = next(adjusted) if math.isfinite(row.interval[0]) else row.p
        if row.verdict in (BETTER, WORSE) and p > alpha:
            reason = f"not significant among {len(asked)} cases"
            row = replace(row, verdict=UNDECIDED, more=2.0, reason=reason)
        corrected.append(replace(row, p=p))
    return corrected
