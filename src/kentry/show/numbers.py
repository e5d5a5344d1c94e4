# SPDX-License-Identifier: GPL-2.0-or-later
"""How numbers are printed: no digit beyond an interval, no 0 and no 100 % that are none."""

import math

from kentry.results.comparison import decimals

# A process's value has this many digits: a block is about 50000 ns, read to 1 ns.
SIGNIFICANT = 6
_MOST_DECIMALS = 12

Interval = tuple[float, float]


def signed(value: int) -> str:
    """Returns a change of a count with its sign: "+2", "-3", "0"."""
    return f"{value:+d}" if value else "0"


def significant(value: float, digits: int = SIGNIFICANT) -> str:
    """A number with this many significant digits and no exponent; "0" if it is not above 0."""
    if value <= 0:
        return "0"
    decimals = digits - 1 - math.floor(math.log10(value))
    text = f"{value:.{min(max(decimals, 0), _MOST_DECIMALS)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def number(value: float | None) -> str:
    """Returns a count as it is, a time or rate with six digits; "-" if it is not known."""
    if value is None:
        return "-"
    return significant(value) if isinstance(value, float) else str(value)


def per_call(count: int, calls: int) -> str:
    """A count per call: whole where it is, else one decimal, or three digits of less than 1."""
    value = count / calls
    if not count % calls:
        return str(count // calls)
    return f"{value:.1f}" if value > 1 else f"{value:.3g}"


def duration(ns: float) -> str:
    """Returns a time with its unit and three digits: "100 us", "1.5 s"."""
    units = (("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000))
    unit, size = next((pair for pair in units if ns >= pair[1]), ("ns", 1))
    return f"{ns / size:.3g} {unit}"


def change(delta: float, old: float, digits: int = 1) -> str:
    """Returns `delta` in per cent of `old`, with more decimals where these would make it zero."""
    if not old:
        return "from 0"
    for more in range(digits, _MOST_DECIMALS):
        text = f"{100 * delta / old:+.{more}f}"
        if not delta or float(text):
            break
    return f"{text} %"


def percent(value: float | None) -> str:
    """Returns a number of per cent with two significant digits; "-" if it is not known."""
    return "-" if value is None or not math.isfinite(value) else f"{significant(value, 2)} %"


def fraction(value: float | None) -> str:
    """Returns a fraction in per cent, as percent() does."""
    return percent(None if value is None else 100 * value)


def fixed_percent(value: float, digits: int) -> str:
    """Returns per cent with this many decimals, or one digit where these would be zero."""
    text = f"{value:.{digits}f}"
    return f"{text} %" if float(text) or not value else f"{value:.1g} %"


def share(part: float, whole: float) -> str:
    """Returns `part` in per cent of `whole`; "-" if there is no whole."""
    if not whole:
        return "-"
    digits = f"{100 * part / whole:.1f}"
    if part and digits == "0.0":
        return "<0.1 %"
    return ">99.9 %" if digits == "100.0" and part < whole else f"{digits} %"


def level(confidence: float) -> str:
    """An interval's confidence in per cent, with as many nines as it takes: it is never 100 %."""
    for digits in (4, 8, 12):
        text = f"{100 * confidence:.{digits}g}"
        if float(text) < 100:
            break
    return f"{text} %"


def fixed(value: float, digits: int) -> str:
    """Returns a number with this many decimals; less than 0 rounds it to tens."""
    return f"{round(value, digits):.{max(0, digits)}f}"


def with_interval(value: float, interval: Interval | None) -> tuple[str, str]:
    """The value and its interval in brackets, with the interval's digits; "" if there is none."""
    if interval is None:
        return significant(value), ""
    low, high = interval
    half = high / 2 - low / 2
    if half <= 0:
        return significant(value), f"[{significant(low)}, {significant(high)}]"
    digits = min(max(-math.floor(math.log10(half)), 0), _MOST_DECIMALS)
    return f"{value:.{digits}f}", f"[{low:.{digits}f}, {high:.{digits}f}]"


def change_with_interval(percent: float, interval: Interval | None) -> str:
    """Returns a change in per cent and its interval: "+1.02 % [+0.96, +1.08]"."""
    if interval is None or not all(map(math.isfinite, interval)):
        return f"{percent:+.1f} %, no interval"
    low, high = interval
    digits = max(0, decimals((high - low) / 2))
    return f"{percent:+.{digits}f} % [{low:+.{digits}f}, {high:+.{digits}f}]"
