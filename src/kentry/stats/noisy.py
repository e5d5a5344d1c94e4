# SPDX-License-Identifier: GPL-2.0-or-later
"""All that callers need for noisy samples; importing it loads numpy and scipy."""

from kentry.stats import CONFIDENCE, THRESHOLD
from kentry.stats.apart import compare_unpaired
from kentry.stats.estimators import PATH_QUANTILE, process_value
from kentry.stats.groups import Group, compare_groups
from kentry.stats.intervals import Level, level_interval
from kentry.stats.rows import apply_holm, holm
from kentry.stats.sequential import LOOKS, Look, plan_looks
from kentry.stats.verdict import Estimate

__all__ = [
    "CONFIDENCE",
    "LOOKS",
    "PATH_QUANTILE",
    "THRESHOLD",
    "Estimate",
    "Group",
    "Level",
    "Look",
    "apply_holm",
    "compare_groups",
    "compare_unpaired",
    "holm",
    "level_interval",
    "plan_looks",
    "process_value",
]
