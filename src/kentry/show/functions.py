# SPDX-License-Identifier: GPL-2.0-or-later
"""Tables of functions exactly as the kernel's scripts/bloat-o-meter prints them; of purposes."""

from collections.abc import Sequence

from kentry.results.comparison import CaseComparison, FunctionDelta
from kentry.show.table import heading, line_width, shortened

# Rows of a table; further functions are added up in one row.
SHOWN = 10

# Columns of a name, and of each number with the blank before it.
_NAME, _NUMBER = 40, 8

UNKNOWN = "no path was recorded on one side, so the functions are not known"


def function_lines(rows: Sequence[FunctionDelta], shown: int | None = SHOWN) -> list[str]:
    """The header and a row for each function that changed; `shown` rows, None for all."""
    up = sum(row.delta for row in rows if row.delta > 0)
    down = sum(row.delta for row in rows if row.delta < 0)
    lines = [
        f"add/remove: {sum(not r.old for r in rows)}/{sum(not r.new for r in rows)}"
        f" grow/shrink: {sum(r.old > 0 and r.delta > 0 for r in rows)}"
        f"/{sum(r.new > 0 and r.delta < 0 for r in rows)}"
        f" up/down: {up}/{down} ({up + down})",
        _heading("Function"),
    ]
    cut = len(rows) if shown is None or len(rows) <= shown + 1 else shown
    lines += [_row(_name(row), row.old, row.new) for row in rows[:cut]]
    if rest := rows[cut:]:
        label = f"{len(rest)} other functions"
        lines.append(_row(label, sum(r.old for r in rest), sum(r.new for r in rest)))
    return lines


def function_lines_with_total(
    functions: Sequence[FunctionDelta], old: int, new: int, shown: int | None = SHOWN
) -> list[str]:
    """The functions that changed, the others in one row, and the total of `old` and `new`."""
    if not functions:
        return [f"  {UNKNOWN}"]
    changed = [row for row in functions if row.delta]
    lines = function_lines(changed, shown)
    if same := old - sum(row.old for row in changed):
        count = len(functions) - len(changed)
        lines.append(_row(f"{count} unchanged" if count else "unchanged", same, same))
    return [*lines, _row("Total", old, new)]


def purpose_lines(case: CaseComparison) -> list[str]:
    """Against the floor: a table of parts and one of reasons, each below an empty line."""
    lines: list[str] = []
    for title, rows in (("part of the path", case.parts), ("reason", case.reasons)):
        if rows:
            lines += ["", _heading(f"{case.name}: {title}")]
            lines += [_row(row.name, row.old, row.new) for row in rows]
            lines.append(_row("Total", case.old, case.new))
    return lines


def _name(row: FunctionDelta) -> str:
    """The name; of several functions as much as fits, since the path diff has all of it."""
    return shortened(row.name, _NAME) if row.renamed else row.name


def _heading(name: str) -> str:
    return heading(_cells(name, "old", "new", "delta"))


def _row(name: str, old: int, new: int) -> str:
    change = f"{new - old:+d}" if new != old else "-"
    return _cells(name, old or "-", new or "-", change)


def _cells(name: str, *cells: object) -> str:
    width = min(_NAME, line_width() - _NUMBER * len(cells))
    # A name that is too long moves its numbers to the right, but on a narrow terminal.
    name = shortened(name, width) if width < _NAME else name
    return f"{name:<{width}}{''.join(f'{cell:>{_NUMBER}}' for cell in cells)}"
