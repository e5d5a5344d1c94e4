# SPDX-License-Identifier: GPL-2.0-or-later
"""Policies beside each other: what each would have cost a traced workload, and could on any."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Annotated

import numpy as np
from msgspec import Meta

from kentry.arch.mechanism import COLUMNS, Act
from kentry.errors import UserError
from kentry.models.costs import Document
from kentry.vector.policies import (
    BREAK_EVEN,
    POLICIES,
    SLICES,
    TIME,
    Policy,
    duration,
    parse_policy,
)
from kentry.vector.replay import ActCounts, OwnPolicyCheck, Prepared, check, prepare, prices, replay
from kentry.vector.trace import at_speed

if TYPE_CHECKING:
    import numpy.typing as npt

    from kentry.models.costs import CostTable
    from kentry.vector.trace import VectorTrace

# The parameters (ns, timeslices) of policies that are not named.  1 s is the arm64 series' own; its
# review asked for "quite a lot shorter".  5 is x86's, arch/x86/include/asm/i387.h of Linux 2.6.18
# to 4.1.
_VALUES = {TIME: (4 * 10**6, 10**7, 10**8, 10**9), SLICES: (5,)}


@dataclass(frozen=True, eq=False)
class TraceFile:
    """A trace that is replayed: its file's name and its contents."""

    name: str
    trace: VectorTrace
    prepared: Prepared
    check: OwnPolicyCheck

    @classmethod
    def of(cls, name: str, trace: VectorTrace, unit: str, speed: float = 1.0) -> TraceFile:
        """A trace prepared at `speed`, its kernel's own policy checked; UserError as prepare()."""
        faster = at_speed(trace, speed) if speed != 1.0 else trace
        return cls(name, trace, prepare(faster, unit), check(trace, unit))


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


class Flip(Document, frozen=True):
    """A value of one cost at which two policies change places.

    `act` is the act, or "B/r", the cost of a trap and its drop over that of a flush; `now` is its
    value today, `factor` the value over that, null where that is 0.  `cheaper_below` costs less
    where the act costs less.  `leads`: it is the first place that changes hands.
    """

    act: str
    value: float
    now: float
    cheaper_below: str
    cheaper_above: str
    leads: bool
    factor: float | None


@dataclass(frozen=True, eq=False)
class Ranking:
    """The policies on one trace, the cheapest first, and `optimal`, which knows the future."""

    source: TraceFile
    rows: tuple[PolicyCost, ...]
    optimal: PolicyCost
    flips: tuple[Flip, ...]

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
    counts = {one.policy.text: one.counts for one in rows}
    best = row(parse_policy("optimal"))
    return Ranking(source, tuple(rows), best, flips(counts, costs) if len(counts) > 1 else ())


def flips(counts: Mapping[str, ActCounts], costs: Mapping[str, float]) -> tuple[Flip, ...]:
    """Where the ranking of policies (name to counts) changes as one cost does, others fixed.

    The nearest to today's value comes first.  `counts` must not have `optimal`, whose decisions
    hold for one set of costs only.
    """
    totals = {name: one.values.sum(axis=0)[: len(COLUMNS)] for name, one in counts.items()}
    price = prices(costs)
    flush, drop = float(price[Act.FLUSH]), float(price[Act.DROP])
    result = []
    for (one, mine), (other, its) in combinations(totals.items(), 2):
        for place in np.flatnonzero(mine != its):
            slope, now = float(mine[place] - its[place]), float(price[place])
            value = (float(price @ (its - mine)) + slope * now) / slope
            if value < 0:
                continue
            below, above = (one, other) if slope > 0 else (other, one)
            there = price.copy()
            there[place] = value
            total = {name: float(times @ there) for name, times in totals.items()}
            least = min(total.values())
            leads = total[one] <= least + 1e-9 * max(1.0, abs(least))
            values = [(COLUMNS[place], value, now)]
            if place == Act.TRAP and flush:
                values.append(("B/r", (value + drop) / flush, (now + drop) / flush))
            result += [
                Flip(act, at, today, below, above, leads, at / today if today else None)
                for act, at, today in values
            ]

    def distance(flip: Flip) -> tuple[float, str, str, str]:
        far = abs(math.log(flip.factor)) if flip.factor else math.inf
        return far, flip.act, flip.cheaper_below, flip.cheaper_above

    return tuple(sorted(result, key=distance))


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


# --- on any workload ----------------------------------------------------------------------------

ASSUMPTIONS = (
    "These bounds assume that a load that keeps access on costs as much as a flush, that the whole"
    " state costs as much to save or load as the small state, and that no signal frame changes"
    " access."
)


class Bound(Document, frozen=True):
    """The most that a policy can cost a task, as a ratio to `optimal`; null if there is none."""

    ratio: Annotated[float, Meta(ge=1)] | None
    text: str


def competitive_bound(policy: Policy, costs: Mapping[str, float]) -> Bound:
    """The most a policy can cost a task, over what `optimal` costs it, on any workload.

    A clear costs r (`flush`), a trap and its drop B.  Cut a task's time at the policy's own
    traps.  In each piece the policy pays B and, if it drops after n clears, at most n r.  The
    optimum pays B in it, if it dropped or closed too, or else n + 1 clears.  So the ratio is at
    most (B + n r) / min(B, (n + 1) r): 2 with n = B/r rounded down.  Where uses are seen and n
    counts from the last, a gap costs n r + B against min(B, (n + 1) r), the same.

    A time is no number of clears: the workload says how many fall into T, so no ratio holds.
    Raises UserError if a trap or a flush has no cost.
    """
    price = prices(costs)
    r, b = float(price[Act.FLUSH]), float(price[Act.TRAP] + price[Act.DROP])
    if r <= 0 or b <= 0:
        raise UserError("A bound needs the costs of a trap and of a flush, both above 0.")
    policy = policy.resolved(costs)
    rule, parameter = policy.rule(), policy.family.parameter
    if parameter == BREAK_EVEN or (rule.at_call and rule.time < 0):
        n = rule.limit if parameter == BREAK_EVEN else 0
        ratio = (b + n * r) / min(b, (n + 1) * r)
        return Bound(ratio, f"at most {ratio:.2f} times optimal")
    if parameter == TIME and rule.at_call:
        seconds = rule.time / 1e9
        trap = f"{b / seconds:g} a second for traps" if seconds else f"{b:g} a call"
        return Bound(
            None,
            f"no ratio; regret is at most {trap} and {r:g} a system call until"
            f" {duration(rule.time)} after a trap or use",
        )
    load = " between loads" if parameter == TIME else ""
    return Bound(None, f"no ratio; regret is at most {r:g} a system call{load}")


def bounds(policies: Iterable[Policy], costs: Mapping[str, float]) -> dict[str, Bound]:
    """By policy, the bound of each that has a time or a count, or drops at once at each call."""
    return {
        policy.resolved(costs).text: competitive_bound(policy, costs)
        for policy in policies
        if policy.family.parameter in (TIME, BREAK_EVEN)
        or (policy.family.rule.at_call and policy.family.rule.time < 0)
    }
