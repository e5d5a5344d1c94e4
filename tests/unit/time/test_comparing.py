# SPDX-License-Identifier: GPL-2.0-or-later
"""Pairs of cases on a machine whose times are known: verdicts, looks, rows."""

from collections.abc import Sequence
from typing import Any

import pytest

from kentry.errors import MachineError
from kentry.stats.exact import SAME, UNDECIDED, WORSE
from kentry.stats.sequential import LOOKS
from kentry.stats.verdict import Effect
from kentry.time.comparing import (
    LEAST_GROUPS,
    Ending,
    Pair,
    Schedule,
    compare_cases,
    metrics_of_pair,
)
from kentry.time.output import Output
from kentry.time.sampling import Sampler, Settings
from tests.places import FakePlace, silent

NS = {"a": 80.0, "b": 80.8, "same": 80.0, "fast": 40.0}
SETTINGS = Settings(turns=2, blocks=4)
SCHEDULE = Schedule(100)


def compared(
    place: FakePlace, *pairs: Pair, schedule: Schedule = SCHEDULE, output: Output | None = None
) -> Ending:
    slots = [name for pair in pairs for name in pair.slots]
    odd_slots = [name for pair in pairs for name in pair.odd_slots]
    output = output or Output()
    sampler = Sampler(place, slots, SETTINGS, output, odd_slots, all_of_them=True)
    return compare_cases(sampler, pairs, schedule, silent)


def estimated(place: FakePlace, old: str, new: str) -> Effect:
    (row,) = compared(place, Pair(old, new)).rows
    assert row
    return row


def the_verdict(place: FakePlace, old: str, new: str) -> str:
    return estimated(place, old, new).verdict


# --- verdicts --------------------------------------------------------------------


def test_a_pair_is_a_b_b_a() -> None:
    assert Pair("a", "b").slots == ["a", "b", "b", "a"]
    assert Pair("a", "b").odd_slots == ["b", "a", "a", "b"]
    assert Pair("a", "b").name == "a -> b"


@pytest.mark.parametrize("seed", range(8))
def test_a_case_is_the_same_as_itself(seed: int) -> None:
    assert the_verdict(FakePlace(NS, seed=seed), "a", "a") == SAME


@pytest.mark.parametrize("seed", range(8))
def test_one_per_cent_is_found_and_how_much_it_is(seed: int) -> None:
    row = estimated(FakePlace(NS, seed=seed), "a", "b")
    assert row.verdict == WORSE
    assert row.interval[0] < 0.01 < row.interval[1]


def test_the_percentages_are_of_the_first() -> None:
    up, down = estimated(FakePlace(NS), "fast", "a"), estimated(FakePlace(NS), "a", "fast")
    assert up.effect == pytest.approx(1.0, rel=0.01)
    assert down.effect == pytest.approx(-0.5, rel=0.01)
    assert (up.verdict, down.verdict) == ("worse", "better")


@pytest.mark.parametrize("seed", range(4))
def test_drift_is_in_both_and_makes_no_difference(seed: int) -> None:
    assert the_verdict(FakePlace(NS, drift=0.3, seed=seed), "a", "a") == SAME
    assert the_verdict(FakePlace(NS, drift=0.3, seed=seed), "a", "b") == WORSE


def test_a_machine_too_noisy_leaves_it_undecided_at_the_last_look() -> None:
    ending = compared(FakePlace(NS, spread=0.05), Pair("a", "b"))
    (row,) = ending.rows
    assert row and row.verdict == UNDECIDED and row.reason
    assert ending.look.number == len(LOOKS)


def test_groups_in_which_a_clock_jumped_are_in_no_comparison() -> None:
    place, output = FakePlace(NS, jumps=frozenset({2, 3, 15})), Output()
    ending = compared(place, Pair("a", "b"), output=output)
    (row,) = ending.rows
    assert row and row.groups == ending.done - 3
    old, _ = metrics_of_pair(output, 0, Pair("a", "b"))
    assert len(old["ns"].samples) == 2 * (ending.done - 3)


# --- how much is measured ----------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("names", "look", "groups"), [(("fast", "a"), 2, 60), (("a", "b"), 5, 300)]
)
def test_it_measures_as_many_groups_as_the_look_that_decides_has(
    names: tuple[str, str], look: int, groups: int
) -> None:
    place = FakePlace(NS, spread=0.001 if look == 2 else 0.05)
    ending = compared(place, Pair(*names), schedule=Schedule(300))
    assert ending.options == {"groups": groups, "looks": 5, "look": look}
    assert (place.groups, ending.planned) == (groups, 300)


def test_an_early_look_has_a_higher_confidence_than_the_schedule() -> None:
    (row,) = compared(FakePlace(NS), Pair("fast", "a"), schedule=Schedule(300)).rows
    assert row and row.confidence > 0.999


def test_a_schedule_has_at_least_the_groups_of_an_interval() -> None:
    ending = compared(FakePlace(NS), Pair("fast", "a"), schedule=Schedule(6))
    assert ending.done == ending.planned == LEAST_GROUPS


def test_the_boots_of_a_guest_are_the_sample() -> None:
    place = FakePlace(NS, kind="kvm")
    ending = compared(place, Pair("fast", "a"), schedule=Schedule(12))
    assert (ending.unit, ending.done) == ("boots", len(place.runs))


# --- rows ------------------------------------------------------------------------


def test_each_pair_has_slots_of_its_own() -> None:
    pairs, output = (Pair("a", "b"), Pair("fast", "fast"), Pair("b", "a")), Output()
    ending = compared(FakePlace(NS), *pairs, output=output)
    assert [row.verdict for row in ending.rows if row] == ["worse", "same", "better"]
    for number, pair in enumerate(pairs):
        old, new = metrics_of_pair(output, number, pair)
        for samples, slots in ((old, ((0, 3), (1, 2))), (new, ((1, 2), (0, 3)))):
            for one in samples["ns"].samples:
                assert one.slot - 4 * number in slots[one.group // 100_000 % 2]


@pytest.mark.slow
def test_it_goes_on_until_every_row_is_decided() -> None:
    ns = {**NS, "tiny": 80.24}
    schedule = Schedule(300)
    pair, other = Pair("fast", "a"), Pair("a", "tiny")
    alone = compared(FakePlace(ns), pair, schedule=schedule)
    both = compared(FakePlace(ns, spread=0.003), pair, other, schedule=schedule)
    assert both.look.number > alone.look.number


# --- slots that are not there ----------------------------------------------------------


@pytest.mark.parametrize("gone", ["a", "b", "fast"])
def test_a_case_that_is_absent_is_an_error_and_never_another_ones_slot(gone: str) -> None:
    place = FakePlace(NS, absent={gone: "no such case"})
    with pytest.raises(MachineError, match=gone):
        compared(place, Pair("a", "b"), Pair("fast", "same"))


def test_neither_is_one_whose_line_was_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """The slots behind it move up: their names say whose they are."""
    place = FakePlace(NS, absent={"a": "no such case"})
    lines = place._lines

    def without_absent(words: Sequence[str]) -> Any:
        return (line for line in lines(words) if not line.startswith("absent"))

    monkeypatch.setattr(place, "_lines", without_absent)
    with pytest.raises(MachineError):
        compared(place, Pair("a", "b"), Pair("fast", "same"))
