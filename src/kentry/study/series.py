# SPDX-License-Identifier: GPL-2.0-or-later
"""Recordings of a series' kernels -> a Series: steps that sum to the total."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec import structs

from kentry.compare.counted import compare
from kentry.compare.metrics import choose_metrics
from kentry.results.caveats import Caveat, of_side
from kentry.results.comparison import CaseComparison
from kentry.results.estimate import Estimate
from kentry.results.recording import INSTRUCTIONS, CaseResult, Measured, Recording
from kentry.results.series import (
    MEASURED,
    Cell,
    CellEstimate,
    MetricStep,
    PatchRow,
    Problem,
    Series,
    SeriesColumn,
)

# Kinds of caveats by which a comparison says what differs besides what was measured.
DIFFERENCES = ("differs", "config-differs")


@dataclass(frozen=True)
class Outcome:
    """A kernel of the series as it was measured, or was not, by architecture.

    `patch` is 0 for the baseline.
    """

    patch: int
    subject: str
    commit: str
    recordings: Mapping[str, Recording] = field(default_factory=dict)
    problems: Mapping[str, Problem] = field(default_factory=dict)


def tabulate(
    outcomes: Sequence[Outcome],
    origin: Mapping[str, str],
    names: Sequence[str] | None = None,
    caveats: Sequence[Caveat] = (),
    metrics: Sequence[str] = (),
) -> Series:
    """The table of a series, the baseline first, of every case or of those named.

    UserError for one of `metrics` that the baseline does not have.

    A row that could not be measured has no cells; the next one's steps are against the last
    that has, so the steps of a column always sum to its total.
    """
    base = outcomes[0].recordings
    found = [
        (case.name, recording.kernel["arch"])
        for recording in base.values()
        for case in recording.cases
        if names is None or case.name in names
    ]
    several = len({arch for _, arch in found}) > 1
    columns = tuple(
        SeriesColumn(f"{arch}:{case}" if several else case, case, arch) for case, arch in found
    )
    cases = [case for column in columns if (case := base[column.arch].case(column.case))]
    wanted = choose_metrics([[case] for case in cases], metrics) if metrics else ()
    before = {column: base[column.arch] for column in columns}
    rows = []
    last_cells: dict[SeriesColumn, Cell] = {}
    last_metrics: dict[SeriesColumn, dict[str, MetricStep]] = {column: {} for column in columns}
    totals = {column.name: 0 for column in columns}
    for outcome in outcomes:
        cells = _cells(outcome, columns, before, last_cells, last_metrics, wanted)
        last_cells |= cells
        for column, cell in cells.items():
            last_metrics[column] |= {name: one for name, one in cell.metrics.items() if one}
            totals[column.name] += cell.step
        problems = [problem.status for problem in outcome.problems.values()]
        identical = bool(outcome.patch and cells)
        rows.append(
            PatchRow(
                patch=outcome.patch,
                subject=outcome.subject,
                commit=outcome.commit,
                status=problems[0] if problems else MEASURED,
                identical_path=identical and all(cell.identical_path for cell in cells.values()),
                cases={column.name: cell for column, cell in cells.items()},
                problems=dict(outcome.problems),
                caveats=tuple(_new_caveats(outcome, cells, before, base)) if outcome.patch else (),
            )
        )
        before |= {column: outcome.recordings[column.arch] for column in cells}
    last = {arch: recording for one in outcomes for arch, recording in one.recordings.items()}
    told = {one["text"] for row in rows for one in row.caveats}
    changes: dict[str, CaseComparison] = {}
    differing: list[Caveat] = []
    for arch, first in base.items():
        own = {one.case: one.name for one in columns if one.arch == arch}
        if present := [case for case in own if last[arch].case(case)]:
            whole = compare(first, last[arch], present)
            changes |= {own[case.name]: case for case in whole.cases}
            differing += [
                of_side(f"first to last{f', {arch}' if len(base) > 1 else ''}", one)
                for one in whole.caveats
                if one["kind"] in DIFFERENCES and one["text"] not in told
            ]
    return Series(
        tool=next(iter(base.values())).tool,
        origin=dict(origin),
        base={arch: Measured.of(recording) for arch, recording in base.items()},
        columns=columns,
        rows=tuple(rows),
        totals=totals,
        caveats=tuple(caveats),
        base_caveats={
            arch: tuple(_caveats_of(recording, [case for case, own in found if own == arch]))
            for arch, recording in base.items()
        },
        changes=changes,
        differences=tuple(differing),
    )


def _cells(
    outcome: Outcome,
    columns: Sequence[SeriesColumn],
    before: Mapping[SeriesColumn, Recording],
    cells_before: Mapping[SeriesColumn, Cell],
    metrics_before: Mapping[SeriesColumn, Mapping[str, MetricStep]],
    metrics: Sequence[str],
) -> dict[SeriesColumn, Cell]:
    cells = {}
    for column in columns:
        recording = outcome.recordings.get(column.arch)
        case = recording.case(column.case) if recording else None
        if recording is None or case is None:
            continue
        metric = case.metrics[INSTRUCTIONS]
        cell = Cell(
            instructions=metric.value,
            windows=metric.windows,
            agreeing=metric.agreeing,
            metrics={
                name: _metric(case, name, metrics_before[column].get(name)) for name in metrics
            },
            estimates=tuple(map(_estimate, case.estimates)),
        )
        if outcome.patch:
            last = cells_before[column]
            [step] = compare(before[column], recording, [column.case]).cases
            cell = structs.replace(
                cell,
                # In the context of the row before, where the count depends on the context.
                instructions=last.instructions + step.delta,
                step=step.delta,
                total=last.total + step.delta,
                identical_path=step.identical_path,
                functions=tuple(row for row in step.functions if row.delta),
                path_known=step.identical_path or bool(step.functions),
                events=tuple(event for event in step.events if event.is_change),
            )
        cells[column] = cell
    return cells


def _metric(case: CaseResult, name: str, before: MetricStep | None) -> MetricStep | None:
    """A metric and its step; None where the windows do not agree on it."""
    found = case.metrics.get(name)
    if found and not found.is_decided:
        return None
    value = found.value if found else 0
    if before is None:
        return MetricStep(value)
    step = value - before.value
    return MetricStep(value, step, before.total + step)


def _estimate(one: Estimate) -> CellEstimate:
    return CellEstimate(
        core=one.core,
        llvm=one.llvm,
        low=one.low,
        high=one.high,
        missing=one.missing,
        steady=one.steady,
    )


def _new_caveats(
    outcome: Outcome,
    cells: Mapping[SeriesColumn, Cell],
    before: Mapping[SeriesColumn, Recording],
    base: Mapping[str, Recording],
) -> Iterator[Caveat]:
    """The caveats that the baseline does not have."""
    for arch, recording in outcome.recordings.items():
        columns = [column for column in cells if column.arch == arch]
        if not columns:
            continue
        names = [column.case for column in columns]
        known = _caveats_of(base[arch], names)
        new = [one for one in _caveats_of(recording, names) if one not in known]
        step = compare(before[columns[0]], recording, names)
        for one in [*new, *(one for one in step.caveats if one["kind"] in DIFFERENCES)]:
            yield of_side(arch, one) if len(base) > 1 else one


def _caveats_of(recording: Recording, names: Sequence[str]) -> list[Caveat]:
    cases = [case for case in recording.cases if case.name in names]
    return recording.caveats + [caveat for case in cases for caveat in case.caveats]
