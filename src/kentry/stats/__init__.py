# SPDX-License-Identifier: GPL-2.0-or-later
"""Samples, confidence intervals, verdicts.  No I/O; imports nothing else of kentry.

The constants are here so that reading one loads neither numpy nor scipy.
"""

# The confidence of every interval, and of all planned looks of a run together.
CONFIDENCE = 0.99
# Changes up to this fraction count as no change: 0.25 %.
THRESHOLD = 0.0025
