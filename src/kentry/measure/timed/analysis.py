# SPDX-License-Identifier: GPL-2.0-or-later
"""What the probe said -> metrics of cases: samples as they were taken, and numbers with intervals.

Of calls in blocks nothing is taken off: a loop costs a nanosecond or two, and is a metric of its
own.  Of calls one by one the cost of reading the clock is, as the same process found it behind
the same walk through memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from kentry.compare.groups import values_by_boot, values_by_group
from kentry.measure.timed.output import Output, Process, Samples
from kentry.model.case_name import CaseName
from kentry.model.recording import NoisyMetric, TimedProcess
from kentry.stats.noisy import CONFIDENCE, Group, compare_groups, level_interval

NS, LOOP = "ns", "loop_ns"
IN_BLOCKS = "mean of processes, each its turns' 10th percentile of blocks"
ONE_BY_ONE = "mean of processes, each of its calls but the longest 5 %, the clock's cost off"
COUNTED = "mean of processes, each the median of its turns"


def metrics_of(output: Output, name: str, boots: Sequence[int] = ()) -> dict[str, NoisyMetric]:
    """Every metric of a case; `boots` is the boot that each run of the probe was in."""
    pairs = [pair for pair in output.of_case(name) if any(pair[1].turns)]
    if not pairs:
        return {}
    return metrics_of_pairs(pairs, boots)


def metrics_of_pairs(
    pairs: Iterable[tuple[Process, Samples]], boots: Sequence[int] = ()
) -> dict[str, NoisyMetric]:
    """The metrics of processes that ran the same case."""
    pairs = list(pairs)
    one_by_one = CaseName.parse(pairs[0][0].case).is_one_by_one
    timed = [_timed(process, samples, one_by_one, boots) for process, samples in pairs]
    found = {NS: metric(timed, "ns", ONE_BY_ONE if one_by_one else IN_BLOCKS)}
    if not one_by_one:
        loops = [_loop(process, samples, boots) for process, samples in pairs]
        if any(one.values for one in loops):
            found[LOOP] = metric(loops, "ns", IN_BLOCKS)
    counters = dict.fromkeys(name for _, samples in pairs for name in samples.counted)
    for counter in counters:
        counted = [_counted(process, samples, counter, boots) for process, samples in pairs]
        found[counter] = metric(counted, counter.partition("-")[2], COUNTED)
    return found


def _place(process: Process, boots: Sequence[int]) -> tuple[int, int, int, int]:
    """Build, boot, group, slot: groups of all runs are numbered through."""
    boot = boots[process.run] if boots else 0
    return 0, boot, process.run * 100_000 + process.group, process.slot


def _timed(
    process: Process, samples: Samples, one_by_one: bool, boots: Sequence[int]
) -> TimedProcess:
    turns = whole_turns(samples.turns)
    values = tuple(ns for turn in turns for ns in turn)
    empties = tuple(ns for turn in samples.empties for ns in turn)
    blocks = 0 if one_by_one else max((len(turn) for turn in turns), default=1)
    place = _place(process, boots)
    return TimedProcess(*place, process.calls, values, blocks, empties if one_by_one else ())


def whole_turns(turns: Sequence[Sequence[int]]) -> list[Sequence[int]]:
    """Those of the commonest length: a serial line may have cut another."""
    lengths = Counter(len(turn) for turn in turns)
    length = lengths.most_common(1)[0][0] if lengths else 0
    return [turn for turn in turns if len(turn) == length]


def _loop(process: Process, samples: Samples, boots: Sequence[int]) -> TimedProcess:
    values = tuple(ns for turn in samples.empties for ns in turn)
    return TimedProcess(*_place(process, boots), process.calls, values, 1)


def _counted(
    process: Process, samples: Samples, counter: str, boots: Sequence[int]
) -> TimedProcess:
    counts = samples.counted.get(counter, [])
    calls = counts[0][1] if counts else 1
    values = tuple(count for count, _ in counts)
    return TimedProcess(*_place(process, boots), calls, values, 0)


def metric(processes: Sequence[TimedProcess], unit: str, estimator: str) -> NoisyMetric:
    """The number of these processes, its interval, and what two of the same differed by."""
    processes = [one for one in processes if one.values]
    level = level_interval(list(values_by_boot(processes).values()))
    known = level.low == level.low
    floor, detectable = _floor(processes)
    return NoisyMetric(
        value=level.estimate,
        unit=unit,
        samples=tuple(processes),
        interval=(level.low, level.high) if known else None,
        confidence=CONFIDENCE if known else None,
        floor=floor,
        detectable=detectable,
        estimator=estimator,
    )


def _floor(processes: Sequence[TimedProcess]) -> tuple[float | None, float | None]:
    """By how much two slots of one case differed, and what change could have been seen."""
    pairs = []
    for (boot, _), values in values_by_group(processes).items():
        half = len(values) // 2
        if half and min(values) > 0:
            pairs.append(Group(boot, tuple(values[:half]), tuple(values[half : 2 * half])))
    if not pairs:
        return None, None
    found = compare_groups(pairs)
    low, high = found.interval
    floor = max(abs(low), abs(high))
    return (floor, found.detectable) if floor == floor else (None, None)
