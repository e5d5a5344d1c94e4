# SPDX-License-Identifier: GPL-2.0-or-later
"""What a trace says about the use of vectors: loads and traps of each task, gaps between uses.

The questions are those of "arm64/sve: Performance improvements with SVE state saving" (Mark
Brown, v8, 20 March 2026), which counted "the number of SVE access traps and the number of times
we loaded FPSIMD only register state for each task", and of its review, which asked for the delay
between successive traps of a task.  Uses are the task's own vector instructions, so gaps do not
depend on the traced kernel's policy.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kentry.vector.trace import Event, Task, VectorTrace

Counts = npt.NDArray[np.int64]
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

# Below so many loads a task's share says little: of one load it is 0 or 100 %.
ENOUGH_LOADS = 10


class Side(NamedTuple):
    """The events of one unit: its use, its trap, the load of a state without it."""

    use: Event
    trap: Event
    load: Event


@dataclass(frozen=True)
class TaskCounts:
    """By index into the trace's task table.

    `calls` and `intervals` are system calls and user intervals (EXIT to entry; an entry that is
    the unit's own trap does not end one); `calls_used`, `intervals_used` those with a use, a
    call's being the interval that it ends.  `loads`: of a state without the unit (arm64: FPSIMD
    only), or of a whole one where there is no such load; `followed`: those with a trap (or use)
    before the next; `drops`: those that took away access which the task had, by a trap before.
    """

    calls: Counts
    calls_used: Counts
    intervals: Counts
    intervals_used: Counts
    uses: Counts
    traps: Counts
    loads: Counts
    followed: Counts
    drops: Counts

    def of(self, chosen: npt.NDArray[Any]) -> dict[str, int]:
        """The sums over some tasks."""
        return {one.name: int(getattr(self, one.name)[chosen].sum()) for one in fields(self)}


@dataclass(frozen=True)
class Gaps:
    """From the end of a user interval with use to the first use in the task's next such one.

    `calls` are the system calls between, the one that ended the first interval among them.
    """

    task: Counts
    ns: Counts
    calls: Counts

    def __len__(self) -> int:
        return len(self.ns)


@dataclass(frozen=True)
class Statistics:
    """Of a trace and a unit.  `by_trap`: loads are followed by traps, not by uses."""

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

    def shares(self, least: int = 1) -> npt.NDArray[np.float64]:
        """Of every task of `loading` with that many loads, the share followed by a trap or use."""
        chosen = self.loading & (self.counts.loads >= least)
        return np.asarray(self.counts.followed[chosen] / self.counts.loads[chosen])

    def classes(self, least: int = 1) -> dict[Share, int]:
        """How many of those tasks are in each class."""
        shares = self.shares(least)
        number = np.searchsorted(_SHARES, shares, side="left")
        # A class begins with its lowest share, but for HALF and MOST, which begin above it.
        number[np.isin(shares, (_SHARES[0], _SHARES[3]))] += 1
        found = np.bincount(number, minlength=len(Share))
        return dict(zip(Share, map(int, found), strict=True))

    def most(self, count: int) -> list[int]:
        """Tasks with use: those with most loads that were followed first, then most loads."""
        one = self.counts
        order = np.lexsort((-one.intervals_used, -one.loads, -one.followed))
        return [int(task) for task in order if one.intervals_used[task]][:count]


def statistics(trace: VectorTrace, unit: str = "vec") -> Statistics:
    """What the trace says about `unit`: "vec" or "sme" (see Event.USE, Event.USE_SME)."""
    side, by_trap = _side(trace, unit)
    traps = _trap_entries(trace)
    wanted = np.zeros(256, bool)
    wanted[[Event.SYSCALL, Event.FAULT, Event.INTERRUPT, *side]] = True
    rows = np.flatnonzero(wanted[trace.event] & ~traps)
    rows = rows[_by_task(trace.task[rows])]
    view = _View(trace, rows, side)
    return Statistics(side, by_trap, trace.tasks, _counts(view, by_trap), _gaps(view))


def _side(trace: VectorTrace, unit: str) -> tuple[Side, bool]:
    if unit == "sme":
        return Side(Event.USE_SME, Event.SEEN_SME_TRAP, Event.SEEN_ZA_RESTORE), False
    # Only where some state is shared with FP is there a load that leaves the rest out.
    if (trace.event == Event.SEEN_SMALL_RESTORE).any():
        return Side(Event.USE, Event.SEEN_TRAP, Event.SEEN_SMALL_RESTORE), True
    return Side(Event.USE, Event.SEEN_TRAP, Event.SEEN_RESTORE), False


def _trap_entries(trace: VectorTrace) -> _Rows:
    """Entries that are a unit's trap.  The use that trapped is repeated right after it: both
    are one use, so such an entry does not end a user interval.
    """
    event = trace.event
    classes = np.asarray(trace.meta["trap_classes"], np.int32)
    found = (event == Event.FAULT) & np.isin(trace.arg, classes)
    uses = np.zeros(len(event) + 2, bool)
    uses[2:] = (event == Event.USE) | (event == Event.USE_SME)
    svcr = np.zeros(len(event) + 1, bool)
    svcr[1:] = event == Event.SVCR
    # Between the use and the entry there may be an SVCR.
    return np.asarray(found & (uses[1:-1] | (svcr[:-1] & uses[:-2])), bool)


def _by_task(task: npt.NDArray[np.uint32]) -> npt.NDArray[np.intp]:
    """The order that puts a task's rows together and leaves them in the order of time."""
    # numpy sorts 16-bit numbers in linear time.
    small = not len(task) or int(task.max()) < 1 << 16
    return np.argsort(task.astype(np.uint16) if small else task, kind="stable")


