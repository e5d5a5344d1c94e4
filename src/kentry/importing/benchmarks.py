# SPDX-License-Identifier: GPL-2.0-or-later
"""Readers of lat_syscall, of lines NUMBER UNIT/call, of fp-pidbench, UnixBench and perf bench."""

import re
from collections.abc import Iterator
from decimal import Decimal

from kentry.importing.published import (
    NS,
    OPS,
    REPETITIONS,
    SYSCALL,
    TICKS,
    TIMER,
    UNITS,
    Number,
    Text,
)

_SIMPLE = re.compile(
    r"Simple (syscall|read|write|stat|fstat|open/close): (\d+(?:\.\d+)?) microseconds"
)
_SIMPLE_CASES = {"syscall": "getppid", "open/close": "openat+close"}

# Olof Johansson's loop prints "V=1 242.9 ns/call (12144527848 ns / 50000000 iters)".
_PER_CALL = re.compile(r"\s*(?:([\w=.+@/-]+):?\s+)?(\d+(?:\.\d+)?) (ns|us|cycles)/(?:sys)?call\b")

# perf bench groups digits as the locale does (tools/perf/bench/syscall.c): 5.110.201, 51,10,201.
_GROUPED = r"(\d[\d., '\u2019]*)"
_EXECUTED = re.compile(rf"# Executed {_GROUPED} (\w+)\(\) calls")
_USECS = re.compile(r"\s*(\d+[.,]\d+) usecs/op\s*")
_RATE = re.compile(rf"\s*{_GROUPED} ops/sec\s*")

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

_COMMAND = re.compile(r"\./(syscall|pipe|execl|spawn|context1)\s+(\d+)(?:\s+(\w+))?")
_COUNT = re.compile(r"COUNT\|(\d+)\|\d+\|lp[sm]\b")
_TIME = re.compile(r"TIME\|(\d+(?:\.\d+)?)")
_COPIES = re.compile(r"running (\d+) parallel cop", re.I)
# What one loop of each UnixBench test is, by the test's and by its program's name.  syscall runs
# "mix" unless it is told otherwise: close(dup(0)), getpid, getuid and umask.
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
_RESULT = re.compile(rf"({'|'.join(_TESTS)})\s+(\d[\d.]*) lps\s+\(\d[\d.]* s, \d+ samples?\)")


def read_lat_syscall(text: Text) -> Iterator[Number]:
    """Read each "Simple syscall: 0.2365 microseconds"; repeats under a heading are samples."""
    for number, line in text:
        if match := _SIMPLE.search(line):
            case = _SIMPLE_CASES.get(match[1], match[1])
            yield Number(number, text.side(number), case, NS, match[2], "us")


def read_per_call(text: Text) -> Iterator[Number]:
    """Read lines that are a number a call; a word before the number is the case."""
    for number, line in text:
        if match := _PER_CALL.match(line):
            case, unit = match[1] or SYSCALL, match[3]
            yield Number(number, text.side(number), case, UNITS[unit], match[2], unit)


def read_perf_bench(text: Text) -> Iterator[Number]:
    """Read time and rate of every run of perf bench syscall."""
    case = SYSCALL
    for number, line in text:
        if "# Running '" in line:
            case = SYSCALL
        elif match := _EXECUTED.search(line):
            case = "fork+exit" if match[2] == "fork" else match[2]
        elif match := _USECS.fullmatch(line):
            yield Number(number, text.side(number), case, NS, match[1].replace(",", "."), "us")
        elif match := _RATE.fullmatch(line):
            yield Number(number, text.side(number), case, OPS, re.sub(r"\D", "", match[1]), "ops/s")


def read_fp_pidbench(text: Text) -> Iterator[Number]:
    """Divide the timer's ticks for a loop of getpid by the iterations above them."""
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


def read_unixbench(text: Text) -> Iterator[Number]:
    """Read raw counts and the report's results, which its table of indexes repeats."""
    copies = ""
    command: re.Match[str] | None = None
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
        elif match := _RESULT.search(line):
            case = _TESTS[match[1]] + copies
            yield Number(number, text.side(number), case, OPS, match[2], "lps", lacks=())
