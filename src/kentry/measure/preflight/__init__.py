# SPDX-License-Identifier: GPL-2.0-or-later
"""Is the machine quiet enough to be measured on?

`gather` has the probe look at /proc and /sys, twice, for about a second; `check` says what it
finds; `describe` what a recording keeps; `choose_cpu` where to measure.  Nothing needs root.
"""

from kentry.measure.preflight.checks import check
from kentry.measure.preflight.describe import describe
from kentry.measure.preflight.facts import Facts, gather, wanted
from kentry.measure.preflight.finding import LEVELS, NOTE, UNKNOWN, WARNING, Finding
from kentry.measure.preflight.pinning import choose_cpu

__all__ = [
    "LEVELS",
    "NOTE",
    "UNKNOWN",
    "WARNING",
    "Facts",
    "Finding",
    "check",
    "choose_cpu",
    "describe",
    "gather",
    "wanted",
]
