# SPDX-License-Identifier: GPL-2.0-or-later
"""A cost table as text, and a list of the tables that come with kentry."""

from collections.abc import Iterable, Sequence

from kentry.report.table import Column, Table, ascii_lines, text_column, wrapped
from kentry.vector.costs import CostTable


def costs_text(table: CostTable, checks: Sequence[tuple[str, float, float]] = ()) -> str:
    """The table: a row an act, and where each figure is from.

    `checks`: (what, counted, timed) in the same guest.
    """
    length = f", {table.vl} bits" if table.vl else ""
    lines = [f"{table.name} ({table.arch}{length}), {table.unit}"]
    lines += wrapped(table.about) if table.about else []
    figures = table.figures.values()
    # Figures with the same source and note share a number.
    sources = list(dict.fromkeys((figure.source, figure.note) for figure in figures))
    words = map(text_column, ("interval", "assume", "source"))
    rows = Table((text_column("act"), Column("value"), *words))
    for act, figure in table.figures.items():
        ends = f"{_short(figure.low)} - {_short(figure.high)}" if figure.has_interval else ""
        source = f"[{sources.index((figure.source, figure.note)) + 1}]"
        rows.row(act, _short(figure.value), ends, figure.assume, source)
    lines += ["", *rows.lines()]
    if table.absent:
        lines += ["", "No figure for:"]
        for act, why in table.absent.items():
            lines += wrapped(f"{act}: {why}", "  ", "    ")
    if checks:
        twice = Table((text_column(), Column("paths"), Column("clock")), indent="  ")
        for what, counted, timed in checks:
            twice.row(what, _short(counted), _short(timed))
        lines += ["", "Counted twice, along the recorded paths and by the guest's own clock:"]
        lines += twice.lines()
    lines.append("")
    for number, (source, note) in enumerate(sources, start=1):
        text = f"[{number}] {source}" + (f" ({note})" if note else "")
        lines += wrapped(text, then="    ")
    return ascii_lines(lines)


def _short(value: float) -> str:
    """A cost to a tenth, from 1000 on without decimals: no figure is more precise."""
    return f"{value:.0f}" if value >= 1000 else f"{round(value, 1):.15g}"


def list_text(tables: Iterable[CostTable]) -> str:
    """A row a table: its name, architecture and unit, and what it is of."""
    words = map(text_column, ("name", "arch", "unit"))
    rows = Table((*words, Column("vl"), Column("acts")))
    for table in tables:
        rows.row(table.name, table.arch, table.unit, table.vl or None, len(table.figures))
        rows.note(table.about)
    return ascii_lines(rows.lines())
