# SPDX-License-Identifier: GPL-2.0-or-later
"""What belongs to counts: contexts that they depend on, and the exact metrics beside them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from kentry.path.symbols import why_in_context
from kentry.path.variation import functions_by_context, settles, varying
from kentry.results.comparison import CaseComparison
from kentry.results.recording import CaseResult, Recording
from kentry.results.studies import MetricStep, Series, SeriesColumn
from kentry.show.blocks import Block, Column, Prose, Table, text_column
from kentry.show.numbers import signed
from kentry.stats.exact import UNDECIDED

# More counts of one case are a range.
_NAMED = 6
_DEPENDS = ("", "Depends on the context, which is not the kernel:")

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


def counts_text(counts: Sequence[tuple[int, int]]) -> str:
    """Counts, the commonest first: '3869 in 11 of 16 contexts, 3877 in 5'."""
    total = sum(times for _, times in counts)
    if len(counts) > _NAMED:
        values = [count for count, _ in counts]
        return f"{min(values)} to {max(values)}: {len(counts)} counts in {total} contexts"
    ordered = sorted(counts, key=lambda pair: (-pair[1], pair[0]))
    first, *others = (f"{count} in {times}" for count, times in ordered)
    return ", ".join([f"{first} of {total} contexts", *others])


def recording_context_blocks(recording: Recording, cases: Iterable[CaseResult]) -> list[Block]:
    """For each case with several counts: the counts, and a line for each function that varies."""
    blocks: list[Block] = []
    for case in cases:
        if len(case.values) < 2:
            continue
        counts = counts_text(list(case.values.items()))
        if not settles(case):
            counts = f"{min(case.values)} to {max(case.values)}, and it never settles"
        blocks.append(Prose(f"{case.name}: {counts}", "  "))
        for function, shares in varying(functions_by_context(case, recording)).items():
            least = min(shares)
            more = ", ".join(f"{count - least:+d} in {n}" for count, n in shares.items())
            reason = why_in_context(function)
            text = f"{function} {more}{f': {reason}' if reason else ''}"
            blocks.append(Prose(text, "    ", "      "))
    return [*_DEPENDS, *blocks] if blocks else []


def comparison_context_blocks(cases: Iterable[CaseComparison]) -> list[Block]:
    """For each case with several counts: those of the old kernel and those of the new one."""
    blocks: list[Block] = []
    for case in cases:
        if case.contexts:
            old, new = counts_text(case.contexts.old), counts_text(case.contexts.new)
            blocks.append(Prose(f"{case.name}: old {old}; new {new}", "  ", "    "))
            if case.new not in dict(case.contexts.new):
                text = (
                    f"new {case.new} is old {case.old} with the change that all contexts have,"
                    f" {case.delta:+d}; no context of the new kernel has that count itself"
                )
                blocks.append(Prose(text, "    ", "    "))
    return [*_DEPENDS, *blocks] if blocks else []


def metric_sentences(rows: Sequence[CaseComparison]) -> Iterator[Block]:
    """For each case, what it does more and less: "getppid: 12 fewer loads (54 -> 42)"."""
    cases: dict[str, list[CaseComparison]] = {}
    for row in rows:
        cases.setdefault(row.name, []).append(row)
    for name, own in cases.items():
        texts = []
        for row in (row for row in own if row.delta and row.verdict != UNDECIDED):
            amount, which = abs(row.delta), "fewer" if row.delta < 0 else "more"
            noun = _NOUNS.get(row.metric, (f"of {row.metric}",) * 2)[amount != 1]
            texts.append(f"{amount} {which} {noun} ({row.old} -> {row.new})")
        texts += [f"{row.metric} undecided" for row in own if row.verdict == UNDECIDED]
        same = ", ".join(f"{row.metric} {row.old}" for row in own if not row.delta)
        yield Prose(f"{name}: {'; '.join([*texts, *([f'the same: {same}'] if same else [])])}")


def series_metric_blocks(series: Series, columns: Iterable[SeriesColumn]) -> Iterator[Block]:
    """A table for each of the columns: a row a patch, each metric with its step."""
    for column in columns:
        cells = [row.cases.get(column.name) for row in series.rows]
        names = list(next((cell.metrics for cell in cells if cell), ()))
        if not names:
            continue
        title = text_column(column.name, most=21)
        table = Table([Column(), title, *map(Column, names)], keys=2)
        for row, cell in zip(series.rows, cells, strict=True):
            values = [_cell(cell.metrics[name]) if cell else None for name in names]
            table.row(row.patch, row.subject if row.patch else "Baseline", *values)
        yield from ("", table)


def _cell(metric: MetricStep | None) -> str:
    if metric is None:
        return "?"
    return f"{metric.value} ({signed(metric.step)})" if metric.step else str(metric.value)


def part_table(amounts: Mapping[str, Mapping[str, int]]) -> Table:
    """A row a metric, a column a part of the path, and their sum."""
    names = list(dict.fromkeys(part for own in amounts.values() for part in own))
    table = Table([text_column("metric"), *map(Column, names), Column("sum")])
    for metric, own in amounts.items():
        table.row(metric, *(own.get(name, 0) for name in names), sum(own.values()))
    return table
