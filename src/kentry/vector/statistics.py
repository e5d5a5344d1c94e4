# SPDX-License-Identifier: GPL-2.0-or-later
"""What a trace says about the use of vectors: loads and traps of each task, gaps between uses.

The questions are those of "arm64/sve: Performance improvements with SVE state saving" (Mark
Brown, v8, 20 March 2026), which counted "the number of SVE access traps and the number of times
we loaded FPSIMD only register state for each task", and of its review, which asked for the delay
between successive traps of a task.  Uses are the task's own vector instructions, so gaps do not
depend on the traced kernel's policy.
"""

import enum
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kentry.boot.task_hooks import Event
from kentry.vector.trace import Task, VectorTrace, check_unit

Ints = npt.NDArray[np.int64]
_Rows = npt.NDArray[np.bool_]


class Share(enum.Enum):
    """How often a task's loads are followed by a use: the classes the series speaks of."""

    NEARLY_NONE = "below 5 %"
    FEW = "5 to 45 %"
    HALF = "45 to 50 %"
    MOST = "above 50 %, below 95 %"
    NEARLY_ALL = "95 % and more"


# The lowest share of MOST lies just above one half: the series says "more than 50%".
_SHARES = (0.05, 0.45, 0.50, 0.95)
# With fewer loads a task's share says little: with one load it is 0 or 100 %.
ENOUGH_LOADS = 10


class Side(NamedTuple):
    """A unit's events: its use, its trap, the load of a state without it."""

    use: Event
    trap: Event
    load: Event


@dataclass(frozen=True)
class TaskCounts:
    """By index into the trace's task table.

    `calls` and `intervals` are system calls and user intervals.  An interval is from EXIT to the
    next entry; an entry that is the unit's own trap does not end it.  `calls_used` and
    `intervals_used` have a use; a call's is in the interval that it ends.  `loads` are loads of a
    state without the unit (arm64: FPSIMD only), or of the whole state where there is no such load.
    `followed` loads have a trap (or use) before the next load.  `drops` are loads after a trap:
    they took away access.
    """

    calls: Ints
    calls_used: Ints
    intervals: Ints
    intervals_used: Ints
    uses: Ints
    traps: Ints
    loads: Ints
    followed: Ints
    drops: Ints

    def of(self, chosen: npt.NDArray[Any]) -> dict[str, int]:
        """Sums over some tasks."""
        return {field.name: int(getattr(self, field.name)[chosen].sum()) for field in fields(self)}


@dataclass(frozen=True)
class Gaps:
    """From the end of a user interval with use to the first use in the task's next such one.

    `calls` are the system calls between, the one that ended the first interval among them.
    """

    task: Ints
    ns: Ints
    calls: Ints

    def __len__(self) -> int:
        return len(self.ns)


@dataclass(frozen=True)
class Statistics:
    """What a trace says about a unit.  `by_trap`: loads are followed by traps, not by uses."""

    side: Side
    by_trap: bool
    tasks: tuple[Task, ...]
    counts: TaskCounts
    gaps: Gaps

    @property
    def user(self) -> _Rows:
        """The tasks that were in user mode and left it again."""
        return self.counts.intervals > 0

    @property
    def using(self) -> _Rows:
        """Those of them that used the unit."""
        return self.counts.intervals_used > 0

    @property
    def loading(self) -> _Rows:
        """Those with use and a load: the base of the histogram of shares."""
        return self.using & (self.counts.loads > 0)

    def classes(self, least: int = 1) -> dict[Share, int]:
        """Counts the tasks of `loading` with that many loads in each class."""
        chosen = self.loading & (self.counts.loads >= least)
        shares = self.counts.followed[chosen] / self.counts.loads[chosen]
        number = np.searchsorted(_SHARES, shares, side="left")
        # A class begins with its lowest share, but for HALF and MOST, which begin above it.
        number[np.isin(shares, (_SHARES[0], _SHARES[3]))] += 1
        tasks = np.bincount(number, minlength=len(Share))
        return dict(zip(Share, map(int, tasks), strict=True))

    def most(self, count: int) -> list[int]:
        """Finds the tasks with use that have most followed loads, then most loads."""
        counts = self.counts
        order = np.lexsort((-counts.intervals_used, -counts.loads, -counts.followed))
        return [int(task) for task in order if counts.intervals_used[task]][:count]


