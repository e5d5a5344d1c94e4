# SPDX-License-Identifier: GPL-2.0-or-later
"""lmbench's lat_syscall: "Simple syscall: 0.2365 microseconds"."""

import re
from collections.abc import Iterator
from decimal import Decimal

from kentry.importing.published import NS, Number, Text

_LINE = re.compile(
    r"Simple (syscall|read|write|stat|fstat|open/close): (\d+(?:\.\d+)?) microseconds"
)
_CASES = {"syscall": "getppid", "open/close": "openat+close"}


def read(text: Text) -> Iterator[Number]:
    """Every result; repeats under one heading are samples."""
    for number, line in text:
        if match := _LINE.search(line):
            case = _CASES.get(match[1], match[1])
            yield Number(number, text.side(number), case, NS, match[2], "us", Decimal(1000))
