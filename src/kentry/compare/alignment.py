# SPDX-License-Identifier: GPL-2.0-or-later
"""Which instruction of one path is which of another: a global alignment with affine gaps.

Gotoh's algorithm (J. Mol. Biol. 162, 1982) on antidiagonals, so that numpy does the work.  A gap
costs the same whatever its length: a function that was added is one gap, and one instruction that
looks alike in its midst is not worth two.
"""

import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.int32]
Pair = tuple[int, int]

# What a pair is worth: alike but for constants, or with them too; in the same function or not; and
# the same in everything, which decides among several that are equal.
_ALIKE, _EQUAL = 4, 8
_ALIKE_AT_HOME, _EQUAL_AT_HOME = 10, 16
_EXACT = 1
# A lone pair inside a change opens two gaps more: only an equal one in its function pays for them.
_GAP = 6
_NEVER = -(1 << 24)

# The most pairs that are tried at once, with a byte each; more are divided at anchors first:
# instructions in a row that each path has once.  Without anchors both are cut into pieces.
_CELLS = 1 << 20
_MOST_CELLS = 1 << 25
_ANCHOR = 8

# In the trace: from where the best came, and whether a gap goes on.
_PAIR, _OLD_ALONE, _NEW_ALONE = 0, 1, 2
_OLD_ON, _NEW_ON = 4, 8


@dataclass(frozen=True)
class Keys:
    """A path as numbers: instructions that are the same, equal, or alike but for constants.

    `home` is the function.  Each has one number an instruction.
    """

    exact: Codes
    equal: Codes
    alike: Codes
    home: Codes

    def part(self, start: int, end: int) -> "Keys":
        """Returns the instructions from `start` up to `end`."""
        return Keys(
            self.exact[start:end],
            self.equal[start:end],
            self.alike[start:end],
            self.home[start:end],
        )

    def __len__(self) -> int:
        return len(self.equal)


def aligned(old: Keys, new: Keys, *, abroad: bool) -> list[Pair]:
    """Pairs instructions that are the same, in order; without `abroad`, within one function."""
    return list(_aligned(old, new, abroad))


def _aligned(old: Keys, new: Keys, abroad: bool) -> Iterator[Pair]:
    first = _common(old, new)
    last = _common(_reversed(old.part(first, len(old))), _reversed(new.part(first, len(new))))
    yield from ((i, i) for i in range(first))
    ends = len(old) - last, len(new) - last
    for i, j in _between(old.part(first, ends[0]), new.part(first, ends[1]), abroad):
        yield first + i, first + j
    yield from ((ends[0] + i, ends[1] + i) for i in range(last))


def _common(old: Keys, new: Keys) -> int:
    """Returns how many instructions both begin with."""
    shorter = min(len(old), len(new))
    a, b = old.part(0, shorter), new.part(0, shorter)
    differ = np.flatnonzero((a.equal != b.equal) | (a.home != b.home))
    return int(differ[0]) if len(differ) else shorter


def _reversed(keys: Keys) -> Keys:
    return Keys(keys.exact[::-1], keys.equal[::-1], keys.alike[::-1], keys.home[::-1])


