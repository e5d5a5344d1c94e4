# SPDX-License-Identifier: GPL-2.0-or-later
"""Replay of a vector policy over a trace: what a kernel with that policy would have done.

    prepared = prepare(trace)                              once a trace and unit ("vec" or "sme")
    counts = replay(prepared, parse_policy("timeout:100ms"))
    counts.total()["trap"]; counts.of("save")[task]; counts.cost(costs)[task]
    verdict = check(trace)                                 the traced kernel's own policy
    verdict.exact, verdict.sentence, verdict.differences

Replay is open-loop: the program's uses, calls and switches are those of the trace, whatever the
policy.  A trap that the traced kernel took and the policy would not is left out, one that it
would take in addition is put before the use.  On one cpu the traced kernel's own policy then
has the counts that were seen, but for what docs/methods.md lists.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from kentry.errors import UserError
from kentry.vector import engine
from kentry.vector.mechanism import ACTS, COLUMNS, SME, VEC, Act, Mechanism, mechanism_of
from kentry.vector.policies import NEVER, Optimal, Policy, Rule, parse_policy
from kentry.vector.trace import Event

if TYPE_CHECKING:
    import numpy.typing as npt

    from kentry.vector.trace import VectorTrace

    Ints = npt.NDArray[np.int64]
    Floats = npt.NDArray[np.float64]

_NS = 10**9

# What was seen, as the act it is; a flush may be of a call, a trap or a kept load.
_SEEN = {
    VEC: {
        Event.SEEN_TRAP: Act.TRAP,
        Event.SEEN_FLUSH: Act.FLUSH,
        Event.SEEN_DROP: Act.DROP,
        Event.SEEN_SAVE: Act.SAVE,
        Event.SEEN_RESTORE: Act.RESTORE,
        Event.SEEN_SMALL_SAVE: Act.SMALL_SAVE,
        Event.SEEN_SMALL_RESTORE: Act.SMALL_RESTORE,
    },
    SME: {
        Event.SEEN_SMSTOP: Act.SMSTOP,
        Event.SEEN_SME_TRAP: Act.SME_TRAP,
        Event.SEEN_ZA_SAVE: Act.ZA_SAVE,
        Event.SEEN_ZA_RESTORE: Act.ZA_RESTORE,
    },
}
_SME_EVENTS = (Event.USE_SME, Event.SVCR, Event.SEEN_SMSTOP, Event.SEEN_SME_TRAP)
_FLUSHES = (Act.FLUSH, Act.TRAP_FLUSH, Act.KEPT_LOAD)
_SWITCHES = (Event.SWITCH_BLOCKED, Event.SWITCH_PREEMPTED)
_FROM_USER_MODE = (
    *(Event.SYSCALL, Event.FAULT, Event.INTERRUPT),
    *(Event.USE, Event.USE_SME, Event.SVCR),
)
# A turn-off by hardware register is also seen where the registers go to a task without access.
_UNCHECKED = (Act.DROP,)


@dataclass(frozen=True, eq=False)
class Prepared:
    """A trace as the engine takes it, for one unit.

    `code`, `task`, `arg`, `ns`: the rows that matter, in order; `row` is where in the trace each
    is.  `group[task]` is the number of the task's name.  `first` is the task that was in user
    mode when the trace began, -1 for none, and `first_open` whether it had access.  `first_ns`
    and `last_ns` are of each task's rows, 0 where it has none.
    """

    code: npt.NDArray[np.uint8]
    task: npt.NDArray[np.int32]
    arg: npt.NDArray[np.int32]
    ns: Ints
    row: Ints
    group: Ints
    names: tuple[str, ...]
    mechanism: Mechanism
    unit: str
    hz: int | None
    events: int
    first: int
    first_open: bool
    first_ns: Ints
    last_ns: Ints
    _ticks: dict[int, Ints] = field(default_factory=dict, repr=False)

    @property
    def seconds(self) -> float:
        """The guest's virtual time from the first to the last row."""
        return float(self.ns[-1] - self.ns[0]) / _NS if len(self.ns) else 0.0

    def beginning(self, mechanism: Mechanism) -> Ints:
        """The state of each task when the trace begins, as engine.py has it."""
        tasks = len(self.group)
        bits: Ints = engine.beginning(tasks, self.first, self.first_open, mechanism)
        return bits

    def times(self, *, exact: bool) -> tuple[Ints, int]:
        """The rows' times as a kernel's timer sees them, and the ns of one unit of them."""
        if exact or not self.hz:
            return self.ns, 1
        tick = _NS // self.hz
        if tick not in self._ticks:
            self._ticks[tick] = self.ns // tick
        return self._ticks[tick], tick


