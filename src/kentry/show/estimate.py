# SPDX-License-Identifier: GPL-2.0-or-later
"""Cycles by scheduling models: a row a core, then parts, functions, and what was left out."""

from collections.abc import Iterable, Iterator, Sequence

from kentry.results.annotation import AnnotatedCase
from kentry.results.caveats import Caveat, modelled, modelled_caches, no_accesses, unknown_caches
from kentry.results.comparison import CaseComparison, Cycles
from kentry.results.estimate import UNKNOWN, Estimate, LeftOut, Share
from kentry.results.recording import CaseResult
from kentry.results.studies import Series, SeriesColumn
from kentry.show.blocks import SHOWN, Block, Column, Prose, Table, text_column

# Functions are printed of so many cases.
_FEW_CASES = 2


def estimate_blocks(
    cases: Sequence[CaseResult | AnnotatedCase], shown: int | None = SHOWN
) -> list[Block]:
    """What the models make of the cases that have estimates, with a blank line above; or []."""
    found = {case.name: case.estimates for case in cases if case.estimates}
    if not found:
        return []
    blocks = ["", *cycle_blocks(cases)]
    for name, estimates in found.items():
        rows = _share_blocks(estimates, [one.parts for one in estimates])
        blocks += ["", f"{name}, by part", *rows]
    if len(found) <= _FEW_CASES:
        for name, estimates in found.items():
            rows = _share_blocks(estimates, [one.functions for one in estimates], shown)
            blocks += ["", f"{name}, by function", *rows]
    return [*blocks, "", *_left_blocks([one for row in found.values() for one in row])]


def without_model_notes(caveats: Iterable[Caveat], *, cycles: bool) -> list[Caveat]:
    """Returns notes but for those on misses and, without `cycles`, on cycles: none are shown."""
    templates = (modelled_caches, unknown_caches, no_accesses, *(() if cycles else (modelled,)))
    kinds = {one.kind for one in templates}
    return [one for one in caveats if one["kind"] not in kinds]


def cycle_blocks(cases: Iterable[CaseResult | AnnotatedCase]) -> list[Block]:
    """A row a core and case that has estimates; or []."""
    found = {case.name: case.estimates for case in cases if case.estimates}
    if not found:
        return []
    columns = [*map(text_column, ("case", "core")), *map(Column, ("cycles", "steady"))]
    table = Table([*columns, text_column("limited by", wraps=True)], keys=2)
    for name, estimates in found.items():
        label = name
        for one in estimates:
            limit = f"{one.limit.by} ({_bounds(one)})"
            table.row(label, one.core, cycle_range(one), f"{one.steady:g}", limit)
            label = ""
    title = f"Cycles by {_versions(found.values())}'s scheduling models (not measured):"
    return [title, "", table]


def _versions(rows: Iterable[Sequence[Estimate]]) -> str:
    versions = dict.fromkeys(one.llvm for row in rows for one in row)
    return "LLVM " + " and ".join(versions)


def _bounds(one: Estimate) -> str:
    """How long the front end and the busiest port would take alone."""
    limit = one.limit
    port = f", {limit.port} {limit.port_cycles:g}" if limit.port else ""
    return f"front end {limit.front_end:g}{port}"


def cycle_range(one: Estimate | Share | Cycles) -> str:
    """The cycles, "from - to" where figures are ranges; ">=" where figures are missing."""
    if one.missing:
        return f">= {one.low:g}"
    return f"{one.low:g}" if one.low == one.high else f"{one.low:g} - {one.high:g}"


def _share_blocks(
    estimates: Sequence[Estimate], shares: Sequence[Sequence[Share]], shown: int | None = None
) -> list[Block]:
    """A row a function or part, a column a core; the rows that cost most where not all are shown.

    Rows that are not shown are added up in one.
    """
    table = Table([text_column(most=34), Column("instructions"), *map(_column, estimates)])
    rows = list(zip(*shares, strict=True))
    kept = rows
    if shown is not None and len(rows) > shown + 1:
        kept = sorted(rows, key=lambda row: -max(one.low for one in row))[:shown]
    for row in rows:
        if row in kept:
            table.row(row[0].name, row[0].instructions, *map(cycle_range, row))
    if rest := [row for row in rows if row not in kept]:
        columns = [_sum(column) for column in zip(*rest, strict=True)]
        table.row(f"{len(rest)} other", columns[0].instructions, *map(cycle_range, columns))
    table.row("total", sum(row[0].instructions for row in rows), *map(cycle_range, estimates))
    return [table]


def _column(one: Estimate) -> Column:
    return Column(one.core)


