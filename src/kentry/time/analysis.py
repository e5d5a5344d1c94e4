# SPDX-License-Identifier: GPL-2.0-or-later
"""The probe's output as metrics of cases: the samples as they were taken, and their intervals.

Nothing is subtracted from calls in blocks: the loop takes a nanosecond or two and is a metric of
its own.  The cost of reading the clock, timed by the same process behind the same walk through
memory, is subtracted from calls timed one by one.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mode

from kentry.results.case_name import CaseName
from kentry.results.recording import NoisyMetric, TimedProcess
from kentry.results.samples import values_by_boot, values_by_group
from kentry.stats import CONFIDENCE
from kentry.stats.estimators import level_interval
from kentry.stats.verdict import Group, compare_groups
from kentry.time.output import Output, Process, quantile

NS, LOOP = "ns", "loop_ns"
IN_BLOCKS = "mean of processes, each its turns' 10th percentile of blocks"
ONE_BY_ONE = "mean of processes, each of its calls but the longest 5 %, the clock's cost off"
COUNTED = "mean of processes, each the median of its turns"
# The percentiles of calls timed one by one.
SHARES = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999}


@dataclass(frozen=True)
class Tail:
    """One case's calls, ns each without the clock's cost, which is `timer`."""

    name: str
    calls: int
    timer: int
    metrics: dict[str, NoisyMetric]
    longest: int


def metrics_of(output: Output, name: str) -> dict[str, NoisyMetric]:
    """Returns every metric of a case."""
    return metrics_of_processes(output.of_case(name))


def metrics_of_processes(processes: Sequence[Process]) -> dict[str, NoisyMetric]:
    """Returns the metrics of processes that ran the same case; {} if none has a time."""
    processes = [process for process in processes if any(process.turns)]
    if not processes:
        return {}
    one_by_one = CaseName.parse(processes[0].case).cache is not None
    timed, loops = [], []
    for process in processes:
        # A serial line may have cut a turn: only those of the commonest length count.
        length = mode(map(len, process.turns))
        values = tuple(ns for turn in process.turns if len(turn) == length for ns in turn)
        empties = tuple(ns for turn in process.empties for ns in turn)
        if one_by_one:
            timed.append(_process(process, process.calls, values, 0, empties))
        else:
            timed.append(_process(process, process.calls, values, length or 1))
            loops.append(_process(process, process.calls, empties, 1))
    metrics = {NS: metric(timed, "ns", ONE_BY_ONE if one_by_one else IN_BLOCKS)}
    if any(loop.values for loop in loops):
        metrics[LOOP] = metric(loops, "ns", IN_BLOCKS)
    for counter in dict.fromkeys(name for process in processes for name in process.counted):
        counted = []
        for process in processes:
            counts = process.counted.get(counter, [])
            calls = counts[0][1] if counts else 1
            counted.append(_process(process, calls, tuple(count for count, _ in counts), 0))
        metrics[counter] = metric(counted, counter.partition("-")[2], COUNTED)
    return metrics


def _process(
    process: Process,
    calls: int,
    values: tuple[int, ...],
    blocks: int,
    empties: tuple[int, ...] = (),
) -> TimedProcess:
    """Makes a recording's process; the groups of all runs are numbered consecutively."""
    group = process.run * 100_000 + process.group
    return TimedProcess(0, process.boot, group, process.slot, calls, blocks, values, empties)


def metric(processes: Sequence[TimedProcess], unit: str, estimator: str) -> NoisyMetric:
    """Returns the value of these processes, its interval, and the noise floor of the run."""
    processes = [process for process in processes if process.values]
    level = level_interval(list(values_by_boot(processes).values()))
    has_interval = level.low == level.low
    floor = detectable = None
    # The first half of a group's slots against the second: the same case on both sides.
    halves = [
        Group(boot, tuple(values[:half]), tuple(values[half : 2 * half]))
        for (boot, _), values in values_by_group(processes).items()
        if (half := len(values) // 2) and min(values) > 0
    ]
    if halves:
        estimate = compare_groups(halves)
        largest = max(map(abs, estimate.interval))
        if largest == largest:
            floor, detectable = largest, estimate.detectable
    return NoisyMetric(
        value=level.estimate,
        unit=unit,
        samples=tuple(processes),
        interval=(level.low, level.high) if has_interval else None,
        confidence=CONFIDENCE if has_interval else None,
        floor=floor,
        detectable=detectable,
        estimator=estimator,
    )


def tails_of(output: Output, names: Sequence[str]) -> list[Tail]:
    """Returns the tails of the cases so far; the median reading of the clock is subtracted."""
    tails = []
    for name in names:
        processes = [one for one in output.of_case(name) if one.bins and one.empty_bins]
        if not processes:
            continue
        calls: Counter[int] = Counter()
        empty: Counter[int] = Counter()
        for process in processes:
            calls.update(process.bins)
            empty.update(process.empty_bins)
        timer = quantile(empty, 0.5)
        metrics = {
            f"{word}_ns": metric(
                [
                    _process(process, 1, (quantile(process.bins, share) - timer,), 0)
                    for process in processes
                ],
                "ns",
                f"mean of groups, each the {word} of its calls, {timer} ns of the clock's taken"
                " off",
            )
            for word, share in SHARES.items()
        }
        longest = [_process(process, 1, (max(process.bins) - timer,), 0) for process in processes]
        metrics["max_ns"] = metric(longest, "ns", "mean of groups, each its longest call")
        tails.append(Tail(name, calls.total(), timer, metrics, max(calls) - timer))
    return tails