@dataclass(frozen=True, eq=False)
class Counts:
    """What was done: `values[task, column]`, with the columns of mechanism.COLUMNS."""

    values: Ints

    def total(self) -> dict[str, int]:
        """Column to its sum over tasks."""
        return dict(zip(COLUMNS, self.values.sum(axis=0).tolist(), strict=True))

    def of(self, column: str) -> Ints:
        """One column, int64[tasks]."""
        found: Ints = self.values[:, COLUMNS.index(column)]
        return found

    def cost(self, costs: Mapping[str, float]) -> Floats:
        """float64[tasks]: counts times `costs` (column to cost); see prices()."""
        vector = prices(costs)
        needless = {Act.TRAP_FLUSH, Act.OPEN_EXIT, Act.KEPT_LOAD, Act.INITIAL_RESTORE, Act.SMSTOP}
        for act in Act:
            priced = act >= Act.CALLS or act in needless or act.word in costs
            if not priced and self.values[:, act].any():
                raise UserError(
                    f"There is no cost of the act '{act.word}', which this policy has.",
                    "Give it in a cost table: acts are " + ", ".join(ACTS) + ".",
                )
        result: Floats = self.values @ vector
        return result


def prices(costs: Mapping[str, float]) -> Floats:
    """float64[columns] of `costs` (column to cost).

    Left out: trap_flush and open_exit are free (a trap's price has its flush), kept_load and
    initial_restore cost a flush, all else is 0.  Names that are no columns, like `syscall`, are
    ignored.
    """
    vector = np.zeros(len(COLUMNS))
    flush = float(costs.get("flush", 0.0))
    vector[Act.KEPT_LOAD] = vector[Act.INITIAL_RESTORE] = flush
    for name, cost in costs.items():
        if name in COLUMNS:
            vector[COLUMNS.index(name)] = cost
    return vector


def prepare(trace: VectorTrace, unit: str = VEC) -> Prepared:
    """A trace made ready; UserError where its architecture or cpu has no such unit to replay."""
    mechanism = mechanism_of(trace.meta, unit)
    if unit == SME and not np.isin(trace.event, _SME_EVENTS).any():
        raise UserError(
            "The trace has no SME: its cpu or its kernel has none.",
            "Trace a kernel with CONFIG_ARM64_SME on a cpu that has it.",
        )
    seen = bool((trace.event >= Event.SEEN_TRAP).any())
    tasks = len(trace.tasks)
    code, row = engine.compact(
        trace.event, trace.task, trace.arg, tasks, engine.record(mechanism), seen
    )
    names = tuple(sorted({task.name for task in trace.tasks}))
    number = {name: place for place, name in enumerate(names)}
    first_ns, last_ns = _spans(trace, tasks)
    first, first_open = _running(trace)
    return Prepared(
        code=code,
        task=trace.task[row].astype(np.int32),
        arg=trace.arg[row].astype(np.int32),
        ns=trace.ns[row].astype(np.int64),
        row=row,
        group=np.array([number[task.name] for task in trace.tasks], np.int64),
        names=names,
        mechanism=mechanism,
        unit=unit,
        hz=trace.meta.get("hz"),
        events=len(trace.event),
        first=first,
        first_open=first_open,
        first_ns=first_ns,
        last_ns=last_ns,
    )


def _running(trace: VectorTrace) -> tuple[int, bool]:
    """The task in user mode when the trace began, and whether a call of its was flushed at once."""
    rows = np.flatnonzero(trace.event < Event.SEEN_TRAP)
    if not len(rows) or trace.event[rows[0]] not in _FROM_USER_MODE:
        return -1, False
    task = int(trace.task[rows[0]])
    end = rows[np.isin(trace.event[rows], (Event.EXIT, *_SWITCHES))][:1]
    before = slice(0, int(end[0]) if len(end) else None)
    flushed = (trace.event[before] == Event.SEEN_FLUSH) & (trace.task[before] == task)
    trapped = (trace.event[before] == Event.SEEN_TRAP) & (trace.task[before] == task)
    return task, bool(flushed.any() and not trapped.any())


