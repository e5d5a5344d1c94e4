# SPDX-License-Identifier: GPL-2.0-or-later
"""lmbench's lat_syscall, the selftest fp-pidbench, will-it-scale, and UnixBench."""

import re
from collections.abc import Iterator
from decimal import Decimal

from kentry.importing.published import NS, OPS, REPETITIONS, TICKS, TIMER, Number, Text

_SIMPLE = re.compile(
    r"Simple (syscall|read|write|stat|fstat|open/close): (\d+(?:\.\d+)?) microseconds"
)
_SIMPLE_CASES = {"syscall": "getppid", "open/close": "openat+close"}

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

_TEST = re.compile(r"runtest\.py\s+([a-z_]+?)\d*\b|([a-z_]+?)\d*_(?:processes|threads)\b")
_HEADER = "tasks,processes,processes_idle,threads,threads_idle,linear"
_ROW = re.compile(r"\s*(\d+),(\d+),[\d.]+,(\d+),[\d.]+,\d+")
_TESTCASE = re.compile(r"\s*testcase:.*?(?:(\w+)\(\)|$)")
_SECOND = re.compile(r"\s*min:\d+ max:\d+ total:(\d+)")

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
_NAMES = "|".join(_TESTS)
_RESULT = re.compile(rf"({_NAMES})\s+(\d[\d.]*) lps\s+\(\d[\d.]* s, \d+ samples?\)")
_INDEX = re.compile(rf"({_NAMES})\s+\d[\d.]*\s+(\d[\d.]*)\s+\d[\d.]*\s*$")


def read_lat_syscall(text: Text) -> Iterator[Number]:
    """Every "Simple syscall: 0.2365 microseconds"; repeats under one heading are samples."""
    for number, line in text:
        if match := _SIMPLE.search(line):
            case = _SIMPLE_CASES.get(match[1], match[1])
            yield Number(number, text.side(number), case, NS, match[2], "us", Decimal(1000))


def read_fp_pidbench(text: Text) -> Iterator[Number]:
    """Ticks of the system timer for a loop of getpid, divided by the iterations above them."""
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


def read_will_it_scale(text: Text) -> Iterator[Number]:
    """runtest.py's rates by the number of tasks, and each second of a program's measurement."""
    case, side = "will-it-scale", ""
    in_table = is_warm_up = False
    for number, line in text:
        if match := _TEST.search(line):
            case = match[1] or match[2]
        if line.strip().startswith(_HEADER):
            in_table, side = True, text.side(number)
        elif in_table and (match := _ROW.match(line)):
            tasks = int(match[1])
            for rate, kind in ((match[2], "processes"), (match[3], "threads")):
                # The tool prints 0 where the test has no such mode.
                if tasks and int(rate):
                    is_single = tasks == 1 and kind == "processes"
                    name = case if is_single else f"{case}/{tasks}-{kind}"
                    yield Number(number, side, name, OPS, rate, "ops/s")
        elif line.strip():
            in_table = False
        if match := _TESTCASE.match(line):
            case, side = match[1] or case, text.side(number)
        elif line.strip() in ("warmup", "measurement"):
            is_warm_up = line.strip() == "warmup"
        elif (match := _SECOND.match(line)) and not is_warm_up:
            yield Number(number, side, case, OPS, match[1], "ops/s", lacks=())


def read_unixbench(text: Text) -> Iterator[Number]:
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
