# SPDX-License-Identifier: GPL-2.0-or-later
"""Policies beside each other: what each would have cost a traced workload, and which is best.

Pure: traces and a cost table in, rows and a recommendation out.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kentry.errors import UserError
from kentry.vector.policies import POLICIES, Optimal, Policy, break_even, parse_policy
from kentry.vector.replay import Check, Counts, Prepared, check, prepare, replay
from kentry.vector.sweep import (
    Bound,
    Flip,
    Recommendation,
    Sweep,
    Workload,
    competitive_bound,
    flips,
    recommend,
    sweep,
)
from kentry.vector.trace import at_speed

if TYPE_CHECKING:
    import numpy.typing as npt

    from kentry.vector.costs import CostTable
    from kentry.vector.trace import Cut, VectorTrace

_MS = 10**6

# Where nothing else is asked for.  The series' own values are among them: its second, and the
# "quite a lot shorter" of its review.
_TIMES = ("4ms", "10ms", "100ms", "1s")
_FPU_COUNTER = 5  # arch/x86/include/asm/i387.h of Linux 2.6.18 to 4.1

# A sweep's values: from a jiffy of HZ=250 to 100 s, from 1 to 10000 calls, evenly in proportion.
_SWEEP_TIMES = (4 * _MS, 10**11)
_SWEEP_COUNTS = (1, 10**4)
SWEEP_VALUES = 100


@dataclass(frozen=True, eq=False)
class Traced:
    """A trace that is replayed: its file's name, what is in it, what is missing of it."""

    name: str
    trace: VectorTrace
    cut: Cut | None
    prepared: Prepared
    check: Check

    @classmethod
    def of(
        cls, name: str, trace: VectorTrace, cut: Cut | None, unit: str, speed: float = 1.0
    ) -> Traced:
        """A trace, made ready and its kernel's own policy replayed; UserError as prepare().

        The check is of the trace as it was recorded, all else at `speed`.
        """
        faster = at_speed(trace, speed) if speed != 1.0 else trace
        return cls(name, trace, cut, prepare(faster, unit), check(trace, unit))


@dataclass(frozen=True, eq=False)
class Row:
    """A policy on one trace: `cost` is float64[tasks], in the cost table's unit."""

    policy: Policy
    counts: Counts
    cost: npt.NDArray[np.float64]

    @property
    def total(self) -> float:
        """What all tasks paid."""
        return float(self.cost.sum())


@dataclass(frozen=True, eq=False)
class Ranking:
    """The policies on one trace, the cheapest first, and `optimal`, which knows the future."""

    traced: Traced
    rows: tuple[Row, ...]
    optimal: Row
    flips: tuple[Flip, ...]

    @property
    def calls(self) -> int:
        """System calls in the trace."""
        return self.optimal.counts.total()["calls"]

    def regret(self, row: Row) -> float:
        """What the policy costs more than the optimum, as a part of the latter."""
        least = self.optimal.total
        return (row.total - least) / least if least else 0.0


@dataclass(frozen=True, eq=False)
class Swept:
    """One family of policies over all traces: the value to choose, and each trace's curve."""

    family: str
    sweeps: tuple[Sweep, ...]
    advice: Recommendation


@dataclass(frozen=True)
class Closed:
    """A policy that a kernel was given: what replay said beforehand, and what was then seen.

    `acts`: act to (what the first kernel did, what replay said, what the second kernel did).
    """

    policy: str
    base: str
    acts: Mapping[str, tuple[int, int, int]]


def close_loop(traced: Traced, after: Traced) -> Closed:
    """Replays on `traced` what the kernel of `after` does, its own policy, and counts both.

    UserError where the two are not of the same workload or vector length.
    """
    one, other = traced.trace.meta, after.trace.meta
    for what in ("arch", "unit"):
        if one[what] != other[what]:
            raise UserError(
                f"{after.name} is of another {what} than {traced.name}.",
                "Trace the same workload on both kernels.",
            )
    if one["workload"]["command"] != other["workload"]["command"]:
        raise UserError(
            f"{after.name} is of {' '.join(other['workload']['command'])}, {traced.name} of"
            f" {' '.join(one['workload']['command'])}.",
            "Trace the same workload on both kernels.",
        )
    policy = str(other["policy"])
    said = replay(traced.prepared, policy).total()
    said["flush"] += said["trap_flush"] + said["kept_load"]
    acts = {
        act: (before, said[act], after.check.totals.get(act, (0, 0))[1])
        for act, (_, before) in traced.check.totals.items()
    }
    return Closed(policy, traced.check.policy, acts)


