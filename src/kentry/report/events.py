# SPDX-License-Identifier: GPL-2.0-or-later
"""Vector events that changed between two kernels, as sentences."""

from __future__ import annotations

from collections.abc import Iterable

from kentry.model.case_name import CaseName
from kentry.model.comparison import CaseComparison, EventDelta
from kentry.model.series import Series
from kentry.report.table import wrapped


def event_change_lines(cases: Iterable[CaseComparison]) -> list[str]:
    """A sentence for each event whose number changed, below a heading; [] without one."""
    lines = []
    for case in cases:
        for event in case.events:
            if event.is_change:
                lines += wrapped(f"{case.name}: {_change(event, case.name)}", "  ", "    ")
    return ["Vector events:", *lines] if lines else []


def series_event_lines(series: Series) -> list[str]:
    """A sentence for each change of events in a patch, with the cases that it is the same for."""
    lines = []
    for row in series.rows:
        groups: dict[str, list[str]] = {}
        for column, cell in row.cells.items():
            if cell.events:
                text = "; ".join(_change(event, column.case) for event in cell.events)
                groups.setdefault(text, []).append(series.name(column))
        for text, names in groups.items():
            lines += wrapped(f"Patch {row.patch}: {text}: {', '.join(names)}")
    return lines


def _change(event: EventDelta, case: str) -> str:
    old, new = ("?" if side is None else side for side in (event.old, event.new))
    calls = CaseName.parse(case).calls
    per = "call" if calls == 1 else f"{calls} calls"
    where = f", in {', '.join(event.functions)}" if event.functions else ""
    return f"{event.name} ({event.cause}) {old} -> {new} per {per}{where}"
