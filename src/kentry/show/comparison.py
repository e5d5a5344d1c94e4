# SPDX-License-Identifier: GPL-2.0-or-later
"""What `kentry diff` prints: verdicts, then functions, then caveats.

A change of a noisy metric has no digit beyond its interval.
"""

from collections.abc import Iterable, Iterator, Sequence

from kentry.results import caveats
from kentry.results.case_name import CaseName
from kentry.results.caveats import Caveat
from kentry.results.comparison import CaseComparison, Comparison, EventDelta, TimedComparison
from kentry.results.recording import INSTRUCTIONS
from kentry.results.series import Series
from kentry.show.contexts import comparison_context_lines
from kentry.show.estimate import estimate_change_lines
from kentry.show.frame import caveat_lines, kernel_lines
from kentry.show.functions import SHOWN, function_lines_with_total, purpose_lines
from kentry.show.numbers import (
    change,
    change_with_interval,
    fixed,
    fixed_percent,
    level,
    significant,
)
from kentry.show.table import WIDTH, Column, Table, ascii_lines, text_column, wrapped
from kentry.stats import CONFIDENCE
from kentry.stats.exact import SAME, UNDECIDED

# A change and its verdict stand on one line, which may be wider than a mail.
_ROW = 120


def comparison_text(
    comparison: Comparison, shown: int | None = SHOWN, *, of_metrics: bool = True
) -> str:
    """The whole report, with `shown` rows in a table of functions, None for all of them.

    Without `of_metrics` there are tables for instructions alone.
    """
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
    last = ""
    for row in comparison.rows:
        label = "" if row.name == last else f"{row.name}{CaseName.parse(row.name).calls_note}:"
        if isinstance(row, CaseComparison):
            sides = (str(row.old), str(row.new))
        else:
            sides = timed_values(row)
        table.row(label, sides[0], "->", sides[1], _verdict(row))
        last = row.name
    lines += [*table.lines(_ROW), *comparison_context_lines(comparison.cases)]
    for case in (*comparison.cases, *(comparison.metrics if of_metrics else ())):
        if case.delta and (case.functions or case.metric == INSTRUCTIONS):
            metric = "" if case.metric == INSTRUCTIONS else f" {case.metric}"
            note = CaseName.parse(case.name).calls_note
            lines += purpose_lines(case) if not metric else []
            title = f"{case.name}{note}{metric} ({case.delta:+d})"
            functions = function_lines_with_total(case.functions, case.old, case.new, shown)
            lines += ["", title, *functions]
    lines += estimate_change_lines(comparison.cases)
    return ascii_lines([*lines, *caveat_lines(comparison_caveats(comparison))])


def verdict_table(indent: str = "") -> Table:
    """A table for rows of (case, old, "->", new, change and verdict)."""
    columns = [text_column(most=40), Column(), Column(), Column(), text_column(wraps=True)]
    return Table(columns, headings=False, indent=indent, gap=1)


def comparison_caveats(comparison: Comparison) -> list[Caveat]:
    """The caveats of the comparison, then those of its rows and tables, each once."""
    found = list(comparison.caveats)
    tables = (case.functions for case in comparison.cases if case.delta)
    if any(row.delta and row.renamed for rows in tables for row in rows):
        found.append(caveats.by_body())
    found += [
        caveat for case in (*comparison.cases, *comparison.metrics) for caveat in case.caveats
    ]
    found += [caveat for row in comparison.timed for caveat in row.caveats]
    return [caveat for i, caveat in enumerate(found) if caveat not in found[:i]]


def _verdict(row: CaseComparison | TimedComparison) -> str:
    """Unit, change and verdict of a row."""
    if isinstance(row, TimedComparison):
        floor = (
            "" if row.floor is None else f"; floor {fixed_percent(row.floor, row.percent_digits)}"
        )
        return f"{timed_unit(row)} ({timed_change(row)}{floor}) {timed_verdict(row)}"
    unit = f"kernel {row.metric}" if row.metric == INSTRUCTIONS else row.metric
    if row.delta:
        percent = f", {change(row.delta, row.old)}" if row.old else ""
        return f"{unit} ({row.delta:+d}{percent}) {row.verdict}"
    identical = ", identical path" if row.identical_path and row.verdict == SAME else ""
    return f"{unit} {row.verdict}{identical}"


def event_change_lines(cases: Iterable[CaseComparison]) -> list[str]:
    """A sentence for each event whose number changed, below a heading; [] without one."""
    lines = []
    for case in cases:
        for event in case.events:
            if event.is_change:
                lines += wrapped(f"{case.name}: {_event_change(event, case.name)}", "  ", "    ")
    return ["Vector events:", *lines] if lines else []


def series_event_lines(series: Series) -> list[str]:
    """A sentence for each change of events in a patch, with the cases that it is the same for."""
    lines = []
    for row in series.rows:
        groups: dict[str, list[str]] = {}
        for column in series.columns:
            cell = row.cases.get(column.name)
            if cell and cell.events:
                text = "; ".join(_event_change(event, column.case) for event in cell.events)
                groups.setdefault(text, []).append(column.name)
        for text, names in groups.items():
            lines += wrapped(f"Patch {row.patch}: {text}: {', '.join(names)}")
    return lines


