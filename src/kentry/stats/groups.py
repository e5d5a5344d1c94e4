# SPDX-License-Identifier: GPL-2.0-or-later
"""Old and new that ran interleaved: drift moves both sides of a group and cancels out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from kentry.stats import CONFIDENCE, THRESHOLD
from kentry.stats.estimators import Array, trimmed_in_order, trimmed_mean
from kentry.stats.sequential import Look
from kentry.stats.verdict import (
    Criteria,
    Estimate,
    decide,
    least_units,
    logarithms,
    too_few,
    without_spread,
)


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
) -> Estimate:
    """New against old, from interleaved groups in their order; ValueError if a side is empty.

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
    count = units.shape[1]
    if count < least_units(alpha):
        effect = float(trimmed_mean(units[0])) if count else math.nan
        estimate = without_spread(effect, criteria, len(groups))
        return too_few(estimate, criteria, count, unit)
    return decide(trimmed_in_order(units), criteria, len(groups))


def contrasts(group: Group) -> Array:
    """A group's effect and two null contrasts; all vary alike if all processes are alike.

    ValueError if a side has no value, or a value has no logarithm.
    """
    if not group.old or not group.new:
        raise ValueError("a group needs old and new values")
    values = logarithms(np.array([*group.old, *group.new], dtype=np.float64))
    products: Array = _weights(len(group.old), len(group.new)) @ values
    return products


@lru_cache(maxsize=64)
def _weights(old: int, new: int) -> Array:
    """Three rows of weights for `old` + `new` logarithms; NaN rows without a null contrast."""
    effect = np.r_[np.full(old, -1 / old), np.full(new, 1 / new)]
    within_old = np.r_[_alternating(old), np.zeros(new)]
    within_new = np.r_[np.zeros(old), _alternating(new)]
    nulls = np.array([within_old + within_new, within_old - within_new])
    squares = (nulls**2).sum(axis=1, keepdims=True)
    nulls = nulls * np.sqrt((effect**2).sum() / np.where(squares > 0, squares, np.nan))
    return np.vstack([effect, nulls])


def _alternating(count: int) -> Array:
    """Weights that add up to 0: every other slot against the rest, varying like the mean."""
    if count < 2:
        return np.zeros(count)
    even = np.arange(count) % 2 == 0
    weights = np.where(even, 1 / even.sum(), -1 / (~even).sum())
    scaled: Array = weights * np.sqrt(1 / count / (weights**2).sum())
    return scaled
