# SPDX-License-Identifier: GPL-2.0-or-later
"""Confidence intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import special

from kentry.stats import CONFIDENCE
from kentry.stats.estimators import Array, Mean, trimmed, trimmed_in_order, trimmed_mean

# Drift is judged by the means of this many consecutive stretches of a boot's processes, if there
# are enough processes.
STRETCHES = 6
LEAST_IN_STRETCHES = 30


class Level(NamedTuple):
    """A case's value with its confidence interval, in the unit of the samples."""

    estimate: float
    low: float
    high: float


def quantile_t(alpha: float, freedom: float) -> float:
    """The value that Student's |t| exceeds with probability `alpha`; exact down to 1e-12."""
    return -float(special.stdtrit(freedom, alpha / 2))


def tail_t(value: float, error: float, freedom: float) -> float:
    """The two-sided p of the value being 0, given its standard error."""
    if error == 0:
        return float(value == 0)
    return float(2 * special.stdtr(freedom, -abs(value) / error))


def half_width(mean: Mean, alpha: float) -> Array:
    """Half the width of the interval that misses with probability `alpha`."""
    return quantile_t(alpha, mean.freedom) * mean.error


def level_interval(
    values_by_boot: Sequence[Sequence[float]], confidence: float = CONFIDENCE
) -> Level:
    """A case's value from one number a process, in their order; ValueError without any.

    With several boots, the boots are the sample and the interval is for this kernel on this
    machine.  With one boot, its processes are the sample and the interval is for this boot.  A
    single process has no interval: both bounds are NaN.
    """
    boots = [np.asarray(boot, dtype=np.float64) for boot in values_by_boot if len(boot)]
    if not boots:
        raise ValueError("no process has a value")
    sample = boots[0] if len(boots) == 1 else np.array([float(trimmed_mean(b)) for b in boots])
    if sample.size < 2:
        return Level(float(sample[0]), float("nan"), float("nan"))
    mean = trimmed_in_order(sample)
    half = float(half_width(mean, 1 - confidence))
    if sample.size >= LEAST_IN_STRETCHES:
        # The means of stretches show drift that is slower than a process.
        parts = [float(trimmed_mean(part)) for part in np.array_split(sample, STRETCHES)]
        half = max(half, float(half_width(trimmed(parts), 1 - confidence)))
    return Level(float(mean.value), float(mean.value) - half, float(mean.value) + half)
