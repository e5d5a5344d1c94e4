# SPDX-License-Identifier: GPL-2.0-or-later
"""A cost table as text, and a list of the tables that come with kentry."""

from collections.abc import Iterable, Mapping, Sequence

from kentry.models.costs import CostTable, Figure
from kentry.show.blocks import Block, Column, Layout, Prose, Table, text_column


def costs_layout(table: CostTable, checks: Sequence[tuple[str, float, float]] = ()) -> Layout:
    """Lays out a table: a row an act or instruction, and where each figure is from.

    `checks`: (what, counted, timed) in the same guest.
    """
    length = f", {table.vl} bits" if table.vl else ""
    units: list[str] = [table.unit] if table.figures else []
    units += ["cycles an instruction"] if table.instructions else []
    blocks: list[Block] = [f"{table.name} ({table.arch}{length}), {', '.join(units)}"]
    blocks += [Prose(table.about)] if table.about else []
    every = [*table.figures.values(), *table.instructions.values()]
    # Figures with the same source and note share a number.
    sources = list(dict.fromkeys((figure.source, figure.note) for figure in every))
    for kind, figures in (("act", table.figures), ("instruction", table.instructions)):
        if figures:
            blocks += ["", _rows(kind, figures, sources)]
    if table.absent:
        blocks += ["", "No figure for:"]
        for act, why in table.absent.items():
            blocks += [Prose(f"{act}: {why}", "  ", "    ")]
    if checks:
        twice = Table((text_column(), Column("paths"), Column("clock")), indent="  ")
        for what, counted, timed in checks:
            twice.row(what, _short(counted), _short(timed))
        blocks += ["", "Counted twice, along the recorded paths and by the guest's own clock:"]
        blocks.append(twice)
    blocks.append("")
    for number, (source, note) in enumerate(sources, start=1):
        text = f"[{number}] {source}" + (f" ({note})" if note else "")
        blocks += [Prose(text, then="    ")]
    return Layout("costs", table.name, table.about, blocks)


def _rows(kind: str, figures: Mapping[str, Figure], sources: list[tuple[str, str]]) -> Table:
    """A row a figure, with the number of its source."""
    words = map(text_column, ("interval", "assume", "source"))
    rows = Table((text_column(kind), Column("value"), *words))
    for name, figure in figures.items():
        ends = f"{_short(figure.low)} - {_short(figure.high)}" if figure.has_interval else ""
        source = f"[{sources.index((figure.source, figure.note)) + 1}]"
        rows.row(name, _short(figure.value), ends, figure.assume, source)
    return rows


def _short(value: float) -> str:
    """A cost to a tenth, from 1000 on without decimals: no figure is more precise."""
    return f"{value:.0f}" if value >= 1000 else f"{round(value, 1):.15g}"


def list_layout(tables: Iterable[CostTable]) -> Layout:
    """Lays out a row a table: its name, architecture and unit, and what it is of."""
    words = map(text_column, ("name", "arch", "unit"))
    rows = Table((*words, Column("vl"), Column("acts"), Column("instructions")))
    for table in tables:
        counts = (len(table.figures) or None, len(table.instructions) or None)
        unit = table.unit if table.figures else "cycles"
        rows.row(table.name, table.arch, unit, table.vl or None, *counts)
        rows.note(table.about)
    return Layout("costs", "Cost tables", "", [rows])
