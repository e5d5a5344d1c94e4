# SPDX-License-Identifier: GPL-2.0-or-later
"""Which value of a policy's parameter to choose: sweeps over traces, and a recommendation.

Random draws are seeded: the same input gives the same result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kentry.errors import UserError
from kentry.models.costs import Cost, Document
from kentry.vector.policies import BREAK_EVEN, POLICIES, TIME, Policy
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

    `best` are the counts of `optimal` there, `seconds` is the trace's virtual time.
    """

    family: str
    values: tuple[int, ...]
    counts: tuple[ActCounts, ...]
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
        values = sorted({round(float(one)) for one in np.geomspace(*_RANGES[parameter], _VALUES)})
    policies = [Policy(POLICIES[family], value) for value in values]
    with ThreadPoolExecutor(_THREADS) as pool:
        counts = tuple(pool.map(lambda policy: replay(prepared, policy), policies))
    return Sweep(family, tuple(values), counts, optimal(prepared, costs), prepared.seconds)


class Recommendation(Document, frozen=True):
    """A policy's values (ns of a timeout, else a count), rising, with the mean of the traces.

    `regret_per_call` and `regret_per_second` are above `optimal` (virtual time).  `recommended` is
    the value with the least cost per call.  `interval` has the best value of 95 % of the
    bootstrap's draws, of workloads and of tasks in each; `within_1_percent` the values around the
    recommended one that cost at most 1 % more.
    """

    family: str
    values: list[Count]
    cost_per_call: list[Cost]
    regret_per_call: list[float]
    regret_per_second: list[float]
    recommended: Count
    interval: tuple[Count, Count]
    within_1_percent: tuple[Count, Count]


def recommend(sweeps: Sequence[Sweep], costs: Mapping[str, float]) -> Recommendation:
    """The value to choose for all workloads, with its interval; `costs` is act to cost.

    The sweeps, one a workload, have the same values of one policy.  Each workload counts the same.
    Of values that cost the same it takes the smallest.  UserError for one without a system call.
    """
    calls = [one.best.of("calls").astype(float) for one in sweeps]
    if any(one.sum() == 0 for one in calls):
        raise UserError("A trace has no system call, so there is no cost per call.")
    cost = [one.cost(costs) for one in sweeps]
    least = [one.best.cost(costs).sum() for one in sweeps]
    pairs = list(zip(cost, calls, strict=True))
    per_call = np.mean([one.sum(axis=1) / own.sum() for one, own in pairs], axis=0)
    values = sweeps[0].values
    best = int(np.argmin(per_call))
    places = _best_places(pairs, np.random.default_rng(1))
    low, high = np.quantile(np.array(values)[places], [0.025, 0.975], method="nearest")
    good = np.flatnonzero(per_call > per_call[best] * (1 + FLAT))
    first = int(max(good[good < best], default=-1)) + 1
    last = int(min(good[good > best], default=len(values))) - 1
    floors = [floor / own.sum() for floor, own in zip(least, calls, strict=True)]
    above = [
        (one.sum(axis=1) - floor) / max(swept.seconds, 1e-9)
        for one, floor, swept in zip(cost, least, sweeps, strict=True)
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
    )


def _best_places(
    workloads: Sequence[tuple[Floats, Floats]], random: np.random.Generator
) -> npt.NDArray[np.int64]:
    """The place of the best value in each draw; a workload is its cost[values, tasks] and calls."""
    per_call = np.empty((len(workloads), _DRAWS, len(workloads[0][0])))
    for place, (all_cost, all_calls) in enumerate(workloads):
        active = all_calls > 0
        calls, cost = all_calls[active], all_cost[:, active]
        tasks = len(calls)
        for draw in range(_DRAWS):
            times = np.bincount(random.integers(tasks, size=tasks), minlength=tasks)
            per_call[place, draw] = cost @ times / (calls @ times)
    chosen = random.integers(len(workloads), size=(_DRAWS, len(workloads)))
    means = per_call[chosen, np.arange(_DRAWS)[:, None]].mean(axis=1)
    return np.asarray(means.argmin(axis=1), np.int64)
