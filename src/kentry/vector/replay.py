# SPDX-License-Identifier: GPL-2.0-or-later
"""Replay of a vector policy over a trace: what a kernel with that policy would have done.

    prepared = prepare(trace)                              once per trace and unit ("vec" or "sme")
    counts = replay(prepared, parse_policy("timeout:100ms"))
    counts.total()["trap"]; counts.of("save")[task]; counts.cost(costs)[task]
    check(trace).exact                                     the traced kernel's own policy

Replay is open-loop: the program's uses, calls and switches are those of the trace, whatever the
policy.  A trap that the traced kernel took and the policy would not take is left out; one that
only the policy would take is put before the use.  On one cpu the replay of the traced kernel's own
policy has the counts that were seen, except for what docs/methods.md lists.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kentry.arch import find_arch
from kentry.arch.mechanism import ACTS, COLUMNS, SME, VEC, Act, Mechanism
from kentry.boot.task_hooks import Event
from kentry.errors import UserError
from kentry.models.costs import Document
from kentry.vector import engine
from kentry.vector.policies import NEVER, Policy, parse_policy
from kentry.vector.trace import Count, VectorTrace, check_unit, release_of

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

_NS = 10**9

# By unit, the acts that a trace has as SEEN_ events of the same names.
_SEEN = {
    VEC: (Act.TRAP, Act.FLUSH, Act.SAVE, Act.RESTORE, Act.SMALL_SAVE, Act.SMALL_RESTORE),
    SME: (Act.SMSTOP, Act.SME_TRAP, Act.ZA_SAVE, Act.ZA_RESTORE),
}
# Acts that need no figure in a cost table: see prices().
_DEFAULTED = (Act.TRAP_FLUSH, Act.OPEN_EXIT, Act.KEPT_LOAD, Act.INITIAL_RESTORE, Act.SMSTOP)


@dataclass(frozen=True, eq=False)
class Prepared:
    """A trace as the engine takes it, for one unit.

    `code`, `task`, `arg`, `time`: the rows that replay needs, in order; the time is in units of
    `tick` ns, the kernel's jiffies.  `seconds` is from the first to the last row.  `bits` are the
    tasks' at the first row, where task `owner` was in user mode, -1 for none.
    """

    code: npt.NDArray[np.uint8]
    task: npt.NDArray[np.int32]
    arg: npt.NDArray[np.int32]
    time: Ints
    tick: int
    seconds: float
    mechanism: Mechanism
    bits: Ints
    owner: int


@dataclass(frozen=True, eq=False)
class ActCounts:
    """What was done: `values[task, column]`, with the columns of mechanism.COLUMNS."""

    values: Ints

    def total(self) -> dict[str, int]:
        """Column to its sum over tasks."""
        return dict(zip(COLUMNS, self.values.sum(axis=0).tolist(), strict=True))

    def of(self, column: str) -> Ints:
        """Returns one column, int64[tasks]."""
        return np.asarray(self.values[:, COLUMNS.index(column)])

    def cost(self, costs: Mapping[str, float]) -> Floats:
        """float64[tasks]: counts times `costs` (act to cost); UserError where a cost is missing."""
        for act in Act:
            missing = act < Act.CALLS and act not in _DEFAULTED and act.word not in costs
            if missing and self.values[:, act].any():
                raise UserError(
                    f"The costs have no figure for the act '{act.word}', which this policy needs.",
                    "Give it in a cost table: acts are " + ", ".join(ACTS) + ".",
                )
        return np.asarray(self.values @ prices(costs))


def prices(costs: Mapping[str, float]) -> Floats:
    """Puts `costs` (act to cost) into float64[columns].

    Where they are left out, kept_load and initial_restore cost a flush, all others nothing: a
    trap's price includes its flush.  Names that are no columns, like `syscall`, are ignored.
    """
    vector = np.zeros(len(COLUMNS))
    vector[[Act.KEPT_LOAD, Act.INITIAL_RESTORE]] = float(costs.get("flush", 0.0))
    for name, cost in costs.items():
        if name in COLUMNS:
            vector[COLUMNS.index(name)] = cost
    return vector


def prepare(trace: VectorTrace, unit: str = VEC) -> Prepared:
    """Makes a trace ready; UserError where its architecture or cpu has no such unit to replay."""
    mechanisms = find_arch(trace.meta["arch"]).vector.mechanisms.get(unit)
    if mechanisms is None:
        raise UserError(
            f"There is no policy to replay for the unit '{unit}' of {trace.meta['arch']}."
        )
    release = release_of(trace.meta["kernel"]["release"])
    mechanism = max(since for since in mechanisms if since[0] <= release)[1]
    check_unit(trace, unit)
    tasks = len(trace.tasks)
    code, row = engine.compact(
        *(trace.event, trace.task, trace.arg, tasks),
        *(engine.codes(mechanism), engine.record(mechanism)),
        bool((trace.event >= Event.SEEN_TRAP).any()),
    )
    tick = _NS // (trace.meta.get("hz") or _NS)
    ns = trace.ns[row].astype(np.int64)
    seconds = float(ns[-1] - ns[0]) / _NS if len(ns) else 0.0
    rows = (code, trace.task[row].astype(np.int32), trace.arg[row].astype(np.int32), ns // tick)
    first, is_open = _task_in_user_mode(trace)
    bits = engine.beginning(tasks, first, is_open, mechanism)
    return Prepared(*rows, tick, seconds, mechanism, bits, first)


def _task_in_user_mode(trace: VectorTrace) -> tuple[int, bool]:
    """Finds the task in user mode when the trace began, and if its call was flushed untrapped."""
    rows = np.flatnonzero(trace.event < Event.SEEN_TRAP)
    # The events up to SVCR but EXIT are those of a task in user mode.
    if not len(rows) or (began := trace.event[rows[0]]) == Event.EXIT or began > Event.SVCR:
        return -1, False
    task = int(trace.task[rows[0]])
    leaves = (Event.EXIT, Event.SWITCH_BLOCKED, Event.SWITCH_PREEMPTED)
    end = rows[np.isin(trace.event[rows], leaves)][:1]
    before = slice(0, int(end[0]) if len(end) else None)
    acts = trace.event[before][trace.task[before] == task]
    return task, bool((acts == Event.SEEN_FLUSH).any() and not (acts == Event.SEEN_TRAP).any())


def replay(
    prepared: Prepared, policy: Policy | str, costs: Mapping[str, float] | None = None
) -> ActCounts:
    """Counts what a kernel with the policy would have done.

    `optimal` needs `costs` (act to cost), and so does a count whose number was left out.  Times
    are in jiffies of the traced kernel's HZ, where that is known.  Raises UserError where the
    policy does not fit the architecture, or lacks costs.
    """
    policy = (parse_policy(policy) if isinstance(policy, str) else policy).resolved(costs)
    if policy.family.name == "optimal":
        return optimal(prepared, costs)
    mechanism, rule = policy.mechanism(prepared.mechanism), policy.rule()
    if rule.time not in (-1, NEVER):
        # Rounded up, as msecs_to_jiffies() does.
        rule = rule._replace(time=-(-rule.time // prepared.tick))
    values = engine.run(
        *(prepared.code, prepared.task, prepared.arg, prepared.time, prepared.bits.copy()),
        *(prepared.owner, engine.record(mechanism), engine.record(rule)),
    )
    return ActCounts(values[:, : len(COLUMNS)])


def optimal(prepared: Prepared, costs: Mapping[str, float] | None) -> ActCounts:
    """Finds the decisions with the least cost for each task, under `costs` (act to cost).

    It decides where a kernel may, at a system call's entry and at a load of the small state, but
    knows what follows; a trap gives access back.  All else is the traced architecture's
    mechanism, so policies that change it (`preserve`) can cost less.  Raises
    UserError without costs.
    """
    if costs is None:
        raise UserError(
            "The policy 'optimal' is the cheapest under some costs, and there are none.",
            "Name a cost table with --costs.",
        )
    # The states that a task can be in at once are few; signals within signals make more.
    enough, capacity = False, 16
    while not enough:
        values, enough = engine.best(
            *(prepared.code, prepared.task, prepared.arg, prepared.bits, prepared.owner),
            *(capacity, engine.record(prepared.mechanism), prices(costs)),
        )
        capacity *= 2
    return ActCounts(values[:, : len(COLUMNS)])


class Difference(Document, frozen=True):
    """An act that replay and the traced kernel have differently often in a task, an index."""

    act: str
    task: int
    replayed: int
    seen: int
    name: str = ""
    pid: int = 0


class ActPair(Document, frozen=True):
    """How often the own policy's replay and the traced kernel did an act."""

    replayed: Count
    seen: Count


