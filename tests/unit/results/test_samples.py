# SPDX-License-Identifier: GPL-2.0-or-later
"""Processes as groups of old and new."""

from kentry.results.recording import TimedProcess
from kentry.results.samples import estimate_rows, pair_groups


def test_a_group_needs_both_sides_and_as_many_values_of_each() -> None:
    def one(group: int, slot: int, boot: int = 0) -> TimedProcess:
        return TimedProcess(0, boot, group, slot, 10, 1, (100.0 * (slot + 1),))

    old = [one(0, 0), one(0, 3), one(1, 0), one(1, 3), one(2, 0), one(4, 0), one(4, 3)]
    new = [one(0, 1), one(0, 2), one(1, 1), one(2, 1), one(3, 1), one(3, 2), one(4, 1, 1)]
    found = pair_groups(old, new)
    assert [(group.old, group.new) for group in found] == [
        ((10.0, 40.0), (20.0, 30.0)),
        ((10.0,), (20.0,)),
    ]


def test_a_round_needs_two_boots_of_each_side() -> None:
    def boots(*numbers: int) -> list[TimedProcess]:
        return [
            TimedProcess(0, number, group, 0, 10, 1, (10.0 * number + 100,))
            for number in numbers
            for group in range(2)
        ]

    found = pair_groups(boots(0, 3, 5, 6, 8, 12), boots(1, 2, 4, 7, 9, 10))
    assert [(one.boot, one.old, one.new) for one in found] == [
        (0, (10.0, 13.0), (11.0, 12.0)),
        # Every other round has the later one first: a drift is no null contrast.
        (1, (16.0, 15.0), (17.0, 14.0)),
    ]


def test_a_group_with_a_value_of_0_or_less_is_left_out() -> None:
    old, new = ([TimedProcess(0, 0, n, slot, 1, 1, (5,)) for n in range(3)] for slot in (0, 1))
    new[1] = TimedProcess(0, 0, 1, 1, 1, 0, (5.0,), (7.0,))
    assert [group.old for group in pair_groups(old, new)] == [(5.0,)] * 2


def sides(percent: float) -> tuple[list[TimedProcess], list[TimedProcess]]:
    """Eight groups: a change of so many per cent, with a noise of +-0.5 %."""
    old = [TimedProcess(0, 0, group, 0, 1, 1, (1000.0,)) for group in range(8)]
    noise = [5, -5, 4, -4, 3, -3, 2, -2]
    new = [
        TimedProcess(0, 0, group, 1, 1, 1, (1000 + 10 * percent + by,))
        for group, by in enumerate(noise)
    ]
    return old, new


def test_a_change_that_is_sure_alone_is_undecided_in_a_long_table() -> None:
    [alone] = estimate_rows([sides(0.65)], threshold=0)
    table = estimate_rows([sides(0.65), *[sides(0)] * 30, ([], [])], threshold=0)
    assert alone and alone.verdict == "worse"
    assert table[0] and (table[0].verdict, table[0].more) == ("undecided", 2.0)
    assert table[0].p == 31 * alone.p
    assert table[-1] is None
