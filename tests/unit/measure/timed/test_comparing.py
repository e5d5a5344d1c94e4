# SPDX-License-Identifier: GPL-2.0-or-later
"""Two cases by turns, on a place whose times are known: verdicts, looks, rows."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from kentry.errors import MachineError
from kentry.measure.timed import comparing
from kentry.measure.timed.comparing import (
    LEAST_GROUPS,
    Pair,
    Plan,
    Result,
    compare_cases,
    judged,
)
from kentry.measure.timed.output import Output
from kentry.measure.timed.sampling import Sampler, Settings
from kentry.stats.exact import SAME, UNDECIDED, WORSE
from kentry.stats.noisy import LOOKS, Look
from tests.places import FakePlace, silent

NS = {"a": 80.0, "b": 80.8, "same": 80.0, "fast": 40.0}
SETTINGS = Settings(turns=2, blocks=4)
PLAN = Plan(1.0, groups=100)


def compared(place: FakePlace, *pairs: Pair, plan: Plan = PLAN) -> Result:
    slots = [name for pair in pairs for name in pair.slots]
    odd_slots = [name for pair in pairs for name in pair.odd_slots]
    sampler = Sampler(place, slots, SETTINGS, Output(), odd_slots, all_of_them=True)
    return compare_cases(sampler, pairs, plan, silent)


def the_verdict(place: FakePlace, old: str, new: str) -> str:
    (row,) = compared(place, Pair(old, new)).rows
    assert row.found
    return row.found.verdict


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
    (row,) = compared(FakePlace(NS, seed=seed), Pair("a", "b")).rows
    assert row.found and row.found.verdict == WORSE
    assert row.found.interval[0] < 0.01 < row.found.interval[1]
    assert row.old["ns"].value == pytest.approx(80.0, rel=0.01)
    assert row.new["ns"].value == pytest.approx(80.8, rel=0.01)


def test_the_percentages_are_of_the_first() -> None:
    (up,), (down,) = (
        compared(FakePlace(NS), Pair(*names)).rows for names in (("fast", "a"), ("a", "fast"))
    )
    assert up.found and down.found
    assert up.found.effect == pytest.approx(1.0, rel=0.01)
    assert down.found.effect == pytest.approx(-0.5, rel=0.01)
    assert (up.found.verdict, down.found.verdict) == ("worse", "better")


@pytest.mark.parametrize("seed", range(4))
def test_drift_is_in_both_and_makes_no_difference(seed: int) -> None:
    assert the_verdict(FakePlace(NS, drift=0.3, seed=seed), "a", "a") == SAME
    assert the_verdict(FakePlace(NS, drift=0.3, seed=seed), "a", "b") == WORSE


def test_on_a_machine_too_noisy_to_tell_nothing_is_told() -> None:
    result = compared(FakePlace(NS, spread=0.05), Pair("a", "b"))
    assert result.rows[0].found and result.rows[0].found.verdict == UNDECIDED
    assert result.rows[0].found.reason
    assert result.look.number == len(LOOKS)


def test_groups_in_which_a_clock_jumped_are_in_no_comparison() -> None:
    place = FakePlace(NS, jumps=frozenset({2, 3, 15}))
    result = compared(place, Pair("a", "b"))
    assert result.rows[0].found
    assert result.rows[0].found.groups == result.groups - 3
    assert len(result.rows[0].old["ns"].samples) == 2 * (result.groups - 3)


# --- looks -----------------------------------------------------------------------


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """The number of each look, and how many groups there were then."""
    found: list[tuple[int, int]] = []

    def spy(
        output: Output, pairs: Sequence[Pair], plan: Plan, look: Look, boots: Sequence[int]
    ) -> Any:
        found.append((look.number, output.groups_ended))
        return judged(output, pairs, plan, look, boots)

    monkeypatch.setattr(comparing, "judged", spy)
    return found


def test_it_ends_at_the_planned_look_that_decides(looked: list[tuple[int, int]]) -> None:
    place = FakePlace(NS)
    result = compared(place, Pair("fast", "a"), plan=replace(PLAN, groups=300))
    assert (result.look.number, result.groups, result.planned) == (2, 60, 300)
    assert looked == [(1, 30), (2, 60)]
    assert place.groups == 60


def test_it_looks_as_planned_and_never_in_between(looked: list[tuple[int, int]]) -> None:
    place = FakePlace(NS, spread=0.05)
    result = compared(place, Pair("a", "b"), plan=replace(PLAN, groups=300))
    assert looked == [(1, 30), (2, 60), (3, 120), (4, 210), (5, 300)]
    assert place.groups == result.groups == 300
    assert result.options == {"groups": 300, "looks": 5, "look": 5}


def test_one_that_is_not_sequential_looks_once_at_the_end(looked: list[tuple[int, int]]) -> None:
    result = compared(FakePlace(NS), Pair("fast", "a"), plan=replace(PLAN, sequential=False))
    assert looked == [(1, 100)]
    assert result.looks == 1


def test_a_look_asks_for_more_than_the_whole_plan_does() -> None:
    (row,) = compared(FakePlace(NS), Pair("fast", "a"), plan=replace(PLAN, groups=300)).rows
    assert row.found and row.found.confidence > 0.999


def test_no_plan_is_shorter_than_an_interval_needs() -> None:
    """What is said of it is what was done."""
    result = compared(FakePlace(NS), Pair("fast", "a"), plan=replace(PLAN, groups=6))
    assert result.groups == LEAST_GROUPS
    assert result.planned == LEAST_GROUPS


def test_seconds_are_as_many_groups_as_the_pilot_says(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(self: Sampler, groups: int, told: object = None) -> None:
        if groups:
            self.run_in_one(groups)
        self.group_seconds, self.run_overhead = 0.05, 0.0

    monkeypatch.setattr(Sampler, "run", run)
    result = compared(FakePlace(NS, spread=0.05), Pair("a", "b"), plan=Plan(3.0))
    assert result.planned == result.groups == 60


# --- rows ------------------------------------------------------------------------


def test_rows_have_slots_of_their_own() -> None:
    result = compared(FakePlace(NS), Pair("a", "b"), Pair("fast", "fast"), Pair("b", "a"))
    verdicts = [row.found.verdict for row in result.rows if row.found]
    assert verdicts == ["worse", "same", "better"]
    for number, row in enumerate(result.rows):
        for one in row.old["ns"].samples:
            odd = one.group // 100_000 % 2
            assert one.slot - 4 * number in ((0, 3), (1, 2))[odd]
        for one in row.new["ns"].samples:
            odd = one.group // 100_000 % 2
            assert one.slot - 4 * number in ((1, 2), (0, 3))[odd]


def test_it_goes_on_until_every_row_is_decided() -> None:
    ns = {**NS, "tiny": 80.24}
    alone = compared(FakePlace(ns), Pair("fast", "a"), plan=replace(PLAN, groups=300))
    both = compared(
        FakePlace(ns, spread=0.003),
        Pair("fast", "a"),
        Pair("a", "tiny"),
        plan=replace(PLAN, groups=300),
    )
    assert both.look.number > alone.look.number


def test_among_many_rows_one_must_be_surer() -> None:
    """Holm: with p a little below what one row needs, of twenty rows none is a difference."""
    output = Output()
    pairs = [Pair("a", "b"), *[Pair("same", "same")] * 15]
    slots = [name for pair in pairs for name in pair.slots]
    Sampler(FakePlace(NS, spread=0.016, seed=5), slots, SETTINGS, output).run_in_one(30)
    plan = Plan(1.0, sequential=False, groups=30)
    (look,) = plan.looks()
    one = judged(output, pairs[:1], plan, look)[0].found
    many = judged(output, pairs, plan, look)[0].found
    assert one and many
    assert one.p < 0.01 < many.p == pytest.approx(16 * one.p)
    assert one.interval == many.interval
    assert (one.verdict, many.verdict) == (WORSE, UNDECIDED)
    assert many.reason == "not sure enough for one of 16 rows"


# --- slots that are not there ----------------------------------------------------------


@pytest.mark.parametrize("gone", ["a", "b", "fast"])
def test_a_case_that_is_absent_is_an_error_and_never_another_ones_slot(gone: str) -> None:
    place = FakePlace(NS, absent={gone: "no such case"})
    with pytest.raises(MachineError, match=f"{gone} cannot be timed on ssh:bench: no such case"):
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
