# SPDX-License-Identifier: GPL-2.0-or-later
"""What peers would have said, made of the samples of a kentry run: one side, then the other.

Each estimator makes one number, ns a call, of blocks in the order in which they were timed.  A
peer measures one kernel, then the next; so the first half of a run is A, the second B.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kentry.results.samples import estimate_rows
from kentry.stats import CONFIDENCE
from kentry.stats.verdict import Effect
from kentry.time.measurements import NS, Pair, metrics_of_pair
from kentry.time.sampling import Output, Process

Array = npt.NDArray[np.float64]

# lmbench's bench.h: the number of results of which it prints the median.
TRIES = 11
# UnixBench's Run: the number of passes of a fixed time; it leaves out the third with the lowest
# counts.
PASSES = 10
KENTRY = "kentry"
CASE = "getppid"
NO_CHANGE = Pair(CASE, CASE)


class Blocks(NamedTuple):
    """Blocks in the order in which they were timed."""

    ns: Array
    calls: Array  # in each


def perf_bench(blocks: Blocks) -> float:
    """As `perf bench syscall` does: all the time by all the calls."""
    return float(blocks.ns.sum() / blocks.calls.sum())


def lat_syscall(blocks: Blocks) -> float:
    """As lmbench's lat_syscall does: the median of TRIES means."""
    tries = min(TRIES, blocks.ns.size)
    return float(np.median([perf_bench(part) for part in _parts(blocks, tries)]))


def unix_bench(blocks: Blocks) -> float:
    """As UnixBench's Run does: calls in passes of equal time, the geometric mean of the better.

    A pass ends with the block in which its time is over.
    """
    passes = min(PASSES, blocks.ns.size)
    ends = np.cumsum(blocks.ns)
    of_pass = np.minimum((ends - blocks.ns / 2) * passes / ends[-1], passes - 1).astype(int)
    calls = np.bincount(of_pass, weights=blocks.calls, minlength=passes)
    ns = np.bincount(of_pass, weights=blocks.ns, minlength=passes)
    rates = np.sort(calls[ns > 0] / ns[ns > 0])
    return float(np.exp(-np.log(rates[rates.size // 3 :]).mean()))


ESTIMATORS: dict[str, Callable[[Blocks], float]] = {
    "perf bench": perf_bench,
    "lat_syscall": lat_syscall,
    "UnixBench": unix_bench,
}


def _parts(blocks: Blocks, count: int) -> list[Blocks]:
    pairs = zip(np.array_split(blocks.ns, count), np.array_split(blocks.calls, count), strict=True)
    return [Blocks(ns, calls) for ns, calls in pairs]


def halves(blocks: Blocks) -> tuple[Blocks, Blocks]:
    """The blocks up to half of the time, and the others."""
    ends = np.cumsum(blocks.ns)
    middle = int(np.searchsorted(ends, ends[-1] / 2)) + 1
    middle = min(max(middle, 1), blocks.ns.size - 1)
    return (
        Blocks(blocks.ns[:middle], blocks.calls[:middle]),
        Blocks(blocks.ns[middle:], blocks.calls[middle:]),
    )


def false_differences(blocks: Blocks) -> dict[str, float]:
    """By how much each peer finds the second half of the same thing slower, a fraction."""
    first, second = halves(blocks)
    return {name: one(second) / one(first) - 1 for name, one in ESTIMATORS.items()}


# --- of what the probe said -----------------------------------------------------

Processes = Sequence[Process]


def in_order(processes: Processes) -> Blocks:
    """All blocks of processes in the order of their groups and turns."""
    turns = sorted(
        (process.run, process.group, number, process.slot, process.calls, turn)
        for process in processes
        for number, turn in enumerate(process.turns)
    )
    ns = [value for *_, turn in turns for value in turn]
    calls = [calls for *_, calls, turn in turns for _ in turn]
    return Blocks(np.array(ns, dtype=np.float64), np.array(calls, dtype=np.float64))


def by_group(processes: Processes) -> list[list[Process]]:
    """The processes of each group, groups in their order."""
    groups: dict[tuple[int, int], list[Process]] = {}
    for process in processes:
        groups.setdefault((process.run, process.group), []).append(process)
    return [groups[key] for key in sorted(groups)]


def windows(processes: Processes, groups_each: int) -> list[list[Process]]:
    """Stretches of consecutive groups; an unfinished last one is left out."""
    groups = by_group(processes)
    starts = range(0, len(groups) - groups_each + 1, groups_each)
    return [[one for group in groups[at : at + groups_each] for one in group] for at in starts]


def kentry_comparison(
    processes: Processes, confidence: float = CONFIDENCE, pair: Pair = NO_CHANGE
) -> Effect:
    """What kentry says of a pair's processes if it looks once, at the end."""
    output = Output(processes={(one.run, one.group, one.slot): one for one in processes})
    old, new = metrics_of_pair(output, 0, pair)
    (estimate,) = estimate_rows([(old[NS].samples, new[NS].samples)], confidence)
    assert estimate
    return estimate


def all_differences(processes: Processes) -> dict[str, float]:
    """Of the same samples: what kentry finds, and what its peers do."""
    return {KENTRY: kentry_comparison(processes).effect, **false_differences(in_order(processes))}


# --- many of them ----------------------------------------------------------------


def percentile(differences: Sequence[float], share: float = 0.95) -> float:
    """The share's quantile of their sizes; NaN of none."""
    return float(np.quantile(np.abs(differences), share)) if len(differences) else math.nan


def ratio_interval(
    of: Sequence[float], by: Sequence[float], confidence: float = 0.95, draws: int = 2000
) -> tuple[float, float]:
    """An interval of percentile(of) / percentile(by), measured in pairs: a bootstrap of these."""
    both = np.abs(np.array([of, by], dtype=np.float64))
    if both.shape[1] < 2:
        return math.nan, math.nan
    rng = np.random.default_rng(1)
    drawn = both[:, rng.integers(0, both.shape[1], (draws, both.shape[1]))]
    top = np.quantile(drawn, 0.95, axis=2)
    tail = (1 - confidence) / 2
    low, high = np.quantile(top[0] / np.maximum(top[1], 1e-12), [tail, 1 - tail])
    return float(low), float(high)
