# SPDX-License-Identifier: GPL-2.0-or-later
"""Bounds that hold on any workload: a policy's cost over that of `optimal`, or its regret."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kentry.arch.mechanism import Act
from kentry.errors import UserError
from kentry.vector.policies import BREAK_EVEN, TIME, Policy, duration
from kentry.vector.replay import prices

ASSUMPTIONS = (
    "These bounds assume that a load that keeps access on costs as much as a flush, that the whole"
    " state costs as much to save or load as the small state, and that no signal frame changes"
    " access."
)


@dataclass(frozen=True)
class Bound:
    """The most that a policy can cost a task, as a ratio to `optimal`; None if there is none."""

    ratio: float | None
    sentence: str


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
