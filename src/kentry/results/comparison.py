# SPDX-License-Identifier: GPL-2.0-or-later
"""A comparison of two kernels: kentry/comparison/1, of `kentry diff` and `stat --compare`."""

import math
from collections import Counter
from collections.abc import Sequence
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, field
from msgspec.structs import force_setattr, replace

from kentry.errors import ContradictionError
from kentry.results.case_name import NONE, State
from kentry.results.caveats import Caveat, sum_of_contexts
from kentry.results.document import (
    OMITTED,
    UNWRITTEN,
    Confidence,
    Count,
    Number,
    Positive,
    about,
    read_document,
    schema_of,
)
from kentry.results.recording import (
    INSTRUCTIONS,
    CaseResult,
    CodeFile,
    Measured,
    Pair,
    Recording,
)

if TYPE_CHECKING:
    from kentry.stats.verdict import Effect

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
# Fewer rows are their own overview; and how many of the largest changes it names.
_OVERVIEW, _LARGEST = 5, 3
# A change is common if no more than one case in as many lacks it.
_LACK = 8
# Of the shortest cases, the one with the most in common with the others shows what that is.
_TRIED = 3


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


class _Delta(Struct, frozen=True):
    name: str
    old: Count
    new: Count
    delta: int = 0

    def __post_init__(self) -> None:
        force_setattr(self, "delta", self.new - self.old)


class FunctionDelta(_Delta, frozen=True):
    """A function's instructions in the modal path, on each side; `delta` is new less old.

    Functions that were renamed, inlined or split are one row together.
    """

    renamed: Annotated[
        Renamed | UnsetType, about("Where the row is several functions: which, on each side")
    ] = UNSET


class PurposeDelta(_Delta, frozen=True):
    """A part or a reason: its instructions in the modal path on each side, and the sources."""

    sources: tuple[str, ...] = ()


class CallsDelta(Struct, frozen=True):
    """A function that one side calls more often, with all that it calls."""

    name: str
    old_calls: Count
    new_calls: Count
    old: Annotated[Count, about("Instructions of these calls, and of what they call")]
    new: Count
    delta: int = 0

    def __post_init__(self) -> None:
        force_setattr(self, "delta", self.new - self.old)


def check_sum(what: str, rows: Sequence[_Delta], delta: Real) -> None:
    """ContradictionError where rows, if there are some, do not add up to the change of `what`."""
    if rows and (total := sum(row.delta for row in rows)) != delta:
        raise ContradictionError(f"{what} changes by {delta:+}, its parts by {total:+}")


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


class MovedFunction(Struct, frozen=True):
    """A function, or what of it moved by the same distance."""

    name: str
    instructions: Annotated[Positive, about("Of the path")]
    by: Annotated[int, about("Bytes; whole pages that most of the path moved by are taken out")]


