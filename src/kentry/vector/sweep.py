# SPDX-License-Identifier: GPL-2.0-or-later
"""From one policy's cost to a decision: sweeps, a recommended value, bounds, and ranking flips.

    swept = sweep(prepared, "timeout", [10**6, 10**7, ...])       a Counts a value
    advice = recommend([Workload.of(prepared, swept, costs), ...])
    competitive_bound(parse_policy("count:70"), costs).sentence
    flips({"drop-on-load": counts, "timeout:10ms": others}, costs)

Pure, but for the threads of a sweep.  Random draws are seeded: the same input, the same result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from kentry.errors import UserError
from kentry.vector.mechanism import COLUMNS
from kentry.vector.optimal import optimal
from kentry.vector.policies import (
    Adaptive,
    Count,
    CountFromUse,
    DropEachSyscall,
    Policy,
    Randomised,
    RandomisedFromUse,
    Timed,
    Timeout,
    TimeoutEntry,
    TimeoutFromUse,
    duration,
)
from kentry.vector.replay import Counts, prices, replay

if TYPE_CHECKING:
    import numpy.typing as npt

    from kentry.vector.replay import Prepared

    Floats = npt.NDArray[np.float64]

_FAMILIES: Mapping[str, Callable[[int], Policy]] = {
    "timeout": Timeout,
    "timeout-entry": TimeoutEntry,
    "timeout-from-use": TimeoutFromUse,
    "count": Count,
    "count-from-use": CountFromUse,
    "randomised": Randomised,
    "randomised-from-use": RandomisedFromUse,
    "adaptive": Adaptive,
}
FAMILIES = tuple(_FAMILIES)

# A value within this of the best is as good: no measured cost is known more closely.
FLAT = 0.01


@dataclass(frozen=True, eq=False)
class Sweep:
    """A policy replayed with each of `values` (ns, or a count), in their order."""

    family: str
    values: tuple[int, ...]
    counts: tuple[Counts, ...]

    def cost(self, costs: Mapping[str, float]) -> Floats:
        """float64[values, tasks], in the unit of `costs`."""
        return np.stack([counts.cost(costs) for counts in self.counts])

    def text(self, value: int) -> str:
        """A value as a policy's parameter."""
        return value_text(self.family, value)


def value_text(family: str, value: int) -> str:
    """A value of a family as a policy's parameter: 100ms, 12."""
    return duration(value) if family.startswith("timeout") else str(value)


def sweep(
    prepared: Prepared,
    family: str,
    values: Sequence[int],
    *,
    workers: int = 2,
    exact_time: bool = False,
) -> Sweep:
    """Replays a policy of FAMILIES with each value; `workers` threads.

    Raises UserError for a family that is none, or one that does not fit the architecture.
    """
    make = _FAMILIES.get(family)
    if make is None:
        raise UserError(
            f"The policy '{family}' has no value to sweep.", f"Sweep {', '.join(FAMILIES)}."
        )
    prepared.times(exact=exact_time)  # once, before the threads
    with ThreadPoolExecutor(max(1, workers)) as pool:
        counts = pool.map(
            lambda value: replay(prepared, make(value), exact_time=exact_time), values
        )
        return Sweep(family, tuple(values), tuple(counts))


@dataclass(frozen=True, eq=False)
class Workload:
    """What a recommendation knows of one trace.

    `cost` is float64[values, tasks], `best` float64[tasks] what `optimal` costs each, `calls`
    float64[tasks] its system calls, `seconds` the trace's virtual time.
    """

    family: str
    values: tuple[int, ...]
    cost: Floats
    best: Floats
    calls: Floats
    seconds: float

    @classmethod
    def of(cls, prepared: Prepared, swept: Sweep, costs: Mapping[str, float]) -> Workload:
        """A sweep under costs (act to cost), with the optimum of the same trace."""
        best = optimal(prepared, costs)
        return cls(
            family=swept.family,
            values=swept.values,
            cost=swept.cost(costs),
            best=best.cost(costs),
            calls=best.of("calls").astype(float),
            seconds=prepared.seconds,
        )


@dataclass(frozen=True, eq=False)
class Recommendation:
    """The value with the least mean cost per system call, workloads counting alike.

    `low`, `high`: between them is the best value of 95 % of the bootstrap's draws, over workloads
    and over tasks within each.  `flat`: the values around the best that cost at most FLAT more.
    `per_call`: float64[values], cost per system call; `regret_per_call` and `regret_per_second`,
    what it is above `optimal` (virtual time).
    """

    family: str
    values: tuple[int, ...]
    value: int
    low: int
    high: int
    flat: tuple[int, int]
    per_call: Floats
    regret_per_call: Floats
    regret_per_second: Floats

    def place(self) -> int:
        """Where the recommended value is among `values`."""
        return self.values.index(self.value)


