#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""How often kentry's verdicts on time are wrong, on noise whose truth is known.

A run is made up, group by group, from one of several kinds of noise, and judged as a measured one
is.  With no change every "better" and "worse" is false; with a change of a known size every "same"
is.  Noise is in fractions of the value; that of one process is about 1 %, unless said otherwise.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import stats

from kentry.stats.estimators import trimmed_mean
from kentry.stats.sequential import Look, plan_looks
from kentry.stats.verdict import Effect, Group, compare_groups

Array = npt.NDArray[np.float64]
Noise = Callable[[np.random.Generator, int], Array]  # groups -> logarithms, a row of four a group
PROCESS = 0.01
CONFIDENCE = 0.99


def normal(rng: np.random.Generator, groups: int) -> Array:
    """Processes that differ by 1 %."""
    return rng.normal(0, PROCESS, (groups, 4))


def lognormal(rng: np.random.Generator, groups: int) -> Array:
    """Skewed: most processes near the least time, some far above."""
    skewed: Array = rng.lognormal(np.log(PROCESS), 0.8, (groups, 4))
    return skewed


def disturbed_groups(rng: np.random.Generator, groups: int) -> Array:
    """5 % of the groups have processes that are 20 % off, either way."""
    bad = rng.random((groups, 1)) < 0.05
    return normal(rng, groups) + np.where(bad, rng.choice([-0.2, 0.0, 0.2], (groups, 4)), 0)


def disturbed_processes(rng: np.random.Generator, groups: int) -> Array:
    """5 % of the processes are 20 % slower."""
    return normal(rng, groups) + np.where(rng.random((groups, 4)) < 0.05, 0.2, 0)


def drift(rng: np.random.Generator, groups: int) -> Array:
    """A machine that gets faster and slower by 5 %, for ten groups or so."""
    return normal(rng, groups) + 5 * PROCESS * wander(rng, groups, 1, 0.9)


def slope(rng: np.random.Generator, groups: int) -> Array:
    """Drift within each group, from slot to slot: what boots see that follow one another."""
    steps: Array = rng.normal(0, PROCESS, (groups, 1)) * np.array([-1.5, -0.5, 0.5, 1.5])
    return normal(rng, groups) + steps


def two_layouts(rng: np.random.Generator, groups: int) -> Array:
    """Each process is 1 % above or below, as its memory happened to be placed."""
    sides: Array = rng.choice([-PROCESS, PROCESS], (groups, 4))
    sides += rng.normal(0, PROCESS / 10, (groups, 4))
    return sides


def heavy_tails(rng: np.random.Generator, groups: int) -> Array:
    """Student's t with 2 degrees of freedom: no variance at all."""
    tails: Array = rng.standard_t(2, (groups, 4)) * PROCESS / 2
    return tails


def lasting(rng: np.random.Generator, groups: int) -> Array:
    """Half of a process's noise lasts for some groups, in its slot: groups are not independent."""
    kept: Array = PROCESS * wander(rng, groups, 4, 0.5)
    return normal(rng, groups) + kept


def slots(rng: np.random.Generator, groups: int) -> Array:
    """The first slot is 1 % slower in every group: what a fixed order does."""
    first: Array = np.array([PROCESS, 0.0, 0.0, 0.0])
    return normal(rng, groups) + first


def wander(rng: np.random.Generator, groups: int, series: int, kept: float) -> Array:
    """Autoregressive series of variance 1, in columns; `kept` of each value is in the next."""
    steps = rng.normal(0, np.sqrt(1 - kept * kept), (groups, series))
    steps[0] /= np.sqrt(1 - kept * kept)
    for row in range(1, groups):
        steps[row] += kept * steps[row - 1]
    return steps


NOISES: dict[str, Noise] = {
    noise.__name__.replace("_", "-"): noise
    for noise in (
        normal,
        lognormal,
        disturbed_groups,
        disturbed_processes,
        drift,
        slope,
        two_layouts,
        heavy_tails,
        lasting,
        slots,
    )
}


class Rates(NamedTuple):
    """Shares of the runs, and how long judging took."""

    runs: int
    better: float
    worse: float
    same: float
    covered: float  # the last interval holds the truth
    groups: float  # that a run took, on average
    half_width: float  # of the last interval, on average
    seconds: float

    @property
    def decided(self) -> float:
        """Better or worse: all false where nothing changed."""
        return self.better + self.worse


