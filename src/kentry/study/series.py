# SPDX-License-Identifier: GPL-2.0-or-later
"""Recordings of a series' kernels -> a Series: steps that sum to the total."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs

from kentry.arch import find_arch
from kentry.compare.counted import choose_metrics, compare
from kentry.host.cache import cache_dir
from kentry.kernels import build, made_of
from kentry.kernels.repository import Revision
from kentry.kernels.resolve import Lineup
from kentry.kernels.tree import changed_files
from kentry.progress import say
from kentry.results import caveats
from kentry.results.caveats import Caveat, of_side, some
from kentry.results.comparison import CaseComparison
from kentry.results.document import read_document
from kentry.results.recording import INSTRUCTIONS, CaseResult, Measured, Recording, read_recording
from kentry.results.studies import (
    MEASURED,
    NO_APPLY,
    Cell,
    CellEstimate,
    MetricStep,
    PatchRow,
    Problem,
    ProgramStep,
    Series,
    SeriesColumn,
)
from kentry.results.workload import ENTRY
from kentry.stats.exact import UNDECIDED
from kentry.study import program
from kentry.study.plan import Unit, outcomes, perform

SERIES_FILE = "series.json"  # the result in a folder of rows, beside their recordings


@dataclass(frozen=True)
class PatchKernels:
    """A patch's kernels by architecture, 0 the baseline's: recordings, or why there are none."""

    patch: int
    subject: str
    commit: str
    recordings: dict[str, Recording] = field(default_factory=dict)
    problems: dict[str, Problem] = field(default_factory=dict)
    not_compiled: tuple[str, ...] = ()  # for these its changes compile nothing
    warnings: dict[str, tuple[str, ...]] = field(default_factory=dict)  # new ones of compilers


def measure_series(
    lineup: Lineup, units: Sequence[Unit], keep: Callable[[int, Recording], Recording]
) -> list[PatchKernels]:
    """The baseline, then each patch, as each unit says; `keep` takes each recording at once."""
    numbered: list[tuple[int, Unit]] = []
    rows = {0: PatchKernels(0, "baseline", lineup.base.commit)}
    for step in lineup.steps:
        commit = step.revision.commit if step.revision else ""
        rows[step.number] = row = PatchKernels(step.number, step.subject, commit)
        if not step.revision:
            row.problems.update({unit.arch: Problem(NO_APPLY, step.problem) for unit in units})
    for unit in units:
        label = f"baseline ({unit.arch})"
        numbered.append((0, replace(unit, source=lineup.base, label=label)))
        for step in (step for step in lineup.steps if step.revision):
            label = f"patch {step.number} of {len(lineup.steps)} ({unit.arch})"
            spec = f"{unit.spec} + patch {step.number}"
            own = replace(unit, spec=spec, source=step.revision, label=label)
            numbered.append((step.number, own))
    for index, outcome in outcomes(perform, [unit for _, unit in numbered]):
        number, unit = numbered[index]
        if not number or outcome.recording:
            recording = keep(number, outcome.measured(unit))
            rows[number].recordings[unit.arch] = recording
            values = {case.name: case.metrics.get(INSTRUCTIONS) for case in recording.cases}
            counts = [f"{name} {metric.value}" for name, metric in values.items() if metric]
            say(f"{unit.label}: {some(counts)}")
        elif outcome.problem:
            rows[number].problems[unit.arch] = outcome.problem
            say(f"{unit.label}: {outcome.problem.sentence}")
    # Whoever was done first, architectures are in the order of their units.
    results: dict[str, Any]
    for row in rows.values():
        for results in (row.recordings, row.problems):
            results |= {unit.arch: results.pop(unit.arch) for unit in units if unit.arch in results}
    before = lineup.base
    compiled = {unit.arch: lineup.base for unit in units}
    for step in lineup.steps:
        if not step.revision:
            continue
        row = rows[step.number]
        for unit in units:
            old, new = (_build(unit, of) for of in (compiled[unit.arch], step.revision))
            if (warnings := build.new_warnings(old, new)) is not None:
                row.warnings[unit.arch] = tuple(warnings)
                compiled[unit.arch] = step.revision
        arches = tuple(_not_compiled(units, before, step.revision))
        rows[step.number] = replace(row, not_compiled=arches)
        before = step.revision
    return list(rows.values())


def origin_of(lineup: Lineup) -> dict[str, str]:
    """Where the patches are for and from."""
    base = {"base": lineup.base_spec, "commit": lineup.base.commit}
    patches = {"base-commit": lineup.base_commit, "change-id": lineup.change_id}
    return base | {name: word for name, word in patches.items() if word}


def notes_of(lineup: Lineup) -> list[Caveat]:
    """Returns what a reader must know of how the patches were read and applied."""
    notes = [caveats.series_note(note) for note in lineup.notes]
    if lineup.base_commit and lineup.base_commit != lineup.base.commit:
        notes.append(caveats.other_base(lineup.base_commit, lineup.base_spec))
    refused = [step.number for step in lineup.steps if step.revision is None]
    if refused and refused[-1] != lineup.steps[-1].number:
        notes.append(caveats.left_out(refused))
    return notes


def _not_compiled(units: Sequence[Unit], old: Revision, new: Revision) -> Iterator[str]:
    """Yields the architectures whose kernel of `old` is provably made of none of the changes."""
    changed = changed_files(old.repository.git.folder, old.commit, new.commit)
    for unit in units:
        made = made_of.read(cache_dir("built") / _build(unit, old).key())
        if made and made_of.compiles_none_of(made, changed):
            yield unit.arch


def _build(unit: Unit, revision: Revision) -> build.Build:
    return build.plan(revision, find_arch(unit.arch), unit.request, lambda fraction, now: None)


def row_file(folder: Path, number: int, arch: str) -> Path:
    """Returns the file of a row's recording in a folder of rows."""
    return folder / f"{number:04}-{arch}.json"