def _sum(rows: Sequence[Share]) -> Share:
    low, high = sum(one.low for one in rows), sum(one.high for one in rows)
    missing = sum(one.missing for one in rows)
    return Share("", sum(one.instructions for one in rows), low, high, missing)


def _left_blocks(estimates: Sequence[Estimate]) -> Iterator[Block]:
    """What the models do not know: with its figure and source, or without; by core."""
    sources: dict[str, int] = {}
    texts: dict[str, list[str]] = {}
    for core in dict.fromkeys(one.core for one in estimates):
        own = [one for one in estimates if one.core == core]
        left = {(row.name, row.why): row for one in own for row in one.left}.values()
        priced = [
            f"{row.name} {_figure(row)} [{sources.setdefault(row.source, len(sources) + 1)}]"
            for row in left
            if row.low is not None
        ]
        absent = [row for row in left if row.low is None]
        system = [row.name for row in absent if row.why != UNKNOWN]
        unknown = [row.name for row in absent if row.why == UNKNOWN]
        parts = [
            f"{label}: {names}"
            for label, names in (
                ("from the tables", ", ".join(priced)),
                ("without a figure", _counted(system, own)),
                ("unknown to the model", _counted(unknown, own)),
            )
            if names
        ]
        texts.setdefault("; ".join(parts) or "nothing", []).append(
            f"{core} (ports {own[0].limit.ports}*)"
        )
    yield "Left out of the models' streams:"
    for text, cores in texts.items():
        yield Prose(f"{', '.join(cores)}: {text}", then="  ")
    for source, number in sources.items():
        yield Prose(f"[{number}] {source}", then="    ")


def _counted(names: Sequence[str], estimates: Sequence[Estimate]) -> str:
    """Names with how often they come, in all cases."""
    times = {
        name: sum(row.times for one in estimates for row in one.left if row.name == name)
        for name in names
    }
    return ", ".join(f"{name} x{n}" if n > 1 else name for name, n in times.items())


def _figure(row: LeftOut) -> str:
    return f"{row.low:g}" if row.low == row.high else f"{row.low:g} - {row.high:g}"


def estimate_change_blocks(cases: Iterable[CaseComparison]) -> list[Block]:
    """The cycles of both sides by the same models, with a blank line above; or []."""
    table = Table(
        [
            *map(text_column, ("case", "core")),
            *map(Column, ("old", "new", "change", "steady", "change")),
        ],
        keys=2,
    )
    versions: dict[str, None] = {}
    for case in cases:
        label = case.name
        for one in case.estimates or ():
            versions[one.llvm] = None
            old, new = one.old, one.new
            table.row(
                label,
                one.core,
                cycle_range(old),
                cycle_range(new),
                _change(new.low - old.low),
                f"{new.steady:g}",
                _change(new.steady - old.steady),
            )
            label = ""
    if not versions:
        return []
    title = f"Cycles by LLVM {' and '.join(versions)}'s scheduling models (not measured):"
    return ["", title, "", table]


def _change(cycles: float) -> str:
    """A difference to a tenth of a cycle, with its sign; "0" for none."""
    rounded = round(cycles, 1)
    return f"{rounded:+g}" if rounded else "0"


def series_estimate_blocks(series: Series, columns: Iterable[SeriesColumn]) -> list[Block]:
    """A row a patch: the cycles of each core in these columns, and the step; [] without any.

    A step is against the last row that has the number, as that of the count is.
    """
    first = series.rows[0].cases
    found = [
        (column, one)
        for column in columns
        if column.name in first
        for one in first[column.name].estimates or ()
    ]
    if not found:
        return []
    layout = [Column(), text_column("cycles (not measured)", most=21)]
    for column, one in found:
        title = f"{column.name} on {one.core}"
        layout += [Column(name, group=title) for name in ("cycles", "step")]
    table = Table(layout, keys=2)
    last: dict[int, float] = {}
    for row in series.rows:
        cells: list[object] = []
        for number, (column, first_one) in enumerate(found):
            cell = row.cases.get(column.name)
            own = [one for one in (cell and cell.estimates) or () if one.core == first_one.core]
            if not own:
                cells += [None if row.cases else "", ""]
                continue
            step = _change(own[0].low - last[number]) if number in last else ""
            last[number] = own[0].low
            cells += [cycle_range(own[0]), step]
        table.row(row.patch, row.subject if row.patch else "Baseline", *cells)
    versions = " and ".join(dict.fromkeys(one.llvm for _, one in found))
    return ["", f"By LLVM {versions}'s scheduling models:", "", table]
