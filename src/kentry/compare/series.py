# SPDX-License-Identifier: GPL-2.0-or-later
"""Recordings of a series' kernels -> a table: a row a patch, steps that sum to the total."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kentry.compare.counted import compare
from kentry.model.caveats import Caveat, of_side
from kentry.model.comparison import CaseComparison, EventDelta, FunctionDelta, side_to_json
from kentry.model.document import plain
from kentry.model.recording import INSTRUCTIONS, Recording

SCHEMA = "kentry/series/1"

# What became of a patch, for every architecture it was tried on.
MEASURED = "measured"
NO_APPLY, NO_BUILD, NO_BOOT = "does-not-apply", "build-failed", "boot-failed"


@dataclass(frozen=True)
class Problem:
    """Why a patch has no numbers: a status, one sentence, and the tool's own last lines."""

    status: str
    sentence: str
    detail: str = ""


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


@dataclass(frozen=True)
class Column:
    """A case on an architecture; the case's name has its entry and vector state in it."""

    case: str
    arch: str


@dataclass(frozen=True)
class Cell:
    """One count: `step` against the last row that has one, `total` against the baseline.

    `functions` are those whose count changed in the step; they sum to it.  `events` are the
    vector events whose number did.  `agreeing` of
    `windows` clean windows have the count; without `path_known` nothing is known of which
    instructions they were, here or in the row before.
    """

    instructions: int
    step: int
    total: int
    identical_path: bool
    functions: tuple[FunctionDelta, ...] = ()
    agreeing: int = 0
    windows: int = 0
    path_known: bool = True
    events: tuple[EventDelta, ...] = ()


@dataclass(frozen=True)
class Row:
    """One patch, or the baseline: its cells, or why it has none.

    `caveats` are those that the baseline's recordings do not have, and what differs from the
    last row measured besides the patch's source.
    """

    patch: int
    subject: str
    commit: str
    cells: Mapping[Column, Cell]
    problems: Mapping[str, Problem]
    caveats: tuple[Caveat, ...] = ()

    @property
    def status(self) -> str:
        """MEASURED, or the first architecture's problem."""
        return next((problem.status for problem in self.problems.values()), MEASURED)

    @property
    def identical_path(self) -> bool:
        """Whether every case ran the very instructions of the row before: a cosmetic patch."""
        cells = self.cells.values()
        return bool(self.patch and cells) and all(cell.identical_path for cell in cells)


@dataclass(frozen=True)
class Series:
    """The table and where it came from.

    `first` and `last` are, by architecture, the recordings of the baseline and of the last
    row that was measured; `origin` has the base, and base-commit and change-id where the
    patches name them.
    """

    rows: tuple[Row, ...]
    columns: tuple[Column, ...]
    first: Mapping[str, Recording]
    last: Mapping[str, Recording]
    origin: Mapping[str, str]
    caveats: tuple[Caveat, ...] = ()

    @property
    def many_arches(self) -> bool:
        """Whether a column needs its architecture's name."""
        return len({column.arch for column in self.columns}) > 1

    def name(self, column: Column) -> str:
        """What a column is called."""
        return f"{column.arch}:{column.case}" if self.many_arches else column.case


def tabulate(
    outcomes: Sequence[Outcome],
    origin: Mapping[str, str],
    names: Sequence[str] | None = None,
    caveats: Sequence[Caveat] = (),
) -> Series:
    """The table of a series, the baseline first, of every case or of those named.

    A row that could not be measured has no cells; the next one's steps are against the last
    that has, so the steps of a column always sum to its total.
    """
    base = outcomes[0].recordings
    columns = tuple(
        Column(case.name, arch)
        for arch, recording in base.items()
        for case in recording.cases
        if names is None or case.name in names
    )
    before = {column: base[column.arch] for column in columns}
    rows = []
    for outcome in outcomes:
        cells = _cells(outcome, columns, before, base)
        new = tuple(_caveats(outcome, cells, before, base)) if outcome.patch else ()
        rows.append(
            Row(outcome.patch, outcome.subject, outcome.commit, cells, dict(outcome.problems), new)
        )
        before |= {column: outcome.recordings[column.arch] for column in cells}
    last = {arch: recording for one in outcomes for arch, recording in one.recordings.items()}
    return Series(tuple(rows), columns, base, last, dict(origin), tuple(caveats))


