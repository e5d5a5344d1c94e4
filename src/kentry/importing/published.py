# SPDX-License-Identifier: GPL-2.0-or-later
"""Numbers as another tool printed them, with every digit."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from statistics import median

from kentry.results.recording import NoisyMetric, TimedProcess

# What a number may lack, beside the interval, which all of them lack.
REPETITIONS, VALUE, TIMER = "repetitions", "value", "timer frequency"
# The case where the output does not name the system call.
SYSCALL = "syscall"
# Metrics by their names in a recording.  `all-instructions` counts user instructions, the
# kernel's and everything else that ran.
NS, CYCLES, OPS, TICKS, ALL_INSTRUCTIONS = "ns", "cycles", "ops_per_s", "ticks", "all-instructions"
# Units in which a text may give a number, and the metric that each is of.
UNITS = {
    "ns": NS,
    "us": NS,
    "cycles": CYCLES,
    "ops/s": OPS,
    "ticks": TICKS,
    "instructions": ALL_INSTRUCTIONS,
}
# The unit of each metric in a recording; a text may have another, such as us or lps.
_RECORDED = {metric: unit for unit, metric in reversed(UNITS.items())}
# Appended to the metric where only a percentage of an unpublished value was published.
OF_BASE = "-of-base"
_MOST_DIGITS = 18


@dataclass(frozen=True)
class Number:
    """One published measurement.

    `published` and `unit` are as in the file, `side` is what it calls the kernel or the set-up.
    `scale` makes it a value per call; microseconds become nanoseconds.  `percent_of` says of what
    a number in "%" is.  `lacks` is what it lacks besides an interval.
    """

    line: int
    side: str
    case: str
    metric: str
    published: str
    unit: str
    scale: Decimal = Decimal(1)
    percent_of: str = ""
    lacks: tuple[str, ...] = (REPETITIONS,)

    @property
    def about(self) -> bool:
        """Whether it was published as "about" that: "~200"."""
        return self.published.startswith("~")

    @property
    def value(self) -> Decimal:
        """What was published, in `unit`."""
        return Decimal(self.published.lstrip("~").replace(",", ""))

    @property
    def is_plausible(self) -> bool:
        """Whether it is a number at all, of at most 18 digits and below 10^18."""
        try:
            digits = len(self.value.as_tuple().digits)
            return digits <= _MOST_DIGITS and abs(self.amount) < 10**_MOST_DIGITS
        except ArithmeticError:
            return False

    @property
    def amount(self) -> Decimal:
        """The value per call, in the metric's unit."""
        return self.value * self._factor

    @property
    def _factor(self) -> Decimal:
        return self.scale * 1000 if self.unit == "us" else self.scale

    @property
    def half_digit(self) -> Decimal:
        """How far the amount may be from the value before it was rounded.

        242.9 stands for 242.85 to 242.95; "about 10" for a range twice as wide as that of 10.
        """
        exponent = self.value.as_tuple().exponent
        assert isinstance(exponent, int)
        return Decimal(1).scaleb(exponent) * self._factor / (1 if self.about else 2)


@dataclass(frozen=True)
class Samples:
    """The numbers of one side, case and metric: repetitions of one measurement."""

    numbers: tuple[Number, ...]

    @property
    def first(self) -> Number:
        """The first in the file; side, case, metric and unit are the same in all."""
        return self.numbers[0]

    @cached_property
    def middle(self) -> Decimal:
        """The median, per call, in the metric's unit."""
        return median(number.amount for number in self.numbers)

    @property
    def lines(self) -> str:
        """The lines they stand on: "45-47", "45"."""
        first, last = self.first.line, self.numbers[-1].line
        return str(first) if first == last else f"{first}-{last}"

    def change_from(self, base: Samples) -> str:
        """Return the change, "-5.2%", in digits that the printed ones support; "" if base is 0."""
        old_half = median(number.half_digit for number in base.numbers)
        new_half = median(number.half_digit for number in self.numbers)
        if base.middle <= old_half:
            return ""
        ratio = self.middle / base.middle
        half = 100 * (new_half + old_half * ratio) / base.middle
        text = f"{100 * (ratio - 1):+.{1 if half < Decimal('0.5') else 0}f}"
        return f"{text if float(text) else '0'}%"

    def noisy_metric(self) -> NoisyMetric:
        """Make a recording's metric; -6 per cent of a base is 94, in the unit "percent"."""
        first, count = self.first, len(self.numbers)
        base = Decimal(100 if first.percent_of else 0)
        # Repeats in one file are repetitions.
        lacks = [word for word in first.lacks if count == 1 or word != REPETITIONS]
        return NoisyMetric(
            value=float(base + self.middle),
            unit="percent" if first.percent_of else _RECORDED[first.metric],
            samples=tuple(
                TimedProcess(0, 0, place, 0, 1, 0, (float(base + number.amount),))
                for place, number in enumerate(self.numbers)
            ),
            estimator=f"median of {count} published values" if count > 1 else "one published value",
            absent=("interval", *lacks, "kernel", "config", "interleaving"),
        )


def samples(numbers: Iterable[Number]) -> list[Samples]:
    """Group the numbers by side, case and metric, in the order of the file."""
    groups: dict[tuple[str, str, str], list[Number]] = {}
    for number in numbers:
        groups.setdefault((number.side, number.case, number.metric), []).append(number)
    return [Samples(tuple(group)) for group in groups.values()]


# A line "Before:", "-- baseline --" or "## After the patch" names the side of what follows.
_HEADING = re.compile(r"(?:[-=*]{2,}|#{2,})\s*(\w[^:|]{0,71}?)\s*[-=*:]*|(\w[^:|]{0,71}):")
# It is none if it has the punctuation, the length or a verb of a sentence.
_SENTENCE = re.compile(
    r"[.,;?!](?:\s|$)|(?:\S+\s+){7}"
    r"|\b(?:I|we|you|it|here|is|are|was|were|be|has|have|had|do|does|did|see|wrote|shows?)\b",
    re.IGNORECASE,
)
# It is none below a line of prose, which has no digit, or above a list.
_PROSE = re.compile(r"\s*[^\W\d]\S*\s\D*(?<![\s:-])\s*")
_LIST = re.compile(r"\s*[-*+] ")
# No reader knows a longer line.
_LONGEST_LINE = 4000
_ESCAPE = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|.)")


@dataclass(frozen=True)
class Text:
    """The lines of the file `name`, without escape sequences and control characters.

    `sides` has the last heading above each line, "" without one.
    """

    name: str
    lines: list[str]
    sides: list[str]

    def __iter__(self) -> Iterator[tuple[int, str, str]]:
        return zip(range(1, len(self.lines) + 1), self.sides, self.lines, strict=True)


def parse_text(name: str, content: str) -> Text:
    """Split `content` into lines, whatever ends them."""
    lines = []
    for line in re.split(r"\r\n|\r|\n", content):
        text = _ESCAPE.sub("", line[:_LONGEST_LINE]).replace("\t", "        ")
        lines.append("".join(char for char in text if char.isprintable()))
    sides = [""]
    for before, line, after in zip(["", *lines], lines, lines[1:], strict=False):
        match = _HEADING.fullmatch(line.strip())
        heading = (match[1] or match[2]) if match else ""
        is_text = heading in ("", "commit") or _SENTENCE.search(heading)
        if is_text or _LIST.match(after) or _PROSE.fullmatch(before):
            heading = sides[-1]
        sides.append(heading)
    return Text(name, lines, sides)
