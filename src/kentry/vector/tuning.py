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
from kentry.vector.policies import BREAK_EVEN, POLICIES, TIME, Policy
from kentry.vector.replay import ActCounts, optimal, replay

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
    prepared: Prepared,
    family: str,
    costs: Mapping[str, float],
    values: Sequence[int] | None = None,
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


@dataclass(frozen=True, eq=False)
class Recommendation:
    """The value with the least mean cost per system call; each workload counts the same.

    `low`, `high`: in 95 % of the bootstrap's draws, of workloads and of tasks in each, the best
    value is between them.  `flat`: the values around the best that cost at most FLAT more.
    `per_call`: float64[values], cost per system call; `regret_per_call` and `regret_per_second`
    are what it is above `optimal` (virtual time).
    """

    sweeps: tuple[Sweep, ...]
    family: str
    values: tuple[int, ...]
    value: int
    low: int
    high: int
    flat: tuple[int, int]
    per_call: Floats
    regret_per_call: Floats
    regret_per_second: Floats


def recommend(sweeps: Sequence[Sweep], costs: Mapping[str, float]) -> Recommendation:
    """The value to choose for all workloads, with its interval; `costs` is act to cost.

    Of values that cost the same it takes the smallest.  Raises UserError for no workloads, for
    sweeps that do not have the same values, and for one without a system call.
    """
    if not sweeps:
        raise UserError("There is no trace to recommend a value from.")
    if len({(one.family, one.values) for one in sweeps}) > 1:
        raise UserError("The sweeps are not over the same values of one policy.")
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
    above = [
        (one.sum(axis=1) - floor) / max(swept.seconds, 1e-9)
        for one, floor, swept in zip(cost, least, sweeps, strict=True)
    ]
    return Recommendation(
        sweeps=tuple(sweeps),
        family=sweeps[0].family,
        values=values,
        value=values[best],
        low=int(low),
        high=int(high),
        flat=(values[first], values[last]),
        per_call=per_call,
        regret_per_call=per_call
        - np.mean([floor / own.sum() for floor, own in zip(least, calls, strict=True)]),
        regret_per_second=np.mean(above, axis=0),
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
