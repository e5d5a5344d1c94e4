# SPDX-License-Identifier: GPL-2.0-or-later
"""fp-pidbench, the kernel's arm64 selftest: ticks of the system timer for so many getpid."""

from __future__ import annotations

import re
from decimal import Decimal

from kentry.importing.numbers import INTERVAL, REPETITIONS, TICKS, TIMER, Number, Reading
from kentry.importing.text import Document

NAME = "fp-pidbench"

_ITERATIONS = re.compile(r"Iterations per test:\s*(\d+)")
_LENGTH = re.compile(r"SVE VL:\s*(\d+)")
_LINE = re.compile(r"(No SVE after SVE|No SVE|SVE used once|SVE used per syscall):\s*(\d+)")
_USES = {
    "No SVE": "none",
    "SVE used once": "once",
    "SVE used per syscall": "each",
    "No SVE after SVE": "after",
}
# QEMU's cpu model has this length where a case's name says none.
_USUAL_LENGTH = 128


def read(document: Document) -> Reading:
    """The totals, divided by the iterations that stand above them."""
    found = Reading()
    iterations, length, begun = Decimal(0), _USUAL_LENGTH, 0
    for line in document.lines:
        if match := _ITERATIONS.search(line.text):
            iterations, length, begun = Decimal(match[1]), _USUAL_LENGTH, line.number
        elif match := _LENGTH.search(line.text):
            length = int(match[1])
        elif (match := _LINE.search(line.text)) and iterations:
            state = f"+vec={_USES[match[1]]}"
            if length != _USUAL_LENGTH and match[1] != "No SVE":
                state += f"+vl={length}"
            found.add(
                Number(
                    line=line.number,
                    text=line.text.strip(),
                    format=NAME,
                    side=document.side(begun),
                    case=f"getpid{state}",
                    metric=TICKS,
                    unit="ticks",
                    written=match[2],
                    value=Decimal(match[2]),
                    scale=1 / iterations,
                    absent=(INTERVAL, REPETITIONS, TIMER),
                )
            )
    return found
