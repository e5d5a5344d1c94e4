# SPDX-License-Identifier: GPL-2.0-or-later
"""Replays policies beside each other on traces, and a kernel's own policy on another's trace.

A sweep replays a policy with each of many values, for a recommendation of one.  Random draws are
seeded: the same input gives the same result.
"""

import contextlib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import msgspec
import numpy as np
import numpy.typing as npt

from kentry import __version__
from kentry.arch.mechanism import ACTS
from kentry.boot.task_hooks import Event
from kentry.errors import UserError
from kentry.models.costs import CostTable, load_costs, table_for
from kentry.progress import Update
from kentry.results import caveats
from kentry.vector import documents
from kentry.vector.policies import BREAK_EVEN, NEVER, POLICIES, TIME, Policy, parse_policy
from kentry.vector.replay import ActCounts, Floats, Prepared, check, optimal, prepare, replay
from kentry.vector.trace import VectorTrace, read_trace

# The times (ns) of policies that are not named.  1 s is the arm64 series' own; its review asked for
# "quite a lot shorter".
_VALUES = {TIME: (4 * 10**6, 10**7, 10**8, 10**9)}
# The policies that are swept by default, where access can be turned off.
_SWEPT = ("timeout-entry", "count")


@dataclass(frozen=True, eq=False)
class TraceFile:
    """A trace that is replayed: its contents, and what a result says of it."""

    trace: VectorTrace
    prepared: Prepared
    head: documents.ReplayedTrace

    @classmethod
    def read(cls, file: Path, unit: str) -> Self:
        """Reads and prepares a file; UserError where it is no trace, is empty, or as prepare()."""
        trace = read_trace(file)
        if not len(trace):
            raise UserError(f"{file} has no events.", "Trace a workload that does something.")
        return cls.of(str(file), trace, unit)

    @classmethod
    def of(cls, name: str, trace: VectorTrace, unit: str) -> Self:
        """Prepares a trace and checks its kernel's own policy; UserError as prepare()."""
        prepared = prepare(trace, unit)
        head = documents.ReplayedTrace(
            trace=name,
            kernel=trace.meta["kernel"],
            workload=str(trace.meta["workload"]["name"]),
            events=len(trace),
            seconds=prepared.seconds,
            calls=int((trace.event == Event.SYSCALL).sum()),
            cut=None,
            check=check(trace, unit),
            vl=trace.meta["unit"].get("vl"),
            unit=unit,
        )
        return cls(trace, prepared, head)


def find_table(sources: Sequence[TraceFile], name: str | None) -> CostTable:
    """Finds the named cost table, or the counted one of the traces; UserError where none fits."""
    table = load_costs(name) if name else None
    arches = sorted({source.trace.meta["arch"] for source in sources})
    lengths = sorted({source.head.vl or 0 for source in sources})
    if len(arches) > 1:
        raise UserError(
            f"These traces are of different architectures: {', '.join(arches)}.",
            "Replay them one architecture at a time.",
        )
    if len(lengths) > 1 and not table:
        bits = ", ".join(str(length or "unknown") for length in lengths)
        raise UserError(
            f"These traces are of different vector lengths: {bits} bits.",
            "Replay them one length at a time, or name a cost table for all with --costs.",
        )
    names = [source.head.trace for source in sources]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UserError(f"{twice} is named twice.", "Name each trace once: they count the same.")
    table = table or table_for(arches[0], lengths[0], sources[0].head.unit)
    if table.arch != arches[0]:
        raise UserError(
            f"The cost table {table.name} is of {table.arch}, the trace of {arches[0]}.",
            "Name another with --costs; kentry vector costs lists and makes them.",
        )
    return table


def compare_policies(
    sources: Sequence[TraceFile],
    policies: Sequence[str],
    families: Sequence[str],
    table: CostTable,
    update: Update,
) -> documents.ReplayDocument:
    """Ranks policies, by default all that fit, and sweeps families; UserError as they do."""
    # Before every trace is replayed, for seconds.
    for family in families:
        _swept_parameter(family)
    rankings = []
    for number, source in enumerate(sources):
        update(number / len(sources), f"every policy on {source.head.trace}")
        rankings.append(rank(source, policies, table))
    fit = POLICIES["timeout-entry"].fits(sources[0].prepared.mechanism)
    families = families or (_SWEPT if fit else ())
    update(None, f"sweeping {', '.join(families)}")
    prices = table.prices
    advice = [
        recommend([sweep(source.prepared, family, prices) for source in sources], prices)
        for family in families
    ]
    return replay_document(rankings, advice, table)


