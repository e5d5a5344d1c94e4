# SPDX-License-Identifier: GPL-2.0-or-later
"""Samples with noise: everything that is asked of them, in one place.

`estimators` makes one number of many, `intervals` says how sure it is, `sequential` when one may
look; `groups` and `apart` compare two kernels, `verdict` says what the difference means, `rows`
what it means beside others.
"""

from kentry.stats.apart import compare_unpaired
from kentry.stats.estimators import PATH_QUANTILE, process_value
from kentry.stats.groups import Group, compare_groups
from kentry.stats.intervals import CONFIDENCE, Level, level_interval
from kentry.stats.rows import apply_holm, holm
from kentry.stats.sequential import LOOKS, OBRIEN_FLEMING, POCOCK, Look, Sequential
from kentry.stats.verdict import THRESHOLD, Comparison, needed_groups

__all__ = [
    "CONFIDENCE",
    "LOOKS",
    "OBRIEN_FLEMING",
    "PATH_QUANTILE",
    "POCOCK",
    "THRESHOLD",
    "Comparison",
    "Group",
    "Level",
    "Look",
    "Sequential",
    "apply_holm",
    "compare_groups",
    "compare_unpaired",
    "holm",
    "level_interval",
    "needed_groups",
    "process_value",
]
