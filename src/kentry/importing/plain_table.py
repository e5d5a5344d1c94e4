# SPDX-License-Identifier: GPL-2.0-or-later
"""Plain tables, in Markdown, CSV or aligned columns.

    | side   | getpid@epc (cycles) | getpid@break (cycles) |
    |--------|---------------------|-----------------------|
    | before | 40                  | 254                   |

Each number has a side, a case and a unit.  Each of the three comes from the column of that name, or
from the header of the number's own column: "CASE (UNIT)", "SIDE (UNIT)" or "UNIT", to which " per
call" may be added.  A side may stand in a heading above the table instead.  A table without a
column `side` or `case` is not read, unless its first column is `commit`, `kernel` or `version`
and all others have a unit.  A percentage is of what the column `of` says.
"""

import csv
import re
from collections.abc import Iterator

from kentry.errors import UserError
from kentry.importing.published import (
    OF_BASE,
    REPETITIONS,
    SYSCALL,
    UNITS,
    VALUE,
    Number,
    Text,
)

_LABELS = ("side", "case", "unit", "of")
_SIDES = ("commit", "kernel", "version")
_RULE = re.compile(r"\s*\|[\s|:-]+$")
_HEADER = re.compile(r"(?:(.*?)\s*\()?([^()]+?)(?: per (?:system |sys)?call)?\)?")
_CELL = re.compile(r"(~?[+-]?\d[\d,]*(?:\.\d+)?)\s*(%?)")

# Aligned columns: a line of names that begins with blanks, and rows "SIDE: NUMBER NUMBER".
_NAMES = re.compile(r"\s+[a-z_]\w*(?:\s+[a-z_]\w*)*\s*")
_PLAIN = re.compile(r"\d[\d,]*(?:\.\d+)?")
_QUOTED = re.compile(r'"([A-Z]\w*)"')
_UNIT = re.compile(r"\b(ns|us|cycle|cycles|ticks|instructions)\b")


def read(text: Text) -> Iterator[Number]:
    """Read every table in Markdown or CSV; UserError for a unit or cell of another form."""
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
            header = _header(cells)
            continue
        if len(cells) != len(header):
            raise _error(text, number, f"{len(cells)} cells under {len(header)} headers")
        columns = list(zip(header, cells, strict=True))
        row = {name.lower(): cell for name, cell in columns if name.lower() in _LABELS}
        for name, cell in columns:
            if name.lower() not in _LABELS and cell not in ("", "-"):
                yield _number(text, number, row, name, cell)


def read_columns(text: Text) -> Iterator[Number]:
    """Read tables of aligned columns, such as that of the ia64 series of 2005.

    The unit is the last one that the text above names.  Where a row has several numbers a case,
    the last names in quotes above tell them apart: with "EPC" and "BREAK" they are `getpid@epc`
    and `getpid@break`.  A table without a unit or such names is not read.
    """
    cases, units, entries = list[str](), list[str](), list[str]()
    for number, line in text:
        side, colon, rest = line.strip().rpartition(":")
        published = rest.split()
        if not (colon and side and published and all(map(_PLAIN.fullmatch, published))):
            units += _UNIT.findall(line)
            entries += _QUOTED.findall(line)
            cases = line.split() if _NAMES.fullmatch(line) else []
            continue
        variants = len(published) // max(len(cases), 1)
        chosen = list(dict.fromkeys(entries))[-variants:]
        names = [f"{case}@{entry.lower()}" for case in cases for entry in chosen]
        names = cases if variants == 1 else names
        if units and len(names) == len(published):
            unit = "cycles" if units[-1] == "cycle" else units[-1]
            for case, value in zip(names, published, strict=True):
                yield Number(number, side, case, UNITS[unit], value, unit)


def _header(cells: list[str]) -> list[str]:
    """Return the headers of a table that kentry reads, or none."""
    names = [cell.lower() for cell in cells]
    if "side" in names or "case" in names:
        return cells
    matches = [_HEADER.fullmatch(cell) for cell in cells[1:]]
    if names[0] in _SIDES and matches and all(match and match[2] in UNITS for match in matches):
        return ["side", *cells[1:]]
    return []


def _number(text: Text, line: int, row: dict[str, str], header: str, cell: str) -> Number:
    match = _HEADER.fullmatch(header)
    name, unit = (match[1] or "", match[2]) if match and "unit" not in row else (header, "")
    unit = row.get("unit", unit)
    if unit not in UNITS:
        raise _error(text, line, f"unit '{unit}', which is none of {', '.join(UNITS)}")
    value = _CELL.fullmatch(cell)
    if not value:
        raise _error(text, line, f"'{cell}' in place of a number")
    case = row.get("case") or name or SYSCALL
    side = row.get("side", name if "case" in row else "") or text.side(line)
    metric, published = UNITS[unit], value[1]
    if value[2]:
        of, lacks = row.get("of") or "a base that the table does not name", (VALUE, REPETITIONS)
        return Number(
            line, side, case, metric + OF_BASE, published, "%", percent_of=of, lacks=lacks
        )
    return Number(line, side, case, metric, published, unit)


def _error(text: Text, line: int, what: str) -> UserError:
    return UserError(f"Line {line} of {text.name} has {what}.", "Correct the table.")
