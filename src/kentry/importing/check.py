# SPDX-License-Identifier: GPL-2.0-or-later
"""Whether what a text claims follows from the measurements in it.

A percentage is re-derived against both of the numbers it may be of, with the ranges that their
printed digits leave.  A claim with no measurement behind it is said to be that, never wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from kentry.importing.numbers import (
    UNITS,
    Check,
    Claim,
    Group,
    Number,
    Range,
    groups,
    half_digit,
    percent,
    percent_range,
    plain_number,
    rounded,
    significant,
)

# A text with more pairs than that is a table, and its sentences are about parts of it.
_MOST_PAIRS = 6
# A claim that fits nothing is wrong only if it stands so close to the numbers, in lines.
_NEAR = 2
# Behind the point of a percentage: no published pair supports more.
_MOST_DIGITS = 1


@dataclass(frozen=True)
class Pair:
    """Two sides of one case and metric, in the order of the text."""

    old: Group
    new: Group

    @property
    def unit(self) -> str:
        """The published unit."""
        return self.old.numbers[0].unit

    @property
    def ordered(self) -> tuple[Group, Group]:
        """The smaller one first."""
        return (self.old, self.new) if self.old.middle <= self.new.middle else (self.new, self.old)


def pairs_of(numbers: Sequence[Number]) -> list[Pair]:
    """The cases and metrics that have exactly two sides."""
    found: dict[tuple[str, str, str], list[Group]] = {}
    for group in groups(one for one in numbers if not one.relative_to):
        found.setdefault(group.key, []).append(group)
    return [Pair(*sides) for sides in found.values() if len(sides) == 2]


def check_claims(claims: Sequence[Claim], numbers: Sequence[Number]) -> dict[Claim, Check]:
    """The claims that some measurements of the text are behind, or should be."""
    pairs = pairs_of(numbers)
    if not pairs or len(pairs) > _MOST_PAIRS:
        return {}
    found = {}
    for claim in claims:
        check = _percentage(claim, pairs) if claim.unit == "%" else _difference(claim, pairs)
        if check:
            found[claim] = check
    return found


def _claimed(claim: Claim) -> Range:
    """What a claim leaves open: its last digit, and above or below it if it says so."""
    exact = rounded(abs(claim.value), claim.about)
    high = rounded(claim.upper).high if claim.upper else exact.high
    # "By 1000" beside "more than": a bound is never exact.
    if claim.bound > 0:
        return Range(exact.low, Decimal("Infinity"))
    return Range(Decimal(0), high) if claim.bound < 0 else Range(exact.low, high)


def _changes(pair: Pair) -> tuple[Range | None, Range | None]:
    """The increase in per cent of the smaller, and the decrease in per cent of the larger."""
    low, high = pair.ordered
    more = percent_range(low.range, high.range)
    less = percent_range(high.range, low.range)
    return more, (Range(-less.high, -less.low) if less else None)


def _percentage(claim: Claim, pairs: Sequence[Pair]) -> Check | None:
    claimed = _claimed(claim)
    other: Pair | None = None
    for pair in pairs:
        more, less = _changes(pair)
        wanted = {1: (more,), -1: (less,), 0: (more, less)}[claim.direction]
        if any(change and change.meets(claimed) for change in wanted):
            return Check(claim.line, claim.written, _formula(pair), holds=True)
        if any(change and change.meets(claimed) for change in (more, less)) and not claim.bound:
            other = other or pair
    if other and claim.direction:
        return Check(claim.line, claim.written, _formula(other), False, _other_base(claim, other))
    near = next((pair for pair in pairs if _is_near(claim, pair)), None)
    if near and claim.direction and not claim.bound:
        return Check(claim.line, claim.written, _formula(near), False, _formula(near))
    return None


def _is_near(claim: Claim, pair: Pair) -> bool:
    lines = [number.line for group in (pair.old, pair.new) for number in group.numbers]
    return min(lines) - _NEAR <= claim.line <= max(lines) + _NEAR


def _values(pair: Pair) -> str:
    return f"{pair.old.shown} -> {pair.new.shown} {pair.unit}"


def _formula(pair: Pair) -> str:
    change = percent(pair.old.middle, pair.new.middle) if pair.old.middle else Decimal(0)
    return f"{_values(pair)} is {significant(change, 3):+f}% of {pair.old.shown}"


def _other_base(claim: Claim, pair: Pair) -> str:
    """Which number the claim is a percentage of, and which it says it is of."""
    low, high = pair.ordered
    if claim.direction > 0:
        change, base, wrong, what = percent(low.middle, high.middle), low, high, "decrease from"
        first, second = low, high
    else:
        change, base, wrong, what = percent(high.middle, low.middle), high, low, "increase from"
        first, second = high, low
    return (
        f"{first.shown} -> {second.shown} {pair.unit} is {significant(change, 3):+f}% of"
        f" {base.shown}; {plain_number(abs(claim.value))}% is the {what} {wrong.shown}"
    )


def _difference(claim: Claim, pairs: Sequence[Pair]) -> Check | None:
    """A claim in the metric's own unit: "save about 10ns"."""
    fitting = [pair for pair in pairs if UNITS.get(claim.unit) and pair.old.key[1] == claim.unit]
    if not fitting:
        return None
    claimed = _claimed(claim)
    for pair in fitting:
        low, high = pair.ordered
        gap = Range(high.range.low - low.range.high, high.range.high - low.range.low)
        if gap.meets(claimed):
            return Check(claim.line, claim.written, _gap(pair, claim.unit), holds=True)
    near = fitting[0]
    if len(fitting) > 1 and not _is_near(claim, near):
        return None
    text = _gap(near, claim.unit)
    return Check(claim.line, claim.written, text, holds=False, better=text)


def _gap(pair: Pair, metric: str) -> str:
    low, high = pair.ordered
    gap = high.middle - low.middle
    digits = significant(gap, 3)
    return (
        f"{pair.old.shown} -> {pair.new.shown} {pair.unit} is"
        f" {'-' if high is pair.old else '+'}{plain_number(digits)} {UNITS[metric]}"
    )


def change_digits(old: Group, new: Group) -> str:
    """The change from `old` to `new` in per cent of `old`, no digit beyond the published ones."""
    change = percent_range(old.range, new.range)
    if change is None:
        return ""
    value = percent(old.middle, new.middle)
    half = (change.high - change.low) / 2
    digits = 0
    while digits < _MOST_DIGITS and half < half_digit(Decimal(1).scaleb(-digits)):
        digits += 1
    text = f"{value:+.{digits}f}"
    return f"{text if float(text) else '0'}%"
