# SPDX-License-Identifier: GPL-2.0-or-later
"""What `kentry diff` prints: verdicts, then functions, then caveats."""

from __future__ import annotations

from kentry.model.case_name import CaseName
from kentry.model.caveats import Caveat
from kentry.model.comparison import CaseComparison, Comparison, TimedComparison
from kentry.report.events import event_change_lines
from kentry.report.frame import caveat_lines, kernel_lines
from kentry.report.functions import SHOWN, function_lines_with_total
from kentry.report.numbers import change, fixed_percent
from kentry.report.table import Column, Table, ascii_lines, text_column, wrapped
from kentry.report.timed import (
    timed_change,
    timed_unit,
    timed_values,
    timed_verdict,
    timing_facts,
)
from kentry.stats.exact import SAME

# A change and its verdict stand on one line, which may be wider than a mail.
_ROW = 120


def comparison_text(comparison: Comparison, shown: int | None = SHOWN) -> str:
    """The whole report, with `shown` rows in a table of functions, None for all of them."""
    lines = [
        *kernel_lines(comparison.old, "old: "),
        *kernel_lines(comparison.new, "new: "),
        *(
            line
            for fact in timing_facts(comparison, named=True)
            for line in wrapped(fact, then="    ")
        ),
        "",
    ]
    if events := event_change_lines(comparison.cases):
        lines += [*events, ""]
    table = verdict_table()
    for name in comparison.names:
        label = f"{name}{CaseName.parse(name).calls_note}:"
        for row in comparison.rows(name):
            if isinstance(row, CaseComparison):
                sides = (str(row.old), str(row.new))
            else:
                sides = timed_values(row)
            table.row(label, sides[0], "->", sides[1], _verdict(row))
            label = ""
    lines += table.lines(_ROW)
    for case in comparison.cases:
        if case.delta:
            title = f"{case.name}{CaseName.parse(case.name).calls_note} ({case.delta:+d})"
            functions = function_lines_with_total(case.functions, case.old, case.new, shown)
            lines += ["", title, *functions]
    return ascii_lines([*lines, *caveat_lines(comparison_caveats(comparison))])


def verdict_table(indent: str = "") -> Table:
    """A table for rows of (case, old, "->", new, change and verdict)."""
    columns = [text_column(most=40), Column(), Column(), Column(), text_column(wraps=True)]
    return Table(columns, headings=False, indent=indent, gap=1)


def comparison_caveats(comparison: Comparison) -> list[Caveat]:
    """The caveats of the comparison, then those of its rows, each once."""
    found = list(comparison.caveats)
    found += [caveat for case in comparison.cases for caveat in case.caveats]
    found += [caveat for row in comparison.timed for caveat in row.caveats]
    return [caveat for i, caveat in enumerate(found) if caveat not in found[:i]]


def _verdict(row: CaseComparison | TimedComparison) -> str:
    """Unit, change and verdict of a row."""
    if isinstance(row, TimedComparison):
        floor = (
            "" if row.floor is None else f"; floor {fixed_percent(row.floor, row.percent_digits)}"
        )
        return f"{timed_unit(row)} ({timed_change(row)}{floor}) {timed_verdict(row)}"
    if row.delta:
        percent = f", {change(row.delta, row.old)}" if row.old else ""
        return f"kernel instructions ({row.delta:+d}{percent}) {row.verdict}"
    identical = ", identical path" if row.identical_path and row.verdict == SAME else ""
    return f"kernel instructions {row.verdict}{identical}"
