# SPDX-License-Identifier: GPL-2.0-or-later
"""Results for a commit message: what changed, by how much, and how it was measured."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from msgspec import structs

from kentry.arch import find_arch
from kentry.results.case_name import CaseName
from kentry.results.comparison import CaseComparison, Comparison, cells_of
from kentry.results.recording import INSTRUCTIONS, Recording
from kentry.results.studies import Series
from kentry.show import beside, comparison, provenance
from kentry.show.beside import cycle_blocks, estimate_change_blocks, series_estimate_blocks
from kentry.show.blocks import SHOWN, Block, Layout, Prose
from kentry.show.numbers import change, signed
from kentry.show.recording import case_caveats, cases_without_state, matrix_blocks
from kentry.show.sections import Deltas
from kentry.show.series import (
    PREFERRED,
    grouped,
    program_blocks,
    series_caveats,
    series_table,
    summary_blocks,
)
from kentry.show.table import plain, shortened
from kentry.show.text import UNKNOWN
from kentry.stats.exact import UNDECIDED

_FUNCTION_WIDTH = 50
_TIMES = ("ns", "cycles", "ticks", "ops_per_s")


def with_method(layout: Layout) -> Layout:
    """Returns a result's text, and in place of its notes how it was measured, and these."""
    sides, notes = layout.sides, layout.caveats
    if not sides:
        return layout
    emulated = {side.target.get("kind") for side in sides.values()} <= {"qemu", "fake"}
    units = layout.units or ([INSTRUCTIONS] if emulated else ["ns"])
    axes = {"time" if unit in _TIMES else INSTRUCTIONS for unit in units}
    counted = emulated and INSTRUCTIONS in axes
    method = provenance.provenance_blocks(sides, "kernel", (), notes, axes, counted=counted)
    return replace(layout, blocks=[*layout.blocks, "", *method], caveats=())


def recording_changelog(recording: Recording) -> Layout:
    """Returns the counts of one kernel, vector states as a matrix, and how they were measured."""
    arch = find_arch(recording.kernel["arch"])
    blocks: list[Block] = []
    if cases := cases_without_state(recording):
        values = ", ".join(f"{case.name} {case.metrics[INSTRUCTIONS].value}" for case in cases)
        blocks += [Prose(f"Kernel instructions of each case: {values}")]
        blocks += [*beside.recording_context_blocks(recording, cases), ""]
    if cells_of(recording):
        blocks += ["Kernel instructions and events by vector state:", ""]
        blocks += [*matrix_blocks(recording, arch), ""]
    if cycles := cycle_blocks(recording.cases):
        blocks += [*cycles, ""]
    counted = [case.metrics[INSTRUCTIONS] for case in recording.cases]
    facts = provenance.window_facts([(count.agreeing, count.windows) for count in counted])
    notes = [*recording.caveats, *case_caveats(recording.cases)]
    blocks += provenance.provenance_blocks({"": recording}, "kernel", facts, notes)
    return Layout("changelog", "", "", blocks)


def series_changelog(series: Series) -> Layout:
    """Lays out the table of a series, its functions from first to last kernel, and provenance."""
    rows = []
    for row in series.rows:
        problems = {
            arch: structs.replace(problem, sentence=provenance.harmless(problem.sentence))
            for arch, problem in row.problems.items()
        }
        rows.append(
            structs.replace(row, subject=provenance.harmless(row.subject), problems=problems)
        )
    series = structs.replace(series, rows=tuple(rows))
    groups = grouped(series)[0]
    what = "a call" if series.programs else "each case"
    blocks: list[Block] = [
        f"Kernel instructions of {what}, a row a patch; step: against the last",
        "count above, total: against the baseline.",
        "",
        series_table(series),
        *beside.series_metric_blocks(series, groups),
        "",
        *summary_blocks(series),
        *program_blocks(series),
        *series_estimate_blocks(series, groups),
    ]
    for column in groups if not series.programs else ():
        measured = [row.patch for row in series.rows if column.name in row.cases]
        title = f"{column.name}, from the baseline to patch {measured[-1]}:"
        case = series.changes.get(column.name)
        if case is None:
            blocks += ["", title, f"  {UNKNOWN}"]
        elif _is_changed(case):
            blocks += ["", title, *_function_blocks(case)]
    names = {
        arch: ", ".join(column.case for column in series.columns if column.arch == arch)
        for arch in series.base
    }
    # Not "Change-Id:", which checkpatch.pl takes for Gerrit's.
    trailers, origin = [], series.origin
    if origin.get("change-id"):
        trailers.append(provenance.harmless(f"the patches' change-id is {origin['change-id']}"))
    if origin.get("base-commit"):
        commit = plain(origin["base-commit"])
        trailers.append(f"the patches are made for\nbase-commit: {commit}")
    cells = [cell for row in series.rows for cell in row.cases.values()]
    windows = [(cell.agreeing, cell.windows) for cell in cells]
    facts = [*trailers, *provenance.by_side("measured", names)]
    facts += [] if series.programs else provenance.window_facts(windows)
    notes = [*series_caveats(series), *series.differences]
    blocks += ["", *provenance.provenance_blocks(series.base, "base", facts, notes)]
    return Layout("changelog", "", "", blocks)


