# SPDX-License-Identifier: GPL-2.0-or-later
"""UnixBench: a program's raw "COUNT|n|1|lps", and the report's lines about system calls."""

import re
from collections.abc import Iterator
from decimal import Decimal

from kentry.importing.published import OPS, Number, Text

_COMMAND = re.compile(r"\./(syscall|pipe|execl|spawn|context1)\s+(\d+)(?:\s+(\w+))?")
_COUNT = re.compile(r"COUNT\|(\d+)\|\d+\|lp[sm]\b")
_TIME = re.compile(r"TIME\|(\d+(?:\.\d+)?)")
_COPIES = re.compile(r"running (\d+) parallel cop", re.I)
# What one loop of each test is, by the test's and by its program's name.  syscall runs "mix"
# unless it is told otherwise: close(dup(0)), getpid, getuid and umask.
_TESTS = {
    "System Call Overhead": "unixbench-mix",
    "Pipe Throughput": "pipe",
    "Pipe-based Context Switching": "pingpong",
    "Process Creation": "fork+exit",
    "Execl Throughput": "execve",
}
_PROGRAMS = dict(
    zip(("syscall", "pipe", "context1", "spawn", "execl"), _TESTS.values(), strict=True)
)
_NAMES = "|".join(_TESTS)
_RESULT = re.compile(rf"({_NAMES})\s+(\d[\d.]*) lps\s+\(\d[\d.]* s, \d+ samples?\)")
_INDEX = re.compile(rf"({_NAMES})\s+\d[\d.]*\s+(\d[\d.]*)\s+\d[\d.]*\s*$")


def read(text: Text) -> Iterator[Number]:
    """Raw counts and the report's results; the table of indexes repeats the results."""
    copies = ""
    command: re.Match[str] | None = None
    results: set[tuple[str, str]] = set()
    for number, line in text:
        command = _COMMAND.search(line) or command
        if match := _COPIES.search(line):
            copies = f"/{match[1]}-copies" if match[1] != "1" else ""
        if match := _COUNT.search(line):
            # The seconds stand in the TIME line below, or else in the command above.
            times = (_TIME.search(below) for below in text.lines[number : number + 2])
            time = next(filter(None, times), None)
            seconds = Decimal(time[1] if time else command[2] if command else 0)
            mode = command[3] if command else None
            program = command[1] if command else "syscall"
            case = mode if mode and mode != "mix" else _PROGRAMS[program]
            if seconds:
                unit, side = f"in {seconds:f} s", text.side(number)
                yield Number(number, side, case, OPS, match[1], unit, 1 / seconds)
        elif match := _RESULT.search(line) or _INDEX.search(line):
            case, result = _TESTS[match[1]] + copies, match[2]
            if (case, result) not in results:
                results.add((case, result))
                yield Number(number, text.side(number), case, OPS, result, "lps", lacks=())
