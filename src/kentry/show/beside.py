# SPDX-License-Identifier: GPL-2.0-or-later
"""What stands beside counts: contexts, other metrics, cycles and misses by models; costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from kentry.path.symbols import why_in_context
from kentry.path.variation import functions_by_context, settles, varying
from kentry.results import caveats
from kentry.results.annotation import AnnotatedCase, PathDiff
from kentry.results.case_name import size_name
from kentry.results.caveats import Caveat, some
from kentry.results.comparison import CaseComparison, Cycles
from kentry.results.estimate import UNKNOWN, Estimate, Misses, Share
from kentry.results.recording import CaseResult, Recording
from kentry.results.studies import Cell, MetricStep, Series, SeriesColumn
from kentry.show.blocks import SHOWN, Block, Column, Layout, Prose, Table, text_column
from kentry.show.numbers import signed
from kentry.stats.exact import UNDECIDED

if TYPE_CHECKING:
    from kentry.models.costs import CostTable

# Of at most this many cases, functions and misses after walks are printed.
_FEW_CASES = 2
# More counts of one case are a range.
_NAMED = 6
# The first to be printed: what most cores fetch or decode at once.
_USUAL_FETCH = "fetches.32"
# Behind a sum that no context has as its count.
NO_COUNT = "*"
SUM_NOTE = f"{NO_COUNT} the old count and the change of each function; no context has this count"
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
    **{
        f"fetches.{size}": (f"window of {size} bytes", f"windows of {size} bytes")
        for size in (16, 32, 64)
    },
    "targets.unaligned": ("unaligned target", "unaligned targets"),
    "functions.straddling": ("function across a line", "functions across a line"),
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
            counts = f"{min(case.values)} to {max(case.values)}, without a commonest count"
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
    return [*_DEPENDS, *blocks] if blocks else []


def layout_blocks(
    cases: Iterable[CaseComparison | PathDiff], *, whole: bool = False
) -> list[Block]:
    """Says where the same instructions lie: a line a case (`whole`: all of it), then what moved."""
    blocks: list[Block] = []
    moved: dict[int, Counter[str]] = {}
    for case in cases:
        if not case.layout:
            continue
        for function in case.layout.moved:
            moved.setdefault(function.by, Counter())[function.name] += function.instructions
        pairs = {_USUAL_FETCH: case.layout.metrics[_USUAL_FETCH]}
        if whole:
            pairs |= {name: (a, b) for name, (a, b) in case.layout.metrics.items() if a != b}
        texts = [
            f"{old}{f' -> {new}' if old != new else ''} {_NOUNS.get(name, ('', name))[1]}"
            for name, (old, new) in pairs.items()
        ]
        text = f"{case.name}: same instructions at other addresses: {', '.join(texts)}"
        blocks.append(Prose(text, "  ", "    "))
    for by, functions in sorted(moved.items(), key=lambda pair: (-pair[1].total(), pair[0])):
        names = [name for name, _ in functions.most_common()]
        blocks.append(Prose(f"moved {by:+d} bytes: {some(names, SHOWN)}", "  ", "    "))
    return ["", "Where the code lies, which is no verdict on time:", *blocks] if blocks else []


def counted(value: int, row: CaseComparison | Cell) -> str:
    """Returns a count, marked where it is a sum that no context has."""
    return f"{value}{NO_COUNT * row.sum_of_contexts}"


def sum_notes(rows: Iterable[CaseComparison]) -> list[Block]:
    """Returns what that mark means; [] where no row has it."""
    return [Prose(SUM_NOTE)] if any(row.sum_of_contexts for row in rows) else []


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
            texts.append(f"{amount} {which} {noun} ({row.old} -> {counted(row.new, row)})")
        texts += [f"{row.metric} undecided" for row in own if row.verdict == UNDECIDED]
        same = ", ".join(f"{row.metric} {row.old}" for row in own if not row.delta)
        texts += [f"the same: {same}"] if same else []
        yield Prose(f"{name}: {'; '.join(texts)}")


def series_metric_blocks(series: Series, columns: Iterable[SeriesColumn]) -> Iterator[Block]:
    """Yields a table for each of the columns: a row a patch, each metric with its step."""
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
    """Returns a row a metric, a column a part of the path, and their sum."""
    names = list(dict.fromkeys(part for own in amounts.values() for part in own))
    table = Table([text_column("metric"), *map(Column, names), Column("sum")])
    for metric, own in amounts.items():
        table.row(metric, *(own.get(name, 0) for name in names), sum(own.values()))
    return table


def estimate_blocks(
    cases: Sequence[CaseResult | AnnotatedCase], shown: int | None = SHOWN
) -> list[Block]:
    """What the models make of the cases that have estimates, with a blank line above; or []."""
    estimates = {case.name: case.estimates for case in cases if case.estimates}
    if not estimates:
        return []
    blocks = ["", *cycle_blocks(cases)]
    for name, own in estimates.items():
        blocks += ["", f"{name}, by part", _share_table(own, [estimate.parts for estimate in own])]
    for name, own in estimates.items() if len(estimates) <= _FEW_CASES else ():
        table = _share_table(own, [estimate.functions for estimate in own], shown)
        blocks += ["", f"{name}, by function", table]
    return [*blocks, "", *_left_blocks([cost for own in estimates.values() for cost in own])]


def without_model_notes(notes: Iterable[Caveat], *, cycles: bool) -> list[Caveat]:
    """Returns notes but for those on misses and, without `cycles`, on cycles: none are shown."""
    templates = [caveats.modelled_caches, caveats.unknown_caches, caveats.no_accesses]
    templates += [] if cycles else [caveats.modelled, caveats.other_processor]
    kinds = {template.kind for template in templates}
    return [note for note in notes if note["kind"] not in kinds]


def _models(versions: Iterable[str]) -> str:
    return f"LLVM {' and '.join(dict.fromkeys(versions))}'s scheduling models"


def cycle_blocks(cases: Iterable[CaseResult | AnnotatedCase]) -> list[Block]:
    """Returns a row a core and case that has estimates; or []."""
    columns = [*map(text_column, ("case", "core")), *map(Column, ("cycles", "steady"))]
    table = Table([*columns, text_column("limited by", wraps=True)], keys=2)
    versions: list[str] = []
    for case in cases:
        for number, estimate in enumerate(case.estimates or ()):
            # How long the front end and the busiest port would take alone.
            limit, name = estimate.limit, "" if number else case.name
            port = f", {limit.port} {limit.port_cycles:g}" if limit.port else ""
            by = f"{limit.by} (front end {limit.front_end:g}{port})"
            table.row(name, estimate.core, cycle_range(estimate), f"{estimate.steady:g}", by)
            versions.append(estimate.llvm)
    return [f"Cycles by {_models(versions)} (not measured):", "", table] if versions else []


def cycle_range(cycles: Estimate | Share | Cycles) -> str:
    """Returns the cycles, "from - to" where figures are ranges; ">=" where figures are missing."""
    return f">= {cycles.low:g}" if cycles.missing else _span(cycles.low, cycles.high)


def _span(low: float | None, high: float | None) -> str:
    return f"{low:g}" if low == high else f"{low:g} - {high:g}"


def _share_table(
    estimates: Sequence[Estimate], shares: Sequence[Sequence[Share]], shown: int | None = None
) -> Table:
    cores = [Column(estimate.core) for estimate in estimates]
    table = Table([text_column(most=34), Column("instructions"), *cores])
    rows = kept = list(zip(*shares, strict=True))
    if shown is not None and len(rows) > shown + 1:
        kept = sorted(rows, key=lambda row: -max(share.low for share in row))[:shown]
    for row in rows:
        if row in kept:
            table.row(row[0].name, row[0].instructions, *map(cycle_range, row))
    if rest := [row for row in rows if row not in kept]:
        names = ("instructions", "low", "high", "missing")
        columns = [
            Share("", *(sum(getattr(share, name) for share in column) for name in names))
            for column in zip(*rest, strict=True)
        ]
        table.row(f"{len(rest)} other", columns[0].instructions, *map(cycle_range, columns))
    table.row("total", sum(row[0].instructions for row in rows), *map(cycle_range, estimates))
    return table


def _left_blocks(estimates: Sequence[Estimate]) -> Iterator[Block]:
    sources: dict[str, int] = {}
    texts: dict[str, list[str]] = {}
    for core in dict.fromkeys(estimate.core for estimate in estimates):
        own = [estimate for estimate in estimates if estimate.core == core]
        every = [row for estimate in own for row in estimate.left]
        labels = ("from the tables", "without a figure", "unknown to the model")
        parts: dict[str, list[str]] = {label: [] for label in labels}
        for row in {(row.name, row.why): row for row in every}.values():
            if row.low is not None:
                number = sources.setdefault(row.source, len(sources) + 1)
                parts["from the tables"].append(f"{row.name} {_span(row.low, row.high)} [{number}]")
            else:
                # How often it comes, in all cases.
                times = sum(left.times for left in every if left.name == row.name)
                label = "unknown to the model" if row.why == UNKNOWN else "without a figure"
                parts[label].append(f"{row.name} x{times}" if times > 1 else row.name)
        text = "; ".join(f"{label}: {', '.join(names)}" for label, names in parts.items() if names)
        texts.setdefault(text or "nothing", []).append(f"{core} (ports {own[0].limit.ports}*)")
    yield "Left out of the models' streams:"
    for text, cores in texts.items():
        yield Prose(f"{', '.join(cores)}: {text}")
    for source, number in sources.items():
        yield Prose(f"[{number}] {source}", then="    ")


def estimate_change_blocks(cases: Iterable[CaseComparison]) -> list[Block]:
    """Returns the cycles of both sides by the same models, with a blank line above; or []."""
    numbers = map(Column, ("old", "new", "change", "steady", "change"))
    table = Table([*map(text_column, ("case", "core")), *numbers], keys=2)
    versions: list[str] = []
    for case in cases:
        for number, both in enumerate(case.estimates):
            old, new, name = both.old, both.new, "" if number else case.name
            ends = cycle_range(old), cycle_range(new), _change(new.low - old.low)
            table.row(name, both.core, *ends, f"{new.steady:g}", _change(new.steady - old.steady))
            versions.append(both.llvm)
    return ["", f"Cycles by {_models(versions)} (not measured):", "", table] if versions else []


def _change(cycles: float) -> str:
    """Returns a difference to a tenth of a cycle, with its sign; "0" for none."""
    rounded = round(cycles, 1)
    return f"{rounded:+g}" if rounded else "0"


def series_estimate_blocks(series: Series, columns: Iterable[SeriesColumn]) -> list[Block]:
    """A row a patch: each core's cycles, the step from the last row that has some; or []."""
    base = series.rows[0].cases
    firsts = [
        (column, estimate)
        for column in columns
        if column.name in base
        for estimate in base[column.name].estimates or ()
    ]
    if not firsts:
        return []
    columns_of_cores = [
        Column(head, group=f"{column.name} on {estimate.core}")
        for column, estimate in firsts
        for head in ("cycles", "step")
    ]
    title = text_column("cycles (not measured)", most=21)
    table = Table([Column(), title, *columns_of_cores], keys=2)
    last: dict[int, float] = {}
    for row in series.rows:
        cells: list[object] = []
        for number, (column, first) in enumerate(firsts):
            cell = row.cases.get(column.name)
            own = [on for on in (cell and cell.estimates) or () if on.core == first.core]
            if not own:
                cells += [None if row.cases else "", ""]
                continue
            step = _change(own[0].low - last[number]) if number in last else ""
            last[number] = own[0].low
            cells += [cycle_range(own[0]), step]
        table.row(row.patch, row.subject if row.patch else "Baseline", *cells)
    return ["", f"By {_models(estimate.llvm for _, estimate in firsts)}:", "", table]


