# SPDX-License-Identifier: GPL-2.0-or-later
"""fp-pidbench, the kernel's arm64 selftest: ticks of the system timer for a loop of getpid."""

import re
from collections.abc import Iterator
from decimal import Decimal

from kentry.importing.published import REPETITIONS, TICKS, TIMER, Number, Text

_ITERATIONS = re.compile(r"Iterations per test:\s*(\d+)")
_LENGTH = re.compile(r"SVE VL:\s*(\d+)")
_TOTAL = re.compile(r"(No SVE after SVE|No SVE|SVE used once|SVE used per syscall):\s*(\d+)")
_USES = {
    "No SVE": "none",
    "SVE used once": "once",
    "SVE used per syscall": "each",
    "No SVE after SVE": "after",
}
# A case's name without a length means this one.
_DEFAULT_LENGTH = "128"


def read(text: Text) -> Iterator[Number]:
    """The totals, divided by the iterations that are printed above them."""
    iterations, length, side = Decimal(0), _DEFAULT_LENGTH, ""
    for number, line in text:
        if match := _ITERATIONS.search(line):
            iterations, length, side = Decimal(match[1]), _DEFAULT_LENGTH, text.side(number)
        elif match := _LENGTH.search(line):
            length = match[1]
        elif (match := _TOTAL.search(line)) and iterations:
            case = f"getpid+vec={_USES[match[1]]}"
            if length != _DEFAULT_LENGTH and match[1] != "No SVE":
                case += f"+vl={length}"
            scale, lacks = 1 / iterations, (REPETITIONS, TIMER)
            yield Number(number, side, case, TICKS, match[2], "ticks", scale, lacks=lacks)