def comparison_changelog(compared: Comparison) -> Layout:
    """Returns the verdicts, the functions that changed, provenance of both sides."""
    sides = {"old": compared.old, "new": compared.new}
    cases, timed = compared.cases, compared.timed
    blocks: list[Block] = []
    if events := comparison.event_change_blocks(cases):
        blocks += [*events, ""]
    if cases:
        blocks += ["Kernel instructions of each case, in the old and the new kernel:", ""]
        blocks += [*_verdict_blocks(cases), *beside.sum_notes(cases)]
        blocks += [*beside.comparison_context_blocks(cases), *beside.layout_blocks(cases)]
        blocks += [""] if timed else []
    if compared.metrics:
        blocks += ["", *beside.metric_sentences(compared.metrics)]
    blocks += comparison.changelog_times(timed)
    # Cases whose functions changed by the same are together.
    groups: dict[object, list[CaseComparison]] = {}
    for case in filter(_is_changed, cases):
        changes = frozenset((row.name, row.delta) for row in case.functions if row.delta)
        groups.setdefault((case.delta, changes), []).append(case)
    for group in groups.values():
        first, *same = sorted(group, key=lambda case: case.name not in PREFERRED)
        others = ", ".join(case.name for case in same)
        title = f"{first.name}{'; the same functions in ' if others else ''}{others}:"
        for case in group:
            blocks += comparison.purpose_blocks(case)
        blocks += ["", Prose(title), *_function_blocks(first)]
    blocks += estimate_change_blocks(cases)
    axes = ["time"] if timed else []
    axes += [INSTRUCTIONS] if cases or any("instr" in row.metric for row in timed) else []
    facts = [
        f"measured: {', '.join(compared.names)}",
        *provenance.window_facts([windows for case in cases for windows in case.windows]),
        *map(provenance.harmless, comparison.timing_facts(compared)),
    ]
    notes, counted = comparison.comparison_caveats(compared), bool(cases)
    measured = provenance.provenance_blocks(sides, "kernel", facts, notes, axes, counted=counted)
    return Layout("changelog", "", "", [*blocks, "", *measured])


def _verdict_blocks(cases: Sequence[CaseComparison]) -> Iterator[Block]:
    same: dict[str, list[str]] = {
        "The same instructions in both": [],
        "The same number of different instructions": [],
        "The same number; which instructions is not known": [],
    }
    identical, different, unknown = same.values()
    table = comparison.verdict_table(indent="  ")
    for case in cases:
        if not case.delta and case.verdict != UNDECIDED:
            known = different if case.functions else unknown
            (identical if case.identical_path else known).append(f"{case.name} {case.old}")
            continue
        share = f", {change(case.delta, case.old)} of old" if case.old and case.delta else ""
        label = f"{case.name}{CaseName.parse(case.name).calls_note}:"
        new = beside.counted(case.new, case)
        table.row(label, case.old, "->", new, f"({signed(case.delta)}{share}) {case.verdict}")
    yield table
    for what, names in same.items():
        if names:
            yield Prose(f"{what}: {', '.join(names)}")


def _is_changed(case: CaseComparison) -> bool:
    return bool(case.delta) or any(row.delta for row in case.functions)


def _function_blocks(case: CaseComparison) -> list[Block]:
    share = f", chg {change(case.delta, case.old, 2).replace(' ', '')}" if case.old else ""
    total = f"Total: Before={case.old}, After={beside.counted(case.new, case)}{share}"
    if not case.functions:
        return [UNKNOWN, total]
    rows = [
        structs.replace(row, name=shortened(plain(row.name), _FUNCTION_WIDTH))
        for row in case.functions
        if row.delta
    ]
    return [Deltas(rows, shown=SHOWN), total]
