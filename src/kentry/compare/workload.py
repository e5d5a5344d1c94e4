# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs of one program on two kernels -> WorkloadComparison; docs/methods.md has the rule.

of_recordings() is the same rule for two recordings that count/program.py made of such runs.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from kentry.compare.differences import differing, of_both, one_architecture
from kentry.errors import UserError
from kentry.results import caveats
from kentry.results.caveats import Caveat
from kentry.results.comparison import CaseComparison, FunctionDelta, Real
from kentry.results.recording import INSTRUCTIONS, CaseResult, Command, Pair, Recording
from kentry.results.workload import (
    AROUND,
    CALLS,
    ENTRY,
    FIRMWARE,
    OF_THE_KERNEL,
    OTHERS,
    SYSCALL,
    TOTAL,
    USER,
    Row,
    Workload,
)
from kentry.results.workload_comparison import (
    EntryDelta,
    KindDelta,
    KindSide,
    Ran,
    WorkloadComparison,
)
from kentry.stats import exact
from kentry.stats.exact import SAME, UNDECIDED, histogram, is_decided, mode

_TARGET_KEYS = ("emulator", "machine", "cpu", "cmdline", "memory_mib")

# Calls of each side that agree on a change, in all boots together.  A path that a task takes by
# chance every second time agrees in three calls a side once in 32 comparisons.
_CALLS = 10
# Packages that are named where user spaces differ.
_PACKAGES = 3
# At most this share of a side's calls may have the other side's count.
_OF_THE_OTHER = 0.05
# Kinds of system calls that agree on a change of entry and exit, beside more than half of them.
_KINDS = 3


class _Calls(NamedTuple):
    """A kind's calls in one boot: how many, what those that ended executed, entry and exit."""

    calls: int
    values: Sequence[Pair]
    around: int | None

    @staticmethod
    def of(row: Row) -> "_Calls":
        return _Calls(row.calls, row.values, row.around)

    @property
    def mode(self) -> int | None:
        """What more than half of those that ended executed."""
        samples = dict(self.values)
        return mode(samples) if samples and is_decided(samples) else None


_Side = Sequence[_Calls]


def compare_workloads(old: Sequence[Workload], new: Sequence[Workload]) -> WorkloadComparison:
    """Compares the boots of two kernels; UserError for two programs or two architectures."""
    one_architecture(old[0], new[0], "Compare runs of one architecture.")
    _one_program("runs", old[0].workload, new[0].workload)
    pairs = {
        row.name: (_rows(old, row), _rows(new, row)) for boot in (*old, *new) for row in boot.rows
    }
    calls = [
        (list(map(_Calls.of, before)), list(map(_Calls.of, after)))
        for before, after in pairs.values()
        if before[0].what == SYSCALL
    ]
    entry = _entry(calls)
    kinds = [_kind(*pair, entry, old[0].functions, new[0].functions) for pair in pairs.values()]
    return WorkloadComparison(
        old=_ran(old),
        new=_ran(new),
        entry=entry,
        kinds=tuple(sorted(kinds, key=lambda kind: (-abs(kind.by_cost), kind.name))),
        functions=_deltas(_of_kernel(old[0]), _of_kernel(new[0])),
        caveats=tuple(caveats.unique(_caveats(old, new))),
    )


def _one_program(what: str, *sides: Command | None) -> None:
    old, new = (" ".join(side.command) if side else "" for side in sides)
    if old != new:
        raise UserError(
            f"The {what} are of two programs, '{old}' and '{new}'.",
            f"Compare {what} of one program.",
        )


def _rows(boots: Sequence[Workload], row: Row) -> list[Row]:
    """The row of that name in each boot, one without calls where a boot has none."""
    none = Row(what=row.what, name=row.name, instructions=0)
    return [boot.row(row.name) or none for boot in boots]


def _ran(boots: Sequence[Workload]) -> Ran:
    first = boots[0]
    return Ran(
        kernel=first.kernel,
        target=first.target,
        tool=first.tool,
        workload=first.workload,
        seeds=tuple(boot.target.get("seed", 0) for boot in boots),
        instructions=tuple(boot.instructions for boot in boots),
        kernel_instructions=tuple(boot.kernel_instructions for boot in boots),
    )


