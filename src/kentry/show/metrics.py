# SPDX-License-Identifier: GPL-2.0-or-later
"""The exact metrics beside instructions: in words, and in the tables of a series and a path."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from kentry.results.comparison import CaseComparison
from kentry.results.studies import MetricStep, Series, SeriesColumn
from kentry.show.blocks import Block, Column, Prose, Table, text_column
from kentry.show.numbers import signed
from kentry.stats.exact import UNDECIDED

# One of it, and several.
_NOUNS = {
    "loads": ("load", "loads"),
    "stores": ("store", "stores"),
    "bytes.loaded": ("byte loaded", "bytes loaded"),
    "bytes.stored": ("byte stored", "bytes stored"),
    "atomics": ("atomic instruction", "atomic instructions"),
    "branches": ("branch", "branches"),
    "branches.taken": ("taken branch", "taken branches"),
    "branches.indirect": ("indirect branch", "indirect branches"),
    "calls": ("call", "calls"),
    "returns": ("return", "returns"),
    "serialising": ("serialising instruction", "serialising instructions"),
    "lines.code": ("cache line of code", "cache lines of code"),
    "lines.data": ("cache line of data", "cache lines of data"),
    "pages.code": ("page of code", "pages of code"),
    "pages.data": ("page of data", "pages of data"),
    "stack.bytes": ("byte of stack", "bytes of stack"),
}


def metric_sentences(rows: Sequence[CaseComparison]) -> Iterator[Block]:
    """For each case, what it does more and less: "getppid: 12 fewer loads (54 -> 42)"."""
    for name in dict.fromkeys(row.name for row in rows):
        own = [row for row in rows if row.name == name]
        changed = [_change(row) for row in own if row.delta and row.verdict != UNDECIDED]
        changed += [f"{row.metric} undecided" for row in own if row.verdict == UNDECIDED]
        same = [f"{row.metric} {row.old}" for row in own if not row.delta]
        same = [f"the same: {', '.join(same)}"] if same else []
        yield Prose(f"{name}: {'; '.join([*changed, *same])}")


def _change(row: CaseComparison) -> str:
    one, several = _NOUNS.get(row.metric, (f"of {row.metric}", f"of {row.metric}"))
    amount = abs(row.delta)
    which = "fewer" if row.delta < 0 else "more"
    return f"{amount} {which} {one if amount == 1 else several} ({row.old} -> {row.new})"


def series_metric_blocks(series: Series, columns: Iterable[SeriesColumn]) -> Iterator[Block]:
    """A table for each of the columns: a row a patch, each metric with its step."""
    for column in columns:
        cells = [row.cases[column.name] for row in series.rows if column.name in row.cases]
        names = list(cells[0].metrics) if cells else []
        if not names:
            continue
        title = text_column(column.name, most=21)
        table = Table([Column(), title, *(Column(name) for name in names)], keys=2)
        for row in series.rows:
            cell = row.cases.get(column.name)
            values = [_cell(cell.metrics[name]) if cell else None for name in names]
            table.row(row.patch, row.subject if row.patch else "Baseline", *values)
        yield from ("", table)


def _cell(metric: MetricStep | None) -> str:
    if metric is None:
        return "?"
    return f"{metric.value} ({signed(metric.step)})" if metric.step else str(metric.value)


def part_blocks(amounts: Mapping[str, Mapping[str, int]]) -> list[Block]:
    """A row a metric, a column a part of the path, and their sum."""
    names = list(dict.fromkeys(part for own in amounts.values() for part in own))
    table = Table([text_column("metric"), *(Column(name) for name in names), Column("sum")])
    for metric, own in amounts.items():
        table.row(metric, *(own.get(name, 0) for name in names), sum(own.values()))
    return [table]
