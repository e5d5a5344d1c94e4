# SPDX-License-Identifier: GPL-2.0-or-later
"""Intervals: between which bounds a value lies, and how often that is said rightly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import special

from kentry.stats.estimators import Array, Mean, trimmed, trimmed_in_order, trimmed_mean

CONFIDENCE = 0.99
# A level's drift is judged by so many consecutive stretches of its processes, if it has enough.
STRETCHES = 6
LEAST_IN_STRETCHES = 30


class Level(NamedTuple):
    """A case's own value with its interval, in the unit of what it was made from."""

    estimate: float
    low: float
    high: float


def quantile_t(alpha: float, freedom: float) -> float:
    """What Student's |t| exceeds with probability `alpha`; from the tail, so exact at 1e-12 too."""
    return -float(special.stdtrit(freedom, alpha / 2))


def tail_t(value: float, error: float, freedom: float) -> float:
    """The two-sided p of a value with this standard error, of being 0."""
    if error == 0:
        return float(value == 0)
    return float(2 * special.stdtr(freedom, -abs(value) / error))


def half_width(mean: Mean, alpha: float) -> Array:
    """Half the width of the interval that misses with probability `alpha`."""
    return quantile_t(alpha, mean.freedom) * mean.error


def level_interval(
    values_by_boot: Sequence[Sequence[float]], confidence: float = CONFIDENCE
) -> Level:
    """One case's own value, from the values of its processes (one a process, in their order).

    With two boots or more the boots are the sample, each one number: the interval is for this
    kernel on this machine.  With one boot its processes are the sample: it is for this boot.  A
    single process has no interval: both bounds are NaN.
    """
    boots = [np.asarray(boot, dtype=np.float64) for boot in values_by_boot if len(boot)]
    if not boots:
        raise ValueError("no process has a value")
    sample = boots[0] if len(boots) == 1 else np.array([float(trimmed_mean(b)) for b in boots])
    if sample.size < 2:
        return Level(float(sample[0]), float("nan"), float("nan"))
    mean = trimmed_in_order(sample)
    half = max(float(half_width(mean, 1 - confidence)), _half_of_stretches(sample, confidence))
    return Level(float(mean.value), float(mean.value) - half, float(mean.value) + half)


def _half_of_stretches(sample: Array, confidence: float) -> float:
    """Half the width from means of consecutive stretches: it sees drift slower than a process."""
    if sample.size < LEAST_IN_STRETCHES:
        return 0.0
    stretches = [float(trimmed_mean(part)) for part in np.array_split(sample, STRETCHES)]
    return float(half_width(trimmed(stretches), 1 - confidence))