def replay_document(
    rankings: list[documents.TraceRanking], sweeps: list[documents.Recommendation], table: CostTable
) -> documents.ReplayDocument:
    """Puts the result together as kentry/vector-replay/1."""
    return documents.ReplayDocument(
        tool={"name": "kentry", "version": __version__},
        costs=documents.Costs(table.name, table.unit, table.figures),
        means=_means(rankings) if len(rankings) > 1 else [],
        traces=rankings,
        sweeps=sweeps,
    )


def rank(source: TraceFile, policies: Sequence[str], table: CostTable) -> documents.TraceRanking:
    """Replays the named policies (else UserError), or all that fit and have their costs."""
    best = _replayed(source, parse_policy("optimal"), table)
    least = best.cost
    rows = [
        _replayed(source, policy, table, least)
        for policy in map(parse_policy, policies)
        if policy.family.name != "optimal"
    ]
    for family in () if policies else POLICIES.values():
        for value in _VALUES.get(family.parameter, (None,)) if family.name != "optimal" else ():
            with contextlib.suppress(UserError):
                rows.append(_replayed(source, Policy(family, value), table, least))
    rows.sort(key=lambda row: (row.cost, row.policy))
    notes = [*source.trace.meta["caveats"], caveats.open_loop()]
    bits = source.head.vl
    if table.vl and bits and table.vl != bits:
        notes.append(caveats.other_length(table.name, table.vl, bits))
    head = msgspec.structs.asdict(source.head)
    return documents.TraceRanking(**head, policies=[best, *rows], caveats=notes)


def _replayed(
    source: TraceFile, policy: Policy, table: CostTable, least: float | None = None
) -> documents.PolicyDocument:
    """Replays a policy; `least` is the cost of the optimal one, None for that one itself."""
    costs = table.prices
    policy = policy.resolved(costs)
    counts = replay(source.prepared, policy, costs)
    by_task = counts.cost(costs)
    total, acts = float(by_task.sum()), {act: counts.of(act) for act in ACTS}
    tasks = []
    for i in np.flatnonzero(counts.of("returns")):
        task = source.trace.tasks[i]
        done = {act: int(times[i]) for act, times in acts.items() if times[i]}
        tasks.append(
            documents.TaskCost(
                task=int(i), pid=task.pid, name=task.name, cost=float(by_task[i]), **done
            )
        )
    calls, seconds = source.head.calls, source.head.seconds
    return documents.PolicyDocument(
        policy=policy.text,
        counts=counts.total(),
        cost=total,
        cost_per_call=total / calls if calls else None,
        cost_per_second=total / seconds if seconds else None,
        regret=(total - least) / least if least else 0.0,
        tasks=tasks,
    )


def _means(rankings: Sequence[documents.TraceRanking]) -> list[documents.PolicyMean]:
    """Averages the policies that every trace was replayed with, `optimal` first."""
    result = []
    for name in [row.policy for row in rankings[0].policies]:
        pairs = [(trace, row) for trace in rankings for row in trace.policies if row.policy == name]
        if len(pairs) == len(rankings):
            regrets = [(row.regret, ranking.workload) for ranking, row in pairs]
            cost = sum(row.cost / max(1, ranking.calls) for ranking, row in pairs) / len(pairs)
            mean = sum(regret for regret, _ in regrets) / len(pairs)
            result.append(documents.PolicyMean(name, cost, mean, *max(regrets)))
    return result


# A sweep's range: a jiffy of HZ=250 to 100 s, or 1 to 10000 calls, in equal ratios.
_RANGES = {TIME: (4 * 10**6, 10**11), BREAK_EVEN: (1, 10**4)}
_STEPS = 100
_DRAWS = 1000
# One thread per core of a small machine; compiled code runs without Python's lock.
_THREADS = 2


@dataclass(frozen=True, eq=False)
class Sweep:
    """A policy on one trace: with each value (ns, or a count), never dropping, and optimal."""

    family: str
    values: tuple[int, ...]
    counts: tuple[ActCounts, ...]
    never: ActCounts
    best: ActCounts
    seconds: float


def _swept_parameter(family: str) -> str:
    """Returns what is swept of a policy; UserError for one without a value."""
    parameter = POLICIES[family].parameter if family in POLICIES else ""
    if parameter not in _RANGES:
        names = (name for name, policy in POLICIES.items() if policy.parameter in _RANGES)
        raise UserError(
            f"The policy '{family}' has no value to sweep.", f"Sweep {', '.join(names)}."
        )
    return parameter