def read_rows(folder: Path) -> tuple[Series, list[PatchKernels]]:
    """The series that was written to a folder, and its rows; RecordingError where one is lost."""
    series = read_document(folder / SERIES_FILE, Series, "Measure it again.", printable=False)
    rows = [
        PatchKernels(
            row.patch,
            row.subject,
            row.commit,
            {
                arch: read_recording(row_file(folder, row.patch, arch))
                for arch in series.base
                if arch not in row.problems
            },
            dict(row.problems),
            row.not_compiled,
            row.warnings,
        )
        for row in series.rows
    ]
    return series, rows


def tabulate(
    kernels: Sequence[PatchKernels],
    origin: Mapping[str, str],
    names: Sequence[str] | None = None,
    notes: Sequence[Caveat] = (),
    metrics: Sequence[str] = (),
) -> Series:
    """Returns the table of a series, the baseline first, of every case or of those named.

    UserError for one of `metrics` that the baseline does not have.  A row that was not measured
    has no cells; the next steps are against the last that has, so steps sum to the total.
    """
    base = kernels[0].recordings
    pairs = [
        (case.name, recording.kernel["arch"])
        for recording in base.values()
        for case in recording.cases
        if names is None or case.name in names
    ]
    notes = list(notes)
    for arch, recording in base.items():
        if recording.program:
            measured = [own for row in kernels if (own := row.recordings.get(arch))]
            decided, unsure = program.columns(measured)
            pairs = [(case, own) for case, own in pairs if own != arch or case in decided]
            notes += [of_side(arch, note) if len(base) > 1 else note for note in unsure]
    several = len({arch for _, arch in pairs}) > 1
    columns = tuple(
        SeriesColumn(f"{arch}:{case}" if several else case, case, arch) for case, arch in pairs
    )
    cases = [case for column in columns if (case := base[column.arch].case(column.case))]
    wanted = choose_metrics([[case] for case in cases], metrics) if metrics else ()
    rows = _rows(kernels, columns, wanted)
    changes, differing = _first_to_last(kernels, columns, rows)
    return Series(
        tool=next(iter(base.values())).tool,
        origin=dict(origin),
        base={arch: Measured.of(recording) for arch, recording in base.items()},
        columns=columns,
        rows=tuple(rows),
        totals={
            name: sum(row.cases[name].step for row in rows if name in row.cases)
            for name in (column.name for column in columns)
        },
        caveats=tuple(notes),
        base_caveats={
            arch: tuple(noted)
            for arch, recording in base.items()
            if (noted := _caveats_of(recording, [case for case, of in pairs if of == arch]))
        },
        programs={
            arch: program.base_of(recording, recording.program)
            for arch, recording in base.items()
            if recording.program
        },
        changes=changes,
        differences=tuple(differing),
    )