def recommend(workloads: Sequence[Workload], *, draws: int = 1000, seed: int = 1) -> Recommendation:
    """The value to choose for all `workloads`, with its interval.

    Of values that cost the same the smallest is taken.  Raises UserError for no workloads, for
    sweeps that do not have the same values, and for one without a system call.
    """
    if not workloads:
        raise UserError("There is no trace to recommend a value from.")
    if len({(one.family, one.values) for one in workloads}) > 1:
        raise UserError("The sweeps are not over the same values of one policy.")
    if any(one.calls.sum() == 0 for one in workloads):
        raise UserError("A trace has no system call, so there is no cost per call.")
    per_call = np.mean([one.cost.sum(axis=1) / one.calls.sum() for one in workloads], axis=0)
    least = np.mean([one.best.sum() / one.calls.sum() for one in workloads])
    drawn = _bootstrap(workloads, draws, np.random.default_rng(seed))
    values = workloads[0].values
    best = int(np.argmin(per_call))
    low, high = np.quantile(np.array(values)[drawn], [0.025, 0.975], method="nearest")
    return Recommendation(
        family=workloads[0].family,
        values=values,
        value=values[best],
        low=int(low),
        high=int(high),
        flat=_flat(per_call, values, best),
        per_call=per_call,
        regret_per_call=per_call - least,
        regret_per_second=np.mean(
            [(one.cost.sum(axis=1) - one.best.sum()) / max(one.seconds, 1e-9) for one in workloads],
            axis=0,
        ),
    )


def _flat(per_call: Floats, values: tuple[int, ...], best: int) -> tuple[int, int]:
    """The outermost values next to the best, without a gap, that are as good."""
    good = per_call <= per_call[best] * (1 + FLAT)
    low = high = best
    while low > 0 and good[low - 1]:
        low -= 1
    while high + 1 < len(values) and good[high + 1]:
        high += 1
    return values[low], values[high]


def _bootstrap(
    workloads: Sequence[Workload], draws: int, random: np.random.Generator
) -> npt.NDArray[np.int64]:
    """The place of the best value in each draw."""
    per_call = np.stack([_draws(one, draws, random) for one in workloads])
    chosen = random.integers(len(workloads), size=(draws, len(workloads)))
    means = per_call[chosen, np.arange(draws)[:, None]].mean(axis=1)
    return np.asarray(means.argmin(axis=1), np.int64)


def _draws(one: Workload, draws: int, random: np.random.Generator) -> Floats:
    """float64[draws, values]: cost per call with the workload's tasks drawn with replacement."""
    asked = one.calls > 0
    calls, cost = one.calls[asked], one.cost[:, asked]
    tasks = len(calls)
    result = np.empty((draws, len(one.values)))
    for draw in range(draws):
        times = np.bincount(random.integers(tasks, size=tasks), minlength=tasks)
        result[draw] = cost @ times / (calls @ times)
    return result


@dataclass(frozen=True)
class Bound:
    """What holds for a policy whatever the workload: see competitive_bound().

    `ratio` to `optimal` for a task, None where there is none; `sentence` says it, `holds` where.
    """

    ratio: float | None
    sentence: str
    holds: str


_HOLDS = (
    "where a load that keeps access on costs what a flush does, a save or load of the whole state"
    " what one of the small state does, and no signal frame decides over access"
)


def competitive_bound(policy: Policy, costs: Mapping[str, float]) -> Bound:
    """The most a policy can cost a task, over what `optimal` costs it, on any workload.

    A clear costs r (`flush`), a trap and its drop B.  Cut a task's time at the policy's own
    traps.  In each piece the policy pays B and, if it drops after n clears, at most n r.  The
    optimum pays B in it, if it dropped or closed too, or else n + 1 clears.  So the ratio is at
    most (B + n r) / min(B, (n + 1) r): 2 with n = B/r rounded down.  Where uses are seen and n
    counts from the last, a gap costs n r + B against min(B, (n + 1) r), the same.

    A time is no number of clears: how many fall into T is the workload's, and no ratio holds.
    """
    price = prices(costs)
    r = float(price[COLUMNS.index("flush")])
    b = float(price[COLUMNS.index("trap")] + price[COLUMNS.index("drop")])
    if r <= 0 or b <= 0:
        raise UserError("A bound needs the costs of a trap and of a flush, both above 0.")
    resolved = policy.resolved(costs)
    if isinstance(resolved, Adaptive):
        worst = max(_ratio(0, b, r), _ratio(64 * resolved.limit, b, r))
        return Bound(worst, f"at most {worst:.2f} times optimal", _HOLDS)
    if isinstance(resolved, Randomised):
        return _randomised_bound(resolved, b, r)
    if isinstance(resolved, Count | CountFromUse | DropEachSyscall):
        n = 0 if isinstance(resolved, DropEachSyscall) else resolved.limit
        ratio = _ratio(n, b, r)
        return Bound(ratio, f"at most {ratio:.2f} times optimal", _HOLDS)
    if isinstance(resolved, TimeoutEntry | TimeoutFromUse):
        seconds = resolved.ns / 1e9
        trap = f"{b / seconds:g} a second for traps" if seconds else f"{b:g} a call"
        return Bound(
            None,
            f"no ratio; regret is at most {trap} and {r:g} a system call until"
            f" {duration(resolved.ns)} after a trap or use",
            _HOLDS,
        )
    load = " between loads" if isinstance(resolved, Timed) else ""
    return Bound(None, f"no ratio; regret is at most {r:g} a system call{load}", _HOLDS)


