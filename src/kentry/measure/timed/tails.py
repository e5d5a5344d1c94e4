# SPDX-License-Identifier: GPL-2.0-or-later
"""Calls timed one by one: percentiles and the longest.

The clock is read before and after each call.  The same process also times two readings with nothing
in between, in the same turns, and the median of that is subtracted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from kentry.measure.timed.analysis import metric
from kentry.measure.timed.output import Output, Process, quantile
from kentry.measure.timed.sampling import check
from kentry.model.recording import NoisyMetric, TimedProcess
from kentry.runners.machine import Machine

SHARES = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999}
# An interval is over groups; a group has TURNS turns of CALLS calls.
GROUPS, TURNS, CALLS = 10, 10, 10_000
# A call with its readings of the clock takes less than this.
_MOST_SECONDS_A_CALL, _PATIENCE_SECONDS = 50e-6, 120.0


@dataclass(frozen=True)
class Tail:
    """One case's calls, ns each without the clock's cost, which is `timer`."""

    name: str
    calls: int
    timer: int
    metrics: dict[str, NoisyMetric]
    longest: int


def time_calls(
    machine: Machine, names: Sequence[str], groups: int, cpu: int, output: Output
) -> None:
    """Has the probe time this many groups of calls of each case; the samples are in `output`."""
    output.begin_run()
    words = ["tails", f"groups={groups}", f"turns={TURNS}", f"calls={CALLS}", f"cpu={cpu}"]
    calls = groups * TURNS * CALLS * len(names)
    timeout = _PATIENCE_SECONDS + _MOST_SECONDS_A_CALL * calls
    machine.run_probe([*words, f"cases={','.join(names)}"], timeout, output.take)
    check(output, machine.name, names, cpu, groups, all_of_them=False)


def tails_of(output: Output, names: Sequence[str]) -> list[Tail]:
    """The tails of the cases that have samples so far."""
    tails = []
    for name in names:
        pairs = [one for one in output.of_case(name) if one[1].bins and one[1].empty_bins]
        if not pairs:
            continue
        calls: Counter[int] = Counter()
        empty: Counter[int] = Counter()
        for _, samples in pairs:
            calls.update(samples.bins)
            empty.update(samples.empty_bins)
        timer = quantile(empty, 0.5)
        metrics = {
            f"{word}_ns": metric(
                [_process(one, quantile(samples.bins, share) - timer) for one, samples in pairs],
                "ns",
                f"mean of groups, each the {word} of its calls, {timer} ns of the clock's taken"
                " off",
            )
            for word, share in SHARES.items()
        }
        longest = [_process(one, max(samples.bins) - timer) for one, samples in pairs]
        metrics["max_ns"] = metric(longest, "ns", "mean of groups, each its longest call")
        tails.append(Tail(name, calls.total(), timer, metrics, max(calls) - timer))
    return tails


def _process(process: Process, ns: int) -> TimedProcess:
    return TimedProcess(0, 0, process.group, process.slot, 1, 0, (ns,))
