# SPDX-License-Identifier: GPL-2.0-or-later
"""A comparison of two kernels, and its file kentry/comparison/1.

What `kentry diff --json` and `kentry stat --compare --json` print.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, field
from msgspec.structs import force_setattr, replace

from kentry.results.caveats import Caveat
from kentry.results.document import (
    Confidence,
    Count,
    Number,
    Positive,
    about,
    fields_of,
    read_document,
    schema_of,
)
from kentry.results.document import to_json as structs_to_json
from kentry.results.recording import INSTRUCTIONS, Measured, Pair, Recording

if TYPE_CHECKING:
    from kentry.stats.verdict import Estimate

SCHEMA = "kentry/comparison/1"

Verdict = Annotated[str, Meta(pattern="^(same|better|worse|undecided)$")]
Real = int | float

# A longer name of a rename is cut, in characters: a table's column.
_NAME = 40

# A larger change in per cent is a mistake: no two times are that far apart.
_MOST_PERCENT = 1e18

# Decimals of a change without an interval, and the most of any.
_WITHOUT_INTERVAL, _MOST_DIGITS = 1, 4
# Counters of an emulated cpu have no spread but that of rounding.
_NO_SPREAD = 1e-6


Share = tuple[str, Positive]


class Renamed(Struct, frozen=True):
    """Functions of one side that are others on the other side: [name, instructions] of each."""

    old: Annotated[tuple[Share, ...], Meta(min_length=1)]
    new: Annotated[tuple[Share, ...], Meta(min_length=1)]

    @property
    def name(self) -> str:
        """What it is in a table: the new functions, and the old ones with other names."""
        after = [name for name, _ in self.new]
        before = [name for name, _ in self.old]
        gone = [name for name in before if name not in after] or before
        whole = f"{' + '.join(after)} <- {' + '.join(gone)}"
        if len(whole) <= _NAME:
            return whole
        return f"{after[0]}{' + ...' * (len(after) > 1)} <- {gone[0]}{' + ...' * (len(gone) > 1)}"


class FunctionDelta(Struct, frozen=True):
    """A function's instructions in the modal path, on each side; `delta` is new less old.

    Functions that were renamed, inlined or split are one row together.
    """

    name: str
    old: Count
    new: Count
    delta: int = 0
    renamed: Annotated[
        Renamed | UnsetType, about("Where the row is several functions: which, on each side")
    ] = UNSET

    def __post_init__(self) -> None:
        force_setattr(self, "delta", self.new - self.old)

    @property
    def place(self) -> tuple[int, int, str]:
        """For sorting: the largest change first, growth before what shrank as much."""
        return -abs(self.delta), -self.delta, self.name


class PurposeDelta(Struct, frozen=True):
    """A part or a reason: its instructions in the modal path on each side, and the sources."""

    name: str
    old: Count
    new: Count
    delta: int = 0
    sources: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        force_setattr(self, "delta", self.new - self.old)


class EventDelta(Struct, frozen=True):
    """How often a vector event happened in a window on each side, and in which functions.

    None: that kernel has no marker of the event, so nothing is known.
    """

    name: str
    cause: str
    old: int | None
    new: int | None
    functions: tuple[str, ...]

    @property
    def is_change(self) -> bool:
        """Whether both sides are known and differ."""
        return self.old is not None and self.new is not None and self.old != self.new


class Contexts(Struct, frozen=True):
    """In how many contexts of each side each count was the commonest: [count, contexts]."""

    old: tuple[Pair, ...]
    new: tuple[Pair, ...]


class Cycles(Struct, frozen=True):
    """What a scheduling model makes of one side; at least `low` where figures are missing."""

    low: Number
    high: Number
    missing: Count
    steady: Number


class EstimateChange(Struct, frozen=True):
    """Both sides on one core, by the model of one version of LLVM: no measurement."""

    core: str
    llvm: str
    old: Cycles
    new: Cycles


class CaseComparison(Struct, frozen=True, kw_only=True):
    """An exact metric of one case on two kernels.

    `identical_path`, `events` and `contexts` are of instructions alone.  `functions` add up
    to `old` and `new`, changed ones first.  They are empty where a path is missing, which a caveat
    then says.  `events` are those of the modal paths.
    """

    name: str
    metric: Annotated[str, Meta(min_length=1)] = INSTRUCTIONS
    old: Count
    new: Count
    delta: int = 0
    percent: float | None = field(default=None, name="percent_of_old")
    verdict: Verdict
    identical_path: bool
    functions: Annotated[
        tuple[FunctionDelta, ...],
        about("Every function of either modal path; the deltas add up to the case's"),
    ]
    events: Annotated[
        tuple[EventDelta, ...],
        about("Vector events in one window; null: the kernel has no marker of it"),
    ] = ()
    contexts: Annotated[
        Contexts | UnsetType,
        about("Where a count depends on the context; new is then that in the context of old"),
    ] = UNSET
    estimates: Annotated[
        tuple[EstimateChange, ...] | UnsetType,
        about("Cycles of the modal paths by a model, one a core"),
    ] = UNSET
    parts: Annotated[
        tuple[PurposeDelta, ...] | UnsetType,
        about("Against the floor: the parts of the path; they add up to the case's"),
    ] = UNSET
    reasons: Annotated[
        tuple[PurposeDelta, ...] | UnsetType,
        about("Against the floor: what the instructions are for; they add up to the case's"),
    ] = UNSET
    caveats: tuple[Caveat, ...] = ()

    def __post_init__(self) -> None:
        force_setattr(self, "delta", self.new - self.old)
        force_setattr(self, "percent", 100 * self.delta / self.old if self.old else None)


class TimedRow(Struct, frozen=True, kw_only=True):
    """A metric with noise, per call; every fraction is in per cent."""

    name: str
    metric: Annotated[str, Meta(min_length=1)]
    unit: Annotated[str, Meta(min_length=1)]
    old: Number
    new: Number
    delta: Real = 0
    percent: Real | None = field(default=None, name="percent_of_old")
    verdict: Verdict
    reason: Annotated[str, about("Why it is undecided, a clause")] = ""
    interval: Annotated[
        tuple[Real, Real] | None,
        about("Of the change in per cent of old, at the confidence: [low, high]"),
    ] = None
    confidence: Confidence | None = None
    floor: Annotated[
        Number | None, about("The difference between two identical things in the same run")
    ] = None
    threshold: Annotated[Number | None, about("Changes up to this are none")] = None
    detectable: Annotated[
        Number | None, about("The smallest change that the run would find 19 times of 20")
    ] = None
    paired: Annotated[
        bool, about("Measured interleaved and compared group by group; else undecided")
    ] = False
    identical_path: Annotated[
        bool | None, about("Whether both execute the same instructions; null: not known")
    ] = None
    functions: Annotated[tuple[FunctionDelta, ...], Meta(max_length=0)] = ()
    caveats: tuple[Caveat, ...] = ()

    def __post_init__(self) -> None:
        force_setattr(self, "delta", self.new - self.old)


class TimedComparison(TimedRow, frozen=True, kw_only=True):
    """One noisy metric of one case on two kernels; `old` and `new` per call, in `unit`.

    `new` is exactly `percent` more than `old` where the change was estimated from pairs.  Beside
    what the file has, `halves` are half the widths of the intervals that old and new had by
    themselves, and `p` is the probability of such a change by chance.
    """

    halves: tuple[float | None, float | None] = (None, None)
    p: float = 1.0

    def with_estimate(self, estimate: "Estimate") -> Self:
        """This row with all that was estimated of an interleaved measurement."""
        low, high = map(_percent, estimate.interval)
        return replace(
            self,
            percent=_percent(estimate.effect),
            verdict=estimate.verdict,
            interval=None if low is None or high is None else (low, high),
            confidence=estimate.confidence,
            floor=_percent(estimate.floor),
            threshold=_percent(estimate.threshold),
            detectable=_percent(estimate.detectable),
            paired=True,
            p=estimate.p,
            reason=estimate.reason,
        )

    @property
    def is_layout(self) -> bool:
        """Whether the time changed and the executed instructions did not."""
        return any(caveat["kind"] == "layout" for caveat in self.caveats)

    @property
    def percent_digits(self) -> int:
        """Decimals of the change in per cent: up to the first digit of half its interval."""
        if self.interval is None:
            return _WITHOUT_INTERVAL
        return max(0, _digits((self.interval[1] - self.interval[0]) / 2))

    @property
    def value_digits(self) -> tuple[int | None, int | None]:
        """Decimals of old and of new, below 0 for tens; None where there is no interval.

        They follow from the change's interval, or without one from each value's own.
        """
        if self.interval is not None:
            digits = _digits((self.interval[1] - self.interval[0]) / 2 / 100 * self.old)
            return digits, digits
        old, new = (None if half is None else _digits(half) for half in self.halves)
        return old, new


def _percent(fraction: float) -> float | None:
    """Per cent; None for NaN, which JSON does not have, and for infinity."""
    return 100 * fraction if math.isfinite(fraction) else None


def _digits(half: float) -> int:
    """The decimals that half an interval allows."""
    if half < _NO_SPREAD:
        return _WITHOUT_INTERVAL
    return min(_MOST_DIGITS, -math.floor(math.log10(half)))


@dataclass(frozen=True)
class Comparison:
    """All cases that both recordings have, and what else differs between the two.

    `cases` are those with instructions on both sides, `metrics` the other exact metrics that were
    asked for, `timed` the noisy metrics that both have; `lost` are the cases whose instructions,
    or all of whose metrics, only the old one has.
    """

    old: Recording
    new: Recording
    cases: tuple[CaseComparison, ...]
    caveats: tuple[Caveat, ...] = ()
    lost: tuple[str, ...] = ()
    timed: tuple[TimedComparison, ...] = ()
    metrics: tuple[CaseComparison, ...] = ()

    @property
    def names(self) -> list[str]:
        """The cases compared, by counts or by time, in the order of the old recording."""
        found = {case.name for case in self.cases} | {row.name for row in self.timed}
        return [case.name for case in self.old.cases if case.name in found]

    def rows(self, name: str) -> Iterator[CaseComparison | TimedComparison]:
        """What is known of one case, its instructions first."""
        for rows in (self.cases, self.metrics, self.timed):
            yield from (one for one in rows if one.name == name)


class ComparisonFile(Struct, tag_field="schema", tag="kentry/comparison/1"):
    """A kentry comparison: two recordings, case by case, function by function."""

    tool: dict[str, str]
    old: Measured
    new: Measured
    cases: Annotated[
        list[
            Annotated[
                dict[str, Any],
                Meta(
                    extra_json_schema={
                        "if": {"required": ["unit"]},
                        "then": {"$ref": "#/$defs/TimedRow"},
                        "else": {"$ref": "#/$defs/CaseComparison"},
                    }
                ),
            ]
        ],
        Meta(
            min_length=1,
            description="A row per case and metric: what is counted, then what has noise",
        ),
    ]
    caveats: list[Caveat]


def row_to_json(row: CaseComparison | TimedRow) -> dict[str, Any]:
    """A row as the file has it."""
    return fields_of(row, TimedRow if isinstance(row, TimedRow) else CaseComparison)


def document_of(
    old: Recording,
    new: Recording,
    rows: Sequence[CaseComparison | TimedRow],
    caveats: Sequence[Caveat],
) -> dict[str, Any]:
    """A comparison as kentry/comparison/1."""
    return {
        "schema": SCHEMA,
        "tool": new.tool,
        "old": structs_to_json(Measured.of(old)),
        "new": structs_to_json(Measured.of(new)),
        "cases": [row_to_json(row) for row in rows],
        "caveats": list(caveats),
    }


def to_json(comparison: Comparison) -> dict[str, Any]:
    """The comparison as kentry/comparison/1."""
    rows = [row for name in comparison.names for row in comparison.rows(name)]
    return document_of(comparison.old, comparison.new, rows, comparison.caveats)


class SavedComparison(Struct, frozen=True):
    """A comparison read back from its file: two kernels, and a row per case and metric."""

    old: dict[str, Any]
    new: dict[str, Any]
    rows: tuple[CaseComparison | TimedComparison, ...]
    caveats: tuple[Caveat, ...]


def read_comparison(file: Path) -> SavedComparison | None:
    """The comparison in `file`; None where the file is none, whatever else it may be.

    RecordingError says where in the file it is wrong.
    """
    if not schema_of(file).startswith("kentry/comparison/"):
        return None

    def build(document: ComparisonFile) -> SavedComparison:
        old, new = document.old.kernel, document.new.kernel
        for name, kernel in (("old", old), ("new", new)):
            for key in ("spec", "arch", "release"):
                if not isinstance(kernel.get(key), str):
                    raise ValueError(f"no text - at `$.{name}.kernel.{key}`")
        rows = tuple(_row(index, row) for index, row in enumerate(document.cases))
        return SavedComparison(old, new, rows, tuple(document.caveats))

    return read_document(
        file, ComparisonFile, build, SCHEMA, "Make it again with kentry diff --json."
    )


def _row(index: int, row: dict[str, Any]) -> CaseComparison | TimedComparison:
    try:
        if "unit" not in row:
            return msgspec.convert(row, CaseComparison)
        timed = msgspec.convert(row, TimedComparison)
    except msgspec.ValidationError as err:
        raise ValueError(str(err).replace("`$", f"`$.cases[{index}]", 1)) from err
    low, high = timed.interval or (0, 0)
    numbers = [timed.old, timed.new, low, high, timed.percent or 0]
    if low > high or not all(math.isfinite(one) and abs(one) <= _MOST_PERCENT for one in numbers):
        raise ValueError(f"numbers that cannot be true - at `$.cases[{index}]`")
    return timed
