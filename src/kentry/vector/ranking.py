# SPDX-License-Identifier: GPL-2.0-or-later
"""Policies beside each other: what each would have cost a traced workload."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kentry.errors import UserError
from kentry.models.costs import Document
from kentry.vector.policies import POLICIES, TIME, Policy, parse_policy
from kentry.vector.replay import ActCounts, OwnPolicyCheck, Prepared, check, prepare, replay

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from kentry.models.costs import CostTable
    from kentry.vector.trace import VectorTrace

# The times (ns) of policies that are not named.  1 s is the arm64 series' own; its review asked for
# "quite a lot shorter".
_VALUES = {TIME: (4 * 10**6, 10**7, 10**8, 10**9)}


@dataclass(frozen=True, eq=False)
class TraceFile:
    """A trace that is replayed: its file's name and its contents."""

    name: str
    trace: VectorTrace
    prepared: Prepared
    check: OwnPolicyCheck

    @classmethod
    def of(cls, name: str, trace: VectorTrace, unit: str) -> TraceFile:
        """A trace prepared, its kernel's own policy checked; UserError as prepare()."""
        return cls(name, trace, prepare(trace, unit), check(trace, unit))


@dataclass(frozen=True, eq=False)
class PolicyCost:
    """A policy on one trace: `cost` is float64[tasks], in the cost table's unit."""

    policy: Policy
    counts: ActCounts
    cost: npt.NDArray[np.float64]

    @property
    def total(self) -> float:
        """What all tasks paid."""
        return float(self.cost.sum())


@dataclass(frozen=True, eq=False)
class Ranking:
    """The policies on one trace, the cheapest first, and `optimal`, which knows the future."""

    source: TraceFile
    rows: tuple[PolicyCost, ...]
    optimal: PolicyCost

    @property
    def calls(self) -> int:
        """System calls in the trace."""
        return self.optimal.counts.total()["calls"]

    def regret(self, row: PolicyCost) -> float:
        """What the policy costs more than the optimum, as a part of the latter."""
        least = self.optimal.total
        return (row.total - least) / least if least else 0.0


def rank(source: TraceFile, policies: Sequence[str], table: CostTable) -> Ranking:
    """Replays on a trace the policies of that text, by default all that fit and have their costs.

    UserError for a named one that does not fit, or has an act without a figure in the table.
    """
    costs = table.prices

    def row(policy: Policy) -> PolicyCost:
        policy = policy.resolved(costs)
        counts = replay(source.prepared, policy, costs)
        return PolicyCost(policy, counts, counts.cost(costs))

    rows = [row(one) for one in map(parse_policy, policies) if one.family.name != "optimal"]
    for family in () if policies else POLICIES.values():
        for value in _VALUES.get(family.parameter, (None,)) if family.name != "optimal" else ():
            with contextlib.suppress(UserError):
                rows.append(row(Policy(family, value)))
    rows.sort(key=lambda one: (one.total, one.policy.text))
    return Ranking(source, tuple(rows), row(parse_policy("optimal")))


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
    one, other = source.trace.meta, after.trace.meta
    for what in ("arch", "unit"):
        if one[what] != other[what]:
            raise UserError(
                f"{after.name} is of another {what} than {source.name}.",
                "Trace the same workload on both kernels.",
            )
    commands = [" ".join(meta["workload"]["command"]) for meta in (one, other)]
    if commands[0] != commands[1]:
        raise UserError(
            f"{after.name} is of {commands[1]}, {source.name} of {commands[0]}.",
            "Trace the same workload on both kernels.",
        )
    policy = str(other["policy"])
    replayed = replay(source.prepared, policy).total()
    replayed["flush"] += replayed["trap_flush"] + replayed["kept_load"]
    acts = {
        act: (
            pair.seen,
            replayed[act],
            after.check.acts[act].seen if act in after.check.acts else 0,
        )
        for act, pair in source.check.acts.items()
    }
    return ClosedLoop(policy, source.check.policy, acts)
