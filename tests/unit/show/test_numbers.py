# SPDX-License-Identifier: GPL-2.0-or-later
"""The formats of numbers: no digit too many, no zero that is none."""

import math

import pytest

from kentry.results.comparison import decimals
from kentry.show import numbers


@pytest.mark.parametrize(("value", "text"), [(2, "+2"), (-3, "-3"), (0, "0")])
def test_signed(value: int, text: str) -> None:
    assert numbers.signed(value) == text


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [(0, 6, "0"), (1234567.0, 6, "1234567"), (0.0001234567, 3, "0.000123"), (3e-7, 6, "0.0000003")],
)
def test_significant(value: float, digits: int, text: str) -> None:
    assert numbers.significant(value, digits) == text


@pytest.mark.parametrize(
    ("count", "calls", "text"), [(310, 1, "310"), (10, 4, "2.5"), (1, 16, "0.0625"), (32, 16, "2")]
)
def test_per_call(count: int, calls: int, text: str) -> None:
    assert numbers.per_call(count, calls) == text


@pytest.mark.parametrize(
    ("ns", "text"), [(1, "1 ns"), (99_950, "100 us"), (10**7, "10 ms"), (1.5e9, "1.5 s")]
)
def test_duration(ns: float, text: str) -> None:
    assert numbers.duration(ns) == text


@pytest.mark.parametrize(
    ("delta", "old", "text"), [(2, 310, "+0.6 %"), (-1, 100_000, "-0.001 %"), (0, 5, "+0.0 %")]
)
def test_a_change_is_not_printed_as_zero(delta: int, old: int, text: str) -> None:
    assert numbers.change(delta, old) == text


@pytest.mark.parametrize(("delta", "old"), [(5, 10**4000), (1e-300, 1e300), (1, -math.inf)])
def test_a_change_below_all_decimals_has_some(delta: float, old: float) -> None:
    assert numbers.change(delta, old).strip("+-") == "0.00000000000 %"


@pytest.mark.parametrize(
    ("value", "text"), [(0.3141, "0.31 %"), (12.0, "12 %"), (None, "-"), (math.inf, "-")]
)
def test_percent(value: float | None, text: str) -> None:
    assert numbers.percent(value) == text


@pytest.mark.parametrize(
    ("part", "whole", "text"),
    [
        (1, 2, "50.0 %"),
        (1, 10**6, "<0.1 %"),
        (10**6 - 1, 10**6, ">99.9 %"),
        (0, 3, "0.0 %"),
        (3, 3, "100.0 %"),
        (1, 0, "-"),
    ],
)
def test_share(part: int, whole: int, text: str) -> None:
    assert numbers.share(part, whole) == text


@pytest.mark.parametrize(
    ("confidence", "text"), [(0.99, "99 %"), (0.999967, "99.9967 %"), (0.9999999, "99.99999 %")]
)
def test_a_confidence_is_never_whole(confidence: float, text: str) -> None:
    assert numbers.level(confidence) == text


@pytest.mark.parametrize(
    ("half", "digits"), [(0.05, 2), (1.0, 0), (50.0, -1), (1e-9, 1), (math.nan, 1), (1e-5, 4)]
)
def test_decimals_end_at_the_first_digit_of_half_an_interval(half: float, digits: int) -> None:
    assert decimals(half) == digits


def test_a_value_has_its_intervals_digits() -> None:
    assert numbers.with_interval(310.1234, (310.0, 310.3)) == ("310.1", "[310.0, 310.3]")
    assert numbers.with_interval(310.1234, None) == ("310.123", "")
    assert numbers.with_interval(2, (2, 2)) == ("2", "[2, 2]")
    assert numbers.fixed(1234.5, -2) == "1200"


def test_a_change_has_its_intervals_digits() -> None:
    assert numbers.change_with_interval(1.0234, (0.96, 1.08)) == "+1.02 % [+0.96, +1.08]"
    assert numbers.change_with_interval(1.0234, None) == "+1.0 %, no interval"
    assert numbers.change_with_interval(1.0234, (-math.inf, math.inf)) == "+1.0 %, no interval"


@pytest.mark.parametrize(
    ("value", "digits", "text"), [(0.384, 1, "0.4 %"), (0.04, 1, "0.04 %"), (0, 1, "0.0 %")]
)
def test_a_small_percentage_is_not_printed_as_zero(value: float, digits: int, text: str) -> None:
    assert numbers.fixed_percent(value, digits) == text