def _rows(prepared: Prepared, wanted: Sequence[str], table: CostTable) -> Iterator[Row]:
    """The policies of that text, or all that the architecture can have and the table can price.

    UserError for one that is asked for by name and does not fit.
    """
    if wanted:
        policies = [parse_policy(text) for text in wanted]
        yield from (
            _row(prepared, policy, table) for policy in policies if not isinstance(policy, Optimal)
        )
        return
    for policy in _every(table):
        with contextlib.suppress(UserError):
            yield _row(prepared, policy, table)


def _every(table: CostTable) -> Iterable[Policy]:
    costs = prices_of(table)
    count = max(1, break_even(costs)) if {"trap", "flush"} <= costs.keys() else 1
    for kind in POLICIES.values():
        if issubclass(kind, Optimal):
            continue
        if kind.parameter == "T":
            yield from (parse_policy(f"{kind.name}:{time}") for time in _TIMES)
        elif kind.name == "fpu-counter":
            yield parse_policy(f"{kind.name}:{_FPU_COUNTER}")
        elif kind.parameter == "N":
            yield parse_policy(f"{kind.name}:{count}")
        else:
            yield parse_policy(kind.name)


def _fits(policy: Policy, prepared: Prepared) -> bool:
    try:
        policy.mechanism(prepared.mechanism)
    except UserError:
        return False
    return True


def prices_of(table: CostTable) -> dict[str, float]:
    """Act to cost, in the table's unit."""
    return {act: figure.value for act, figure in table.figures.items()}


def rank(traced: Traced, wanted: Sequence[str], table: CostTable) -> Ranking:
    """Replays on a trace the policies of that text, or all that can be.

    UserError for one asked for that does not fit, or has an act without a figure in the table.
    """
    costs = prices_of(table)
    rows = list(_rows(traced.prepared, wanted, table))
    rows.sort(key=lambda row: (row.total, row.policy.text))
    counts = {row.policy.text: row.counts for row in rows}
    return Ranking(
        traced=traced,
        rows=tuple(rows),
        optimal=_row(traced.prepared, parse_policy(Optimal.name), table),
        flips=flips(counts, costs) if len(counts) > 1 else (),
    )


def _row(prepared: Prepared, policy: Policy, table: CostTable) -> Row:
    costs = prices_of(table)
    policy = policy.resolved(costs)
    counts = replay(prepared, policy, costs)
    return Row(policy, counts, counts.cost(costs))


def bounds(policies: Sequence[Policy], table: CostTable) -> dict[str, Bound]:
    """By policy, what holds whatever the workload, for those that drop access at calls."""
    return {
        policy.resolved(prices_of(table)).text: competitive_bound(policy, prices_of(table))
        for policy in policies
    }


def values_of(family: str) -> list[int]:
    """The values of a sweep: ns of a timeout, else a count; each once, rising."""
    low, high = _SWEEP_TIMES if family.startswith("timeout") else _SWEEP_COUNTS
    return sorted({round(float(value)) for value in np.geomspace(low, high, SWEEP_VALUES)})


def sweep_all(traces: Sequence[Traced], family: str, table: CostTable) -> Swept:
    """A family over every trace, and the value for all of them; UserError as sweep()."""
    costs = prices_of(table)
    values = values_of(family)
    sweeps = tuple(sweep(one.prepared, family, values) for one in traces)
    workloads = [
        Workload.of(one.prepared, swept, costs) for one, swept in zip(traces, sweeps, strict=True)
    ]
    return Swept(family, sweeps, recommend(workloads))


def sweepable(prepared: Prepared) -> list[str]:
    """The families to sweep where nothing else is asked for; none where nothing can be dropped.

    A time and a count, from the trap on, where that is all that a kernel sees of a use, or from
    the last use on.
    """
    pairs = (("timeout-entry", "count"), ("timeout-from-use", "count-from-use"))
    fit = [family for pair in pairs for family in pair if _family_fits(family, prepared)]
    return fit[:2]


def _family_fits(family: str, prepared: Prepared) -> bool:
    text = f"{family}:1s" if family.startswith("timeout") else f"{family}:1"
    return _fits(parse_policy(text), prepared)
