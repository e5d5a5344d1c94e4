# SPDX-License-Identifier: GPL-2.0-or-later
"""will-it-scale: its table of tasks, and a program's own lines, a second each."""

from __future__ import annotations

import re
from decimal import Decimal

from kentry.importing.numbers import (
    INTERVAL,
    OPS,
    REPETITIONS,
    SYSCALL,
    Check,
    Number,
    Reading,
    plain_number,
)
from kentry.importing.text import Document, Line, case_of

NAME = "will-it-scale"

_HEADER = "tasks,processes,processes_idle,threads,threads_idle,linear"
_ROW = re.compile(r"^\s*(\d+),(\d+),([\d.]+),(\d+),([\d.]+),(\d+)\b")
_TEST = re.compile(r"runtest\.py\s+([a-z_]+?)\d*\b|([a-z_]+?)\d*_(?:processes|threads)\b")
_TESTCASE = re.compile(r"^\s*testcase:\s*(.*)$")
_SECOND = re.compile(r"^\s*min:(\d+) max:(\d+) total:(\d+)")
_AVERAGE = re.compile(r"^\s*average:(\d+)")


def read(document: Document) -> Reading:
    """Operations a second, by how many tasks; and each measured second of one program."""
    found = Reading()
    test, header, top = "", 0, 0
    for line in document.lines:
        if match := _TEST.search(line.text):
            test = case_of(match[1] or match[2]) or (match[1] or match[2])
        if line.text.strip().startswith(_HEADER):
            header = line.number
        elif header and (match := _ROW.match(line.text)):
            _row(found, document, line, test or _case(document), header, match)
        elif line.text.strip() and "..." not in line.text:
            header = 0
        if match := _TESTCASE.match(line.text):
            test, top = case_of(match[1]) or case_of(match[1].split(" ")[0]), line.number
        _seconds(found, document, line, test or _case(document), top)
    return found


def _case(document: Document) -> str:
    return document.case if document.case != SYSCALL else NAME


def _row(
    found: Reading, document: Document, line: Line, case: str, top: int, match: re.Match[str]
) -> None:
    found.lines.add(line.number)
    tasks = int(match[1])
    for written, kind in ((match[2], "processes"), (match[4], "threads")):
        # Where the test has no such mode, the tool writes 0.
        if not tasks or not int(written):
            continue
        one = tasks == 1 and kind == "processes"
        found.add(
            Number(
                line=line.number,
                text=line.text.strip(),
                format=NAME,
                side=document.side(top),
                case=case if one else f"{case}/{tasks}-{kind}",
                metric=OPS,
                unit="ops/s",
                written=written,
                value=Decimal(written),
                absent=(INTERVAL, REPETITIONS),
            )
        )


def _seconds(found: Reading, document: Document, line: Line, case: str, top: int) -> None:
    """A measured second: those of the warm-up stand above the line "measurement"."""
    if match := _SECOND.match(line.text):
        found.lines.add(line.number)
        if not _is_measured(document, line.number):
            found.left_out += 1
            return
        found.add(
            Number(
                line=line.number,
                text=line.text.strip(),
                format=NAME,
                side=document.side(top or line.number),
                case=case,
                metric=OPS,
                unit="ops/s",
                written=match[3],
                value=Decimal(match[3]),
                absent=(INTERVAL,),
            )
        )
    elif match := _AVERAGE.match(line.text):
        found.lines.add(line.number)
        seconds = [one.value for one in found.numbers if one.unit == "ops/s" and one.line > top]
        if seconds:
            found.checks.append(_average_check(line.number, Decimal(match[1]), seconds))


def _is_measured(document: Document, number: int) -> bool:
    for line in reversed(document.lines[: number - 1]):
        text = line.text.strip()
        if text == "measurement":
            return True
        if not _SECOND.match(text):
            return False
    return False


def _average_check(line: int, average: Decimal, seconds: list[Decimal]) -> Check:
    """The tool's average is cut off to a whole number."""
    found = sum(seconds, Decimal(0)) // len(seconds)
    holds = found == average
    return Check(
        line,
        f"average:{plain_number(average)}",
        f"mean of {len(seconds)} seconds = {plain_number(found)}",
        holds,
        "" if holds else f"the mean of the {len(seconds)} seconds above is {plain_number(found)}",
    )
