# SPDX-License-Identifier: GPL-2.0-or-later
"""The formats of numbers: no digit too many, no zero that is none."""

import math
from collections.abc import Callable

import pytest

from kentry.results.comparison import decimals
from kentry.show import numbers


@pytest.mark.parametrize(
    ("function", "arguments", "text"),
    [
        (numbers.signed, (2,), "+2"),
        (numbers.signed, (-3,), "-3"),
        (numbers.signed, (0,), "0"),
        (numbers.significant, (0, 6), "0"),
        (numbers.significant, (1234567.0, 6), "1234567"),
        (numbers.significant, (0.0001234567, 3), "0.000123"),
        (numbers.significant, (3e-7, 6), "0.0000003"),
        (numbers.per_call, (310, 1), "310"),
        (numbers.per_call, (10, 4), "2.5"),
        (numbers.per_call, (1, 16), "0.0625"),
        (numbers.per_call, (32, 16), "2"),
        (numbers.duration, (1,), "1 ns"),
        (numbers.duration, (99_950,), "100 us"),
        (numbers.duration, (10**7,), "10 ms"),
        (numbers.duration, (1.5e9,), "1.5 s"),
        # A change is not printed as zero, and one below all decimals has some.
        (numbers.change, (2, 310), "+0.6 %"),
        (numbers.change, (-1, 100_000), "-0.001 %"),
        (numbers.change, (0, 5), "+0.0 %"),
        (numbers.change, (5, 0), "from 0"),
        (numbers.change, (5, 10**4000), "+0.00000000000 %"),
        (numbers.change, (1e-300, 1e300), "+0.00000000000 %"),
        (numbers.change, (1, -math.inf), "-0.00000000000 %"),
        (numbers.percent, (0.3141,), "0.31 %"),
        (numbers.percent, (12.0,), "12 %"),
        (numbers.percent, (None,), "-"),
        (numbers.percent, (math.inf,), "-"),
        (numbers.fixed_percent, (0.384, 1), "0.4 %"),
        (numbers.fixed_percent, (0.04, 1), "0.04 %"),
        (numbers.fixed_percent, (0, 1), "0.0 %"),
        (numbers.share, (1, 2), "50.0 %"),
        (numbers.share, (1, 10**6), "<0.1 %"),
        (numbers.share, (10**6 - 1, 10**6), ">99.9 %"),
        (numbers.share, (0, 3), "0.0 %"),
        (numbers.share, (3, 3), "100.0 %"),
        (numbers.share, (1, 0), "-"),
        # A confidence is never whole.
        (numbers.level, (0.99,), "99 %"),
        (numbers.level, (0.999967,), "99.9967 %"),
        (numbers.level, (0.9999999,), "99.99999 %"),
        # A value, and a change, has its interval's digits.
        (numbers.with_interval, (310.1234, (310.0, 310.3)), ("310.1", "[310.0, 310.3]")),
        (numbers.with_interval, (310.1234, None), ("310.123", "")),
        (numbers.with_interval, (2, (2, 2)), ("2", "[2, 2]")),
        (numbers.fixed, (1234.5, -2), "1200"),
        (numbers.change_with_interval, (1.0234, (0.96, 1.08)), "+1.02 % [+0.96, +1.08]"),
        (numbers.change_with_interval, (1.0234, None), "+1.0 %, no interval"),
        (numbers.change_with_interval, (1.0234, (-math.inf, math.inf)), "+1.0 %, no interval"),
    ],
)
def test_a_number_is_printed_so(
    function: Callable[..., object], arguments: tuple[object, ...], text: object
) -> None:
    assert function(*arguments) == text


@pytest.mark.parametrize(
    ("half", "digits"), [(0.05, 2), (1.0, 0), (50.0, -1), (1e-9, 1), (math.nan, 1), (1e-5, 4)]
)
def test_decimals_end_at_the_first_digit_of_half_an_interval(half: float, digits: int) -> None:
    assert decimals(half) == digits
