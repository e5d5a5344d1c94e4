# SPDX-License-Identifier: GPL-2.0-or-later
"""Results as text for a commit message or a cover letter.

It says what changed, by how much, and how it was measured, in at most 75 columns of ASCII.  Each
derived number follows from others in the text.
"""

from collections.abc import Iterator, Sequence

from msgspec import structs

from kentry.arch import find_arch
from kentry.results.case_name import CaseName
from kentry.results.comparison import CaseComparison, Comparison
from kentry.results.recording import INSTRUCTIONS, Recording
from kentry.results.series import Problem, Series
from kentry.show.comparison import (
    changelog_times,
    comparison_caveats,
    event_change_lines,
    timing_facts,
    verdict_table,
)
from kentry.show.contexts import comparison_context_lines, recording_context_lines
from kentry.show.estimate import cycle_lines, estimate_change_lines, series_estimate_lines
from kentry.show.functions import UNKNOWN, function_lines, purpose_lines
from kentry.show.metrics import metric_sentences, series_metric_lines
from kentry.show.numbers import change, signed
from kentry.show.provenance import (
    by_side,
    caveat_facts,
    facts_of_sides,
    harmless,
    not_measured_fact,
    provenance_lines,
    trailer_facts,
    window_fact,
)
from kentry.show.recording import case_caveats, cases_without_state, cells_of, matrix_lines
from kentry.show.series import PREFERRED, grouped, series_caveats, summary_lines, table_lines
from kentry.show.table import ascii_lines, plain, shortened, wrapped
from kentry.stats.exact import UNDECIDED

# A function's name is shortened to this width.
_FUNCTION = 50

_IDENTICAL = "The same instructions in both"
_DIFFERENT = "The same number of different instructions"
_UNKNOWN = "The same number; which instructions is not known"


def recording_changelog(recording: Recording) -> str:
    """The counts of one kernel, vector states as a matrix, and how they were measured."""
    arch = find_arch(recording.kernel["arch"])
    lines: list[str] = []
    if cases := cases_without_state(recording):
        counts = ", ".join(f"{one.name} {one.metrics[INSTRUCTIONS].value}" for one in cases)
        lines += wrapped(f"Kernel instructions of each case: {counts}")
        lines += [*recording_context_lines(recording, cases), ""]
    if cells_of(recording):
        lines += ["Kernel instructions and events by vector state:", ""]
        lines += [*matrix_lines(recording, arch), ""]
    if cycles := cycle_lines(recording.cases):
        lines += [*cycles, ""]
    counted = [case.metrics[INSTRUCTIONS] for case in recording.cases]
    facts = [
        *facts_of_sides({"": recording}, "kernel"),
        window_fact([(one.agreeing, one.windows) for one in counted]),
        not_measured_fact([arch.name]),
        *caveat_facts([*recording.caveats, *case_caveats(recording.cases)]),
    ]
    return ascii_lines([*lines, *provenance_lines({"": recording}, facts)])


def series_changelog(series: Series) -> str:
    """The table of a series, the functions from its first kernel to its last, provenance."""
    rows = [
        structs.replace(
            row,
            subject=harmless(row.subject),
            problems={
                arch: Problem(one.status, harmless(one.sentence))
                for arch, one in row.problems.items()
            },
        )
        for row in series.rows
    ]
    series = structs.replace(series, rows=tuple(rows))
    lines = [
        "Kernel instructions of each case, a row a patch; step: against the last",
        "count above, total: against the baseline.",
        "",
        *table_lines(series),
        *series_metric_lines(series, grouped(series)[0]),
        "",
        *summary_lines(series),
        *series_estimate_lines(series, grouped(series)[0]),
    ]
    for column in grouped(series)[0]:
        measured = [row.patch for row in series.rows if column.name in row.cases]
        title = f"{column.name}, from the baseline to patch {measured[-1]}:"
        case = series.changes.get(column.name)
        if case is None:
            lines += ["", title, f"  {UNKNOWN}"]
        elif _is_changed(case):
            lines += ["", title, *_function_lines(case)]
    names = {
        arch: ", ".join(column.case for column in series.columns if column.arch == arch)
        for arch in series.base
    }
    counted = [(cell.agreeing, cell.windows) for row in series.rows for cell in row.cases.values()]
    facts = [
        *facts_of_sides(series.base, "base"),
        *trailer_facts(series.origin),
        *by_side("measured", names),
        *([window_fact(counted)] if counted else []),
        not_measured_fact(series.base),
        *caveat_facts([*series_caveats(series), *series.differences]),
    ]
    return ascii_lines([*lines, "", *provenance_lines(series.base, facts)])


