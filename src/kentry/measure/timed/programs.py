# SPDX-License-Identifier: GPL-2.0-or-later
"""Two programs of a user's own, by turns: anything that prints a number."""

from __future__ import annotations

import math
import random
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from kentry.errors import PlaceError, UserError
from kentry.host.process import command_line
from kentry.measure.timed.comparing import Plan
from kentry.progress import Update
from kentry.runners.place import Place
from kentry.stats.exact import UNDECIDED
from kentry.stats.noisy import Comparison, Group, Look, compare_groups

SEPARATOR = "::"
# Rounds of four runs each below which nothing is said.
LEAST_ROUNDS = 6
MOST_ROUNDS = 400

_NUMBER = re.compile(r"[-+]?(?:\d[\d,]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
# A column of digits of a grouped number; 1,5 is not one.
_GROUPED = re.compile(r"[-+]?\d{1,3}(?:,\d{3})+(?:\.\d+)?")


@dataclass(frozen=True)
class Programs:
    """The two command lines, and which of the numbers they print is meant.

    `pattern` has one group, or is the number itself; None takes the last number printed.
    """

    old: tuple[str, ...]
    new: tuple[str, ...]
    pattern: re.Pattern[str] | None = None
    higher_is_better: bool = False
    timeout: float = 600.0


@dataclass
class Runs:
    """What was printed: rounds of two values a side; `started` are those of the round under way."""

    rounds: list[tuple[tuple[float, float], tuple[float, float]]] = field(default_factory=list)
    started: list[tuple[str, float]] = field(default_factory=list)

    @property
    def count(self) -> int:
        """How many runs gave a number."""
        return 4 * len(self.rounds) + len(self.started)


@dataclass(frozen=True)
class Result:
    """What was found, at the look where it ended."""

    found: Comparison
    look: Look
    looks: int


def parse_programs(words: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """CMD_A :: CMD_B as two command lines; UserError where it is not that."""
    if list(words).count(SEPARATOR) != 1:
        raise UserError(
            f"Two commands are needed behind --, with one {SEPARATOR} between them.",
            "Write: kentry stat -- ./old --loops 10 :: ./new --loops 10",
        )
    at = list(words).index(SEPARATOR)
    old, new = tuple(words[:at]), tuple(words[at + 1 :])
    if not old or not new:
        raise UserError(
            f"One side of {SEPARATOR} has no command.",
            f"Write: kentry stat -- CMD_A {SEPARATOR} CMD_B",
        )
    return old, new


def compare_programs(
    place: Place,
    programs: Programs,
    plan: Plan,
    runs: Runs,
    update: Update,
    clock: Callable[[], float] = time.monotonic,
) -> Result:
    """Runs them A B B A or B A A B until a planned look decides, or the time is over.

    What they printed is in `runs`, however it ends.
    """
    order = random.Random(1)  # noqa: S311
    began = clock()
    one_round(place, programs, runs, order, update)
    seconds = max(clock() - began, 1e-6)
    planned = max(LEAST_ROUNDS, plan.groups or min(MOST_ROUNDS, int(plan.seconds / seconds)))
    looks = plan.looks()
    for look in looks:
        wanted = max(LEAST_ROUNDS, round(planned * look.fraction))
        while len(runs.rounds) < wanted:
            update(len(runs.rounds) / planned, f"round {len(runs.rounds) + 1} of at most {planned}")
            one_round(place, programs, runs, order, update)
        found = judged(runs, programs, plan, look)
        if found.verdict != UNDECIDED:
            break
    return Result(found, look, len(looks))


def judged(runs: Runs, programs: Programs, plan: Plan, look: Look) -> Comparison:
    """New against old, as the rounds are now."""
    groups = [Group(0, old, new) for old, new in runs.rounds]
    return compare_groups(
        groups,
        threshold=plan.threshold,
        confidence=plan.confidence,
        looks=look,
        higher_is_better=programs.higher_is_better,
    )


def one_round(
    place: Place, programs: Programs, runs: Runs, order: random.Random, update: Update
) -> None:
    """Four runs: A B B A, or B A A B."""
    names = "abba" if order.random() < 0.5 else "baab"
    runs.started.clear()
    for name in names:
        argv = programs.old if name == "a" else programs.new
        runs.started.append((name, _one(place, argv, programs, runs)))
    values = {name: [value for of, value in runs.started if of == name] for name in "ab"}
    runs.rounds.append(((values["a"][0], values["a"][1]), (values["b"][0], values["b"][1])))
    runs.started.clear()


def _one(place: Place, argv: Sequence[str], programs: Programs, runs: Runs) -> float:
    ran = place.run_command(argv, programs.timeout)
    shown = command_line(argv)
    if ran.status != 0:
        raise PlaceError(
            f"'{shown}' failed with status {ran.status} after {runs.count} good runs.",
            "Run it by hand; what was measured before is kept.",
            ran.stderr[-2000:],
        )
    value = number_in(ran.stdout, programs.pattern)
    if value is None:
        raise PlaceError(
            f"'{shown}' printed no number"
            + (f" that matches {programs.pattern.pattern}." if programs.pattern else "."),
            "It must print one to standard output; --number REGEX says which.",
            ran.stdout[-2000:],
        )
    if not 0 < value < math.inf:
        raise PlaceError(
            f"'{shown}' printed {value:g}; ratios need numbers above 0.",
            "--number REGEX says which of its numbers is meant.",
        )
    return value


def number_in(text: str, pattern: re.Pattern[str] | None) -> float | None:
    """The number meant: the last one printed, or the last that matches; None without one."""
    if pattern is not None:
        matches = list(pattern.finditer(text))
        if not matches:
            return None
        text = next((of for of in matches[-1].groups() if of is not None), matches[-1][0])
    words = _NUMBER.findall(text)
    return _value(words[-1]) if words else None


def _value(word: str) -> float | None:
    plain = (
        word.replace(",", "") if _GROUPED.fullmatch(word) else word.rstrip(",").replace(",", ".")
    )
    try:
        return float(plain)
    except ValueError:
        return None
