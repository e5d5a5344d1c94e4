# SPDX-License-Identifier: GPL-2.0-or-later
"""Two printed cells of one measurement that must agree, as tools print them."""

from __future__ import annotations

from decimal import Decimal

from kentry.importing.numbers import Check, Range, plain_number, rounded, significant

_MILLION = Decimal(10**6)
_BILLION = Decimal(10**9)
_ONE = Decimal(1)


def time_and_rate(line: int, usecs: Decimal, rate: Decimal) -> Check:
    """Microseconds an operation, and operations a second (cut off, not rounded)."""
    said = f"{plain_number(usecs)} usecs/op beside {plain_number(rate)} ops/sec"
    # The program cuts the rate off to a whole number.
    time = rounded(usecs)
    if time.low <= 0 or rate <= 0:
        return Check(line, said, "", holds=True)
    expected = Range(_MILLION / time.high - _ONE, _MILLION / time.low)
    holds = expected.meets(rounded(rate))
    per_second = Decimal(int(_MILLION / usecs))
    digits = usecs.as_tuple().exponent
    assert isinstance(digits, int)
    better = (
        f"{plain_number(usecs)} usecs/op is {plain_number(per_second)} ops/sec; "
        f"{plain_number(rate)} ops/sec is {plain_number(round(_MILLION / rate, max(-digits, 0)))}"
        " usecs/op"
    )
    formula = f"1 / {plain_number(usecs)} us = {plain_number(per_second)} a second"
    return Check(line, said, formula, holds, "" if holds else better)


def total_and_time(line: int, seconds: Decimal, calls: Decimal, usecs: Decimal) -> Check:
    """A run's seconds (cut off), its calls, and microseconds a call."""
    last = Decimal(1).scaleb(_exponent(seconds))
    each = Range(seconds, seconds + last).scaled(_MILLION / calls)
    holds = each.meets(rounded(usecs))
    found = plain_number(significant(each.low))
    return Check(
        line,
        f"{plain_number(usecs)} usecs/op",
        f"{plain_number(seconds)} s / {plain_number(calls)} calls = {found} us",
        holds,
        "" if holds else f"{plain_number(seconds)} s over that many calls is {found} usecs/op",
    )


def total_and_each(line: int, total: Decimal, calls: Decimal, each: Decimal) -> Check:
    """A run's nanoseconds, its calls, and nanoseconds a call."""
    found = plain_number(significant(total / calls, 5))
    formula = f"{plain_number(total)} ns / {plain_number(calls)} calls = {found} ns"
    holds = rounded(total).scaled(_ONE / calls).meets(rounded(each))
    better = "" if holds else formula
    return Check(line, f"{plain_number(each)} ns", formula, holds, better)


def seconds_and_each(line: int, seconds: Decimal, calls: Decimal, each: Decimal) -> Check:
    """A run's seconds (cut off or rounded), its calls, and nanoseconds a call."""
    last = Decimal(1).scaleb(_exponent(seconds))
    whole = Range(seconds - last / 2, seconds + last).scaled(_BILLION / calls)
    low, high = (
        plain_number(significant(_BILLION / calls * s, 4)) for s in (seconds, seconds + last)
    )
    formula = f"{plain_number(seconds)} s / {plain_number(calls)} calls = {low} to {high} ns"
    holds = whole.meets(rounded(each))
    return Check(line, f"{plain_number(each)} ns", formula, holds, "" if holds else formula)


def _exponent(value: Decimal) -> int:
    exponent = value.as_tuple().exponent
    assert isinstance(exponent, int)
    return exponent