def _ratio(n: int, b: float, r: float) -> float:
    """The worst ratio of a drop after n clears of cost r, a trap being b."""
    return (b + n * r) / min(b, (n + 1) * r)


def _randomised_bound(policy: Randomised, b: float, r: float) -> Bound:
    """In expectation, against a workload that does not know the draws."""
    n = policy.limit
    if n < 1:
        return Bound(_ratio(0, b, r), f"at most {_ratio(0, b, r):.2f} times optimal", _HOLDS)
    days = np.arange(1, n + 1)
    q = 1 - 1 / n
    chance = np.asarray(q ** (n - days) / (n * (1 - q**n)), np.float64)
    if isinstance(policy, RandomisedFromUse):
        ratio = max(_gap_ratio(gap, days, chance, b, r) for gap in _gaps(n))
    else:
        paid = b + float(chance @ (days - 1)) * r
        ratio = paid / float(chance @ np.minimum(b, days * r))
        # Where the next use comes long after the drop, the optimum dropped at once.
        ratio = max(ratio, paid / b)
    return Bound(ratio, f"at most {ratio:.2f} times optimal in expectation", _HOLDS)


def _gaps(n: int) -> range:
    """Calls between two uses to look at: all, or 1000 of them."""
    return range(1, n + 2, max(1, n // 1000))


def _gap_ratio(gap: int, days: npt.NDArray[np.int64], chance: Floats, b: float, r: float) -> float:
    """Expected cost over the optimum's, for a gap of that many calls without a use."""
    paid = np.where(days <= gap, (days - 1) * r + b, gap * r)
    return float(chance @ paid) / min(b, gap * r)


@dataclass(frozen=True)
class Flip:
    """A value of one cost at which two policies change places.

    `act` is the act, or "B/r", a trap's cost (with its drop) over a flush's; `now` is what it is.
    `cheaper_below` costs less where the act's value is smaller.  `leads`: it is the first place
    that changes hands.
    """

    act: str
    value: float
    now: float
    cheaper_below: str
    cheaper_above: str
    leads: bool

    @property
    def factor(self) -> float:
        """The value over what it is now; infinite where that is 0."""
        return self.value / self.now if self.now else math.inf


def flips(counts: Mapping[str, Counts], costs: Mapping[str, float]) -> tuple[Flip, ...]:
    """Where the ranking of policies (name to counts) changes as one cost does, others fixed.

    The nearest to today's value first.  The decisions of `optimal` are for one cost only, so its
    counts must not be among them.
    """
    names = list(counts)
    totals = {name: counts[name].values.sum(axis=0)[: len(COLUMNS)] for name in names}
    price = prices(costs)
    result = []
    for place, act in enumerate(COLUMNS):
        for one, other in combinations(names, 2):
            slope = float(totals[one][place] - totals[other][place])
            if slope:
                rest = float(price @ (totals[other] - totals[one])) + slope * price[place]
                value = rest / slope
                if value >= 0:
                    below, above = (one, other) if slope > 0 else (other, one)
                    leads = _leads(totals, price, place, value, one)
                    result.append(Flip(act, value, float(price[place]), below, above, leads))
    result += [_as_ratio(flip, price) for flip in result if flip.act == "trap"]
    return tuple(sorted(result, key=_distance))


def _leads(
    totals: Mapping[str, npt.NDArray[np.int64]], price: Floats, place: int, value: float, one: str
) -> bool:
    """Whether policy `one` is the cheapest, with another, where column `place` costs `value`."""
    there = price.copy()
    there[place] = value
    costs = {name: float(total @ there) for name, total in totals.items()}
    least = min(costs.values())
    return costs[one] <= least + 1e-9 * max(1.0, abs(least))


def _as_ratio(flip: Flip, price: Floats) -> Flip:
    """A flip of the trap's cost as one of B/r."""
    r = float(price[COLUMNS.index("flush")])
    drop = float(price[COLUMNS.index("drop")])

    def ratio(trap: float) -> float:
        return (trap + drop) / r if r else math.inf

    names = (flip.cheaper_below, flip.cheaper_above)
    return Flip("B/r", ratio(flip.value), ratio(flip.now), *names, flip.leads)


def _distance(flip: Flip) -> tuple[float, str, str, str]:
    """How far from today's value, as a factor; then a fixed order."""
    far = abs(math.log(flip.factor)) if 0 < flip.factor < math.inf else math.inf
    return far, flip.act, flip.cheaper_below, flip.cheaper_above