def _between(old: Keys, new: Keys, abroad: bool) -> Iterator[Pair]:
    """Returns the pairs of what has no common beginning or end."""
    if not len(old) or not len(new):
        return
    if len(old) * len(new) <= _CELLS:
        yield from _best(old, new, abroad)
        return
    cuts = _anchors(old, new)
    if not cuts and len(old) * len(new) <= _MOST_CELLS:
        yield from _best(old, new, abroad)
        return
    if not cuts:
        pieces = 1 + int((len(old) * len(new) / _MOST_CELLS) ** 0.5)
        cuts = [(len(old) * n // pieces, len(new) * n // pieces) for n in range(1, pieces)]
    starts, ends = [(0, 0), *cuts], [*cuts, (len(old), len(new))]
    for (i, j), (end, other) in zip(starts, ends, strict=True):
        for a, b in _aligned(old.part(i, end), new.part(j, other), abroad):
            yield i + a, j + b


def _anchors(old: Keys, new: Keys) -> list[Pair]:
    """Returns where instructions in a row begin that each path has once, in the order of both."""
    places = [_once(keys) for keys in (old, new)]
    pairs = sorted((places[0][row], places[1][row]) for row in places[0].keys() & places[1].keys())
    # Of the longest rising sequence: its last pair, and for each pair the one before it.
    tails: list[int] = []
    ends: list[int] = []
    before: list[int] = []
    for at, (_, j) in enumerate(pairs):
        length = bisect.bisect_left(tails, j)
        before.append(ends[length - 1] if length else -1)
        tails[length : length + 1], ends[length : length + 1] = [j], [at]
    anchors: list[Pair] = []
    at = ends[-1] if ends else -1
    while at >= 0:
        anchors.append(pairs[at])
        at = before[at]
    return [pair for pair in reversed(anchors) if pair != (0, 0)]


def _once(keys: Keys) -> dict[tuple[Pair, ...], int]:
    """Returns the places of rows of instructions that occur once."""
    codes = list(zip(keys.home.tolist(), keys.equal.tolist(), strict=True))
    places: dict[tuple[Pair, ...], int] = {}
    for at, row in enumerate(zip(*(codes[n:] for n in range(_ANCHOR)), strict=False)):
        places[row] = -1 if row in places else at
    return {row: at for row, at in places.items() if at >= 0}


def _best(old: Keys, new: Keys, abroad: bool) -> list[Pair]:
    """Returns the pairs of the best alignment of all, by trying every pair."""
    n, m = len(old), len(new)
    behind = _reversed(new)
    # By how many old instructions are done, + 1: the best of all, and that which ends in a gap.
    size = n + 3
    best, earlier = (np.full(size, _NEVER, np.int32) for _ in range(2))
    old_gap, new_gap = (np.full(size, _NEVER, np.int32) for _ in range(2))
    best[1] = 0
    traces: list[NDArray[np.uint8]] = [np.zeros(1, np.uint8)]
    for diagonal in range(1, n + m + 1):
        low, high = max(0, diagonal - m), min(n, diagonal)
        here, above = slice(low + 1, high + 2), slice(low, high + 1)
        opened = best[above] - _GAP
        old_on = old_gap[above] > opened
        old_alone = np.maximum(old_gap[above], opened)
        opened = best[here] - _GAP
        new_on = new_gap[here] > opened
        new_alone = np.maximum(new_gap[here], opened)
        # Pairs need an instruction of each side.
        first, last = max(1, low), min(n, diagonal - 1)
        pair = np.full(high - low + 1, _NEVER, np.int32)
        if last >= first:
            a = old.part(first - 1, last)
            b = behind.part(m - diagonal + first, m - diagonal + last + 1)
            pair[first - low : last - low + 1] = _worth(a, b, abroad) + earlier[first : last + 1]
        scores = np.maximum(pair, np.maximum(old_alone, new_alone))
        trace = np.where(
            scores == pair, _PAIR, np.where(scores == new_alone, _NEW_ALONE, _OLD_ALONE)
        ).astype(np.uint8)
        trace |= (old_on * np.uint8(_OLD_ON)) | (new_on * np.uint8(_NEW_ON))
        traces.append(trace)
        earlier, best = best, earlier
        for kept, values in ((best, scores), (old_gap, old_alone), (new_gap, new_alone)):
            kept[here] = values
            kept[low] = kept[high + 2] = _NEVER
    return _followed(traces, n, m)


def _worth(old: Keys, new: Keys, abroad: bool) -> NDArray[np.int32]:
    alike, equal = old.alike == new.alike, old.equal == new.equal
    at_home = old.home == new.home
    inside = np.where(equal, _EQUAL_AT_HOME, _ALIKE_AT_HOME) + (old.exact == new.exact) * _EXACT
    outside = np.where(equal, _EQUAL, _ALIKE) if abroad else _NEVER
    worth: NDArray[np.int32] = np.where(alike, np.where(at_home, inside, outside), _NEVER)
    return worth


def _followed(traces: Sequence[NDArray[np.uint8]], n: int, m: int) -> list[Pair]:
    """Returns the pairs of a trace, from its end to its beginning."""
    pairs: list[Pair] = []
    i, j, state = n, m, _PAIR
    while i or j:
        step = int(traces[i + j][i - max(0, i + j - m)])
        kind = state or step & 3
        if kind == _PAIR:
            i, j = i - 1, j - 1
            pairs.append((i, j))
        elif kind == _OLD_ALONE:
            i, state = i - 1, _OLD_ALONE if step & _OLD_ON else _PAIR
        else:
            j, state = j - 1, _NEW_ALONE if step & _NEW_ON else _PAIR
    return pairs[::-1]
