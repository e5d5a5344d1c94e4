# SPDX-License-Identifier: GPL-2.0-or-later
"""Tables with bars between the cells: Markdown, reStructuredText grids, and mails' own.

A table is read if some cell, header or row says a unit.  A column of changes is not imported but
checked against the row it stands in; a table of nothing but percentages is imported as that.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from kentry.importing.agree import time_and_rate
from kentry.importing.numbers import (
    ALL_INSTRUCTIONS,
    CYCLES,
    INTERVAL,
    NS,
    OPS,
    REPETITIONS,
    TICKS,
    VALUE,
    Check,
    Number,
    Reading,
    percent_range,
    plain_number,
    rounded,
    significant,
)
from kentry.importing.perf_bench import count
from kentry.importing.text import Document, case_of

NAME = "table"

_RULE = re.compile(r"^\s*[|+:=\- ]+$")
_UNIT = re.compile(
    r"\b(usecs?/op|us/op|microseconds|usecs?|us|nsecs?|ns|cycles|ops/sec(?:ond)?|ops/s|lps|ticks"
    r"|instructions|insns)(?:\b|/)",
    re.I,
)
# By the unit's first letters: the metric, what is printed for it, and the factor to the metric.
_METRICS = (
    ("us", NS, "us", 1000),
    ("microseconds", NS, "us", 1000),
    ("n", NS, "ns", 1),
    ("cycles", CYCLES, "cycles", 1),
    ("ops", OPS, "ops/s", 1),
    ("lps", OPS, "lps", 1),
    ("ticks", TICKS, "ticks", 1),
    ("in", ALL_INSTRUCTIONS, "insns", 1),
)
_NUMBER = re.compile(
    r"^[`*~\s]*([\d][\d,. ]*\d|\d)\s*[`*]*\s*(?:\[?([A-Za-z/]+)\]?(?:/\w+)?)?[`*\s]*$"
)
_PERCENT = re.compile(
    r"^[`*\s]*(?:\(([RI])\))?\s*(~?)\s*([+\-\u2191\u2193\u2212]?)\s*(\d+(?:\.\d+)?)\s*%[`*\s]*$"
)
_CHANGE = re.compile(r"change|delta|diff|improve|regress|gain|overhead|speed-?up|%", re.I)
_STATISTIC = re.compile(r"\b(mean|median|average|min|max|p\d+(?:\.\d+)?|stddev)\b", re.I)
_COMMIT = re.compile(r"^commit$|^patch$|^kernel$|^version$", re.I)
_DOWN = "-\u2193\u2212"
_UP = "+\u2191"
_MOST_COLUMNS = 12
# Fewer bars are a shell's pipe, or a sentence's.
_BARS = 2


@dataclass(frozen=True)
class _Row:
    line: int
    text: str
    cells: tuple[str, ...]


@dataclass(frozen=True)
class _Table:
    header: tuple[str, ...]
    rows: tuple[_Row, ...]


def read(document: Document) -> Reading:
    """Every table with a unit or with percentages."""
    found = Reading()
    for table in _tables(document):
        _read_table(found, document, table)
    return found


def _tables(document: Document) -> list[_Table]:
    tables, block = [], list[tuple[int, str]]()
    for line in document.lines:
        if line.text.count("|") >= _BARS or _is_rule(line.text, block):
            block.append((line.number, line.text))
        elif block:
            tables.append(_table(block))
            block = []
    if block:
        tables.append(_table(block))
    return [table for table in tables if table is not None]


def _is_rule(text: str, block: list[tuple[int, str]]) -> bool:
    return bool(_RULE.match(text)) and ("+-" in text or "|" in text or bool(block and text.strip()))


def _table(block: list[tuple[int, str]]) -> _Table | None:
    """A header, down to its rule, and the rows; a cell left empty is as above."""
    rows: list[_Row] = []
    header: list[str] = []
    ruled = False
    for number, text in block:
        if _RULE.match(text):
            ruled = ruled or bool(header)
            continue
        inside = text.strip().removeprefix("|").removesuffix("|")
        cells = tuple(cell.strip() for cell in inside.split("|"))
        if len(cells) > _MOST_COLUMNS:
            return None
        if not ruled and not rows and not any(map(_value, cells[1:])):
            header = _joined(header, cells)
            continue
        ruled = True
        if not cells[0] and rows and len(cells) > 2:
            cells = (rows[-1].cells[0], *cells[1:])
        rows.append(_Row(number, text.strip(), cells))
    return _Table(tuple(header), tuple(rows)) if header and rows else None


def _joined(header: list[str], cells: Sequence[str]) -> list[str]:
    if len(header) < len(cells):
        header = header + [""] * (len(cells) - len(header))
    cells = [*cells, *[""] * (len(header) - len(cells))]
    return [f"{one} {two}".strip() for one, two in zip(header, cells, strict=False)]


def _value(cell: str) -> tuple[str, Decimal, str] | None:
    """What is written, its value and its unit, of a cell that is a number."""
    match = _NUMBER.match(cell)
    if not match or not (match[2] in (None, "sec") or _UNIT.match(match[2])):
        return None
    written = match[1].strip()
    groups = re.fullmatch(r"\d{1,3}(?:[, ]\d{2,3})+", written)
    try:
        value = count(written) if groups else Decimal(written.replace(" ", ""))
    except ArithmeticError:
        return None
    return written, value, match[2] or ""


def _metric(text: str) -> tuple[str, str, int] | None:
    """The metric, printed unit and factor that some words name."""
    match = _UNIT.search(text)
    if not match:
        return None
    word = match[1].lower()
    return next((tuple_[1:] for tuple_ in _METRICS if word.startswith(tuple_[0])), None)


def _read_table(found: Reading, document: Document, table: _Table) -> None:
    labels = _label_columns(table)
    cells: list[tuple[_Row, list[Number]]] = []
    for row in table.rows:
        numbers = [
            number
            for column in range(labels, min(len(row.cells), len(table.header)))
            if (number := _number(document, table, row, column, labels))
        ]
        for number in numbers:
            found.add(number)
        if numbers:
            cells.append((row, numbers))
            _check_change(found, table, row, labels, numbers)
    if cells:
        found.lines.update(row.line for row in table.rows)
    _check_rates(found, cells)


def _label_columns(table: _Table) -> int:
    """How many columns on the left have no numbers in them."""
    width = len(table.header)
    for column in range(width):
        for row in table.rows:
            cell = row.cells[column] if column < len(row.cells) else ""
            if _value(cell) or _PERCENT.match(cell):
                return max(column, 1)
    return width


def _number(
    document: Document, table: _Table, row: _Row, column: int, labels: int
) -> Number | None:
    cell, header = row.cells[column], table.header[column]
    label = " ".join(row.cells[:labels])
    percent = _PERCENT.match(cell)
    if percent:
        return _percentage(document, row, header, label, percent)
    value = _value(cell)
    metric = _metric(value[2]) if value and value[2] else None
    metric = metric or _metric(label) or _metric(header)
    if not value or not metric or value[2] == "sec":
        return None
    by_row = _metric(header) is not None and not _metric(label)
    side = re.sub(r"\s*\([^)]*\)$", "", row.cells[0]) if by_row else header
    first = table.header[0]
    case = case_of(header if by_row else label) or case_of(label) or document.case
    if by_row and not _COMMIT.match(first) and case_of(label):
        side = document.side(row.line)
    name, unit, factor = metric
    return Number(
        line=row.line,
        text=row.text,
        format=NAME,
        side=side.strip("*` "),
        case=case,
        metric=name,
        unit=unit,
        written=cell.strip("`* ").split(" [")[0] if "~" in cell else value[0],
        value=value[1],
        scale=Decimal(factor),
        about="~" in cell,
        statistic=_statistic(label),
        absent=(INTERVAL, REPETITIONS),
    )


def _statistic(label: str) -> str:
    match = _STATISTIC.search(label)
    return "" if not match or match[1].lower() in ("mean", "average") else match[1].lower()


def _percentage(
    document: Document, row: _Row, header: str, label: str, match: re.Match[str]
) -> Number | None:
    """A cell that is only a percentage: a measurement if the row has no values of its own."""
    metric = _metric(label)
    if not metric or any(_value(cell) for cell in row.cells):
        return None
    sign = "-" if match[3] and match[3] in _DOWN else ""
    spread = {"R": "(R)", "I": "(I)"}.get(match[1] or "", "")
    return Number(
        line=row.line,
        text=row.text,
        format=NAME,
        side=header,
        case=case_of(label) or document.case,
        metric=metric[0],
        unit="%",
        written=f"{sign or '+'}{match[4]}",
        value=Decimal(sign + match[4]),
        spread=spread,
        statistic=_statistic(label),
        relative_to=document.baseline or "a baseline that the table does not name",
        absent=(VALUE, INTERVAL, REPETITIONS),
    )


def _check_change(
    found: Reading, table: _Table, row: _Row, labels: int, numbers: Sequence[Number]
) -> None:
    """A percentage at the end of a row, against the row's first two values."""
    if len(numbers) != 2 or numbers[0].relative_to:
        return
    old, new = numbers
    for column in range(labels, min(len(row.cells), len(table.header))):
        match = _PERCENT.match(row.cells[column])
        if not match or not _CHANGE.search(table.header[column]):
            continue
        found.checks.append(_change_check(row.line, match, old, new))


