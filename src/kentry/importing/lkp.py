# SPDX-License-Identifier: GPL-2.0-or-later
"""0-day's tables: a commit a column, "%stddev" beside each value, "%change" between them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal

from kentry.importing.numbers import (
    INTERVAL,
    OPS,
    Check,
    Number,
    Reading,
    percent_range,
    rounded,
    significant,
)
from kentry.importing.text import Document, Line, case_of

NAME = "lkp"

_STDDEV = re.compile(r"^\s*%stddev(?:\s+%change\s+%stddev)+\s*$")
_VALUE = re.compile(r"^\s*([\d.]+(?:e[+-]\d+)?)(?:\s*\u00b1\s*(\d+)%)?")
_STEP = re.compile(r"^\s+([+-][\d.]+)(%?)\s+([\d.]+(?:e[+-]\d+)?)(?:\s*\u00b1\s*(\d+)%)?")
_METRIC = re.compile(r"^\s+([a-zA-Z_][\w.%:/()-]*)\s*$")
_TEST = re.compile(r"/([a-z_]+?)\d*(?=/|$)|\btest:\s*([a-z_]+?)\d*\s*$", re.M)
# What a reader of kentry's tables looks for; the rest are hundreds of rows.
_WANTED = re.compile(
    r"^(?:will-it-scale\.(?!time)|unixbench\.(?!time)|lmbench|stress-ng\.\w+\.ops_per_sec"
    r"|perf-stat\.(?:i|overall)\.(?:instructions|branch-instructions|cpi|ipc|path-length))"
)
_RATES = re.compile(r"ops$|ops_per_sec$|score$|workload$")


def read(document: Document) -> Reading:
    """The rows of benchmarks and of instructions; the others are counted."""
    found = Reading()
    lines = document.lines
    case = _case(document)
    for place, line in enumerate(lines):
        if _STDDEV.match(line.text):
            sides = _sides(lines[max(place - 2, 0) : place])
            for row in lines[place + 2 :]:
                if not row.text.strip():
                    break
                _row(found, case, row, sides)
    return found


def _sides(above: Sequence[Line]) -> list[str]:
    """The commits, from the line over the rule."""
    return next((line.text.split() for line in above if not line.text.startswith("---")), [])


def _row(found: Reading, case: str, row: Line, sides: Sequence[str]) -> None:
    first = _VALUE.match(row.text)
    if not first:
        return
    cells = [(first[1], first[2] or "")]
    steps: list[tuple[str, str]] = []
    rest = row.text[first.end() :]
    while match := _STEP.match(rest):
        steps.append((match[1], match[2]))
        cells.append((match[3], match[4] or ""))
        rest = rest[match.end() :]
    name = _METRIC.match(rest)
    if not name or len(cells) != len(sides):
        return
    found.lines.add(row.number)
    if not _WANTED.match(name[1]):
        found.left_out += 1
        return
    numbers = [
        _number(case, row, side, written, spread, name[1])
        for side, (written, spread) in zip(sides, cells, strict=True)
    ]
    found.numbers += numbers
    for (change, sign), new in zip(steps, numbers[1:], strict=True):
        if sign:
            found.checks.append(_change_check(row.number, Decimal(change), numbers[0], new))


def _case(document: Document) -> str:
    """The system call of the test, where its name is one: futex4 is none, getppid1 is."""
    tests = (case_of(test[1] or test[2]) for test in _TEST.finditer(document.whole))
    return next(filter(None, tests), document.case)


def _number(case: str, row: Line, side: str, written: str, spread: str, name: str) -> Number:
    rate = bool(_RATES.search(name))
    return Number(
        line=row.number,
        text=" ".join(row.text.split()),
        format=NAME,
        side=side,
        case=case,
        metric=OPS if rate else name,
        unit="ops/s" if rate else "",
        written=written,
        value=Decimal(written),
        spread=f"+-{spread}%" if spread else "",
        statistic=name.rpartition(".")[2] if rate else "",
        absent=(INTERVAL,),
    )


def _change_check(line: int, change: Decimal, old: Number, new: Number) -> Check:
    found = percent_range(old.range, new.range)
    if found is None:
        return Check(line, f"{change:+f}%", "", holds=True)
    value = significant(100 * (new.amount - old.amount) / old.amount, 3)
    formula = f"{old.written} -> {new.written} is {value:+f}% of {old.written}"
    holds = found.meets(rounded(change))
    return Check(line, f"{change:+f}%", formula, holds, "" if holds else formula)