class LayoutChange(Struct, frozen=True):
    """Where the same instructions lie on both sides; it says nothing about time."""

    moved: Annotated[tuple[MovedFunction, ...], Meta(min_length=1)]
    whole_pages: Annotated[int, about("Bytes, a multiple of 4096, that are taken out of `moved`")]
    metrics: Annotated[dict[str, tuple[Count, Count]], about("Of the path: on the old, the new")]


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

    `identical_path`, `events` and `layout` are of instructions alone.  `functions` add up to `old`
    and `new`, changed ones first; with `contexts` they may be of a context with another `old`, and
    their deltas add up.  They are empty where a path is missing, which a caveat then says.
    `events` are those of the modal paths.  Other sums are a ContradictionError.
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
        OMITTED,
    ] = ()
    contexts: Annotated[
        Contexts | UnsetType,
        about("Where a count depends on the context; new is then that in the context of old"),
    ] = UNSET
    layout: Annotated[
        LayoutChange | UnsetType,
        about("Where both sides execute the same instructions at other addresses"),
    ] = UNSET
    sum_of_contexts: Annotated[
        bool,
        about("No context has new as its count: it is old with each function's change"),
        OMITTED,
    ] = False
    estimates: Annotated[
        tuple[EstimateChange, ...],
        about("Cycles of the modal paths by a model, one a core"),
        OMITTED,
    ] = ()
    parts: Annotated[
        tuple[PurposeDelta, ...],
        about(
            "The parts of the modal paths, where these have the counts; they add up to the case's"
        ),
        OMITTED,
    ] = ()
    calls: Annotated[
        tuple[CallsDelta, ...],
        about("Functions that the modal paths call another number of times; none is below another"),
        OMITTED,
    ] = ()
    reasons: Annotated[
        tuple[PurposeDelta, ...],
        about("Against the floor: what the instructions are for; they add up to the case's"),
        OMITTED,
    ] = ()
    caveats: tuple[Caveat, ...] = ()
    # Of each side: in how many windows the count was measured that agree, and in how many.
    windows: Annotated[tuple[Pair, ...], UNWRITTEN] = ()
    # The least and the most that it changes by in any context; None: not known.
    change: Annotated[tuple[int, int] | None, UNWRITTEN] = None

    def __post_init__(self) -> None:
        force_setattr(self, "delta", self.new - self.old)
        force_setattr(self, "percent", 100 * self.delta / self.old if self.old else None)
        unseen = self.contexts is not UNSET and self.new not in dict(self.contexts.new)
        force_setattr(self, "sum_of_contexts", unseen)
        note = sum_of_contexts(f"{self.new} {self.metric}", self.name)
        if unseen and note not in self.caveats:
            force_setattr(self, "caveats", (*self.caveats, note))
        for rows in (self.functions, self.parts, self.reasons):
            check_sum(f"{self.metric} of {self.name}", rows, self.delta)
            old = sum(row.old for row in rows)
            if rows and not self.contexts and old != self.old:
                raise ContradictionError(f"{self.metric} of {self.name} is {self.old}, not {old}")


class TimedComparison(Struct, frozen=True, kw_only=True):
    """A metric with noise, per call; every fraction is in per cent."""

    name: str
    metric: Annotated[str, Meta(min_length=1)]
    unit: Annotated[str, Meta(min_length=1)]
    old: Number
    new: Number
    delta: Real = 0
    percent: Annotated[
        Real | None,
        about(
            "The change; of two cases of one kernel it is estimated group by group, and new and old"
            " divided give another figure"
        ),
    ] = field(default=None, name="percent_of_old")
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
    halves: Annotated[
        tuple[float | None, float | None],
        OMITTED,
        about("Half the widths of the intervals that old and new have by themselves"),
    ] = (None, None)
    estimators: Annotated[
        tuple[str, ...], OMITTED, about("What the values of both sides are, in words")
    ] = ()
    boots: Annotated[int, OMITTED, about("Of old", ge=0)] = 0
    groups: Annotated[
        int, OMITTED, about("Of old's processes, where these were interleaved, not the boots", ge=0)
    ] = 0
    # The probability of such a change by chance.
    p: Annotated[float, UNWRITTEN] = 1.0

    def __post_init__(self) -> None:
        force_setattr(self, "delta", self.new - self.old)

    def with_estimate(self, estimate: "Effect") -> Self:
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
        return max(0, decimals((self.interval[1] - self.interval[0]) / 2))


def _percent(fraction: float) -> float | None:
    """Per cent; None for NaN, which JSON does not have, and for infinity."""
    return 100 * fraction if math.isfinite(fraction) else None


def decimals(half: float, most: int = _MOST_DIGITS) -> int:
    """Counts decimals to the first digit of half an interval: below 0 for tens, `most` at most."""
    if not math.isfinite(half) or half < _NO_SPREAD:
        return _WITHOUT_INTERVAL
    return min(most, -math.floor(math.log10(half)))


class FunctionChange(Struct, frozen=True):
    """What a function changes by, and in an overview each time that a case calls the kernel."""

    name: str
    delta: int


class CaseChange(Struct, frozen=True):
    """A change of a case, in instructions and in per cent of old."""

    name: str
    delta: int
    percent: float = field(name="percent_of_old")