def _cells(
    outcome: Outcome,
    columns: Sequence[Column],
    before: Mapping[Column, Recording],
    base: Mapping[str, Recording],
) -> dict[Column, Cell]:
    cells = {}
    for column in columns:
        recording = outcome.recordings.get(column.arch)
        case = recording.case(column.case) if recording else None
        if recording is None or case is None:
            continue
        if outcome.patch == 0:
            cell = Cell(case.metrics[INSTRUCTIONS].value, 0, 0, identical_path=False)
        else:
            [step] = compare(before[column], recording, [column.case]).cases
            first = base[column.arch].case(column.case)
            assert first
            total = step.new - first.metrics[INSTRUCTIONS].value
            known = step.identical_path or bool(step.functions)
            cell = Cell(
                step.new,
                step.delta,
                total,
                step.identical_path,
                _changed(step),
                path_known=known,
                events=tuple(event for event in step.events if event.is_change),
            )
        samples = dict(case.metrics[INSTRUCTIONS].samples)
        cells[column] = replace(
            cell, agreeing=samples[cell.instructions], windows=sum(samples.values())
        )
    return cells


def _changed(step: CaseComparison) -> tuple[FunctionDelta, ...]:
    return tuple(row for row in step.functions if row.delta)


def _caveats(
    outcome: Outcome,
    cells: Mapping[Column, Cell],
    before: Mapping[Column, Recording],
    base: Mapping[str, Recording],
) -> Iterator[Caveat]:
    for arch, recording in outcome.recordings.items():
        columns = [column for column in cells if column.arch == arch]
        if not columns:
            continue
        names = [column.case for column in columns]
        known = _of_recording(base[arch], names)
        new = [one for one in _of_recording(recording, names) if one not in known]
        step = compare(before[columns[0]], recording, names)
        for one in [*new, *(one for one in step.caveats if one["kind"] in DIFFERENCES)]:
            yield of_side(arch, one) if len(base) > 1 else one


# What a comparison says of the two sides besides what was measured.
DIFFERENCES = ("differs", "config-differs")


def _of_recording(recording: Recording, names: Sequence[str]) -> list[Caveat]:
    cases = [case for case in recording.cases if case.name in names]
    return recording.caveats + [caveat for case in cases for caveat in case.caveats]


def to_json(series: Series) -> dict[str, Any]:
    """The series as kentry/series/1."""
    return {
        "schema": SCHEMA,
        "tool": next(iter(series.first.values())).tool,
        "origin": dict(series.origin),
        "base": {arch: side_to_json(recording) for arch, recording in series.first.items()},
        "columns": [
            {"name": series.name(column), "case": column.case, "arch": column.arch}
            for column in series.columns
        ],
        "rows": [_row_to_json(series, row) for row in series.rows],
        "totals": {
            series.name(column): sum(
                row.cells[column].step for row in series.rows if column in row.cells
            )
            for column in series.columns
        },
        "caveats": list(series.caveats),
    }


def _row_to_json(series: Series, row: Row) -> dict[str, Any]:
    return {
        "patch": row.patch,
        "subject": row.subject,
        "commit": row.commit,
        "status": row.status,
        "identical_path": row.identical_path,
        "cases": {
            series.name(column): {
                "instructions": cell.instructions,
                "delta": cell.step,
                "cumulative": cell.total,
                "identical_path": cell.identical_path,
                "windows": cell.windows,
                "agreeing": cell.agreeing,
                "functions": plain(cell.functions),
                **({"events": plain(cell.events)} if cell.events else {}),
            }
            for column, cell in row.cells.items()
        },
        "problems": {
            arch: {"status": one.status, "sentence": one.sentence, "detail": one.detail}
            for arch, one in row.problems.items()
        },
        "caveats": list(row.caveats),
    }
