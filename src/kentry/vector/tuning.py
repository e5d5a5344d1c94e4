# SPDX-License-Identifier: GPL-2.0-or-later
"""Which value of a policy's parameter to choose: sweeps over traces, and a recommendation.

Random draws are seeded: the same input gives the same result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from kentry.errors import UserError
from kentry.models.costs import Cost, Document
from kentry.vector.policies import BREAK_EVEN, NEVER, POLICIES, TIME, Policy
from kentry.vector.replay import ActCounts, optimal, replay
from kentry.vector.trace import Count

if TYPE_CHECKING:
    import numpy.typing as npt

    from kentry.vector.replay import Prepared

    Floats = npt.NDArray[np.float64]

# A value within this of the best is as good: no cost has been measured more precisely.
FLAT = 0.01

# A sweep's range: a jiffy of HZ=250 to 100 s, or 1 to 10000 calls, in equal ratios.
_RANGES = {TIME: (4 * 10**6, 10**11), BREAK_EVEN: (1, 10**4)}
_VALUES = 100
_DRAWS = 1000
# One thread per core of a small machine; compiled code runs without Python's lock.
_THREADS = 2


@dataclass(frozen=True, eq=False)
class Sweep:
    """A policy replayed with each of `values` (ns, or a count) on one trace.

    `never` are the counts without any drop, `best` those of `optimal`; `seconds` is the trace's
    virtual time.
    """

    family: str
    values: tuple[int, ...]
    counts: tuple[ActCounts, ...]
    never: ActCounts
    best: ActCounts
    seconds: float

    def cost(self, costs: Mapping[str, float]) -> Floats:
        """float64[values, tasks], in the unit of `costs` (act to cost)."""
        return np.stack([counts.cost(costs) for counts in self.counts])


def sweep(
    prepared: Prepared, family: str, costs: Mapping[str, float], values: Sequence[int] | None = None
) -> Sweep:
    """Replays a policy that has a time or a count with each value, by default 100 of a wide range.

    Raises UserError for any other policy, or for one that does not fit the architecture.
    """
    parameter = POLICIES[family].parameter if family in POLICIES else ""
    if parameter not in _RANGES:
        names = (name for name, one in POLICIES.items() if one.parameter in _RANGES)
        raise UserError(
            f"The policy '{family}' has no value to sweep.", f"Sweep {', '.join(names)}."
        )
    if values is None:
        steps = np.geomspace(*_RANGES[parameter], _VALUES)
        values = sorted({round(float(step)) for step in steps})
    policies = [Policy(POLICIES[family], value) for value in (*values, NEVER)]
    with ThreadPoolExecutor(_THREADS) as pool:
        *counts, never = pool.map(lambda policy: replay(prepared, policy), policies)
    best = optimal(prepared, costs)
    return Sweep(family, tuple(values), tuple(counts), never, best, prepared.seconds)


class Never(Document, frozen=True):
    """What the policy costs per call, the mean of the traces, where it never drops.

    `unreached` is the least value that does the same as never in every trace; null: none does.
    `alike` has for each trace the least value from which on all cost within 1 % of never: the trace
    cannot tell such values from never.
    """

    cost_per_call: Cost
    unreached: Count | None
    alike: list[Count | None]


class Recommendation(Document, frozen=True):
    """A policy's values (ns of a timeout, else a count), rising, with the mean of the traces.

    `regret_per_call` and `regret_per_second` are above `optimal` (virtual time).  `recommended` is
    the value with the least cost per call.  `interval` has the best value of 95 % of the
    bootstrap's draws, of workloads and of tasks in each; `within_1_percent` the values around the
    recommended one that cost at most 1 % more: others may, too.  `per_call_by_trace` has the costs
    per call on each trace.
    """

    family: str
    values: list[Count]
    cost_per_call: list[Cost]
    regret_per_call: list[float]
    regret_per_second: list[float]
    recommended: Count
    interval: tuple[Count, Count]
    within_1_percent: tuple[Count, Count]
    never: Never | None = None
    per_call_by_trace: list[list[Cost]] = msgspec.field(default_factory=list)

    @property
    def good(self) -> list[tuple[Count, Count]]:
        """The first and last of each run of neighbouring values within 1 % of the least cost."""
        most = min(self.cost_per_call) * (1 + FLAT)
        pairs = zip(self.values, self.cost_per_call, strict=True)
        runs = groupby(pairs, key=lambda pair: pair[1] <= most)
        good = [[value for value, _ in run] for is_good, run in runs if is_good]
        return [(run[0], run[-1]) for run in good]

    @property
    def flat(self) -> bool:
        """Whether all values cost the same within 1 %, so that none is the least."""
        return self.good == [(self.values[0], self.values[-1])]


def recommend(sweeps: Sequence[Sweep], costs: Mapping[str, float]) -> Recommendation:
    """Finds the value with the least cost for all workloads; `costs` is act to cost.

    The sweeps, one a workload, have the same values of one policy.  Each workload counts the same.
    Of values that cost the same it takes the smallest.  UserError for one without a system call.
    """
    calls = [swept.best.of("calls").astype(float) for swept in sweeps]
    if any(of_tasks.sum() == 0 for of_tasks in calls):
        raise UserError("A trace has no system call, so there is no cost per call.")
    cost = [swept.cost(costs) for swept in sweeps]
    least = [swept.best.cost(costs).sum() for swept in sweeps]
    pairs = list(zip(cost, calls, strict=True))
    by_trace = np.array([paid.sum(axis=1) / own.sum() for paid, own in pairs])
    per_call = by_trace.mean(axis=0)
    values = sweeps[0].values
    best = int(np.argmin(per_call))
    drawn = _draw_best(pairs, np.random.default_rng(1))
    low, high = np.quantile(np.array(values)[drawn], [0.025, 0.975], method="nearest")
    good = np.flatnonzero(per_call > per_call[best] * (1 + FLAT))
    first = int(max(good[good < best], default=-1)) + 1
    last = int(min(good[good > best], default=len(values))) - 1
    floors = [floor / own.sum() for floor, own in zip(least, calls, strict=True)]
    above = [
        (paid.sum(axis=1) - floor) / max(swept.seconds, 1e-9)
        for paid, floor, swept in zip(cost, least, sweeps, strict=True)
    ]
    return Recommendation(
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


def _never(sweeps: Sequence[Sweep], by_trace: Floats, costs: Mapping[str, float]) -> Never | None:
    """Finds what never dropping costs, and the values that are like it; None without a cost."""
    values = sweeps[0].values
    try:
        never = np.array(
            [one.never.cost(costs).sum() / one.best.of("calls").sum() for one in sweeps]
        )
    except UserError:
        return None
    same = [[(one.values == swept.never.values).all() for one in swept.counts] for swept in sweeps]
    near = np.abs(by_trace - never[:, None]) <= FLAT * never[:, None]
    return Never(
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