def _spans(trace: VectorTrace, tasks: int) -> tuple[Ints, Ints]:
    """First and last ns of each task's rows."""
    first, last = np.zeros(tasks, np.int64), np.zeros(tasks, np.int64)
    last[trace.task] = trace.ns
    first[trace.task[::-1]] = trace.ns[::-1]
    return first, last


def replay(
    prepared: Prepared,
    policy: Policy | str,
    costs: Mapping[str, float] | None = None,
    *,
    exact_time: bool = False,
) -> Counts:
    """What a kernel with the policy would have done.

    `costs` (act to cost) is needed by `optimal`, and by counts whose number was left out.
    Deadlines are a kernel's, in jiffies of the traced kernel's HZ, unless `exact_time`.
    Raises UserError where the policy does not fit the architecture, or lacks costs.
    """
    if isinstance(policy, str):
        policy = parse_policy(policy)
    if isinstance(policy, Optimal):
        from kentry.vector.optimal import optimal

        return optimal(prepared, costs, opens=policy.opens)
    policy = policy.resolved(costs)
    mechanism = policy.mechanism(prepared.mechanism)
    time, tick = prepared.times(exact=exact_time)
    values = engine.run(
        *(prepared.code, prepared.task, prepared.arg, time),
        *(prepared.group, prepared.beginning(mechanism), prepared.first),
        *(engine.record(mechanism), engine.record(_in_ticks(policy.rule(), tick))),
    )
    return Counts(values[:, : len(COLUMNS)])


def _in_ticks(rule: Rule, tick: int) -> Rule:
    """The rule with its time in `tick` ns, rounded up as msecs_to_jiffies() does."""
    whole = rule.time if rule.time in (-1, NEVER) else -(-rule.time // tick)
    return rule._replace(time=whole)


def seen(trace: VectorTrace, unit: str = VEC) -> Counts:
    """What the traced kernel was seen doing; all its flushes are in `flush`."""
    values = np.zeros((len(trace.tasks), len(COLUMNS)), np.int64)
    for event, act in _SEEN[unit].items():
        tasks = trace.task[trace.event == event]
        values[:, act] += np.bincount(tasks, minlength=len(trace.tasks))
    return Counts(values)


@dataclass(frozen=True)
class Difference:
    """An act of a task that replay and the traced kernel do not have equally often."""

    act: str
    task: int
    replayed: int
    seen: int


@dataclass(frozen=True)
class Check:
    """The replayed own policy of the traced kernel beside what was seen.

    `totals`: act to (replayed, seen), for every act that either has.
    """

    policy: str
    totals: Mapping[str, tuple[int, int]]
    differences: tuple[Difference, ...]

    @property
    def exact(self) -> bool:
        """Whether every act of every task was replayed as often as it was seen."""
        return not self.differences

    @property
    def sentence(self) -> str:
        """All acts: traps 12 = 12, saves 3 = 3; a difference is written 3 != 4."""
        return ", ".join(
            f"{act.replace('_', ' ')}s {ours} {'=' if ours == theirs else '!='} {theirs}"
            for act, (ours, theirs) in self.totals.items()
        ).replace("flushs", "flushes")


def check(trace: VectorTrace, unit: str = VEC, policy: Policy | str | None = None) -> Check:
    """Replays the traced kernel's own policy, `meta["policy"]`, and compares with what was seen.

    `drop` is not compared: the instruction is also seen where the registers go to a task that
    has no access.  Raises UserError where the policy is not known.
    """
    own = policy or (str(trace.meta["policy"]) if unit == VEC else "keep")
    ours = replay(prepare(trace, unit), own).values.copy()
    theirs = seen(trace, unit).values
    ours[:, Act.FLUSH] = ours[:, _FLUSHES].sum(axis=1)
    totals, differences = {}, []
    for act in _SEEN[unit].values():
        if act in _UNCHECKED:
            continue
        mine, its = ours[:, act], theirs[:, act]
        if mine.any() or its.any():
            totals[act.word] = (int(mine.sum()), int(its.sum()))
        for task in np.flatnonzero(mine != its):
            differences.append(Difference(act.word, int(task), int(mine[task]), int(its[task])))
    text = own.text if isinstance(own, Policy) else own
    return Check(text, totals, tuple(differences))