def _event_change(event: EventDelta, case: str) -> str:
    old, new = ("?" if side is None else side for side in (event.old, event.new))
    calls = CaseName.parse(case).calls
    per = "call" if calls == 1 else f"{calls} calls"
    where = f", in {', '.join(event.functions)}" if event.functions else ""
    return f"{event.name} ({event.cause}) {old} -> {new} per {per}{where}"


def timed_values(row: TimedComparison) -> tuple[str, str]:
    """Old and new, with as many digits as the interval has."""
    old, new = (
        significant(value) if digits is None else fixed(value, digits)
        for value, digits in zip((row.old, row.new), row.value_digits, strict=True)
    )
    return old, new


def timed_unit(row: TimedComparison) -> str:
    """The unit, user's or kernel's; of a call where the case's exact count has several calls."""
    unit = row.metric.replace("-", " ") if row.metric.endswith(f"-{row.unit}") else row.unit
    return f"{unit} a call" if CaseName.parse(row.name).calls > 1 else unit


def timed_change(row: TimedComparison) -> str:
    """The change with its interval and confidence: '-1.7 % [-2.0, -1.3], 99 %'."""
    if row.confidence is None or not row.interval:
        return bare_change(row)
    # A look's own interval is wider; all of them together hold with the plan's confidence.
    return f"{bare_change(row)}, {level(min(row.confidence, CONFIDENCE))}"


def bare_change(row: TimedComparison) -> str:
    """The change in per cent of old, and its interval: '-1.7 % [-2.0, -1.3]'."""
    if row.percent is None:
        return f"{row.delta:+.6g}"
    return change_with_interval(row.percent, row.interval)


def timed_verdict(row: TimedComparison) -> str:
    """The verdict with its reason, the detectable change, or "layout"."""
    if row.verdict == UNDECIDED:
        return f"{UNDECIDED}: {row.reason}" if row.reason else UNDECIDED
    if row.verdict == SAME and row.detectable:
        return f"{SAME}, would see {row.detectable:.2g} %"
    return f"{row.verdict}, layout" if row.is_layout else row.verdict


def timing_facts(comparison: Comparison, *, named: bool = False) -> list[str]:
    """A sentence a fact: the machine (with its host name if `named`), groups, boots, estimator."""
    if not comparison.timed:
        return []
    sides = (comparison.old, comparison.new)
    machines = []
    for target in (side.timed_target for side in sides):
        words = ["elsewhere (imported)" if target["kind"] == "import" else str(target["kind"])]
        labels = {"host": "", "cpu_model": "", "microcode": "microcode ", "clock": "clock "}
        for key, label in labels.items():
            if target.get(key) and (named or key != "host"):
                words.append(f"{label}{target[key]}")
        machines.append(", ".join(words))
    old, new = machines
    facts = [f"timed on {old}"]
    if old != new:
        facts = [f"timed on (old): {old}", f"timed on (new): {new}"]
    paired = next((row for row in comparison.timed if row.paired), None)
    if paired:
        boots = f"{paired.boots} boots" if paired.boots > 1 else "one boot"
        if paired.groups:
            facts.append(f"old and new interleaved: {paired.groups} groups of processes in {boots}")
        else:
            facts.append(f"old and new interleaved: {boots} of each")
    estimators = {one for row in comparison.timed for one in row.estimators}
    return [*facts, f"value: {estimators.pop()}"] if len(estimators) == 1 else facts


def changelog_times(rows: Sequence[TimedComparison]) -> Iterator[str]:
    """A line a case and metric: both values, the change with its interval, the verdict."""
    metrics: dict[str, list[TimedComparison]] = {}
    for row in rows:
        metrics.setdefault(row.metric, []).append(row)
    for number, (metric, table) in enumerate(metrics.items()):
        if number:
            yield ""
        unit = table[0].unit
        what = f"Time of a call in {unit}" if metric == unit == "ns" else f"{metric} a call, {unit}"
        if unit.endswith("/s"):
            what = f"{metric}, {unit}"
        levels = {row.confidence for row in table if row.confidence is not None and row.interval}
        confidence = f"{level(min(levels))} " if len(levels) == 1 else ""
        interval = f" [its {confidence}interval]" if levels else ""
        text = f"{what}, in the old and the new kernel; change in % of old{interval}:"
        yield from [*wrapped(text, then=""), ""]
        values = [timed_values(row) for row in table]
        name = max(len(row.name) for row in table) + 1
        digits = max(len(value) for pair in values for value in pair)
        for row, (old, new) in zip(table, values, strict=True):
            label = f"{row.name}:"
            change = f"({bare_change(row)}) {timed_verdict(row)}"
            line = f"  {label:<{name}} {old:>{digits}} -> {new:>{digits}} {change}"
            if len(line) <= WIDTH:
                yield line
            else:
                yield f"  {label} {old} -> {new}"
                yield from wrapped(change, "    ", "    ")