def simulate(
    noise: str,
    groups: int,
    *,
    change: float = 0.0,
    looks: int = 1,
    runs: int = 2000,
    boots: int = 1,
    seed: int = 1,
) -> Rates:
    """`runs` runs of at most `groups` groups each, where new takes `change` (a fraction) more.

    With several looks a run ends at the first with a verdict.  With several boots the groups are
    shared out among them, and a kernel's boots differ by 1 %.
    """
    rng = np.random.default_rng(seed)
    plan = plan_looks(1 - CONFIDENCE, looks)
    begun = time.perf_counter()
    found = [judge(run, plan) for run in _made_up(rng, noise, groups, change, runs, boots)]
    seconds = time.perf_counter() - begun
    verdicts = Counter(one.verdict for one in found)
    lows, highs = np.array([one.interval for one in found]).T
    return Rates(
        runs,
        better=verdicts["better"] / runs,
        worse=verdicts["worse"] / runs,
        same=verdicts["same"] / runs,
        covered=float(np.mean((lows <= change) & (change <= highs))),
        groups=float(np.mean([one.groups for one in found])),
        half_width=float(np.mean(highs - lows) / 2),
        seconds=seconds,
    )


def simulate_false_positives(
    runs: int, *, noise: str = "normal", groups: int = 30, looks: int = 1, seed: int = 1
) -> tuple[float, float]:
    """(share of `runs` runs without any change that say better or worse, seconds it took)."""
    rates = simulate(noise, groups, looks=looks, runs=runs, seed=seed)
    return rates.decided, rates.seconds


def _made_up(
    rng: np.random.Generator, noise: str, groups: int, change: float, runs: int, boots: int
) -> Iterator[list[Group]]:
    for _ in range(runs):
        values = NOISES[noise](rng, groups)
        boot = np.arange(groups) * boots // groups
        if boots > 1:
            values = values + rng.normal(0, PROCESS, (boots, 4))[boot]
        values[:, 1:3] += np.log1p(change)
        rows = np.exp(values).tolist()
        yield [Group(int(at), (a, d), (b, c)) for at, (a, b, c, d) in zip(boot, rows, strict=True)]


def judge(run: list[Group], plan: Sequence[Look]) -> Effect:
    """The verdict of a run that is looked at as planned, and ends with the first verdict."""
    if len(plan) == 1:
        return compare_groups(run, confidence=CONFIDENCE)
    for look in plan:
        found = compare_groups(run[: round(look.fraction * len(run))], look=look)
        if found.verdict != "undecided":
            break
    return found


def interval_misses(noise: str, groups: int, runs: int, seed: int = 1) -> dict[str, float]:
    """Shares of intervals of the effect that miss the truth: kentry's, and two bootstraps'."""
    rng = np.random.default_rng(seed)
    missed = dict.fromkeys(("kentry", "percentile", "BCa"), 0)
    for run in _made_up(rng, noise, groups, 0.0, runs, boots=1):
        low, high = compare_groups(run, confidence=CONFIDENCE).interval
        missed["kentry"] += not low <= 0 <= high
        effects = [np.mean(np.log(one.new)) - np.mean(np.log(one.old)) for one in run]
        for method in ("percentile", "BCa"):
            found = stats.bootstrap(
                (effects,),
                _trimmed_along,
                vectorized=True,
                confidence_level=CONFIDENCE,
                n_resamples=1999,
                method=method,
                rng=rng,
            ).confidence_interval
            missed[method] += not found.low <= 0 <= found.high
    return {name: count / runs for name, count in missed.items()}


def _trimmed_along(values: Array, axis: int = -1) -> Array:
    """As scipy calls a statistic of many samples at once."""
    return trimmed_mean(np.moveaxis(values, axis, -1))


_TITLES = ("groups", "looks", "covered", "false", "half-width", "used")
_CHANGE_TITLES = ("groups", "looks", "change", "found", "wrong", "same", "used")


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=2000, help="runs a row (2000)")
    runs = parser.parse_args().runs
    print(
        "Intervals at 99 % that miss\n" + _line("noise", ("groups", "kentry", "percentile", "BCa"))
    )
    for noise in ("normal", "lognormal", "two-layouts"):
        for groups in (6, 12, 30):
            misses = interval_misses(noise, groups, runs).values()
            print(_line(noise, [groups, *(f"{share:.2%}" for share in misses)]), flush=True)
    print()
    print("No change\n" + _line("noise", _TITLES))
    for noise in NOISES:
        for groups, looks in ((6, 1), (12, 1), (30, 1), (200, 1), (60, 5), (200, 5)):
            one = simulate(noise, groups, looks=looks, runs=runs)
            shares = [f"{share:.2%}" for share in (one.covered, one.decided, one.half_width)]
            print(_line(noise, [groups, looks, *shares, f"{one.groups:.1f}"]), flush=True)
    print("\nA change\n" + _line("noise", _CHANGE_TITLES))
    for noise in NOISES:
        for groups, looks, change in ((30, 1, 0.01), (200, 1, 0.005), (200, 5, 0.005)):
            one = simulate(noise, groups, looks=looks, change=change, runs=runs)
            shares = [f"{share:.2%}" for share in (change, one.worse, one.better, one.same)]
            print(_line(noise, [groups, looks, *shares, f"{one.groups:.1f}"]), flush=True)


def _line(name: str, cells: Sequence[object]) -> str:
    return f"{name:20}" + "".join(f"{cell!s:>11}" for cell in cells)


if __name__ == "__main__":
    main()
