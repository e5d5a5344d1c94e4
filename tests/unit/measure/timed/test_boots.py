# SPDX-License-Identifier: GPL-2.0-or-later
"""Two kernels by turns, a boot each, on a place whose times are known."""

from dataclasses import replace

import pytest

from kentry.errors import MachineError
from kentry.measure.timed.boots import LEAST_ROUNDS, Boots, Result, Side, compare_kernels
from kentry.measure.timed.comparing import Plan
from kentry.measure.timed.sampling import Settings
from kentry.stats.exact import BETTER, SAME, UNDECIDED, WORSE
from kentry.stats.noisy import LOOKS
from tests.places import FakePlace, silent

NS = {"getppid": 80.0, "read": 120.0}
BOOTS = Boots(("getppid", "read"), 3, 12, Settings(turns=2, blocks=4, seed=7))
PLAN = Plan(1.0)


def sides() -> tuple[Side, Side]:
    return Side("6.1"), Side("6.12")


def compared(
    place: FakePlace, boots: Boots = BOOTS, plan: Plan = PLAN
) -> tuple[Result, tuple[Side, Side]]:
    both = sides()
    return compare_kernels(place, both, boots, plan, silent), both


def test_each_round_boots_abba_or_baab() -> None:
    place = FakePlace(NS, boot_spread=0.05)
    result, _ = compared(place)
    rounds = [tuple(place.booted[i : i + 4]) for i in range(0, len(place.booted), 4)]
    assert len(rounds) == result.rounds == 12
    a, b = "6.1", "6.12"
    assert set(rounds) == {(a, b, b, a), (b, a, a, b)}


def test_boots_are_numbered_through_and_each_has_its_groups() -> None:
    place = FakePlace(NS, boot_spread=0.05)
    result, (old, new) = compared(place)
    assert sorted(old.boots + new.boots) == list(range(4 * result.rounds))
    for number, side in enumerate((old, new)):
        wanted = [i for i, kernel in enumerate(place.booted) if kernel == ("6.1", "6.12")[number]]
        assert side.boots == wanted
        samples = side.metrics("read")["ns"].samples
        assert [one.boot for one in samples] == [boot for boot in wanted for _ in range(3)]
    assert all("groups=3" in words and "cases=getppid,read" in words for words in place.runs)


def test_a_kernel_that_is_slower_is_found() -> None:
    result, _ = compared(FakePlace(NS, kernels={"6.12": 1.02}, boot_spread=0.002))
    assert {case: one.verdict for case, one in result.found.items()} == dict.fromkeys(NS, WORSE)
    assert result.found["read"].interval[0] < 0.02 < result.found["read"].interval[1]
    result, _ = compared(FakePlace(NS, kernels={"6.1": 1.02}, boot_spread=0.002))
    assert result.found["read"].verdict == BETTER


@pytest.mark.parametrize("seed", range(6))
def test_two_that_are_alike_are_never_a_difference(seed: int) -> None:
    result, _ = compared(FakePlace(NS, boot_spread=0.01, seed=seed))
    assert {one.verdict for one in result.found.values()} <= {SAME, UNDECIDED}


def test_boots_that_differ_hide_what_their_groups_would_show() -> None:
    """A kernel 1 % slower, boots that differ by 3 %: groups alone would be very sure."""
    result, _ = compared(FakePlace(NS, kernels={"6.12": 1.01}, boot_spread=0.03))
    assert {one.verdict for one in result.found.values()} == {UNDECIDED}


def test_a_round_is_a_sample() -> None:
    result, _ = compared(FakePlace(NS, boot_spread=0.05))
    assert {one.groups for one in result.found.values()} == {12}


def test_it_ends_at_a_planned_look() -> None:
    place = FakePlace(NS, kernels={"6.12": 1.5})
    result, _ = compared(place, replace(BOOTS, rounds=40))
    assert result.look.number < len(LOOKS)
    assert result.rounds in [max(LEAST_ROUNDS, round(40 * part)) for part in LOOKS]
    assert len(place.booted) == 4 * result.rounds
    assert result.options == {"rounds": result.rounds, "looks": 5, "look": result.look.number}


def test_fewer_rounds_than_an_interval_needs_are_not_planned() -> None:
    result, _ = compared(FakePlace(NS, boot_spread=0.05), replace(BOOTS, rounds=1))
    assert result.rounds == LEAST_ROUNDS


def test_a_boot_that_fails_keeps_what_was_measured() -> None:
    both = sides()
    with pytest.raises(MachineError, match="did not boot 6.1"):
        compare_kernels(FakePlace(NS, refuses=5), both, BOOTS, PLAN, silent)
    assert len(both[0].boots) + len(both[1].boots) == 5
    samples = [one for side in both for one in side.metrics("read")["ns"].samples]
    assert len({one.boot for one in samples}) == 5


def test_a_probe_that_dies_keeps_what_was_measured() -> None:
    both = sides()
    with pytest.raises(MachineError, match="did not come to its end"):
        compare_kernels(FakePlace(NS, dies_in=5), both, BOOTS, PLAN, silent)
    samples = [one for side in both for one in side.metrics("read")["ns"].samples]
    assert len(samples) == 5 * 3 + 1


def test_a_boot_that_timed_nothing_is_an_error() -> None:
    """Its groups were all lost, though those of the boots before were not."""
    place = FakePlace(NS, boot_spread=0.05, jumps=frozenset(range(6, 9)))
    with pytest.raises(MachineError, match="timed nothing"):
        compared(place)


def test_a_case_that_is_absent_is_in_no_comparison() -> None:
    result, _ = compared(FakePlace(NS, absent={"read": "no unit"}))
    assert set(result.found) == {"getppid"}
