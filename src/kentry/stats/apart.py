# SPDX-License-Identifier: GPL-2.0-or-later
"""Old and new that were measured apart, each in its own boots.

This is Welch's test on trimmed means (Yuen 1974) with one change: estimators.trimmed() Winsorises
both sides to the farther of the two.  So scipy.stats.ttest_ind(trim=0.2) gives other errors from
ten values on, and the same below.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from kentry.stats import CONFIDENCE, THRESHOLD
from kentry.stats.estimators import Array, Mean, trimmed, trimmed_mean
from kentry.stats.exact import UNDECIDED
from kentry.stats.verdict import (
    Criteria,
    Estimate,
    decide,
    least_units,
    logarithms,
    too_few,
    without_spread,
)


def compare_unpaired(
    old_by_boot: Sequence[Sequence[float]],
    new_by_boot: Sequence[Sequence[float]],
    confidence: float = CONFIDENCE,
    *,
    threshold: float = THRESHOLD,
    higher_is_better: bool = False,
) -> Estimate:
    """New against old, each the values of the processes of its boots; ValueError without values.

    The boots are the sample.  If a side has one boot only, the interval covers just these two
    boots, with their drift, and the verdict is undecided: another boot of the same kernel may
    differ as much.
    """
    criteria = Criteria(1 - confidence, threshold, higher_is_better)
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
        return without_spread(float(new.mean() - old.mean()), criteria, processes)
    estimate = decide(difference(old, new), criteria, processes)
    if boots == 1:
        reason = "each measured in a boot of its own, and only one"
        return replace(estimate, verdict=UNDECIDED, more=None, reason=reason)
    if boots < least_units(criteria.alpha):
        return too_few(estimate, criteria, boots, "boots")
    return estimate


def difference(old: Array, new: Array) -> Mean:
    """The difference of two samples, and null contrasts: each sample's halves against each other.

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
        a, b = (float(trimmed_mean(one) - trimmed_mean(other)) / 2 for one, other in sides)
        nulls += [a + b, a - b]
    values = np.array([float(means[1].value - means[0].value), *nulls])
    return Mean(values, np.full(values.size, math.sqrt(total)), freedom)
