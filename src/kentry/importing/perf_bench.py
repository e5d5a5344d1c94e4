# SPDX-License-Identifier: GPL-2.0-or-later
"""perf bench syscall: usecs/op and ops/sec, which are one measurement and must agree.

ops/sec is printed with the locale's digit grouping (tools/perf/bench/syscall.c), so the same
number is 5110201, 5,110,201, 5.110.201 or 51,10,201.
"""

from __future__ import annotations

import re
from decimal import Decimal

from kentry.importing.agree import time_and_rate, total_and_time
from kentry.importing.numbers import INTERVAL, NS, OPS, REPETITIONS, Number, Reading
from kentry.importing.text import Document, Line, case_of

NAME = "perf bench"

_USECS = re.compile(r"(?<![\w.,])(\d+[.,]\d+)\s+usecs/op\b")
_RATE = re.compile(r"(?<![\w.,])(\d[\d., '\u2019]*)\s+ops/sec\b")
_EXECUTED = re.compile(r"Executed\s+(\d[\d., '\u2019]*)\s+(\w+)\(\)\s+calls")
_TOTAL = re.compile(r"Total time:\s*(\d+\.\d+)\s*\[?sec")
_RUNNING = re.compile(r"Running '?(\w+/\w+)'? benchmark")
# Lines from usecs/op to its ops/sec.
_NEAR = 3
_NS_PER_US = Decimal(1000)


def count(text: str) -> Decimal:
    """A whole number with whatever groups its digits."""
    return Decimal(re.sub(r"\D", "", text))


def read(document: Document) -> Reading:
    """Every run; its two or three cells checked against each other."""
    found = Reading()
    calls: Decimal | None = None
    total: Decimal | None = None
    case = ""
    for line in document.lines:
        running, executed = _RUNNING.search(line.text), _EXECUTED.search(line.text)
        if running:
            case, calls, total = "", None, None
        elif executed:
            calls, case = count(executed[1]), case_of(f"{executed[2]}()") or executed[2]
        elif seconds := _TOTAL.search(line.text):
            total = Decimal(seconds[1])
        usecs = _USECS.search(line.text)
        if not usecs:
            continue
        value = Decimal(usecs[1].replace(",", "."))
        _time(found, document, line, value, case or document.case)
        _rate(found, document, line, value, case or document.case)
        if calls and total:
            found.checks.append(total_and_time(line.number, total, calls, value))
        calls = total = None
    return found


def _time(found: Reading, document: Document, line: Line, value: Decimal, case: str) -> None:
    found.add(
        Number(
            line=line.number,
            text=line.text.strip(),
            format=NAME,
            side=document.side(line.number),
            case=case,
            metric=NS,
            unit="us",
            written=str(value),
            value=value,
            scale=_NS_PER_US,
            absent=(INTERVAL, REPETITIONS),
        )
    )


def _rate(found: Reading, document: Document, line: Line, usecs: Decimal, case: str) -> None:
    """The ops/sec that belongs to a usecs/op: on the same line, or just below."""
    for near in document.lines[line.number - 1 : line.number + _NEAR]:
        if near.number > line.number and _USECS.search(near.text):
            return
        rate = _RATE.search(near.text)
        if rate:
            value = count(rate[1])
            found.add(
                Number(
                    line=near.number,
                    text=near.text.strip(),
                    format=NAME,
                    side=document.side(line.number),
                    case=case,
                    metric=OPS,
                    unit="ops/s",
                    written=str(value),
                    value=value,
                    absent=(INTERVAL, REPETITIONS),
                )
            )
            found.checks.append(time_and_rate(near.number, usecs, value))
            return
