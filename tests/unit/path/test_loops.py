# SPDX-License-Identifier: GPL-2.0-or-later
"""Loops of a path are folded, and nothing of it is lost."""

from hypothesis import given
from hypothesis import strategies as st

from kentry.path.stream import fold
from kentry.results.recording import Instruction


def path(*addresses: int) -> list[Instruction]:
    return [Instruction(address, "13000000", "nop", "f", 0) for address in addresses]


def folded(*addresses: int) -> list[tuple[int, int]]:
    return [(one.instruction.address, one.times) for one in fold(path(*addresses))]


def test_rounds_of_a_loop_are_one() -> None:
    assert folded(1, 2, 3, 2, 3, 2, 3, 4) == [(1, 1), (2, 3), (3, 3), (4, 1)]


def test_a_round_that_is_cut_short_stays_apart() -> None:
    assert folded(1, 2, 3, 2, 3, 2, 4) == [(1, 1), (2, 2), (3, 2), (2, 1), (4, 1)]


def test_a_loop_in_a_loop_is_folded_too() -> None:
    inner = [2, 2, 2]
    assert folded(1, *inner, 3, 1, *inner, 3) == [(1, 2), (2, 6), (3, 2)]


def test_a_function_that_is_called_twice_from_two_places_is_no_loop() -> None:
    assert folded(1, 8, 9, 2, 8, 9, 3) == [(1, 1), (8, 1), (9, 1), (2, 1), (8, 1), (9, 1), (3, 1)]


@given(st.lists(st.integers(0, 4), max_size=60))
def test_as_many_of_each_are_left(addresses: list[int]) -> None:
    found = fold(path(*addresses))
    for address in range(5):
        times = sum(one.times for one in found if one.instruction.address == address)
        assert times == addresses.count(address)
    assert all(addresses[one.place] == one.instruction.address for one in found)
