# SPDX-License-Identifier: GPL-2.0-or-later
"""Plain tables, in Markdown or CSV.

    | side   | getpid@epc (cycles) | getpid@break (cycles) |
    |--------|---------------------|-----------------------|
    | before | 40                  | 254                   |

Each number has a side, a case and a unit.  Each of the three comes from the column of that name, or
from the header of the number's own column: "CASE (UNIT)", "SIDE (UNIT)" or "UNIT".  A side may
stand in a heading above the table instead.  A table without a column `side` or `case` is not read.
A percentage is of what the column `of` says.
"""

import csv
import re
from collections.abc import Iterator
from decimal import Decimal

from kentry.errors import UserError
from kentry.importing.published import (
    ALL_INSTRUCTIONS,
    CYCLES,
    NS,
    OF_BASE,
    OPS,
    REPETITIONS,
    SYSCALL,
    TICKS,
    VALUE,
    Number,
    Text,
)

_UNITS = {
    "ns": NS,
    "us": NS,
    "cycles": CYCLES,
    "ops/s": OPS,
    "ticks": TICKS,
    "instructions": ALL_INSTRUCTIONS,
}
_LABELS = ("side", "case", "unit", "of")
_RULE = re.compile(r"\s*\|[\s|:-]+$")
_HEADER = re.compile(r"(?:(.*?)\s*\()?([^()]+)\)?")
_CELL = re.compile(r"(~?[+-]?\d[\d,]*(?:\.\d+)?)\s*(%?)")


def read(text: Text) -> Iterator[Number]:
    """Every table with a column `side` or `case`; UserError for a unit or cell of another form."""
    header: list[str] = []
    for number, line in text:
        if _RULE.match(line):
            continue
        if line.lstrip().startswith("|"):
            cells = [cell.strip(" `*") for cell in line.strip().strip("|").split("|")]
        elif "," in line and not line.lstrip().startswith("#"):
            cells = [cell.strip() for cell in next(csv.reader([line]))]
        else:
            header = []
            continue
        if not header:
            names = [cell.lower() for cell in cells]
            header = cells if "side" in names or "case" in names else []
            continue
        if len(cells) != len(header):
            raise _error(text, number, f"{len(cells)} cells under {len(header)} headers")
        columns = list(zip(header, cells, strict=True))
        row = {name.lower(): cell for name, cell in columns if name.lower() in _LABELS}
        for name, cell in columns:
            if name.lower() not in _LABELS and cell not in ("", "-"):
                yield _number(text, number, row, name, cell)


def _number(text: Text, line: int, row: dict[str, str], header: str, cell: str) -> Number:
    match = _HEADER.fullmatch(header)
    name, unit = (match[1] or "", match[2]) if match and "unit" not in row else (header, "")
    unit = row.get("unit", unit)
    if unit not in _UNITS:
        raise _error(text, line, f"unit '{unit}', which is none of {', '.join(_UNITS)}")
    value = _CELL.fullmatch(cell)
    if not value:
        raise _error(text, line, f"'{cell}' in place of a number")
    case = row.get("case") or name or SYSCALL
    side = row.get("side", name if "case" in row else "") or text.side(line)
    metric, published = _UNITS[unit], value[1]
    if value[2]:
        of, lacks = row.get("of") or "a base that the table does not name", (VALUE, REPETITIONS)
        return Number(
            line, side, case, metric + OF_BASE, published, "%", percent_of=of, lacks=lacks
        )
    return Number(line, side, case, metric, published, unit, Decimal(1000 if unit == "us" else 1))


def _error(text: Text, line: int, what: str) -> UserError:
    return UserError(f"Line {line} of {text.name} has {what}.", "Correct the table.")
