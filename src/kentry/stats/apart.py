# SPDX-License-Identifier: GPL-2.0-or-later
"""Old and new that were measured apart, in boots of their own."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from kentry.stats.estimators import Array, Mean, trimmed, trimmed_mean
from kentry.stats.intervals import CONFIDENCE
from kentry.stats.verdict import (
    THRESHOLD,
    Comparison,
    Rules,
    check_values,
    decide,
    least_units,
    nothing,
    too_few,
    undecided,
)


def compare_unpaired(
    old_by_boot: Sequence[Sequence[float]],
    new_by_boot: Sequence[Sequence[float]],
    confidence: float = CONFIDENCE,
    *,
    threshold: float = THRESHOLD,
    higher_is_better: bool = False,
) -> Comparison:
    """New against old that were measured apart: the values of the processes of each boot.

    The boots are the sample.  Where a side has but one, the interval is between these two boots,
    drift and all, and there is no verdict: another boot of the same kernel may differ as much.
    """
    rules = Rules(1 - confidence, threshold, higher_is_better)
    sides = [_logarithms(old_by_boot), _logarithms(new_by_boot)]
    processes = sum(boot.size for side in sides for boot in side)
    boots = min(len(side) for side in sides)
    samples = [
        np.array([float(trimmed_mean(boot)) for boot in side]) if boots > 1 else side[0]
        for side in sides
    ]
    if min(sample.size for sample in samples) < 2:
        return nothing(float(samples[1].mean() - samples[0].mean()), rules, processes)
    found = decide(_apart(*samples), rules, processes)
    if boots == 1:
        return undecided(found, None, "each measured in a boot of its own, and only one")
    if boots < least_units(rules.alpha):
        return undecided(found, least_units(rules.alpha) / boots, too_few(boots, rules, "boots"))
    return found


def _logarithms(by_boot: Sequence[Sequence[float]]) -> list[Array]:
    """The logarithms of each boot's values."""
    boots = [np.asarray(boot, dtype=np.float64) for boot in by_boot if len(boot)]
    if not boots:
        raise ValueError("no process has a value")
    for boot in boots:
        check_values(boot)
    return [np.log(boot) for boot in boots]


def _apart(old: Array, new: Array) -> Mean:
    """The difference of two samples, then null contrasts: each side's halves against each other.

    The errors add up as Welch (1947) has it.  Halves are odd and even, and first and last: the
    latter see drift.
    """
    means = [trimmed(old), trimmed(new)]
    squares = [float(mean.error) ** 2 for mean in means]
    total = sum(squares)
    parts = sum(square**2 / mean.freedom for square, mean in zip(squares, means, strict=True))
    freedom = total**2 / parts if parts > 0 else min(mean.freedom for mean in means)
    splits = [[_halves(side, way) for way in (False, True)] for side in (old, new)]
    nulls = [a + sign * b for a, b in zip(*splits, strict=True) for sign in (1, -1)]
    values = np.array([float(means[1].value - means[0].value), *nulls])
    return Mean(values, np.full(values.size, math.sqrt(total)), freedom)


def _halves(side: Array, alternating: bool) -> float:
    """Half the difference of a sample's halves: as varied as the sample's mean."""
    middle = side.size // 2
    halves = (side[::2], side[1::2]) if alternating else (side[:middle], side[middle:])
    return float(trimmed_mean(halves[0]) - trimmed_mean(halves[1])) / 2