def comparison_changelog(comparison: Comparison) -> str:
    """The verdicts of a comparison, the functions that changed, provenance of both sides."""
    sides = {"old": comparison.old, "new": comparison.new}
    cases, timed = comparison.cases, comparison.timed
    lines = []
    if events := event_change_lines(cases):
        lines += [*events, ""]
    if cases:
        lines += ["Kernel instructions of each case, in the old and the new kernel:", ""]
        lines += [*_verdict_lines(cases), *comparison_context_lines(cases)]
        lines += [""] if timed else []
    if comparison.metrics:
        lines += ["", *metric_sentences(comparison.metrics)]
    lines += changelog_times(timed)
    # Cases whose functions changed by the same are together.
    groups: dict[object, list[CaseComparison]] = {}
    for case in filter(_is_changed, cases):
        changes = frozenset((row.name, row.delta) for row in case.functions if row.delta)
        groups.setdefault((case.delta, changes), []).append(case)
    for group in groups.values():
        first, *same = sorted(group, key=lambda case: case.name != PREFERRED)
        others = ", ".join(case.name for case in same)
        title = f"{first.name}{'; the same functions in ' if others else ''}{others}:"
        for case in group:
            lines += purpose_lines(case)
        lines += ["", *wrapped(title), *_function_lines(first)]
    lines += estimate_change_lines(cases)
    counted = [windows for case in cases for windows in case.windows]
    axes = {INSTRUCTIONS} if cases or any("instr" in row.metric for row in timed) else set()
    facts = [
        *facts_of_sides(sides, "kernel", emulated=bool(cases)),
        f"measured: {', '.join(comparison.names)}",
        *([window_fact(counted)] if counted else []),
        *map(harmless, timing_facts(comparison)),
        not_measured_fact([comparison.old.kernel["arch"]], axes | ({"time"} if timed else set())),
        *caveat_facts(comparison_caveats(comparison)),
    ]
    return ascii_lines([*lines, "", *provenance_lines(sides, facts, counted=bool(cases))])


def _verdict_lines(cases: Sequence[CaseComparison]) -> Iterator[str]:
    """A row a case whose count changed or is undecided; the others by what they ran."""
    same: dict[str, list[str]] = {_IDENTICAL: [], _DIFFERENT: [], _UNKNOWN: []}
    table = verdict_table(indent="  ")
    for case in cases:
        if not case.delta and case.verdict != UNDECIDED:
            known = _DIFFERENT if case.functions else _UNKNOWN
            words = _IDENTICAL if case.identical_path else known
            same[words].append(f"{case.name} {case.old}")
            continue
        share = f", {change(case.delta, case.old)} of old" if case.old and case.delta else ""
        label = f"{case.name}{CaseName.parse(case.name).calls_note}:"
        table.row(label, case.old, "->", case.new, f"({signed(case.delta)}{share}) {case.verdict}")
    yield from table.lines()
    for words, counts in same.items():
        if counts:
            yield from wrapped(f"{words}: {', '.join(counts)}")


def _is_changed(case: CaseComparison) -> bool:
    return bool(case.delta) or any(row.delta for row in case.functions)


def _function_lines(case: CaseComparison) -> list[str]:
    """The functions that changed and the sum of all, as scripts/bloat-o-meter prints them."""
    share = f", chg {change(case.delta, case.old, 2).replace(' ', '')}" if case.old else ""
    total = f"Total: Before={case.old}, After={case.new}{share}"
    if not case.functions:
        return [UNKNOWN, total]
    rows = [
        structs.replace(row, name=shortened(plain(row.name), _FUNCTION))
        for row in case.functions
        if row.delta
    ]
    return [*function_lines(rows), total]
