# SPDX-License-Identifier: GPL-2.0-or-later
"""A user's own two programs: which number is meant, who is faster, and how each run can fail."""

import random
import re
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kentry.errors import PlaceError, UserError
from kentry.measure.timed.comparing import Plan
from kentry.measure.timed.programs import (
    LEAST_ROUNDS,
    Programs,
    Result,
    Runs,
    compare_programs,
    number_in,
    parse_programs,
)
from kentry.runners.place import CommandResult
from kentry.stats.exact import BETTER, SAME, UNDECIDED, WORSE
from kentry.stats.noisy import LOOKS
from tests.places import FakePlace, silent

PLAN = Plan(1.0, groups=40)

Answer = Callable[[Sequence[str]], CommandResult]


def printing(value: float, spread: float = 0.002, seed: int = 1) -> Answer:
    source = random.Random(seed)

    def answer(argv: Sequence[str]) -> CommandResult:
        return CommandResult(0, f"{value * (1 + source.gauss(0, spread)):.6f}\n", "")

    return answer


def failing_at(number: int, result: CommandResult, value: float = 5.0) -> Answer:
    """Good until its run of this number, from 0."""
    count = iter(range(10_000))
    return lambda argv: result if next(count) == number else CommandResult(0, f"{value}", "")


def compared(
    old: Answer, new: Answer, plan: Plan = PLAN, runs: Runs | None = None, **more: bool
) -> Result:
    place = FakePlace(programs={"old": old, "new": new})
    runs = runs if runs is not None else Runs()
    wanted = Programs(("old", "-x"), ("new",), None, **more)
    return compare_programs(place, wanted, plan, runs, silent)


# --- the command line --------------------------------------------------------------


def test_two_programs() -> None:
    words = ["./old", "--loops", "10", "::", "sh", "-c", "a :: b"]
    assert parse_programs(words) == (("./old", "--loops", "10"), ("sh", "-c", "a :: b"))


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["a"], "Two commands are needed behind --"),
        (["a", "b"], "Two commands are needed behind --"),
        (["a", "::", "b", "::", "c"], "Two commands are needed behind --"),
        (["::", "b"], "One side of :: has no command."),
        (["a", "::"], "One side of :: has no command."),
        (["::"], "One side of :: has no command."),
    ],
)
def test_what_is_not_two_programs(words: list[str], sentence: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_programs(words)
    assert caught.value.sentence.startswith(sentence)
    assert "kentry stat -- " in caught.value.remedy


# --- which number ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12", 12),
        ("12\n", 12),
        ("3.25 seconds", 3.25),
        ("1 2 3", 3),
        ("first 4\nlast 5 ops", 5),
        ("10,000,000", 10_000_000),
        ("10,000,000.5 ns", 10_000_000.5),
        ("1,5", 1.5),
        ("12, 13,", 13),
        ("1e3", 1000),
        ("1.5E-3 s", 0.0015),
        ("-4", -4),
        (".5", 0.5),
        ("took 7.", 7),
        ("a 3\n\n", 3),
        ("", None),
        ("none", None),
        ("1,23,4", None),
    ],
)
def test_the_last_number_is_meant(text: str, value: float | None) -> None:
    assert number_in(text, None) == value


@pytest.mark.parametrize(
    ("text", "pattern", "value"),
    [
        ("total: 12 ns\nmax: 99", r"total: ([0-9.]+)", 12),
        ("total: 12\ntotal: 13\n7", r"total: (\d+)", 13),
        ("total: 12 of 40\n7", r"total: \d+ of", 12),
        ("total: 10,000,000 ops", r"total: (\S+)", 10_000_000),
        ("7", r"total: (\d+)", None),
        ("total: x", r"total: (\S+)", None),
        ("took 12 ms", r"took (\d+) ms|(\d+) us", 12),
        # Of its groups the one that took part is meant.
        ("12 us", r"took (\d+) ms|(\d+) us", 12),
        ("total 12", r"total(:)? \d+", 12),
    ],
)
def test_a_pattern_says_which_is_meant(text: str, pattern: str, value: float | None) -> None:
    assert number_in(text, re.compile(pattern)) == value


@given(st.text(alphabet="0123456789.,+-eE \nx", max_size=30))
def test_any_output_is_a_number_or_none(text: str) -> None:
    found = number_in(text, None)
    assert found is None or isinstance(found, float)


