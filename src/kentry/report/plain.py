# SPDX-License-Identifier: GPL-2.0-or-later
"""Old names of report.table and report.numbers, for modules that still import them."""

from __future__ import annotations

from kentry.report.numbers import signed
from kentry.report.table import ascii_lines, plain, shortened, wrapped

__all__ = ["ascii_lines", "percent", "plain", "shortened", "signed", "wrapped"]


def percent(delta: int, old: int, digits: int = 1) -> str:
    """`delta` in per cent of `old`, without the sign of per cent."""
    from kentry.report.numbers import change

    return change(delta, old, digits).removesuffix(" %")