class _View:
    """Rows of a trace, those of a task together, with what is asked of them more than once."""

    def __init__(self, trace: VectorTrace, rows: npt.NDArray[np.intp], side: Side) -> None:
        event = trace.event[rows]
        self.size = len(trace.tasks)
        self.task = trace.task[rows].astype(np.int64)
        self.ns = trace.ns[rows].astype(np.int64)
        self.arg = trace.arg[rows]
        self.call = event == Event.SYSCALL
        self.entry = self.call | (event == Event.FAULT) | (event == Event.INTERRUPT)
        self.use, self.trap, self.load = (event == one for one in side)
        # The first use and the entry of every user interval with use.
        self.first_use, self.end = self._used_intervals()

    def _used_intervals(self) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        marks = np.flatnonzero(self.use | self.entry)
        use, task = self.use[marks], self.task[marks]
        # A use that is first in its interval: before it is an entry, or another task.
        first = use.copy()
        first[1:] &= ~(use[:-1] & (task[1:] == task[:-1]))
        last = use.copy()
        last[:-1] &= ~(use[1:] & (task[1:] == task[:-1]))
        firsts, ends = np.flatnonzero(first), np.flatnonzero(last) + 1
        # Where a trace ends, a use may have no entry behind it.
        whole = ends < len(marks)
        whole[whole] = task[ends[whole]] == task[firsts[whole]]
        return marks[firsts[whole]], marks[ends[whole]]

    def by_task(self, rows: npt.NDArray[Any], weights: npt.NDArray[Any] | None = None) -> Counts:
        """How many of the rows each task has, or the sum of their weights."""
        found = np.bincount(self.task[rows], weights, minlength=self.size)
        return found.astype(np.int64)


def _counts(view: _View, by_trap: bool) -> TaskCounts:
    loads, followed = _before(view, view.load, view.trap if by_trap else view.use)
    _, drops = _before(view, view.load, view.trap, backwards=True)
    return TaskCounts(
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


def _before(
    view: _View, ones: _Rows, others: _Rows, *, backwards: bool = False
) -> tuple[Counts, Counts]:
    """Of `ones`, how many a task has; and how many with one of `others` before the next of them,
    or, backwards, after the last.
    """
    marks = np.flatnonzero(ones | others)
    near = np.zeros(len(marks), bool)
    beside = view.task[marks[1:]] == view.task[marks[:-1]]
    if backwards:
        near[1:] = others[marks[:-1]] & beside
    else:
        near[:-1] = others[marks[1:]] & beside
    return view.by_task(marks[ones[marks]]), view.by_task(marks[ones[marks] & near])


def _gaps(view: _View) -> Gaps:
    task = view.task[view.end]
    same = task[1:] == task[:-1]
    end, use = view.end[:-1][same], view.first_use[1:][same]
    calls = np.cumsum(view.call)
    return Gaps(
        task=task[1:][same],
        ns=view.ns[use] - view.ns[end],
        calls=calls[use] - calls[end] + view.call[end],
    )


# --- histograms ----------------------------------------------------------


@dataclass(frozen=True)
class Histogram:
    """How many values lie in [edges[i], edges[i + 1])."""

    edges: Counts
    counts: Counts


def decades(values: Counts, low: int, high: int, parts: int = 1) -> Histogram:
    """A histogram of `parts` bins a decade between two powers of ten, and one outside each end."""
    count = parts * round(np.log10(high / low)) + 1
    inner = np.round(np.geomspace(low, high, count)).astype(np.int64)
    top = np.iinfo(np.int64).max
    return _binned(values, np.concatenate(([np.iinfo(np.int64).min], inner, [top])))


def doublings(values: Counts, high: int) -> Histogram:
    """A histogram with bins 0, 1, 2-3, 4-7, ..., and from `high`, a power of two, on."""
    inner = 1 << np.arange(high.bit_length(), dtype=np.int64)
    return _binned(values, np.concatenate(([0], inner, [np.iinfo(np.int64).max])))


def _binned(values: Counts, edges: Counts) -> Histogram:
    place = np.searchsorted(edges, values, side="right") - 1
    counts = np.bincount(place, minlength=len(edges) - 1)
    return Histogram(edges, counts[: len(edges) - 1].astype(np.int64))
