# SPDX-License-Identifier: GPL-2.0-or-later
"""A cost table as text of at most 75 columns, and the shipped ones in a list."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kentry.report.plain import ascii_lines, plain, wrapped
from kentry.vector.costs import CostTable, Figure, number

_WIDTH = 75
# From here on no digit behind the point says anything.
_WHOLE = 1000


def costs_text(
    table: CostTable,
    absent: Mapping[str, str] | None = None,
    checks: Sequence[tuple[str, float, float]] = (),
) -> str:
    """The table: a row an act, and where each figure is from.

    `absent` says of acts why they have no figure; `checks` are (what, counted, timed) in the same
    guest.
    """
    length = f", {table.vl} bits" if table.vl else ""
    lines = [f"{table.name} ({table.arch}{length}), {table.unit}"]
    lines += wrapped(plain(table.about), _WIDTH) if table.about else []
    lines += ["", *_figure_lines(table.figures)]
    if absent:
        lines += ["", "No figure for:"]
        for act, why in absent.items():
            lines += wrapped(f"{act}: {why}", _WIDTH, "  ", "    ")
    if checks:
        lines += ["", *_check_lines(checks)]
    return ascii_lines([*lines, "", *_source_lines(table)])


def _figure_lines(figures: Mapping[str, Figure]) -> Iterable[str]:
    yield f"{'act':<16} {'value':>9}  {'interval':<17} {'assume':<9} source"
    notes = _numbered(figures)
    for act, figure in figures.items():
        ends = f"{_short(figure.low)} - {_short(figure.high)}" if figure.has_interval else ""
        yield (
            f"{act:<16} {_short(figure.value):>9}  {ends:<17} {figure.assume:<9}"
            f" [{notes[figure.source, figure.note]}]"
        )


def _numbered(figures: Mapping[str, Figure]) -> dict[tuple[str, str], int]:
    """A number for each source and note, the same for those that say the same."""
    texts = dict.fromkeys((figure.source, figure.note) for figure in figures.values())
    return {text: place for place, text in enumerate(texts, start=1)}


def _source_lines(table: CostTable) -> Iterable[str]:
    for (source, note), place in _numbered(table.figures).items():
        text = f"[{place}] {source}" + (f" ({note})" if note else "")
        yield from wrapped(plain(text), _WIDTH, "", "    ")


def _check_lines(checks: Sequence[tuple[str, float, float]]) -> Iterable[str]:
    yield "Counted twice, along the recorded paths and by the guest's own clock:"
    for what, counted, timed in checks:
        yield f"  {what:<20} {_short(counted):>9} {_short(timed):>9}"


def _short(value: float) -> str:
    """A cost with what three digits say, or whole."""
    return number(round(value, 1)) if value < _WHOLE else f"{value:.0f}"


def list_text(tables: Iterable[CostTable]) -> str:
    """A line a table: its name, architecture and unit, and what it is of."""
    lines = [f"{'name':<20} {'arch':<8} {'unit':<13} {'vl':>4}  acts"]
    for table in tables:
        length = str(table.vl) if table.vl else "-"
        lines.append(
            f"{table.name:<20} {table.arch:<8} {table.unit:<13} {length:>4}  {len(table.figures)}"
        )
        lines += wrapped(plain(table.about), _WIDTH, "    ", "    ")
    return ascii_lines(lines)
