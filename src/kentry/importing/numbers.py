# SPDX-License-Identifier: GPL-2.0-or-later
"""Numbers as someone published them: every digit kept, and what they lack said.

A published digit says how exact a number is: 242.9 may have been anything from 242.85 to 242.95.
Every check here is made with that range, so that rounding is never called a mistake.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from typing import NamedTuple

# What a number may lack.  An interval is lacking in all of them.
INTERVAL = "interval"
REPETITIONS = "repetitions"
KERNEL = "kernel"
CONFIG = "config"
INTERLEAVING = "interleaving"
VALUE = "value"
CALLS = "calls"
TIMER = "timer frequency"

# A case where the text does not say which system call it was.
SYSCALL = "syscall"

# The metrics, by kentry's names for them, and their units.
NS = "ns"
CYCLES = "cycles"
OPS = "ops_per_s"
TICKS = "ticks"
# User instructions, the kernel's and whatever else ran, together.
ALL_INSTRUCTIONS = "all-instructions"
UNITS = {
    NS: "ns",
    CYCLES: "cycles",
    OPS: "ops/s",
    TICKS: "ticks",
    ALL_INSTRUCTIONS: "instructions",
}

_TWO = Decimal(2)


class Range(NamedTuple):
    """From `low` to `high`: what a printed number may have been before it was rounded."""

    low: Decimal
    high: Decimal

    def meets(self, other: Range) -> bool:
        """Whether some number is in both."""
        return self.low <= other.high and other.low <= self.high

    def scaled(self, factor: Decimal) -> Range:
        """Each end times a factor that is not negative."""
        return Range(self.low * factor, self.high * factor)


def half_digit(value: Decimal) -> Decimal:
    """Half of the last printed digit's place."""
    exponent = value.as_tuple().exponent
    assert isinstance(exponent, int)
    return Decimal(1).scaleb(exponent) / _TWO


def rounded(value: Decimal, about: bool = False) -> Range:
    """The range that a printed number stands for; "about 10" says twice as little as "10"."""
    half = half_digit(value) * (2 if about else 1)
    return Range(value - half, value + half)


@dataclass(frozen=True)
class Number:
    """One measurement, as published.

    `written` is what stands in the text, `unit` its unit there; `value` * `scale` is in the unit
    of `metric`, a call.  `side` is what the text calls the kernel or the set-up, "" where it says
    nothing.  `relative_to` is what a published percentage is a percentage of, where that is all
    there is.  `absent` is what the number lacks.
    """

    line: int
    text: str
    format: str
    side: str
    case: str
    metric: str
    unit: str
    written: str
    value: Decimal
    scale: Decimal = Decimal(1)
    about: bool = False
    spread: str = ""
    statistic: str = ""
    relative_to: str = ""
    absent: tuple[str, ...] = ()

    @property
    def amount(self) -> Decimal:
        """A call's, in the metric's own unit."""
        return self.value * self.scale

    @property
    def range(self) -> Range:
        """What it may have been before it was rounded, in the metric's own unit."""
        return rounded(self.value, self.about).scaled(self.scale)

    @property
    def key(self) -> tuple[str, str, str]:
        """What must be the same in two numbers that are compared."""
        return (self.case, self.metric, self.statistic)

    @property
    def metric_name(self) -> str:
        """The metric's name in a recording: "ns", "ns-p99", "ns-change"."""
        words = (self.metric, self.statistic, "change" if self.relative_to else "")
        return "-".join(word for word in words if word)


@dataclass(frozen=True)
class Claim:
    """A number in a sentence that is not itself a measurement: "an approximately 6% overhead".

    `base` is what the sentence says it is of.  `direction` is +1 for an increase, -1 for a
    decrease, 0 where it may be either.  `bound` is +1 for "more than", -1 for "less than".
    """

    line: int
    text: str
    written: str
    unit: str
    value: Decimal
    base: str
    upper: Decimal | None = None
    direction: int = 0
    bound: int = 0
    about: bool = False


@dataclass(frozen=True)
class Check:
    """Two printed numbers that must agree: `said`, what it follows from, and whether it does.

    `better` is what would be right, where it does not hold.
    """

    line: int
    said: str
    formula: str
    holds: bool
    better: str = ""


@dataclass
class Reading:
    """What one format found: its numbers and checks, and the lines that it understood."""

    numbers: list[Number] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    lines: set[int] = field(default_factory=set)
    left_out: int = 0

    def add(self, number: Number) -> None:
        """Keeps a number; its line is understood."""
        self.numbers.append(number)
        self.lines.add(number.line)


@dataclass(frozen=True)
class Group:
    """The numbers of one side that are repetitions of each other."""

    side: str
    key: tuple[str, str, str]
    numbers: tuple[Number, ...]

    @cached_property
    def middle(self) -> Decimal:
        """The median, in the metric's own unit."""
        return median([number.amount for number in self.numbers])

    @cached_property
    def range(self) -> Range:
        """What the median may have been before its samples were rounded."""
        return Range(
            median([number.range.low for number in self.numbers]),
            median([number.range.high for number in self.numbers]),
        )

    @property
    def lines(self) -> str:
        """The lines they stand on: "45-47"."""
        return line_range(number.line for number in self.numbers)

    @property
    def shown(self) -> str:
        """The median in the published unit, with about as many digits as were published."""
        first = self.numbers[0]
        if len({number.amount for number in self.numbers}) == 1:
            return plain_number(first.value)
        return plain_number(significant(self.middle / first.scale))


def median(values: Sequence[Decimal]) -> Decimal:
    """The middle one, or the mean of the middle two."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / _TWO


def line_range(lines: Iterable[int]) -> str:
    """Line numbers in few characters: "45-47", "45"."""
    found = sorted(set(lines))
    return str(found[0]) if len(found) == 1 else f"{found[0]}-{found[-1]}"


def groups(numbers: Iterable[Number]) -> list[Group]:
    """The numbers of each side, case and metric together, in the order of the text."""
    found: dict[tuple[str, tuple[str, str, str]], list[Number]] = {}
    for number in numbers:
        found.setdefault((number.side, number.key), []).append(number)
    return [Group(side, key, tuple(found[side, key])) for side, key in found]


def significant(value: Decimal, digits: int = 4) -> Decimal:
    """Rounded to so many significant digits, or to whole numbers where it is longer."""
    if not value:
        return value
    return round(value, max(digits - 1 - value.adjusted(), 0))


def plain_number(value: Decimal) -> str:
    """Digits as a person writes them: no exponent."""
    return f"{value:f}"


def percent_range(old: Range, new: Range) -> Range | None:
    """The change from `old` to `new` in per cent of `old`; None where `old` may be nothing."""
    if old.low <= 0:
        return None
    ends = [100 * (n - o) / o for o in old for n in new]
    return Range(min(ends), max(ends))


def percent(old: Decimal, new: Decimal) -> Decimal:
    """The change in per cent of `old`, which is not 0."""
    return 100 * (new - old) / old