class OwnPolicyCheck(Document, frozen=True):
    """The traced kernel's own policy, replayed, beside what was seen; by act, and by task.

    `exact`: every act of every task was replayed as often as it was seen.
    """

    policy: str
    exact: bool
    acts: dict[str, ActPair]
    differences: list[Difference]


def check(trace: VectorTrace, unit: str = VEC) -> OwnPolicyCheck:
    """Replays the own policy, `meta["policy"]`, and compares with what was seen all acts but drops.

    A drop's instruction also runs where the registers go to a task without access.
    """
    own = str(trace.meta["policy"]) if unit == VEC else "keep"
    ours = replay(prepare(trace, unit), own).values.copy()
    # What was seen of a flush may be of a call, a trap or a kept load.
    ours[:, Act.FLUSH] = ours[:, [Act.FLUSH, Act.TRAP_FLUSH, Act.KEPT_LOAD]].sum(axis=1)
    acts, differences = {}, []
    for act in _SEEN[unit]:
        mine, tasks = ours[:, act], trace.task[trace.event == Event[f"SEEN_{act.name}"]]
        its = np.bincount(tasks, minlength=len(trace.tasks))
        if mine.any() or its.any():
            acts[act.word] = ActPair(int(mine.sum()), int(its.sum()))
        for i in np.flatnonzero(mine != its):
            task, pair = trace.tasks[i], (int(mine[i]), int(its[i]))
            differences.append(Difference(act.word, int(i), *pair, task.name, task.pid))
    return OwnPolicyCheck(own, not differences, acts, differences)