def _change_check(line: int, match: re.Match[str], old: Number, new: Number) -> Check:
    sign, digits = match[3], Decimal(match[4])
    about = bool(match[2])
    change = percent_range(old.range, new.range)
    said = f"{sign}{match[4]}%".replace("\u2191", "+").replace("\u2193", "-")
    if change is None:
        return Check(line, said, "", holds=True)
    value = 100 * (new.amount - old.amount) / old.amount
    formula = (
        f"{old.written} -> {new.written} {new.unit} is {significant(value, 3):+f}% of {old.written}"
    )
    printed = rounded(-digits if sign and sign in _DOWN else digits, about)
    mirrored = rounded(-digits, about)
    # "Improvement" and a bare number may mean either direction.
    holds = change.meets(printed) or (not sign and change.meets(mirrored))
    if holds:
        return Check(line, said, formula, holds=True)
    other = percent_range(new.range, old.range)
    wrong_base = other is not None and (
        other.meets(rounded(digits, about)) or other.meets(mirrored)
    )
    hint = f"; {plain_number(digits)}% is of {new.written}" if wrong_base else ""
    return Check(line, said, formula, holds=False, better=formula + hint)


def _check_rates(found: Reading, rows: Sequence[tuple[_Row, list[Number]]]) -> None:
    """Microseconds an operation and operations a second, of one side of one table."""
    times = {n.side: n for _, numbers in rows for n in numbers if n.unit == "us"}
    rates = {n.side: n for _, numbers in rows for n in numbers if n.metric == OPS}
    wrong = False
    for side in [side for side in times if side in rates]:
        check = time_and_rate(rates[side].line, times[side].value, rates[side].value)
        found.checks.append(check)
        wrong = wrong or not check.holds
    both = [side for side in times if side in rates]
    if wrong and len(both) == 2:
        found.checks[-1] = _both_readings(found.checks[-1], times, rates, both)


def _both_readings(
    check: Check, times: dict[str, Number], rates: dict[str, Number], sides: Sequence[str]
) -> Check:
    """Says what change each of the two disagreeing cells would be."""
    first, second = sides
    by_time = significant(
        100 * (times[second].amount - times[first].amount) / times[first].amount, 3
    )
    by_rate = significant(
        100 * (rates[second].amount - rates[first].amount) / rates[first].amount, 3
    )
    text = f"the row is {by_time:+f}% by usecs/op and {by_rate:+f}% by ops/sec"
    better = f"{check.better}; {text}" if check.better else text
    return Check(check.line, check.said, check.formula, check.holds, better)