class Overview(Struct, frozen=True):
    """What all changed cases have in common, and the largest changes.

    A case that calls the kernel twice has twice the common change.
    """

    common: Annotated[
        tuple[FunctionChange, ...],
        about("Functions that change by the same in each call of nearly every case"),
    ]
    delta: Annotated[int, about("Their sum, a call")]
    cases: Annotated[Count, about("How many were looked at: all whose functions are known")]
    without: Annotated[tuple[str, ...], about("The cases in which one of them changes otherwise")]
    rest: Annotated[
        tuple[CaseChange, CaseChange], about("What else changes: the least and the most, by share")
    ]
    largest: Annotated[tuple[CaseChange, ...], about("By size, largest first")]

    @classmethod
    def of(cls, rows: Sequence[CaseComparison]) -> Self | UnsetType:
        """Returns that of the rows of instructions; UNSET where few of them change."""
        changed = [row for row in rows if row.delta and row.old and row.functions]
        if len(changed) < _OVERVIEW:
            return UNSET
        deltas = [{own.name: own.delta for own in row.functions if own.delta} for row in changed]
        # Short paths are of one call; by its changes the others show how many calls they are.
        short = sorted(zip((row.old for row in changed), deltas, strict=True), key=itemgetter(0))
        tried = (_lacking(first, deltas) for _, first in short[:_TRIED])
        first, calls, lacking = max(tried, key=lambda own: len(own[2]))
        common = [FunctionChange(name, first[name]) for name in lacking]
        without = {changed[at].name for places in lacking.values() for at in places}
        total = sum(own.delta for own in common)
        rest = [
            CaseChange(row.name, more := row.delta - n * total, 100 * more / row.old)
            for row, n in zip(changed, calls, strict=True)
        ]
        by_share = sorted(rest, key=lambda own: own.percent)
        decided = (row for row in changed if row.verdict in ("better", "worse"))
        by_size = sorted(decided, key=lambda row: -abs(row.delta))[:_LARGEST]
        return cls(
            tuple(sorted(common, key=lambda own: -abs(own.delta))),
            total,
            len(changed),
            tuple(row.name for row in changed if row.name in without),
            (by_share[0], by_share[-1]),
            tuple(CaseChange(row.name, row.delta, 100 * row.delta / row.old) for row in by_size),
        )


_Deltas = dict[str, int]


def _lacking(
    first: _Deltas, deltas: Sequence[_Deltas]
) -> tuple[_Deltas, list[int], dict[str, list[int]]]:
    """Returns `first`, how many calls each case is, and which lack a change that is common."""
    calls = [_times(own, first) for own in deltas]
    lacking = {
        name: [
            at
            for at, (own, n) in enumerate(zip(deltas, calls, strict=True))
            if own.get(name) != n * delta
        ]
        for name, delta in first.items()
    }
    most = len(deltas) // _LACK
    return first, calls, {name: own for name, own in lacking.items() if len(own) <= most}


def _times(own: _Deltas, first: _Deltas) -> int:
    """Returns how many times the changes of `first` most functions of `own` have."""
    times = Counter(
        own[name] // delta
        for name, delta in first.items()
        if own.get(name, 0) % delta == 0 and own.get(name, 0) // delta > 0
    )
    return max(times, key=lambda n: (times[n], -n), default=1)


# Of rows of a path diff that follow each other: the words of change, function, part, reason and
# source; whether constants differ; how often each ran; the first on each side, null for none; and
# how many there are.
RowRun = tuple[Count, Count, Count, Count, Count, bool, Positive, Count | None, Count | None, Count]


class PackedPair(Struct, frozen=True):
    """Both modal paths of a case as runs in the code of their sides, and how they differ."""

    old: tuple[Pair, ...]
    new: tuple[Pair, ...]
    rows: tuple[RowRun, ...]
    renamed: tuple[Renamed, ...] = ()


class PackedPaths(Struct, frozen=True):
    """The paths of the cases that do not execute the same; kentry.path.pairs packs them."""

    old: CodeFile
    new: CodeFile
    words: tuple[str, ...]
    cases: dict[str, PackedPair]


class Distribution(Struct, frozen=True, kw_only=True):
    """A noisy metric of one side, and the value of each of its processes, per call."""

    value: Number
    unit: str
    interval: tuple[Real, Real] | None
    confidence: Confidence | None
    floor: Number | None
    values: tuple[Number, ...]
    estimator: str = ""
    absent: tuple[str, ...] = ()


if TYPE_CHECKING:
    _Rows = tuple[CaseComparison | TimedComparison, ...]
else:
    # msgspec does not tell structs apart by their keys, so the comparison makes them.
    _TIMED = {"if": {"required": ["unit"]}, "then": {"$ref": "#/$defs/TimedComparison"}}
    _ROW = Meta(extra_json_schema=_TIMED | {"else": {"$ref": "#/$defs/CaseComparison"}})
    _Rows = tuple[Annotated[dict[str, Any], _ROW], ...]