def _rows(
    kernels: Sequence[PatchKernels], columns: Sequence[SeriesColumn], wanted: Sequence[str]
) -> list[PatchRow]:
    base = kernels[0].recordings
    before = {column: base[column.arch] for column in columns}
    rows = []
    last_cells: dict[SeriesColumn, Cell] = {}
    last_metrics: dict[SeriesColumn, dict[str, MetricStep]] = {column: {} for column in columns}
    for patch in kernels:
        measured = {
            column: case
            for column in columns
            if (own := patch.recordings.get(column.arch)) and (case := own.case(column.case))
        }
        steps, of_row = _steps(patch, measured, before, base, wanted) if patch.patch else ({}, [])
        # A count of the probe's cases has a step that is not sure, a program's kind has none.
        for column, by_metric in steps.items():
            if base[column.arch].program and by_metric[INSTRUCTIONS].change is None:
                del measured[column]
        cells = {
            column: _cell(
                case, steps.get(column, {}), last_cells.get(column), last_metrics[column], wanted
            )
            for column, case in measured.items()
        }
        last_cells |= cells
        for column, cell in cells.items():
            last_metrics[column] |= {name: step for name, step in cell.metrics.items() if step}
        statuses = [problem.status for problem in patch.problems.values()]
        identical = bool(patch.patch and cells)
        rows.append(
            PatchRow(
                patch=patch.patch,
                subject=patch.subject,
                commit=patch.commit,
                status=statuses[0] if statuses else MEASURED,
                identical_path=identical and all(cell.identical_path for cell in cells.values()),
                cases={column.name: cell for column, cell in cells.items()},
                problems=dict(patch.problems),
                caveats=tuple(of_row),
                not_compiled=patch.not_compiled,
                warnings={arch: texts for arch, texts in patch.warnings.items() if texts},
                program={
                    arch: given
                    for arch, recording in base.items()
                    if recording.program and (given := _given(recording, arch, cells))
                },
            )
        )
        before |= {column: patch.recordings[column.arch] for column in cells}
    return rows


def _given(base: Recording, arch: str, cells: Mapping[SeriesColumn, Cell]) -> ProgramStep | None:
    own = {column.case: cell.step for column, cell in cells.items() if column.arch == arch}
    return program.step_of(base, own)


def _first_to_last(
    kernels: Sequence[PatchKernels], columns: Sequence[SeriesColumn], rows: Sequence[PatchRow]
) -> tuple[dict[str, CaseComparison], list[Caveat]]:
    """Returns the change of each column, and what else differs that no row tells."""
    base = kernels[0].recordings
    last = {arch: recording for row in kernels for arch, recording in row.recordings.items()}
    known = {caveat["text"] for row in rows for caveat in row.caveats}
    changes: dict[str, CaseComparison] = {}
    differing: list[Caveat] = []
    for arch, first in base.items():
        keys = {column.case: column.name for column in columns if column.arch == arch}
        if present := [case for case in keys if last[arch].case(case)]:
            whole = compare(first, last[arch], present)
            changes |= {keys[case.name]: case for case in whole.cases}
            differing += [
                of_side(f"first to last{f', {arch}' if len(base) > 1 else ''}", caveat)
                for caveat in whole.caveats
                if caveat["kind"] in caveats.DIFFERENCES and caveat["text"] not in known
            ]
    return changes, differing


