# SPDX-License-Identifier: GPL-2.0-or-later
"""Exact samples: integers without noise, as histograms (value -> number of windows)."""

from collections import Counter
from collections.abc import Iterable, Mapping

SAME = "same"
BETTER = "better"
WORSE = "worse"
UNDECIDED = "undecided"


def histogram(samples: Iterable[tuple[int, int]]) -> dict[int, int]:
    """Returns the histogram of (value, times) pairs, sorted by value."""
    counts: Counter[int] = Counter()
    for value, times in samples:
        counts[value] += times
    return dict(sorted(counts.items()))


def mode(samples: Mapping[int, int]) -> int:
    """Returns the commonest value, the smaller one of two equally common; ValueError if empty."""
    return min(samples, key=lambda value: (-samples[value], value))


def is_decided(samples: Mapping[int, int]) -> bool:
    """Returns whether more than half of the windows agree on the commonest value."""
    return 2 * samples[mode(samples)] > sum(samples.values())


def verdict(low: int, high: int) -> str:
    """Of a change from `low` to `high`: less is "better"; "undecided" where it may be either."""
    if low == high == 0:
        return SAME
    return WORSE if low > 0 else BETTER if high < 0 else UNDECIDED