@given(st.integers(1, 10**15))
def test_grouped_digits_are_one_number(value: int) -> None:
    assert number_in(f"{value:,} ns", None) == value


# --- who is faster -------------------------------------------------------------------


def test_rounds_are_abba_or_baab() -> None:
    place = FakePlace(programs={"old": printing(5, 0.1), "new": printing(5, 0.1)})
    runs = Runs()
    compare_programs(place, Programs(("old",), ("new",)), PLAN, runs, silent)
    names = [argv[0] for argv in place.commands]
    rounds = {tuple(names[i : i + 4]) for i in range(0, len(names), 4)}
    a, b = "old", "new"
    assert rounds == {(a, b, b, a), (b, a, a, b)}
    assert len(names) == runs.count == 4 * len(runs.rounds)


def test_a_faster_one_is_better_and_of_a_rate_the_higher() -> None:
    assert compared(printing(5.0), printing(4.9, seed=2)).found.verdict == BETTER
    assert compared(printing(5.0), printing(5.1, seed=2)).found.verdict == WORSE
    rate = compared(printing(5.0), printing(5.1, seed=2), higher_is_better=True)
    assert rate.found.verdict == BETTER


def test_the_same_program_is_the_same_or_nothing_is_said() -> None:
    verdicts = {
        compared(printing(5.0, seed=n), printing(5.0, seed=n + 50)).found.verdict for n in range(8)
    }
    assert verdicts <= {SAME, UNDECIDED}


def test_it_ends_at_a_planned_look() -> None:
    runs = Runs()
    result = compared(printing(5.0), printing(9.0, seed=2), Plan(1.0, groups=100), runs)
    assert result.look.number < len(LOOKS) == result.looks
    assert len(runs.rounds) in [round(100 * part) for part in LOOKS]
    runs = Runs()
    compared(printing(5.0, 0.1), printing(5.0, 0.1, 2), Plan(1.0, groups=100), runs)
    assert len(runs.rounds) == 100


def test_seconds_are_rounds_as_long_as_the_first() -> None:
    place = FakePlace(programs={"old": printing(5, 0.1), "new": printing(5, 0.1, 2)})
    runs, now = Runs(), iter([0.0, 0.5])
    plan = Plan(10.0)
    programs = Programs(("old",), ("new",))
    compare_programs(place, programs, plan, runs, silent, clock=lambda: next(now))
    assert len(runs.rounds) == 20


def test_there_are_at_least_as_many_rounds_as_an_interval_needs() -> None:
    runs = Runs()
    compared(printing(5.0), printing(9.0, seed=2), Plan(1.0, groups=2), runs)
    assert len(runs.rounds) == LEAST_ROUNDS


# --- how it fails --------------------------------------------------------------------


def test_a_program_that_fails_half_way_leaves_what_was_measured() -> None:
    runs = Runs()
    with pytest.raises(PlaceError) as caught:
        compared(printing(5.0), failing_at(9, CommandResult(3, "", "no\nmemory")), runs=runs)
    assert caught.value.sentence == f"'new' failed with status 3 after {runs.count} good runs."
    assert caught.value.detail == "no\nmemory"
    assert len(runs.rounds) == 4
    assert 4 * 4 + 1 <= runs.count <= 4 * 4 + 3
    assert all(value > 0 for _, value in runs.started)


@pytest.mark.parametrize(
    ("output", "sentence"),
    [
        ("", "'old -x' printed no number."),
        ("done", "'old -x' printed no number."),
        ("0", "'old -x' printed 0; ratios need numbers above 0."),
        ("-1.5", "'old -x' printed -1.5; ratios need numbers above 0."),
    ],
)
def test_what_it_printed_must_be_a_number_above_0(output: str, sentence: str) -> None:
    with pytest.raises(PlaceError) as caught:
        compared(lambda argv: CommandResult(0, output, ""), printing(5.0))
    assert caught.value.sentence == sentence
    assert "--number" in caught.value.remedy


def test_what_has_no_end_is_no_number_either() -> None:
    with pytest.raises(PlaceError):
        compared(lambda argv: CommandResult(0, "1e999", ""), printing(5.0))


def test_a_pattern_that_matches_nothing_is_named() -> None:
    place = FakePlace(programs={"old": printing(5.0), "new": printing(5.0)})
    programs = Programs(("old",), ("new",), re.compile("total: (.*)"))
    with pytest.raises(PlaceError, match="printed no number that matches total: "):
        compare_programs(place, programs, PLAN, Runs(), silent)
