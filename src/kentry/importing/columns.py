# SPDX-License-Identifier: GPL-2.0-or-later
"""Tables in columns of blanks: a header that names system calls, a row a patch.

                                              getpid          getuid
     Baseline (linux-ia64-test-2.6.12):       40      254     232     249

Where a row has several numbers for each call, they are the entry instructions that the text
puts in quotes before the table.
"""

from __future__ import annotations

import re
from decimal import Decimal

from kentry.importing.numbers import (
    ALL_INSTRUCTIONS,
    CYCLES,
    INTERVAL,
    NS,
    REPETITIONS,
    Number,
    Reading,
)
from kentry.importing.text import Document, Line, case_of

NAME = "columns"

_ROW = re.compile(
    r"^\s*(\S.{1,70}?):?(?:(?<=:)|\s)\s*((?:\d+(?:\.\d+)?\s+){0,11}\d+(?:\.\d+)?)\s*$"
)
_UNITS = (
    (re.compile(r"\bcycle counts?\b|\bin cycles\b|\bcycles\b", re.I), CYCLES, "cycles", 1),
    (re.compile(r"\bnanoseconds\b|\bnsecs?\b|\bin ns\b|\(ns\)", re.I), NS, "ns", 1),
    (re.compile(r"\bmicroseconds\b|\busecs?\b|\bin us\b|\(us\)", re.I), NS, "us", 1000),
    (re.compile(r"\binstructions\b", re.I), ALL_INSTRUCTIONS, "insns", 1),
)
_QUOTED = re.compile(r"\"([A-Z][A-Z0-9]{1,9})\"")
# The unit and the entries are explained at most so many lines above the header.
_PROSE = 15


def read(document: Document) -> Reading:
    """Every such table whose unit the text above it says."""
    found = Reading()
    lines = document.lines
    for place, line in enumerate(lines):
        calls = _header(line)
        if not calls:
            continue
        prose = " ".join(one.text for one in lines[max(place - _PROSE, 0) : place + 1])
        unit = next(((m, u, f) for words, m, u, f in _UNITS if words.search(prose)), None)
        if unit is None:
            continue
        entries = list(dict.fromkeys(word.lower() for word in _QUOTED.findall(prose)))
        for row in lines[place + 1 :]:
            if not row.text.strip():
                break
            if not _row(found, row, calls, entries, unit):
                break
    return found


def _header(line: Line) -> list[str]:
    """The cases that a header names: nothing but system calls, apart by blanks."""
    words = line.text.replace("()", "").split()
    cases = [case_of(f"{word}()") for word in words]
    return cases if len(cases) >= 2 and all(cases) and "|" not in line.text else []


def _row(
    found: Reading, row: Line, calls: list[str], entries: list[str], unit: tuple[str, str, int]
) -> bool:
    match = _ROW.match(row.text)
    if not match:
        return False
    values = match[2].split()
    each, rest = divmod(len(values), len(calls))
    if rest or not each or (each > 1 and each != len(entries)):
        return False
    names = [f"{call}@{entry}" for call in calls for entry in entries] if each > 1 else calls
    metric, written_unit, factor = unit
    for case, written in zip(names, values, strict=True):
        found.add(
            Number(
                line=row.number,
                text=" ".join(row.text.split()),
                format=NAME,
                side=match[1].strip().rstrip(":"),
                case=case,
                metric=metric,
                unit=written_unit,
                written=written,
                value=Decimal(written),
                scale=Decimal(factor),
                absent=(INTERVAL, REPETITIONS),
            )
        )
    return True
