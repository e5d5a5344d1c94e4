# SPDX-License-Identifier: GPL-2.0-or-later
"""A series: a row per patch, the baseline first; and its file kentry/series/1."""

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from kentry.results.caveats import Caveat
from kentry.results.comparison import CaseComparison, Cycles, EventDelta, FunctionDelta
from kentry.results.document import OMITTED, UNWRITTEN, Count, about
from kentry.results.recording import Measured

# What became of a patch, for every architecture it was tried on.
MEASURED = "measured"
NO_APPLY, NO_BUILD, NO_BOOT = "does-not-apply", "build-failed", "boot-failed"


class Problem(Struct, frozen=True):
    """Why a patch has no numbers: a status, one sentence, and the tool's own last lines."""

    status: Annotated[str, Meta(pattern=f"^({NO_APPLY}|{NO_BUILD}|{NO_BOOT})$")]
    sentence: str
    detail: str = ""


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


class Cell(Struct, frozen=True, kw_only=True):
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
        tuple[CellEstimate, ...],
        about("Cycles of the modal path by a model, one a core; no measurement"),
        OMITTED,
    ] = ()
    events: Annotated[
        tuple[EventDelta, ...],
        about(
            "Vector events that changed in the step, in one window; null: that"
            " kernel has no marker of it"
        ),
        OMITTED,
    ] = ()
    metrics: Annotated[
        dict[str, MetricStep | None],
        about("What --metric asked for beside instructions; null: its windows do not agree"),
    ] = field(default_factory=dict)
    # Without it nothing is known of which instructions they were, here or in the row before.
    path_known: Annotated[bool, UNWRITTEN] = True


class SeriesColumn(Struct, frozen=True):
    """A column of the table; `name` is its key in rows and totals."""

    name: str
    case: str
    arch: Literal["x86_64", "arm64", "riscv64"]


class PatchRow(Struct, frozen=True, kw_only=True):
    """One patch, or the baseline (patch 0): its cells, or why it has none."""

    patch: Count
    subject: str
    commit: Annotated[str, Meta(pattern="^([0-9a-f]{40,64})?$")]
    status: Annotated[str, Meta(pattern=f"^({MEASURED}|{NO_APPLY}|{NO_BUILD}|{NO_BOOT})$")]
    identical_path: Annotated[
        bool, about("Every case ran the same instructions as in the row before")
    ]
    cases: dict[str, Cell]
    problems: Annotated[dict[str, Problem], about("Why there are no numbers, by architecture")]
    not_compiled: Annotated[
        tuple[str, ...],
        about("The architectures whose kernel is provably made of nothing that the patch changes"),
        OMITTED,
    ] = ()
    # Those that the baseline does not have, and what differs from the last row measured besides
    # the patch's source.
    caveats: tuple[Caveat, ...]

    @property
    def changes(self) -> list[tuple[list[str], Cell]]:
        """What the patch changes, once for the columns in which it is the same."""
        alike: dict[tuple[object, ...], tuple[list[str], Cell]] = {}
        for name, cell in self.cases.items() if self.patch else ():
            metrics = {key: one.step for key, one in cell.metrics.items() if one and one.step}
            if cell.step or cell.functions or cell.events or metrics:
                key = (cell.step, cell.functions, cell.events or (), tuple(metrics.items()))
                alike.setdefault(key, ([], cell))[0].append(name)
        return list(alike.values())


class Series(Struct, frozen=True, kw_only=True, tag_field="schema", tag="kentry/series/1"):
    """A kentry series: a row per patch, the baseline first."""

    tool: dict[str, str]
    origin: Annotated[
        dict[str, str], about("The base, and base-commit and change-id where the patches name them")
    ]
    base: Annotated[
        dict[str, Measured],
        about("The baseline's kernel and target, by architecture", min_length=1),
    ]
    columns: tuple[SeriesColumn, ...]
    rows: Annotated[tuple[PatchRow, ...], Meta(min_length=1)]
    totals: Annotated[dict[str, int], about("Each column's steps, added up")]
    caveats: tuple[Caveat, ...]
    # By architecture those of the baseline; by column the change from the first kernel to the last;
    # and what else differs between these two.
    base_caveats: Annotated[dict[str, tuple[Caveat, ...]], UNWRITTEN] = field(default_factory=dict)
    changes: Annotated[dict[str, CaseComparison], UNWRITTEN] = field(default_factory=dict)
    differences: Annotated[tuple[Caveat, ...], UNWRITTEN] = ()
