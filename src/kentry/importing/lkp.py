# SPDX-License-Identifier: GPL-2.0-or-later
"""LKP's table: a commit a column, "%stddev" beside each value, "%change" between them."""

import re
from collections.abc import Iterator

from kentry.importing.published import OPS, SYSCALL, Number, Text

_HEADER = re.compile(r"^\s*%stddev(?:\s+%change\s+%stddev)+\s*$")
_VALUE = r"([\d.]+(?:e[+-]\d+)?)(?:\s*\u00b1\s*(\d+)%)?"
_FIRST = re.compile(rf"^\s*{_VALUE}")
_NEXT = re.compile(rf"^\s+[+-][\d.]+%?\s+{_VALUE}")
_METRIC = re.compile(r"^\s+([a-zA-Z_][\w.%:/()-]*)\s*$")
_TEST = re.compile(r"/(get[a-z]+|read|write|sched_yield)\d*(?=/|$)|\btest:\s*([a-z_]+?)\d*\s*$")
# A report has hundreds of rows; these are about a benchmark's rate and about instructions.
_KEPT = re.compile(
    r"^(?:will-it-scale\.(?!time)|unixbench\.(?!time)|lmbench|stress-ng\.\w+\.ops_per_sec"
    r"|perf-stat\.(?:i|overall)\.(?:instructions|branch-instructions|cpi|ipc|path-length))"
)
_RATE = re.compile(r"ops$|ops_per_sec$|score$|workload$")


def read(text: Text) -> Iterator[Number]:
    """The rows about benchmarks and instructions; a side is a commit."""
    case, sides = SYSCALL, list[str]()
    for number, line in text:
        if match := _TEST.search(line):
            case = match[1] or match[2]
        if _HEADER.match(line):
            # The commits stand above the rule: two lines up.
            sides = text.lines[number - 3].split() if number > 2 else []
        elif not line.strip():
            sides = []
        cells: list[tuple[str, str]] = []
        match, rest = _FIRST.match(line), line
        while match:
            cells.append((match[1], f"+-{match[2]}%" if match[2] else ""))
            rest = rest[match.end() :]
            match = _NEXT.match(rest)
        name = _METRIC.match(rest)
        if not name or not _KEPT.match(name[1]) or len(cells) != len(sides):
            continue
        is_rate = _RATE.search(name[1])
        metric = f"{OPS}-{name[1].rpartition('.')[2]}" if is_rate else name[1]
        unit = "ops/s" if is_rate else ""
        for side, (published, spread) in zip(sides, cells, strict=True):
            yield Number(number, side, case, metric, published, unit, spread=spread, lacks=())
