# SPDX-License-Identifier: GPL-2.0-or-later
"""perf stat: counts of a whole command, with the spread where it ran more than once (-r)."""

from __future__ import annotations

import re
from decimal import Decimal

from kentry.importing.numbers import CALLS, INTERVAL, REPETITIONS, Number, Reading
from kentry.importing.perf_bench import count
from kentry.importing.text import Document

NAME = "perf stat"

_TOP = re.compile(r"Performance counter stats for '([^']*)'(?:\s*\((\d+) runs?\))?")
_LINE = re.compile(
    r"^\s*(\d[\d.,]*)\s+(?:(msec|ns)\s+)?"
    r"((?:cpu/|cpu_core/|cpu_atom/)?[a-z][\w-]*(?:/\w*)?(?::[a-zA-Z]+)?)(?:\s|$)"
)
_SPREAD = re.compile(r"\(\s*\+-\s*([\d.]+%)\s*\)")
_ELAPSED = re.compile(r"^\s*(\d+[.,]\d+)\s+(?:\+-\s+[\d.,]+\s+)?seconds time elapsed")
_END = re.compile(r"seconds time elapsed")
_MOST_LINES = 60


def read(document: Document) -> Reading:
    """The events under each "Performance counter stats"."""
    found = Reading()
    command, runs, left, top = "", 1, 0, 0
    for line in document.lines:
        if match := _TOP.search(line.text):
            command, runs, left = match[1], int(match[2] or 1), _MOST_LINES
            top = line.number
            continue
        left -= 1
        if left <= 0:
            continue
        elapsed = _ELAPSED.match(line.text)
        event = None if elapsed else _LINE.match(line.text)
        spread = _SPREAD.search(line.text)
        if not elapsed and not event:
            continue
        match = elapsed or event
        assert match
        written = match[1].replace(",", ".") if elapsed or match[2] else str(count(match[1]))
        found.add(
            Number(
                line=line.number,
                text=line.text.strip(),
                format=NAME,
                side=document.side(top),
                case=f"run of {command.split(' ')[0].rpartition('/')[2]}",
                metric="elapsed" if elapsed else match[3],
                unit="s" if elapsed else match[2] or "a run",
                written=written,
                value=Decimal(written),
                spread=f"+-{spread[1]}" if spread else "",
                absent=(INTERVAL, CALLS) if runs > 1 else (INTERVAL, CALLS, REPETITIONS),
            )
        )
        if _END.search(line.text):
            left = 0
    return found
