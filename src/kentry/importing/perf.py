# SPDX-License-Identifier: GPL-2.0-or-later
"""perf bench syscall, and perf stat."""

import re
from collections.abc import Iterator

from kentry.importing.published import CALLS, NS, OPS, REPETITIONS, SYSCALL, Number, Text

# perf bench groups digits as the locale does (tools/perf/bench/syscall.c), so the same number
# is 5110201, 5,110,201, 5.110.201 or 51,10,201.
_GROUPED = r"(\d[\d., '\u2019]*)"
_RUNNING = re.compile(r"# Running '\w+/\w+' benchmark")
_EXECUTED = re.compile(rf"# Executed {_GROUPED} (\w+)\(\) calls")
_USECS = re.compile(r"^\s*(\d+[.,]\d+) usecs/op\s*$")
_RATE = re.compile(rf"^\s*{_GROUPED} ops/sec\s*$")

_STAT = re.compile(r"Performance counter stats for '([^']*)'(?:\s*\((\d+) runs?\))?")
_EVENT = re.compile(
    r"^\s*(\d[\d.,]*)\s+(?:(msec|ns)\s+)?"
    r"((?:cpu/|cpu_core/|cpu_atom/)?[a-z][\w-]*(?:/\w*)?(?::[a-zA-Z]+)?)(?:\s|$)"
)
_SPREAD = re.compile(r"\(\s*\+-\s*([\d.]+%)\s*\)")
_ELAPSED = re.compile(r"^\s*(\d+[.,]\d+)\s+(?:\+-\s+[\d.,]+\s+)?seconds time elapsed")


def read_bench(text: Text) -> Iterator[Number]:
    """Read time and rate of every run of perf bench syscall."""
    case = SYSCALL
    for number, line in text:
        if _RUNNING.search(line):
            case = SYSCALL
        elif match := _EXECUTED.search(line):
            case = "fork+exit" if match[2] == "fork" else match[2]
        elif match := _USECS.match(line):
            usecs = match[1].replace(",", ".")
            yield Number(number, text.side(number), case, NS, usecs, "us")
        elif match := _RATE.match(line):
            yield Number(number, text.side(number), case, OPS, _digits(match[1]), "ops/s")


def read_stat(text: Text) -> Iterator[Number]:
    """Read the events of each perf stat, of a whole run, with the spread of several (-r)."""
    case, side = "", ""
    lacks: tuple[str, ...] = ()
    for number, line in text:
        if match := _STAT.search(line):
            case, side = f"run of {match[1].split(' ')[0].rpartition('/')[2]}", text.side(number)
            lacks = (CALLS,) if int(match[2] or 1) > 1 else (CALLS, REPETITIONS)
            continue
        elapsed = _ELAPSED.match(line)
        match = elapsed or _EVENT.match(line)
        if not case or not match:
            continue
        metric, unit = ("elapsed", "s") if elapsed else (match[3], match[2] or "a run")
        published = _digits(match[1]) if unit == "a run" else match[1].replace(",", ".")
        spread = f"+-{found[1]}" if (found := _SPREAD.search(line)) else ""
        yield Number(number, side, case, metric, published, unit, spread=spread, lacks=lacks)
        if elapsed:
            case = ""


def _digits(text: str) -> str:
    """Remove from a whole number what groups its digits."""
    return re.sub(r"\D", "", text)
