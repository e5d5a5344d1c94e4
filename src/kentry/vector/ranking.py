# SPDX-License-Identifier: GPL-2.0-or-later
"""Replays policies beside each other on traces, and a kernel's own policy on another's trace."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from kentry import __version__
from kentry.arch.mechanism import ACTS, VEC
from kentry.errors import UserError
from kentry.models.costs import CostTable, Document, load_costs, table_for
from kentry.progress import Update
from kentry.results import caveats
from kentry.vector.documents import (
    Costs,
    PolicyDocument,
    PolicyMean,
    ReplayDocument,
    ReplayedTrace,
    TaskCost,
    TraceRanking,
)
from kentry.vector.policies import POLICIES, TIME, Policy, parse_policy
from kentry.vector.replay import Prepared, check, prepare, replay
from kentry.vector.trace import Event, VectorTrace, read_trace
from kentry.vector.tuning import Recommendation, recommend, sweep

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
    head: ReplayedTrace

    @classmethod
    def read(cls, file: Path, unit: str) -> TraceFile:
        """Reads and prepares a file; UserError where it is no trace, is empty, or as prepare()."""
        trace = read_trace(file)
        if not len(trace):
            raise UserError(f"{file} has no events.", "Trace a workload that does something.")
        return cls.of(str(file), trace, unit)

    @classmethod
    def of(cls, name: str, trace: VectorTrace, unit: str = VEC) -> TraceFile:
        """Prepares a trace and checks its kernel's own policy; UserError as prepare()."""
        prepared = prepare(trace, unit)
        head = ReplayedTrace(
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
    lengths = sorted({source.trace.meta["unit"]["vl"] for source in sources})
    if len(arches) > 1:
        raise UserError(
            f"These traces are of different architectures: {', '.join(arches)}.",
            "Replay them one architecture at a time.",
        )
    if len(lengths) > 1 and not table:
        raise UserError(
            f"These traces are of different vector lengths: {', '.join(map(str, lengths))} bits.",
            "Replay them one length at a time, or name a cost table for all with --costs.",
        )
    names = [source.head.trace for source in sources]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UserError(f"{twice} is named twice.", "Name each trace once: they count the same.")
    table = table or table_for(arches[0], lengths[0], sources[0].prepared.unit)
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
) -> ReplayDocument:
    """Ranks the policies on each trace, and sweeps the values of the families of policies.

    By default it takes all policies that fit, and sweeps a timeout and a count where access can be
    turned off.  UserError as rank(), sweep() and recommend().
    """
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
    rankings: list[TraceRanking], sweeps: list[Recommendation], table: CostTable
) -> ReplayDocument:
    """Puts the result together as kentry/vector-replay/1."""
    return ReplayDocument(
        tool={"name": "kentry", "version": __version__},
        costs=Costs(table.name, table.unit, table.figures),
        means=_means(rankings) if len(rankings) > 1 else [],
        traces=rankings,
        sweeps=sweeps,
    )


def rank(source: TraceFile, policies: Sequence[str], table: CostTable) -> TraceRanking:
    """Replays on a trace the policies of that text, by default all that fit and have their costs.

    UserError for a named one that does not fit, or has an act without a figure in the table.
    """
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
    return TraceRanking(**head, policies=[best, *rows], caveats=notes)


def _replayed(
    source: TraceFile, policy: Policy, table: CostTable, least: float | None = None
) -> PolicyDocument:
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
            TaskCost(task=int(i), pid=task.pid, name=task.name, cost=float(by_task[i]), **done)
        )
    calls, seconds = source.head.calls, source.head.seconds
    return PolicyDocument(
        policy=policy.text,
        counts=counts.total(),
        cost=total,
        cost_per_call=total / calls if calls else None,
        cost_per_second=total / seconds if seconds else None,
        regret=(total - least) / least if least else 0.0,
        tasks=tasks,
    )


def _means(rankings: Sequence[TraceRanking]) -> list[PolicyMean]:
    """Averages the policies that every trace was replayed with, `optimal` first."""
    result = []
    for name in [row.policy for row in rankings[0].policies]:
        pairs = [(ranking, row) for ranking in rankings for row in ranking.policies]
        pairs = [(ranking, row) for ranking, row in pairs if row.policy == name]
        if len(pairs) < len(rankings):
            continue
        regrets = [(row.regret, ranking.workload) for ranking, row in pairs]
        cost = sum(row.cost / max(1, ranking.calls) for ranking, row in pairs) / len(pairs)
        mean = sum(regret for regret, _ in regrets) / len(pairs)
        result.append(PolicyMean(name, cost, mean, *max(regrets)))
    return result


class ClosedLoop(Document, frozen=True, tag_field="schema", tag="kentry/vector-closed-loop/1"):
    """A policy that a kernel was given: what replay predicted, and what was then seen.

    `acts`: act to (seen of the first kernel, replayed, seen of the second kernel).
    """

    policy: str
    base: str
    acts: dict[str, tuple[int, int, int]]


def close_loop(source: TraceFile, after: TraceFile) -> ClosedLoop:
    """Replays on `source` the own policy of the kernel of `after`, and counts both.

    UserError where the two are not of the same workload or vector length.
    """
    metas = [one.trace.meta for one in (source, after)]
    for what in ("arch", "unit", "workload"):
        before, now = (one[what]["command"] if what == "workload" else one[what] for one in metas)
        if before != now:
            raise UserError(
                f"{after.head.trace} is of another {what} than {source.head.trace}.",
                "Trace the same workload on both kernels.",
            )
    policy = str(metas[1]["policy"])
    replayed = replay(source.prepared, policy).total()
    replayed["flush"] += replayed["trap_flush"] + replayed["kept_load"]
    first, second = source.head.check, after.head.check
    acts = {
        act: (pair.seen, replayed[act], second.acts[act].seen if act in second.acts else 0)
        for act, pair in first.acts.items()
    }
    return ClosedLoop(policy, first.policy, acts)