def of_recordings(
    old: Recording, new: Recording, names: Sequence[str] | None
) -> list[CaseComparison]:
    """Compares the kinds of entries that two recordings of one program have; UserError for two."""
    _one_program("recordings", old.program or None, new.program or None)
    pairs = [(a, b) for a in old.cases if INSTRUCTIONS in a.metrics and (b := new.case(a.name))]
    sides = {a.name: (_calls(a), _calls(b)) for a, b in pairs}
    entry = _entry([sides[a.name] for a, _ in pairs if AROUND in a.metrics and a.name != ENTRY])
    images = [side.kernel.get("image_sha256") for side in (old, new)]
    return [
        _case(a, b, entry, sides[a.name], identical=None not in images and images[0] == images[1])
        for a, b in pairs
        if names is None or a.name in names
    ]


def _calls(case: CaseResult) -> list[_Calls]:
    calls = []
    for boot in case.contexts:
        [(number, _)], [(total, _)] = boot.data[CALLS], boot.data.get(AROUND, ((1, 0),))
        calls.append(_Calls(number, boot.samples, None if total % number else total // number))
    return calls


def whole_boots(old: CaseResult, new: CaseResult, metric: str) -> tuple[Real, Real] | None:
    """The least and the most that a metric of whole boots changes by between any two of them.

    None where a side does not have it as such.
    """
    ends = []
    for case in (old, new):
        if metric in case.noisy and (interval := case.noisy[metric].interval):
            ends.append(interval)
        elif metric in (CALLS, TOTAL) and metric in case.metrics:
            values = [value for value, _ in case.metrics[metric].samples]
            ends.append((min(values), max(values)))
    if len(ends) < 2:
        return None
    (low, high), (least, most) = ends
    return least - high, most - low


def _case(
    old: CaseResult, new: CaseResult, entry: EntryDelta, sides: tuple[_Side, _Side], identical: bool
) -> CaseComparison:
    a, b = (case.metrics[INSTRUCTIONS] for case in (old, new))
    before, after = a.value, b.value
    if old.name == ENTRY:
        verdict, why, delta = entry.verdict, "kinds vary" * (entry.delta is None), entry.delta
    else:
        verdict, why, delta = _verdict(*sides, entry)
    if delta is not None:
        after = before + delta
    return CaseComparison(
        name=old.name,
        old=before,
        new=after,
        verdict=verdict,
        identical_path=identical,
        functions=(),
        caveats=(caveats.kind_undecided(old.name, why),) if why else (),
        windows=((a.agreeing, a.windows), (b.agreeing, b.windows)),
        change=None if delta is None else (delta, delta),
    )


def _around(side: _Side) -> int | None:
    """Entry and exit of a call, where they are one number in all boots."""
    numbers = {boot.around for boot in side}
    return numbers.pop() if len(numbers) == 1 else None


def _entry(pairs: Sequence[tuple[_Side, _Side]]) -> EntryDelta:
    both = [pair for pair in pairs if all(boot.calls for side in pair for boot in side)]
    numbers = Counter(
        (before, after)
        for old, new in both
        if (before := _around(old)) is not None and (after := _around(new)) is not None
    )
    deltas = Counter(after - before for before, after in numbers.elements())
    [(delta, kinds)] = deltas.most_common(1) or [(0, 0)]
    calls = sum(old[0].calls for old, _ in pairs)
    if kinds < _KINDS or 2 * kinds <= len(both):
        return EntryDelta(UNDECIDED, None, None, None, kinds, len(both), calls)
    ends = next(pair for pair, _ in numbers.most_common() if pair[1] - pair[0] == delta)
    return EntryDelta(exact.verdict(delta, delta), *ends, delta, kinds, len(both), calls)


def _kind(
    old: list[Row],
    new: list[Row],
    entry: EntryDelta,
    old_names: Sequence[str],
    new_names: Sequence[str],
) -> KindDelta:
    sides = [_side(rows) if any(row.instructions for row in rows) else None for rows in (old, new)]
    change = new[0].instructions - old[0].instructions
    by_cost = 0
    if old[0].calls and new[0].calls:
        by_cost = round(new[0].instructions * old[0].calls / new[0].calls) - old[0].instructions
    verdict, why, delta = None, "", None
    if old[0].what in OF_THE_KERNEL:
        before, after = ([_Calls.of(row) for row in rows] for rows in (old, new))
        verdict, why, delta = _verdict(before, after, entry)
    return KindDelta(
        what=old[0].what,
        name=old[0].name,
        old=sides[0],
        new=sides[1],
        verdict=verdict,
        why=why,
        delta=delta,
        by_cost=by_cost,
        by_calls=change - by_cost,
        functions=_deltas(
            {old_names[index]: count for index, count in old[0].functions},
            {new_names[index]: count for index, count in new[0].functions},
        ),
    )


def _side(rows: Sequence[Row]) -> KindSide:
    calls = list(map(_Calls.of, rows))
    values = histogram(pair for row in rows for pair in row.values)
    ended = sum(values.values())
    pooled = replace(rows[0], values=tuple(values.items()))
    return KindSide(
        calls=tuple(row.calls for row in rows),
        instructions=tuple(row.instructions for row in rows),
        blocked=tuple(row.blocked for row in rows),
        preempted=tuple(row.preempted for row in rows),
        ended=ended,
        mean=sum(value * times for value, times in values.items()) / ended if ended else None,
        median=pooled.quantile(0.5),
        modes=tuple(boot.mode for boot in calls),
        around=_around(calls),
    )


def _verdict(old: _Side, new: _Side, entry: EntryDelta) -> tuple[str, str, int | None]:
    """Verdict, why it is undecided, and the change of instructions a call."""
    if not all(any(boot.calls for boot in side) for side in (old, new)):
        return UNDECIDED, "only one side has it", None
    if not all(boot.values for boot in (*old, *new)):
        return UNDECIDED, "no call ended", None
    if [boot.values for boot in old] == [boot.values for boot in new]:
        return SAME, "", 0
    modes = [{boot.mode for boot in side} for side in (old, new)]
    if None in modes[0] | modes[1]:
        return UNDECIDED, "calls vary", None
    if len(modes[0]) > 1 or len(modes[1]) > 1:
        return UNDECIDED, "boots vary", None
    [before], [after] = modes
    assert before is not None and after is not None
    delta = after - before
    if not delta:
        return SAME, "", 0
    counts = [histogram(pair for boot in side for pair in boot.values) for side in (old, new)]
    for samples, other in zip(counts, (after, before), strict=True):
        if samples.get(other, 0) > _OF_THE_OTHER * sum(samples.values()):
            return UNDECIDED, "both kernels have both counts", None
    # Few calls of a kind decide nothing by themselves, unless it is what all kinds show.
    if min(counts[0][before], counts[1][after]) < _CALLS:
        around = [_around(side) for side in (old, new)]
        if None in around or not delta == entry.delta == around[1] - around[0]:  # type: ignore[operator]
            return UNDECIDED, f"under {_CALLS} calls", None
    return exact.verdict(delta, delta), "", delta


def _of_kernel(boot: Workload) -> dict[str, int]:
    """What the kernel executed, by function."""
    executed: Counter[str] = Counter()
    for row in boot.rows:
        if row.what not in (USER, OTHERS, FIRMWARE):
            executed.update({boot.functions[index]: count for index, count in row.functions})
    return executed


def _deltas(old: dict[str, int], new: dict[str, int]) -> tuple[FunctionDelta, ...]:
    """The functions that changed, the largest change first."""
    rows = [FunctionDelta(name, old.get(name, 0), new.get(name, 0)) for name in {**old, **new}]
    changed = [row for row in rows if row.delta]
    return tuple(sorted(changed, key=lambda row: (-abs(row.delta), row.name)))


def _user_space(own: Command, other: Command) -> str:
    """The release, and packages that the other has not, or in another version."""
    packages = [" ".join(item) for item in sorted(own.packages.items() - other.packages.items())]
    more = [f"{len(packages) - _PACKAGES} more packages"] if len(packages) > _PACKAGES else []
    return ", ".join([own.release, *packages[:_PACKAGES], *more])


def _caveats(old: Sequence[Workload], new: Sequence[Workload]) -> Iterator[Caveat]:
    first, second = old[0], new[0]
    yield from differing(first.target, second.target, _TARGET_KEYS)
    yield from differing(first.kernel, second.kernel, ("compiler",))
    if first.kernel.get("config_sha256") != second.kernel.get("config_sha256"):
        yield caveats.config_unknown("both sides'")
    ran = (first.workload, second.workload)
    if ran[0].release != ran[1].release or ran[0].packages != ran[1].packages:
        yield caveats.differs("user space", _user_space(*ran), _user_space(*reversed(ran)))
    if len(old) == 1 or len(new) == 1:
        yield caveats.one_boot_a_side()
    yield from of_both(
        *(caveats.unique(c for boot in side for c in boot.caveats) for side in (old, new))
    )