def statistics(trace: VectorTrace, unit: str = "vec") -> Statistics:
    """Counts the use of `unit`, "vec" or "sme", in a trace; UserError where it has no SME."""
    check_unit(trace, unit)
    event = trace.event
    # Only an architecture that shares state with FP has loads that leave the rest out.
    by_trap = unit == "vec" and bool((event == Event.SEEN_SMALL_RESTORE).any())
    load = Event.SEEN_SMALL_RESTORE if by_trap else Event.SEEN_RESTORE
    side = Side(Event.USE, Event.SEEN_TRAP, load)
    if unit == "sme":
        side = Side(Event.USE_SME, Event.SEEN_SME_TRAP, Event.SEEN_ZA_RESTORE)
    kinds = (Event.SYSCALL, Event.FAULT, Event.INTERRUPT, *side)
    rows = np.flatnonzero(np.isin(event, kinds) & ~_trap_entries(trace))
    # A task's rows together, in the order of time.  numpy sorts 16-bit numbers in linear time.
    task = trace.task[rows]
    small = not len(task) or int(task.max()) < 1 << 16
    rows = rows[np.argsort(task.astype(np.uint16) if small else task, kind="stable")]
    view = _View(trace, rows, side)
    loads, followed = view.beside(view.load, view.trap if by_trap else view.use, after=True)
    _, drops = view.beside(view.load, view.trap, after=False)
    # The gaps between the user intervals with use.
    same = view.task[view.end[1:]] == view.task[view.end[:-1]]
    end, first_use = view.end[:-1][same], view.first_use[1:][same]
    before = np.cumsum(view.call)
    gaps = Gaps(
        task=view.task[first_use],
        ns=view.ns[first_use] - view.ns[end],
        calls=before[first_use] - before[end] + view.call[end],
    )
    counts = TaskCounts(
        calls=view.by_task(view.call),
        calls_used=view.by_task(view.end[view.call[view.end]]),
        intervals=view.by_task(view.entry),
        intervals_used=view.by_task(view.end),
        uses=view.by_task(view.use, view.arg[view.use]),
        traps=view.by_task(view.trap),
        loads=loads,
        followed=followed,
        drops=drops,
    )
    return Statistics(side, by_trap, trace.tasks, counts, gaps)


def _trap_entries(trace: VectorTrace) -> _Rows:
    """Finds entries that are the unit's trap: the use comes again, so no user interval ends."""
    event = trace.event
    traps = (event == Event.FAULT) & np.isin(trace.arg, trace.meta["trap_classes"])
    uses = np.append([False, False], np.isin(event, (Event.USE, Event.USE_SME)))
    svcr = np.append([False], event == Event.SVCR)
    # Between the use and the entry there may be an SVCR.
    return np.asarray(traps & (uses[1:-1] | (svcr[:-1] & uses[:-2])), bool)


class _View:
    """Rows of a trace, those of each task together."""

    def __init__(self, trace: VectorTrace, rows: npt.NDArray[np.intp], side: Side) -> None:
        event = trace.event[rows]
        self.size = len(trace.tasks)
        self.task = trace.task[rows].astype(np.int64)
        self.ns = trace.ns[rows].astype(np.int64)
        self.arg = trace.arg[rows]
        self.call = event == Event.SYSCALL
        self.entry = self.call | (event == Event.FAULT) | (event == Event.INTERRUPT)
        self.use, self.trap, self.load = (event == kind for kind in side)
        # The first use and the entry of every user interval with use.
        marks = np.flatnonzero(self.use | self.entry)
        use, task = self.use[marks], self.task[marks]
        # A use is the first in its interval if an entry or another task is before it.
        first = use.copy()
        first[1:] &= ~(use[:-1] & (task[1:] == task[:-1]))
        last = use.copy()
        last[:-1] &= ~(use[1:] & (task[1:] == task[:-1]))
        firsts, ends = np.flatnonzero(first), np.flatnonzero(last) + 1
        # Where a trace ends, a use may have no entry after it.
        whole = ends < len(marks)
        whole[whole] = task[ends[whole]] == task[firsts[whole]]
        self.first_use, self.end = marks[firsts[whole]], marks[ends[whole]]

    def by_task(self, rows: npt.NDArray[Any], weights: npt.NDArray[Any] | None = None) -> Ints:
        """Counts the rows of each task, or sums their weights."""
        return np.bincount(self.task[rows], weights, minlength=self.size).astype(np.int64)

    def beside(self, ones: _Rows, others: _Rows, *, after: bool) -> tuple[Ints, Ints]:
        """Counts the `ones` of each task, and those with one of `others` next to it.

        Next to it is after it and before the next of `ones`, or before it and after the last.
        """
        marks = np.flatnonzero(ones | others)
        near = np.zeros(len(marks), bool)
        same = self.task[marks[1:]] == self.task[marks[:-1]]
        if after:
            near[:-1] = others[marks[1:]] & same
        else:
            near[1:] = others[marks[:-1]] & same
        return self.by_task(marks[ones[marks]]), self.by_task(marks[ones[marks] & near])


class Histogram(NamedTuple):
    """How many values lie in [edges[i], edges[i + 1])."""

    edges: Ints
    counts: Ints


def decades(values: Ints, low: int, high: int) -> Histogram:
    """Bins values a decade each between two powers of ten, with one bin outside each end."""
    inner = np.round(np.geomspace(low, high, round(np.log10(high / low)) + 1)).astype(np.int64)
    return _binned(values, np.iinfo(np.int64).min, inner)


def doublings(values: Ints, high: int) -> Histogram:
    """Bins values as 0, 1, 2-3, 4-7, ..., and from `high`, a power of two, on."""
    return _binned(values, 0, 1 << np.arange(high.bit_length(), dtype=np.int64))


def _binned(values: Ints, first: int, inner: Ints) -> Histogram:
    edges = np.concatenate(([first], inner, [np.iinfo(np.int64).max]))
    bins = np.searchsorted(edges, values, side="right") - 1
    return Histogram(edges, np.bincount(bins, minlength=len(edges) - 1).astype(np.int64))