def sweep(
    prepared: Prepared, family: str, costs: Mapping[str, float], values: Sequence[int] | None = None
) -> Sweep:
    """Replays each value, by default 100 of a wide range; UserError for a policy without."""
    parameter = _swept_parameter(family)
    if values is None:
        steps = np.geomspace(*_RANGES[parameter], _STEPS)
        values = sorted({round(float(step)) for step in steps})
    policies = [Policy(POLICIES[family], value) for value in (*values, NEVER)]
    with ThreadPoolExecutor(_THREADS) as pool:
        *counts, never = pool.map(lambda policy: replay(prepared, policy), policies)
    best = optimal(prepared, costs)
    return Sweep(family, tuple(values), tuple(counts), never, best, prepared.seconds)


def recommend(sweeps: Sequence[Sweep], costs: Mapping[str, float]) -> documents.Recommendation:
    """Finds the least of the values that cost least per call, the mean of sweeps of workloads."""
    calls = [swept.best.of("calls").astype(float) for swept in sweeps]
    if any(of_tasks.sum() == 0 for of_tasks in calls):
        raise UserError("A trace has no system call, so there is no cost per call.")
    # Of each sweep, the costs as float64[values, tasks].
    cost = [np.stack([counts.cost(costs) for counts in swept.counts]) for swept in sweeps]
    least = [swept.best.cost(costs).sum() for swept in sweeps]
    pairs = list(zip(cost, calls, strict=True))
    by_trace = np.array([paid.sum(axis=1) / own.sum() for paid, own in pairs])
    per_call = by_trace.mean(axis=0)
    values = sweeps[0].values
    best = int(np.argmin(per_call))
    drawn = _draw_best(pairs, np.random.default_rng(1))
    low, high = np.quantile(np.array(values)[drawn], [0.025, 0.975], method="nearest")
    good = np.flatnonzero(per_call > per_call[best] * (1 + documents.FLAT))
    first = int(max(good[good < best], default=-1)) + 1
    last = int(min(good[good > best], default=len(values))) - 1
    floors = [floor / own.sum() for floor, own in zip(least, calls, strict=True)]
    above = [
        (paid.sum(axis=1) - floor) / max(swept.seconds, 1e-9)
        for paid, floor, swept in zip(cost, least, sweeps, strict=True)
    ]
    return documents.Recommendation(
        family=sweeps[0].family,
        values=list(values),
        cost_per_call=per_call.tolist(),
        regret_per_call=(per_call - np.mean(floors)).tolist(),
        regret_per_second=np.mean(above, axis=0).tolist(),
        recommended=values[best],
        interval=(int(low), int(high)),
        within_1_percent=(values[first], values[last]),
        never=_never(sweeps, by_trace, costs),
        per_call_by_trace=by_trace.tolist(),
    )


def _never(
    sweeps: Sequence[Sweep], by_trace: Floats, costs: Mapping[str, float]
) -> documents.Never | None:
    """Finds what never dropping costs, and the values that are like it; None without a cost."""
    values = sweeps[0].values
    try:
        paid = [swept.never.cost(costs).sum() / swept.best.of("calls").sum() for swept in sweeps]
    except UserError:
        return None
    never = np.array(paid)
    same = [[(c.values == swept.never.values).all() for c in swept.counts] for swept in sweeps]
    near = np.abs(by_trace - never[:, None]) <= documents.FLAT * never[:, None]
    return documents.Never(
        float(never.mean()),
        _from_which_on(values, np.all(same, axis=0)),
        [_from_which_on(values, row) for row in near],
    )


def _from_which_on(values: Sequence[int], holds: npt.NDArray[np.bool_]) -> int | None:
    """Finds the least value such that it holds for this one and all above; None if for none."""
    first = int(max(np.flatnonzero(~holds), default=-1)) + 1
    return values[first] if first < len(values) else None


def _draw_best(
    workloads: Sequence[tuple[Floats, Floats]], random: np.random.Generator
) -> npt.NDArray[np.int64]:
    """Draws the index of the best value; a workload is its cost[values, tasks] and calls."""
    per_call = np.empty((len(workloads), _DRAWS, len(workloads[0][0])))
    for number, (all_cost, all_calls) in enumerate(workloads):
        active = all_calls > 0
        calls, cost = all_calls[active], all_cost[:, active]
        tasks = len(calls)
        for draw in range(_DRAWS):
            times = np.bincount(random.integers(tasks, size=tasks), minlength=tasks)
            per_call[number, draw] = cost @ times / (calls @ times)
    chosen = random.integers(len(workloads), size=(_DRAWS, len(workloads)))
    means = per_call[chosen, np.arange(_DRAWS)[:, None]].mean(axis=1)
    return np.asarray(means.argmin(axis=1), np.int64)