class Comparison(Struct, frozen=True, kw_only=True, tag_field="schema", tag="kentry/comparison/1"):
    """A kentry comparison: two recordings, case by case, function by function."""

    tool: dict[str, str]
    old: Measured
    new: Measured
    rows: Annotated[
        _Rows,
        about("A row per case and metric: what is counted, then what has noise", min_length=1),
    ] = field(name="cases")
    caveats: tuple[Caveat, ...]
    modal_paths: Annotated[
        PackedPaths | UnsetType, about("Both paths of the cases that do not execute the same")
    ] = UNSET
    distributions: Annotated[
        dict[str, dict[str, tuple[Distribution, Distribution]]] | UnsetType,
        about("By case and metric the values of both sides' processes"),
    ] = UNSET
    overview: Annotated[
        Overview | UnsetType, about("Of the instructions, where at least five cases change")
    ] = UNSET
    # The cases whose instructions, or all of whose metrics, only the old kernel has.
    lost: Annotated[tuple[str, ...], UNWRITTEN] = ()

    def __post_init__(self) -> None:
        rows = [_row(at, row) if isinstance(row, dict) else row for at, row in enumerate(self.rows)]
        force_setattr(self, "rows", tuple(rows))
        force_setattr(self, "overview", Overview.of(self.cases))

    @property
    def exact(self) -> list[CaseComparison]:
        """The rows of exact metrics."""
        return [row for row in self.rows if isinstance(row, CaseComparison)]

    @property
    def cases(self) -> list[CaseComparison]:
        """The rows of instructions."""
        return [row for row in self.exact if row.metric == INSTRUCTIONS]

    @property
    def metrics(self) -> list[CaseComparison]:
        """The rows of other exact metrics."""
        return [row for row in self.exact if row.metric != INSTRUCTIONS]

    def counted(self, case: str, metric: str = INSTRUCTIONS) -> CaseComparison | None:
        """Returns the row of an exact metric; None where it was not compared."""
        return next((row for row in self.exact if (row.name, row.metric) == (case, metric)), None)

    @property
    def timed(self) -> list[TimedComparison]:
        """The rows of noisy metrics."""
        return [row for row in self.rows if isinstance(row, TimedComparison)]

    @property
    def names(self) -> list[str]:
        """The cases compared, by counts or by time, in the order of the old recording."""
        return list(dict.fromkeys(row.name for row in self.rows))


def read_comparison(file: Path) -> Comparison | None:
    """The comparison in `file`, None where it is none; RecordingError says where it is wrong."""
    if not schema_of(file).startswith("kentry/comparison/"):
        return None
    return read_document(file, Comparison, "Make it again with kentry diff --json.")


def _row(index: int, row: dict[str, Any]) -> CaseComparison | TimedComparison:
    try:
        if "unit" not in row:
            return msgspec.convert(row, CaseComparison)
        timed = msgspec.convert(row, TimedComparison)
    except msgspec.ValidationError as err:
        raise ValueError(str(err).replace("`$", f"`$.cases[{index}]", 1)) from err
    low, high = timed.interval or (0, 0)
    numbers = [timed.old, timed.new, low, high, timed.percent or 0]
    if low > high or not all(math.isfinite(n) and abs(n) <= _MOST_PERCENT for n in numbers):
        raise ValueError(f"numbers that cannot be true - at `$.cases[{index}]`")
    return timed


# A case in a task with this vector state.
StateCase = tuple[CaseResult, State]


def cells_of(recording: Recording) -> list[StateCase]:
    """Returns the cases with a vector state, all states of a case below each other."""
    groups: dict[tuple[str, str, int | None], list[StateCase]] = {}
    for case in recording.cases:
        if state := case.parsed.state:
            groups.setdefault((state.unit, case.parsed.call, state.length), []).append(
                (case, state)
            )
    return [cell for group in groups.values() for cell in group]


def without_use(case: CaseResult, state: State, cells: Sequence[StateCase]) -> CaseResult | None:
    """Returns the same case in a task that never used the unit."""
    wanted = (case.parsed.call, State(state.unit, NONE, state.length))
    return next((other for other, own in cells if (other.parsed.call, own) == wanted), None)