def miss_blocks(cases: Sequence[CaseResult | AnnotatedCase]) -> list[Block]:
    """The misses that a model says of the cases, a table a core below a blank line; or []."""
    by_core: dict[str, list[tuple[str, Misses]]] = {}
    for case in cases:
        for misses in case.misses:
            by_core.setdefault(misses.core, []).append((case.name, misses))
    blocks: list[Block] = []
    for core, rows in by_core.items():
        levels = []
        for level in rows[0][1].levels:
            # Of a TLB how many pages it holds.
            pages = str(level.bytes // level.line) if level.name.endswith("TLB") else ""
            levels.append(Column(pages or size_name(level.bytes), group=level.name))
        table = Table([*map(text_column, ("case", "caches")), *levels], keys=2)
        for name, misses in rows:
            table.row(name, "warm", *misses.warm)
            for walks, more in ((misses.walked, ""), (misses.walked_with_code, " + code")):
                before = misses.warm
                # A walk that changes nothing is left out.
                for size, counts in walks if len(rows) <= _FEW_CASES else ():
                    if counts != before:
                        table.row("", f"after {size_name(size)}{more}", *counts)
                        before = counts
            table.row("", "cold", *misses.cold)
        blocks += ["", f"Misses on {core} by a model (not measured):", "", table, ""]
        blocks += [Prose(f"Sizes and ways: {rows[0][1].source}")]
    return blocks


def costs_layout(table: CostTable, checks: Sequence[tuple[str, float, float]] = ()) -> Layout:
    """Lays out the figures and their sources; `checks`: (what, counted, timed) in one guest."""
    length = f", {table.vl} bits" if table.vl else ""
    units: list[str] = [table.unit] * bool(table.figures)
    units += ["cycles an instruction"] * bool(table.instructions)
    blocks: list[Block] = [f"{table.name} ({table.arch}{length}), {', '.join(units)}"]
    blocks += [Prose(table.about)] if table.about else []
    every = [*table.figures.values(), *table.instructions.values()]
    # Figures with the same source and note share a number.
    sources = list(dict.fromkeys((figure.source, figure.note) for figure in every))
    for kind, figures in (("act", table.figures), ("instruction", table.instructions)):
        texts = map(text_column, ("interval", "assume", "source"))
        rows = Table((text_column(kind), Column("value"), *texts))
        for name, figure in figures.items():
            ends = f"{_short(figure.low)} - {_short(figure.high)}" if figure.has_interval else ""
            source = f"[{sources.index((figure.source, figure.note)) + 1}]"
            rows.row(name, _short(figure.value), ends, figure.assume, source)
        blocks += ["", rows] if figures else []
    if table.absent:
        blocks += ["", "No figure for:"]
        blocks += [Prose(f"{act}: {why}", "  ", "    ") for act, why in table.absent.items()]
    if checks:
        twice = Table((text_column(), Column("paths"), Column("clock")), indent="  ")
        for what, counted, timed in checks:
            twice.row(what, _short(counted), _short(timed))
        blocks += ["", "Counted twice, along the recorded paths and by the guest's own clock:"]
        blocks.append(twice)
    blocks.append("")
    for number, (source, note) in enumerate(sources, start=1):
        text = f"[{number}] {source}" + (f" ({note})" if note else "")
        blocks.append(Prose(text, then="    "))
    return Layout("costs", table.name, table.about, blocks)


def _short(value: float) -> str:
    """Returns a cost to a tenth, from 1000 on without decimals: no figure is more precise."""
    return f"{value:.0f}" if value >= 1000 else f"{round(value, 1):.15g}"


def list_layout(tables: Iterable[CostTable]) -> Layout:
    """Lays out a row a table: its name, architecture and unit, and what it is of."""
    texts = map(text_column, ("name", "arch", "unit"))
    rows = Table((*texts, *map(Column, ("vl", "acts", "instructions"))))
    for table in tables:
        counts = (len(table.figures) or None, len(table.instructions) or None)
        unit = table.unit if table.figures else "cycles"
        rows.row(table.name, table.arch, unit, table.vl or None, *counts)
        rows.note(table.about)
    return Layout("costs", "Cost tables", "", [rows])
