# SPDX-License-Identifier: GPL-2.0-or-later
"""Which instruction is which: pairs in order, equal ones first, gaps that are whole."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kentry.compare import alignment
from kentry.compare.alignment import Keys, Pair, aligned

# (what it is, its constant, its function)
Token = tuple[int, int, int]

TOKENS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1), st.integers(0, 1)), max_size=40)


def keys(tokens: list[Token]) -> Keys:
    equal = np.array([8 * what + constant for what, constant, _ in tokens], np.int32)
    alike = np.array([what for what, _, _ in tokens], np.int32)
    home = np.array([function for _, _, function in tokens], np.int32)
    return np.array([equal, equal, alike, home])


def pairs_of(old: list[Token], new: list[Token], *, abroad: bool = False) -> list[Pair]:
    return list(aligned(keys(old), keys(new), abroad=abroad))


def check(old: list[Token], new: list[Token], pairs: list[Pair], *, abroad: bool) -> None:
    for (i, j), (k, m) in pairwise(pairs):
        assert i < k and j < m
    for i, j in pairs:
        assert old[i][0] == new[j][0]
        assert abroad or old[i][2] == new[j][2]


@given(TOKENS, TOKENS, st.booleans())
def test_pairs_rise_on_both_sides_and_are_alike(
    old: list[Token], new: list[Token], abroad: bool
) -> None:
    check(old, new, pairs_of(old, new, abroad=abroad), abroad=abroad)


@given(TOKENS, TOKENS)
def test_no_alignment_is_better(old: list[Token], new: list[Token]) -> None:
    """Against the plain recurrence, a cell at a time."""

    def worth(i: int, j: int) -> int:
        if old[i][0] != new[j][0] or old[i][2] != new[j][2]:
            return -(1 << 20)
        return 17 if old[i][1] == new[j][1] else 10

    table = {(0, 0): (0, -(1 << 20), -(1 << 20))}
    for i in range(len(old) + 1):
        for j in range(len(new) + 1):
            if (i, j) == (0, 0):
                continue
            low = (-(1 << 20),) * 3
            diagonal = table[i - 1, j - 1] if i and j else low
            above, beside = table.get((i - 1, j), low), table.get((i, j - 1), low)
            table[i, j] = (
                max(diagonal) + worth(i - 1, j - 1) if i and j else -(1 << 20),
                max(max(above) - 6, above[1]),
                max(max(beside) - 6, beside[2]),
            )
    both = np.hstack((keys(old), keys(new))).tobytes()
    found = alignment._best(both, len(old), len(new), abroad=False) if old and new else []
    score, at = sum(worth(i, j) for i, j in found), (0, 0)
    for i, j in [*found, (len(old), len(new))]:
        score -= 6 * (i > at[0]) + 6 * (j > at[1])
        at = i + 1, j + 1
    assert score == max(table[len(old), len(new)])


def test_one_that_looks_alike_in_the_midst_of_a_change_is_not_worth_two_gaps() -> None:
    def around(what: int, constant: int) -> list[Token]:
        other = [(what, n, 0) for n in range(5)]
        return [(0, 0, 0), *other, (1, constant, 0), *other, (0, 0, 0)]

    assert pairs_of(around(2, 0), around(3, 1)) == [(0, 0), (12, 12)]
    assert pairs_of(around(2, 0), around(3, 0)) == [(0, 0), (6, 6), (12, 12)]


@pytest.mark.parametrize(("cells", "most"), [(0, 1 << 25), (0, 50)])
@given(old=TOKENS, new=TOKENS)
def test_long_paths_are_divided_and_stay_in_order(
    old: list[Token], new: list[Token], cells: int, most: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(alignment, "_CELLS", cells)
        patch.setattr(alignment, "_MOST_CELLS", most)
        patch.setattr(alignment, "_ANCHOR", 2)
        check(old, new, pairs_of(old, new), abroad=False)
        assert pairs_of(old, old) == [(n, n) for n in range(len(old))]


def test_a_long_path_is_divided_where_both_have_the_same_once() -> None:
    old = [(n, 0, 0) for n in range(2000)]
    new = [*old[:500], *[(5000 + n, 0, 0) for n in range(30)], *old[510:]]
    pairs = pairs_of(old, new)
    assert pairs == [(n, n) for n in range(500)] + [(n, n + 20) for n in range(510, 2000)]
