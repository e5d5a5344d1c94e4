# SPDX-License-Identifier: GPL-2.0-or-later
"""Where on a line of kernels a value changes: searched by halving, past kernels without a value.

Places are indexes into the line.  What measures is given by the caller, which remembers.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

# Measures the places, perhaps at once; whether each has a value.
Measure = Callable[[Sequence[int]], Sequence[bool]]


class Span(NamedTuple):
    """Two places that differ, next to each other but for places that have no value."""

    low: int
    high: int


def first_step(
    last: int, measure: Measure, like_last: Callable[[int], bool | None], at_once: int = 1
) -> Span:
    """A step between 0, which is not like the last place, and the last.

    `like_last` says it of a measured place; None where it cannot be told.  Where the value changes
    more than once, it is one of the steps across the middle of the two ends' values.
    """
    low, high = 0, last
    without: set[int] = set()
    while places := _next(low, high, without, at_once):
        for place, has_value in zip(places, measure(places), strict=True):
            alike = like_last(place) if has_value else None
            if alike is None:
                without.add(place)
            elif alike:
                high = min(high, place)
            elif place < high:
                low = max(low, place)
    return Span(low, high)


def all_steps(
    last: int, measure: Measure, differ: Callable[[int, int], bool], at_once: int = 1
) -> list[Span]:
    """Every step between places 0 and `last`, in order, that the halving meets.

    Between two places that do not differ nothing is searched: steps there that cancel each other
    out are not found.
    """
    found = []
    without: set[int] = set()
    spans = [Span(0, last)]
    while spans:
        low, high = span = spans.pop()
        if not differ(low, high):
            continue
        places = _next(low, high, without, at_once)
        if not places:
            found.append(span)
            continue
        has_value = measure(places)
        without |= {place for place, has in zip(places, has_value, strict=True) if not has}
        ends = [low, *(place for place in places if place not in without), high]
        spans += [Span(*pair) for pair in itertools.pairwise(ends)]
    return sorted(found)


def _next(low: int, high: int, without: set[int], at_once: int) -> list[int]:
    """The next places to try: in the middle, or farther from it where that has no value."""
    free = [place for place in range(low + 1, high) if place not in without]
    failed = high - low - 1 - len(free)
    if not failed:
        fractions = [number / (at_once + 1) for number in range(1, at_once + 1)]
    else:
        # Commits that do not build come in runs: 1/4, 3/4, 1/8, ... leave one soonest.
        fractions = [_halved(number) for number in range(failed + 1, failed + 1 + at_once)]
    return sorted({free[int(fraction * len(free))] for fraction in fractions} if free else ())


def _halved(number: int) -> float:
    """1/2, 1/4, 3/4, 1/8, 5/8, ...: van der Corput's sequence of base 2, from 1."""
    value, part = 0.0, 0.5
    while number:
        value += part * (number & 1)
        number >>= 1
        part /= 2
    return value
