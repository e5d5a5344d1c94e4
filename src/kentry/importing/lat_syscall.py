# SPDX-License-Identifier: GPL-2.0-or-later
"""lmbench's lat_syscall: "Simple syscall: 0.2365 microseconds", also with two values a line."""

from __future__ import annotations

import re
from decimal import Decimal

from kentry.importing.numbers import INTERVAL, NS, REPETITIONS, Number, Reading
from kentry.importing.text import Document

NAME = "lat_syscall"

_LINE = re.compile(
    r"Simple (syscall|read|write|stat|fstat|open/close): *`?(\d+(?:\.\d+)?)`?"
    r"(?: */ *(\d+(?:\.\d+)?))? +microseconds"
)
_CASES = {"syscall": "getppid", "open/close": "openat+close"}
_NS_PER_US = Decimal(1000)


def read(document: Document) -> Reading:
    """Every line of it; repeats of one heading are repetitions."""
    found = Reading()
    for line in document.lines:
        match = _LINE.search(line.text)
        if not match:
            continue
        side = document.side(line.number)
        # "standard kernel / kernel after patch", as people put two runs into one line.
        sides = ("before", "after") if match[3] else (side, "")
        for written, name in zip(match.groups()[1:], sides, strict=True):
            if written is None:
                continue
            found.add(
                Number(
                    line=line.number,
                    text=line.text.strip(),
                    format=NAME,
                    side=name,
                    case=_CASES.get(match[1], match[1]),
                    metric=NS,
                    unit="us",
                    written=written,
                    value=Decimal(written),
                    scale=_NS_PER_US,
                    absent=(INTERVAL, REPETITIONS),
                )
            )
    return found
