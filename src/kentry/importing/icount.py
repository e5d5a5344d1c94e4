# SPDX-License-Identifier: GPL-2.0-or-later
"""Instructions of a whole emulated machine, an interval a line: time, dur (ns), count."""

from __future__ import annotations

import re
from decimal import Decimal

from kentry.importing.numbers import INTERVAL, Number, Reading
from kentry.importing.text import Document

NAME = "icount"
CASE = "whole-machine"
METRIC = "instructions_per_s"

_LINE = re.compile(r"\btime:\s*\d+,\s*dur:\s*(\d+),\s*count:\s*(\d+)")
_NS_PER_S = Decimal(10**9)


def read(document: Document) -> Reading:
    """Each interval's instructions, a second."""
    found = Reading()
    for line in document.lines:
        match = _LINE.search(line.text)
        if not match or not int(match[1]):
            continue
        found.add(
            Number(
                line=line.number,
                text=line.text.strip(),
                format=NAME,
                side=document.side(line.number),
                case=CASE,
                metric=METRIC,
                unit="insns",
                written=match[2],
                value=Decimal(match[2]),
                scale=_NS_PER_S / Decimal(match[1]),
                absent=(INTERVAL,),
            )
        )
    return found
