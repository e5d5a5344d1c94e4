# SPDX-License-Identifier: GPL-2.0-or-later
"""Which instruction of one path is which of another: a global alignment with affine gaps.

Gotoh's algorithm (J. Mol. Biol. 162, 1982) on antidiagonals, so that numpy does the work.  A gap
costs the same whatever its length: a function that was added is one gap, and one instruction that
looks alike in its midst is not worth two.
"""

import bisect
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

Pair = tuple[int, int]
# A path as numbers.  Rows: the same, equal but for registers, alike but for constants; function.
Keys = NDArray[np.int32]
EXACT, EQUAL, ALIKE, HOME = range(4)

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


def aligned(old: Keys, new: Keys, *, abroad: bool) -> Iterator[Pair]:
    """Pairs instructions that are the same, in order; without `abroad`, within one function."""
    first = _common(old, new)
    last = _common(old[:, first:][:, ::-1], new[:, first:][:, ::-1])
    yield from ((i, i) for i in range(first))
    ends = old.shape[1] - last, new.shape[1] - last
    for i, j in _between(old[:, first : ends[0]], new[:, first : ends[1]], abroad):
        yield first + i, first + j
    yield from ((ends[0] + i, ends[1] + i) for i in range(last))


def _common(old: Keys, new: Keys) -> int:
    """Returns how many instructions both begin with."""
    shorter = min(old.shape[1], new.shape[1])
    a, b = old[:, :shorter], new[:, :shorter]
    differ = np.flatnonzero((a[EQUAL] != b[EQUAL]) | (a[HOME] != b[HOME]))
    return int(differ[0]) if len(differ) else shorter


def _between(old: Keys, new: Keys, abroad: bool) -> Iterator[Pair]:
    n, m = old.shape[1], new.shape[1]
    if not n or not m:
        return
    cuts = _anchors(old, new) if n * m > _CELLS else []
    if not cuts and n * m <= max(_CELLS, _MOST_CELLS):
        # Which are the same decides, whatever their numbers.
        both = np.hstack((old, new)).ravel()
        _, first, inverse = np.unique(both, return_index=True, return_inverse=True)
        by_place = np.argsort(np.argsort(first)).astype(np.int32)[inverse]
        yield from _best(by_place.tobytes(), n, m, abroad)
        return
    if not cuts:
        pieces = 1 + int((n * m / _MOST_CELLS) ** 0.5)
        cuts = [(n * at // pieces, m * at // pieces) for at in range(1, pieces)]
    for (i, j), (end, other) in pairwise([(0, 0), *cuts, (n, m)]):
        for a, b in aligned(old[:, i:end], new[:, j:other], abroad=abroad):
            yield i + a, j + b


def _anchors(old: Keys, new: Keys) -> list[Pair]:
    """Returns where instructions in a row begin that each path has once, in the order of both."""
    before, after = _once(old), _once(new)
    pairs = sorted((before[row], after[row]) for row in before.keys() & after.keys())
    # Of the longest rising sequence of each length: its last number, and the sequence as a chain.
    tails: list[int] = []
    chains: list[tuple[Pair, Any]] = []
    for pair in pairs:
        length = bisect.bisect_left(tails, pair[1])
        chain = (pair, chains[length - 1] if length else None)
        tails[length : length + 1], chains[length : length + 1] = [pair[1]], [chain]
    anchors: list[Pair] = []
    link = chains[-1] if chains else None
    while link:
        anchors.append(link[0])
        link = link[1]
    return [pair for pair in reversed(anchors) if pair != (0, 0)]


def _once(keys: Keys) -> dict[bytes, int]:
    codes = np.ascontiguousarray(keys[[HOME, EQUAL]].T)
    only_at: dict[bytes, int] = {}
    for at in range(len(codes) - _ANCHOR + 1):
        row = codes[at : at + _ANCHOR].tobytes()
        only_at[row] = -1 if row in only_at else at
    return {row: at for row, at in only_at.items() if at >= 0}


# The cases of a comparison share pieces of their paths, at the entry and the exit foremost.
@lru_cache(maxsize=1024)
def _best(keys: bytes, n: int, m: int, abroad: bool) -> list[Pair]:
    old, new = np.hsplit(np.frombuffer(keys, np.int32).reshape(-1, n + m), [n])
    behind = new[:, ::-1]
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
            a = old[:, first - 1 : last]
            b = behind[:, m - diagonal + first : m - diagonal + last + 1]
            worth = _worth(a == b, abroad)
            pair[first - low : last - low + 1] = worth + earlier[first : last + 1]
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


def _worth(same: NDArray[np.bool_], abroad: bool) -> NDArray[np.int32]:
    inside = np.where(same[EQUAL], _EQUAL_AT_HOME, _ALIKE_AT_HOME) + same[EXACT] * _EXACT
    outside = np.where(same[EQUAL], _EQUAL, _ALIKE) if abroad else _NEVER
    worth: NDArray[np.int32]
    worth = np.where(same[ALIKE], np.where(same[HOME], inside, outside), _NEVER)
    return worth


def _followed(traces: list[NDArray[np.uint8]], n: int, m: int) -> list[Pair]:
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
