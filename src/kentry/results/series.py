# SPDX-License-Identifier: GPL-2.0-or-later
"""A series: a row per patch, the baseline first; and its file kentry/series/1."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field

from kentry.results.caveats import Caveat
from kentry.results.comparison import Cycles, EventDelta, FunctionDelta
from kentry.results.document import Count, about, fields_of
from kentry.results.document import to_json as structs_to_json
from kentry.results.recording import Measured, Recording

SCHEMA = "kentry/series/1"

# What became of a patch, for every architecture it was tried on.
MEASURED = "measured"
NO_APPLY, NO_BUILD, NO_BOOT = "does-not-apply", "build-failed", "boot-failed"


class Problem(Struct, frozen=True):
    """Why a patch has no numbers: a status, one sentence, and the tool's own last lines."""

    status: Annotated[str, Meta(pattern=f"^({NO_APPLY}|{NO_BUILD}|{NO_BOOT})$")]
    sentence: str
    detail: str = ""


@dataclass(frozen=True)
class SeriesColumn:
    """A case on an architecture; the case's name includes its entry and vector state."""

    case: str
    arch: str


class MetricStep(Struct, frozen=True):
    """Another exact metric of a cell: its value, and the changes as those of the count."""

    value: Count
    step: Annotated[int, about("Against the last row that has a value")] = field(
        name="delta", default=0
    )
    total: Annotated[int, about("Against the baseline")] = field(name="cumulative", default=0)


class CellEstimate(Cycles, frozen=True, kw_only=True):
    """A row's cycles on one core, by the model of one version of LLVM."""

    core: str
    llvm: str


class CellFile(Struct, frozen=True, kw_only=True):
    """One count: the step against the last row that has one, the sum against the baseline."""

    instructions: Count
    step: Annotated[int, about("Against the last row that has a count")] = field(
        name="delta", default=0
    )
    total: Annotated[int, about("Against the baseline")] = field(name="cumulative", default=0)
    identical_path: bool = False
    windows: Annotated[int, about("Clean windows", ge=1)]
    agreeing: Annotated[int, about("Clean windows that have the count", ge=1)]
    functions: Annotated[
        tuple[FunctionDelta, ...],
        about(
            "Those that changed; their deltas add up to the cell's",
            extra_json_schema={"not": {"contains": {"properties": {"delta": {"const": 0}}}}},
        ),
    ] = ()
    estimates: Annotated[
        tuple[CellEstimate, ...] | UnsetType,
        about("Cycles of the modal path by a model, one a core; no measurement"),
    ] = UNSET
    events: Annotated[
        tuple[EventDelta, ...],
        about(
            "Vector events that changed in the step, in one window; null: that"
            " kernel has no marker of it"
        ),
    ] = ()
    metrics: Annotated[
        dict[str, MetricStep | None],
        about("What --metric asked for beside instructions; null: its windows do not agree"),
    ] = field(default_factory=dict)


class Cell(CellFile, frozen=True, kw_only=True):
    """A cell of the table.

    Without `path_known` nothing is known of which instructions they were, here or in the row
    before.
    """

    path_known: bool = True


@dataclass(frozen=True)
class PatchRow:
    """One patch, or the baseline (patch 0): its cells, or why it has none.

    `caveats` are those that the baseline's recordings do not have, and what differs from the
    last row measured besides the patch's source.
    """

    patch: int
    subject: str
    commit: str
    cells: Mapping[SeriesColumn, Cell]
    problems: Mapping[str, Problem]
    caveats: tuple[Caveat, ...] = ()

    @property
    def status(self) -> str:
        """MEASURED, or the first architecture's problem."""
        return next((problem.status for problem in self.problems.values()), MEASURED)

    @property
    def identical_path(self) -> bool:
        """Whether every case ran the same instructions as in the row before."""
        cells = self.cells.values()
        return bool(self.patch and cells) and all(cell.identical_path for cell in cells)


@dataclass(frozen=True)
class Series:
    """The table and where it came from.

    `first` and `last` are, by architecture, the recordings of the baseline and of the last
    row that was measured; `origin` has the base, and base-commit and change-id where the
    patches name them.
    """

    rows: tuple[PatchRow, ...]
    columns: tuple[SeriesColumn, ...]
    first: Mapping[str, Recording]
    last: Mapping[str, Recording]
    origin: Mapping[str, str]
    caveats: tuple[Caveat, ...] = ()

    def name(self, column: SeriesColumn) -> str:
        """A column's name: the case, after its architecture where there are several."""
        several = len({one.arch for one in self.columns}) > 1
        return f"{column.arch}:{column.case}" if several else column.case


class ColumnFile(Struct):
    """A column of the table; `name` is its key in rows and totals."""

    name: str
    case: str
    arch: Literal["x86_64", "arm64", "riscv64"]


class PatchRowFile(Struct):
    """One patch, or the baseline (patch 0): its cells, or why it has none."""

    patch: Count
    subject: str
    commit: Annotated[str, Meta(pattern="^([0-9a-f]{40,64})?$")]
    status: Annotated[str, Meta(pattern=f"^({MEASURED}|{NO_APPLY}|{NO_BUILD}|{NO_BOOT})$")]
    identical_path: Annotated[
        bool, about("Every case ran the same instructions as in the row before")
    ]
    cases: dict[str, CellFile]
    problems: Annotated[dict[str, Problem], about("Why there are no numbers, by architecture")]
    caveats: tuple[Caveat, ...]


class SeriesFile(Struct, tag_field="schema", tag="kentry/series/1"):
    """A kentry series: a row per patch, the baseline first."""

    tool: dict[str, str]
    origin: Annotated[
        dict[str, str], about("The base, and base-commit and change-id where the patches name them")
    ]
    base: Annotated[
        dict[str, Measured],
        about("The baseline's kernel and target, by architecture", min_length=1),
    ]
    columns: list[ColumnFile]
    rows: Annotated[list[PatchRowFile], Meta(min_length=1)]
    totals: Annotated[dict[str, int], about("Each column's steps, added up")]
    caveats: list[Caveat]


def to_json(series: Series) -> dict[str, Any]:
    """The series as kentry/series/1."""
    return {
        "schema": SCHEMA,
        "tool": next(iter(series.first.values())).tool,
        "origin": dict(series.origin),
        "base": {
            arch: structs_to_json(Measured.of(recording))
            for arch, recording in series.first.items()
        },
        "columns": [
            {"name": series.name(column), "case": column.case, "arch": column.arch}
            for column in series.columns
        ],
        "rows": [
            {
                "patch": row.patch,
                "subject": row.subject,
                "commit": row.commit,
                "status": row.status,
                "identical_path": row.identical_path,
                "cases": {
                    series.name(column): fields_of(cell, CellFile)
                    for column, cell in row.cells.items()
                },
                "problems": structs_to_json(dict(row.problems)),
                "caveats": list(row.caveats),
            }
            for row in series.rows
        ],
        "totals": {
            series.name(column): sum(
                row.cells[column].step for row in series.rows if column in row.cells
            )
            for column in series.columns
        },
        "caveats": list(series.caveats),
    }
