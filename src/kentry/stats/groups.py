# SPDX-License-Identifier: GPL-2.0-or-later
"""Old and new that ran in turns: what drifts does so under both, and drops out of each group."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from kentry.stats.estimators import Array, trimmed_in_order, trimmed_mean
from kentry.stats.intervals import CONFIDENCE
from kentry.stats.sequential import Look
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


@dataclass(frozen=True)
class Group:
    """One fork of all slots: the values of its processes, above 0, in any one unit."""

    boot: int  # the boot; or the set of boots, where each kernel has boots of its own
    old: tuple[float, ...]  # one a process, in the order of their slots
    new: tuple[float, ...]


def compare_groups(
    groups: Sequence[Group],
    *,
    confidence: float = CONFIDENCE,
    threshold: float = THRESHOLD,
    looks: Look | None = None,
    higher_is_better: bool = False,
) -> Comparison:
    """New against old, from groups (in their order) whose processes ran in turns.

    The groups are the sample; where there are several boots, the boots are.  With `looks`, the
    look at which this is, the interval has that look's level instead of `confidence`.
    """
    alpha = 1 - confidence if looks is None else looks.alpha
    rules = Rules(alpha, threshold, higher_is_better, looks)
    units, word = _units(groups)
    if units.shape[1] < least_units(alpha):
        return _too_few(units, rules, len(groups), word)
    return decide(trimmed_in_order(units), rules, len(groups))


def _too_few(units: Array, rules: Rules, groups: int, word: str) -> Comparison:
    """What can be said of fewer units than an interval needs."""
    count = units.shape[1]
    effect = float(trimmed_mean(units[0])) if count else math.nan
    more = least_units(rules.alpha) / count if count else None
    found = nothing(effect, rules, groups)
    return undecided(found, more, too_few(count, rules, word))


def _units(groups: Sequence[Group]) -> tuple[Array, str]:
    """Rows: the effect and both null contrasts; columns: groups, or boots if there are several."""
    if not groups:
        return np.zeros((3, 0)), "groups"
    columns = np.column_stack([_contrasts(group) for group in groups])
    boots = np.array([group.boot for group in groups])
    kinds = np.unique(boots)
    if kinds.size < 2:
        return columns, "groups"
    return np.column_stack([trimmed_mean(columns[:, boots == kind]) for kind in kinds]), "boots"


def _contrasts(group: Group) -> Array:
    """A group's effect and its null contrasts, each as varied as the effect if all are alike."""
    if not group.old or not group.new:
        raise ValueError("a group needs old and new values")
    values = np.array([*group.old, *group.new], dtype=np.float64)
    check_values(values)
    products: Array = _weights(len(group.old), len(group.new)) @ np.log(values)
    return products


@lru_cache(maxsize=64)
def _weights(old: int, new: int) -> Array:
    """Three rows of weights for `old` and `new` logarithms; NaN where no null contrast is."""
    effect = np.r_[np.full(old, -1 / old), np.full(new, 1 / new)]
    within_old = np.r_[_alternating(old), np.zeros(new)]
    within_new = np.r_[np.zeros(old), _alternating(new)]
    nulls = np.array([within_old + within_new, within_old - within_new])
    squares = (nulls**2).sum(axis=1, keepdims=True)
    nulls = nulls * np.sqrt((effect**2).sum() / np.where(squares > 0, squares, np.nan))
    return np.vstack([effect, nulls])


def _alternating(count: int) -> Array:
    """Weights that add up to 0, every other slot against the rest, as varied as the mean."""
    if count < 2:
        return np.zeros(count)
    even = np.arange(count) % 2 == 0
    weights = np.where(even, 1 / even.sum(), -1 / (~even).sum())
    scaled: Array = weights * np.sqrt(1 / count / (weights**2).sum())
    return scaled
