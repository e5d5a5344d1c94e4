# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs of one program on two kernels -> WorkloadComparison; docs/methods.md has the rule."""

from collections import Counter
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from kentry.compare.differences import differing, of_both, one_architecture
from kentry.errors import UserError
from kentry.results import caveats
from kentry.results.caveats import Caveat
from kentry.results.comparison import FunctionDelta
from kentry.results.workload import (
    BIRTH,
    FAULT,
    FIRMWARE,
    OTHERS,
    SYSCALL,
    USER,
    Command,
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
from kentry.stats.exact import BETTER, SAME, UNDECIDED, WORSE, histogram, is_decided, mode

# Rows whose instructions a call are a property of the kernel.
_OF_THE_KERNEL = (SYSCALL, FAULT, BIRTH)
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


def compare_workloads(old: Sequence[Workload], new: Sequence[Workload]) -> WorkloadComparison:
    """Compares the boots of two kernels; UserError for two programs or two architectures."""
    one_architecture(old[0], new[0], "Compare runs of one architecture.")
    commands = [" ".join(side[0].workload.command) for side in (old, new)]
    if commands[0] != commands[1]:
        raise UserError(
            f"The runs are of two programs, '{commands[0]}' and '{commands[1]}'.",
            "Compare runs of one program.",
        )
    pairs = {
        row.name: (_rows(old, row), _rows(new, row)) for boot in (*old, *new) for row in boot.rows
    }
    entry = _entry([pair for pair in pairs.values() if pair[0][0].what == SYSCALL])
    kinds = [_kind(*pair, entry, old[0].functions, new[0].functions) for pair in pairs.values()]
    return WorkloadComparison(
        old=_ran(old),
        new=_ran(new),
        entry=entry,
        kinds=tuple(sorted(kinds, key=lambda kind: (-abs(kind.by_cost), kind.name))),
        functions=_deltas(_of_kernel(old[0]), _of_kernel(new[0])),
        caveats=tuple(caveats.unique(_caveats(old, new))),
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


def _around(rows: Sequence[Row]) -> int | None:
    """Entry and exit of a call, where in each boot the mean is the same whole number."""
    means = {divmod(row.entry + row.exit, row.calls) for row in rows if row.calls and row.handled}
    everywhere = all(row.calls and row.handled for row in rows)
    [(number, rest)] = means if everywhere and len(means) == 1 else [(0, 1)]
    return None if rest else number


def _entry(pairs: Sequence[tuple[list[Row], list[Row]]]) -> EntryDelta:
    both = [pair for pair in pairs if all(row.calls for rows in pair for row in rows)]
    numbers: Counter[tuple[int, int]] = Counter()
    for old, new in both:
        before, after = _around(old), _around(new)
        if before is not None and after is not None:
            numbers[before, after] += 1
    deltas: Counter[int] = Counter()
    for (before, after), kinds in numbers.items():
        deltas[after - before] += kinds
    [(delta, kinds)] = deltas.most_common(1) or [(0, 0)]
    decided = kinds >= _KINDS and 2 * kinds > len(both)
    commonest = [pair for pair, _ in numbers.most_common() if pair[1] - pair[0] == delta]
    return EntryDelta(
        _word(delta) if decided else UNDECIDED,
        commonest[0][0] if decided else None,
        commonest[0][1] if decided else None,
        delta if decided else None,
        kinds,
        len(both),
        sum(old[0].calls for old, _ in pairs),
    )


def _word(delta: int) -> str:
    return WORSE if delta > 0 else BETTER if delta else SAME


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
    if old[0].what in _OF_THE_KERNEL:
        verdict, why, delta = _verdict(old, new, entry)
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
        modes=tuple(map(_mode, rows)),
        around=_around(rows),
    )


def _mode(row: Row) -> int | None:
    """What more than half of a boot's ended calls executed."""
    samples = dict(row.values)
    return mode(samples) if samples and is_decided(samples) else None


def _verdict(
    old: Sequence[Row], new: Sequence[Row], entry: EntryDelta
) -> tuple[str, str, int | None]:
    """Verdict, why it is undecided, and the change of instructions a call."""
    if not all(any(row.calls for row in rows) for rows in (old, new)):
        return UNDECIDED, "only one side has it", None
    if not all(row.ended for row in (*old, *new)):
        return UNDECIDED, "no call ended", None
    if [row.values for row in old] == [row.values for row in new]:
        return SAME, "", 0
    modes = [{_mode(row) for row in rows} for rows in (old, new)]
    if None in modes[0] | modes[1]:
        return UNDECIDED, "calls vary", None
    if len(modes[0]) > 1 or len(modes[1]) > 1:
        return UNDECIDED, "boots vary", None
    [before], [after] = modes
    assert before is not None and after is not None
    delta = after - before
    if not delta:
        return SAME, "", 0
    counts = [histogram(pair for row in rows for pair in row.values) for rows in (old, new)]
    for samples, other in zip(counts, (after, before), strict=True):
        if samples.get(other, 0) > _OF_THE_OTHER * sum(samples.values()):
            return UNDECIDED, "either count on both sides", None
    # Few calls of a kind decide nothing by themselves, unless it is what all kinds show.
    if min(counts[0][before], counts[1][after]) < _CALLS:
        around = [_around(rows) for rows in (old, new)]
        if None in around or not delta == entry.delta == around[1] - around[0]:  # type: ignore[operator]
            return UNDECIDED, f"under {_CALLS} calls", None
    return _word(delta), "", delta


def _of_kernel(boot: Workload) -> dict[str, int]:
    """What the kernel executed, by function."""
    found: Counter[str] = Counter()
    for row in boot.rows:
        if row.what not in (USER, OTHERS, FIRMWARE):
            found.update({boot.functions[index]: count for index, count in row.functions})
    return found


def _deltas(old: dict[str, int], new: dict[str, int]) -> tuple[FunctionDelta, ...]:
    """The functions that changed, the largest change first."""
    rows = [FunctionDelta(name, old.get(name, 0), new.get(name, 0)) for name in {**old, **new}]
    changed = [row for row in rows if row.delta]
    return tuple(sorted(changed, key=lambda row: (-abs(row.delta), row.name)))


def _user_space(own: Command, other: Command) -> str:
    """The release, and packages that the other has not, or in another version."""
    packages = [" ".join(one) for one in sorted(own.packages.items() - other.packages.items())]
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
