# SPDX-License-Identifier: GPL-2.0-or-later
"""UnixBench: a program's raw "COUNT|n|1|lps", and the report's lines on system calls."""

from __future__ import annotations

import re
from decimal import Decimal

from kentry.importing.numbers import (
    INTERVAL,
    OPS,
    REPETITIONS,
    Check,
    Number,
    Range,
    Reading,
    plain_number,
    rounded,
)
from kentry.importing.text import Document, Line, case_of

NAME = "unixbench"

_COUNT = re.compile(r"COUNT\|(\d+)\|(\d+)\|(lps|lpm)\b")
_TIME = re.compile(r"TIME\|(\d+(?:\.\d+)?)")
_COMMAND = re.compile(r"\./(syscall|pipe|execl|spawn|context1)\s+(\d+)(?:\s+(\w+))?")
_REPORT = re.compile(
    r"(System Call Overhead|Pipe Throughput|Pipe-based Context Switching|Process Creation"
    r"|Execl Throughput)\s+(\d[\d.]*) lps\s+\((\d[\d.]*) s, (\d+) samples?\)"
)
_INDEX = re.compile(
    r"(System Call Overhead|Pipe Throughput|Pipe-based Context Switching|Process Creation"
    r"|Execl Throughput)\s+(\d[\d.]*)\s+(\d[\d.]*)\s+(\d[\d.]*)\s*$"
)
_COPIES = re.compile(r"running (\d+) parallel cop", re.I)

# What one loop of each program is.  syscall's "mix", which it runs where nothing is said, is
# close(dup(0)), getpid, getuid and umask.
_PROGRAMS = {
    "System Call Overhead": "unixbench-mix",
    "Pipe Throughput": "pipe",
    "Pipe-based Context Switching": "pingpong",
    "Process Creation": "fork+exit",
    "Execl Throughput": "execve",
}
_COMMANDS = {
    "syscall": "unixbench-mix",
    "pipe": "pipe",
    "execl": "execve",
    "spawn": "fork+exit",
    "context1": "pingpong",
}
_SECONDS = {"lps": 1, "lpm": 60}


def read(document: Document) -> Reading:
    """Raw counts, and the report's results with their indexes checked."""
    found = Reading()
    copies = 1
    command: re.Match[str] | None = None
    for line in document.lines:
        command = _COMMAND.search(line.text) or command
        more = _COPIES.search(line.text)
        copies = int(more[1]) if more else copies
        _raw(found, document, line, command)
        _report(found, document, line, copies)
    return found


def _raw(found: Reading, document: Document, line: Line, command: re.Match[str] | None) -> None:
    match = _COUNT.search(line.text)
    if not match:
        return
    following = next((after.text for after in document.lines[line.number : line.number + 2]), "")
    time = _TIME.search(following)
    if time:
        seconds = Decimal(time[1])
        found.lines.add(line.number + 1)
    elif command:
        seconds = Decimal(command[2])
    else:
        return
    mode = command[3] if command else None
    case = case_of(mode or "") or _COMMANDS[command[1] if command else "syscall"]
    if not seconds:
        return
    found.add(
        Number(
            line=line.number,
            text=line.text.strip(),
            format=NAME,
            side=document.side(line.number),
            case=case,
            metric=OPS,
            unit=f"in {plain_number(seconds)} s",
            written=match[1],
            value=Decimal(match[1]),
            scale=1 / seconds,
            absent=(INTERVAL, REPETITIONS),
        )
    )


def _report(found: Reading, document: Document, line: Line, copies: int) -> None:
    result, index = _REPORT.search(line.text), _INDEX.search(line.text)
    match = result or index
    if not match:
        return
    written = match[2] if result else match[3]
    suffix = f"/{copies}-copies" if copies > 1 else ""
    number = Number(
        line=line.number,
        text=line.text.strip(),
        format=NAME,
        side=document.side(line.number),
        case=_PROGRAMS[match[1]] + suffix,
        metric=OPS,
        unit="lps",
        written=written,
        value=Decimal(written),
        absent=(INTERVAL,) if result else (INTERVAL, REPETITIONS),
    )
    if result:
        found.add(number)
    if index:
        found.lines.add(line.number)
        found.checks.append(_index_check(line.number, *map(Decimal, index.groups()[1:])))
        if not any(one.key == number.key and one.value == number.value for one in found.numbers):
            found.add(number)


def _index_check(line: int, baseline: Decimal, result: Decimal, index: Decimal) -> Check:
    """UnixBench's index is ten times the result over the baseline."""
    if not baseline:
        return Check(line, plain_number(index), "", holds=True)
    expected = rounded(result).scaled(10 / baseline)
    # The tool divides before it rounds the result.
    holds = Range(expected.low, expected.high).meets(rounded(index))
    value = plain_number(round(10 * result / baseline, 1))
    return Check(
        line,
        f"index {plain_number(index)}",
        f"10 * {plain_number(result)} / {plain_number(baseline)} = {value}",
        holds,
        "" if holds else f"the index of {plain_number(result)} is {value}",
    )