def _steps(
    patch: PatchKernels,
    measured: Mapping[SeriesColumn, CaseResult],
    before: Mapping[SeriesColumn, Recording],
    base: Mapping[str, Recording],
    wanted: Sequence[str],
) -> tuple[dict[SeriesColumn, dict[str, CaseComparison]], list[Caveat]]:
    """A patch's steps by metric against what was measured before, and caveats that are new."""
    steps: dict[SeriesColumn, dict[str, CaseComparison]] = {}
    notes: list[Caveat] = []
    groups: dict[tuple[str, int], list[SeriesColumn]] = {}
    for column in measured:
        groups.setdefault((column.arch, id(before[column])), []).append(column)
    for (arch, _), group in groups.items():
        recording = patch.recordings[arch]
        step = compare(before[group[0]], recording, [column.case for column in group], wanted)
        for column in group:
            rows = (step.counted(column.case, metric) for metric in (INSTRUCTIONS, *wanted))
            steps[column] = {row.metric: row for row in rows if row}
        if group[0] == next(column for column in measured if column.arch == arch):
            names = [column.case for column in measured if column.arch == arch]
            known = _caveats_of(base[arch], names)
            new = [caveat for caveat in _caveats_of(recording, names) if caveat not in known]
            new += [caveat for caveat in step.caveats if caveat["kind"] in caveats.DIFFERENCES]
            notes += [of_side(arch, caveat) if len(base) > 1 else caveat for caveat in new]
    return steps, notes


def _cell(
    case: CaseResult,
    steps: Mapping[str, CaseComparison],
    last: Cell | None,
    metrics_before: Mapping[str, MetricStep],
    metrics: Sequence[str],
) -> Cell:
    """A count, and its step and total against the last cell of its column, if there is one."""
    metric = case.metrics[INSTRUCTIONS]
    cell = Cell(
        instructions=metric.value,
        windows=metric.windows,
        agreeing=metric.agreeing,
        metrics={
            name: _metric(case, name, metrics_before.get(name), steps.get(name), last)
            for name in metrics
        },
        estimates=msgspec.convert(case.estimates, tuple[CellEstimate, ...], from_attributes=True),
    )
    step = steps.get(INSTRUCTIONS)
    if step is None or last is None:
        return cell
    return structs.replace(
        cell,
        # In the context of the row before, where the count depends on the context.
        instructions=last.instructions + step.delta,
        step=step.delta,
        total=last.total + step.delta,
        # Entry and exit have the count of more than one kind.
        sum_of_contexts=case.name != ENTRY and not case.has_context(last.instructions + step.delta),
        identical_path=step.identical_path,
        functions=tuple(row for row in step.functions if row.delta),
        path_known=step.identical_path or bool(step.functions),
        events=tuple(event for event in step.events if event.is_change),
    )


def _metric(
    case: CaseResult,
    name: str,
    before: MetricStep | None,
    compared: CaseComparison | None,
    last: Cell | None,
) -> MetricStep | None:
    """Returns a metric and its step; None where the windows or contexts do not agree on it."""
    own = case.metrics.get(name)
    # In the context of the row before, if that has a value.
    known = compared if last and last.metrics.get(name) else None
    if known.verdict == UNDECIDED if known else own and not own.is_decided:
        return None
    value = own.value if own else 0
    if before is None:
        return MetricStep(value)
    step = known.delta if known else value - before.value
    return MetricStep(before.value + step, step, before.total + step)


def _caveats_of(recording: Recording, names: Sequence[str]) -> list[Caveat]:
    cases = [case for case in recording.cases if case.name in names]
    return recording.caveats + [caveat for case in cases for caveat in case.caveats]
