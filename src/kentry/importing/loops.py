# SPDX-License-Identifier: GPL-2.0-or-later
"""Loops of getppid that people posted to linux-riscv, with the vector unit in use or not.

    V=1 242.9 ns/call (12144527848 ns / 50000000 iters)

and null_syscall, whose --vsetvli uses the unit once before the loop:

     iterations: 1000000000
       duration: 198 seconds
    avg latency: 198.73 ns
"""

from __future__ import annotations

import re
from decimal import Decimal

from kentry.importing.agree import seconds_and_each, total_and_each
from kentry.importing.numbers import INTERVAL, NS, REPETITIONS, Number, Reading
from kentry.importing.text import Document, Line

NAME = "getppid loop"

_LOOP = re.compile(r"(?:V=([01])\s+)?(\d+(?:\.\d+)?) ns/call(?:\s*\((\d+) ns / (\d+) iters\))?")
_ITERATIONS = re.compile(r"^\s*iterations:\s*(\d+)")
_DURATION = re.compile(r"^\s*duration:\s*(\d+(?:\.\d+)?)\s*seconds")
_AVERAGE = re.compile(r"^\s*avg latency:\s*(\d+(?:\.\d+)?)\s*ns")
_NULL_SYSCALL = re.compile(r"null_syscall(.*)$")
_STATES = {"0": "+vec=none", "1": "+vec=once", None: ""}


def read(document: Document) -> Reading:
    """Both programs' outputs; what they print is re-derived from their own totals."""
    found = Reading()
    state, top = "", 0
    calls = seconds = Decimal(0)
    for line in document.lines:
        if match := _LOOP.search(line.text):
            _loop(found, document, line, match)
        elif match := _NULL_SYSCALL.search(line.text):
            state = "+vec=once" if "--vsetvli" in match[1] else "+vec=none"
            top = line.number
        elif match := _ITERATIONS.match(line.text):
            calls, top = Decimal(match[1]), top or line.number
        elif match := _DURATION.match(line.text):
            seconds = Decimal(match[1])
        elif match := _AVERAGE.match(line.text):
            each = Decimal(match[1])
            found.add(_number(document, line, f"getppid{state}", match[1], top or line.number))
            if calls and seconds:
                found.checks.append(seconds_and_each(line.number, seconds, calls, each))
            calls = seconds = Decimal(0)
            top = 0
    return found


def _loop(found: Reading, document: Document, line: Line, match: re.Match[str]) -> None:
    # The program's own source has %.1f there, which is no number.
    case = f"getppid{_STATES[match[1]]}"
    found.add(_number(document, line, case, match[2], line.number))
    if match[3] and int(match[4]):
        found.checks.append(
            total_and_each(line.number, Decimal(match[3]), Decimal(match[4]), Decimal(match[2]))
        )


def _number(document: Document, line: Line, case: str, written: str, top: int) -> Number:
    return Number(
        line=line.number,
        text=line.text.strip(),
        format=NAME,
        side=document.side(top),
        case=case,
        metric=NS,
        unit="ns",
        written=written,
        value=Decimal(written),
        absent=(INTERVAL, REPETITIONS),
    )
