# SPDX-License-Identifier: GPL-2.0-or-later
"""Calls timed one by one: what most take, and what one in a hundred and in a thousand does.

The clock is read before and after each call; what two readings take with nothing between them,
found by the same process in the same turns, is taken off, and said.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from kentry.errors import MachineError
from kentry.measure.timed.analysis import metric
from kentry.measure.timed.output import Output, Process, Samples, quantile
from kentry.measure.timed.sampling import check
from kentry.model.recording import NoisyMetric, TimedProcess
from kentry.runners.machine import Machine

SHARES = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999}
# Turns a group, and groups: an interval is from group to group.
TURNS, GROUPS = 10, 10
# A call one by one, and what its clock takes, is never so slow that the probe need be given up.
_MOST_SECONDS_A_CALL, _PATIENCE_SECONDS = 50e-6, 120.0


@dataclass(frozen=True)
class Tail:
    """One case's calls, ns each, the clock's cost off; `timer` is that cost."""

    name: str
    calls: int
    timer: int
    metrics: dict[str, NoisyMetric]
    longest: int


def time_tails(
    place: Machine, names: Sequence[str], calls: int, cpu: int, output: Output
) -> list[Tail]:
    """So many calls of each case; MachineError as the place has it."""
    a_turn = max(1, calls // (TURNS * GROUPS))
    output.begin_run()
    before = output.groups_ended
    words = ["tails", f"groups={GROUPS}", f"turns={TURNS}", f"calls={a_turn}", f"cpu={cpu}"]
    timeout = _PATIENCE_SECONDS + _MOST_SECONDS_A_CALL * calls * len(names)
    place.run_probe([*words, f"cases={','.join(names)}"], timeout, output.take)
    check(output, place.name, names, cpu)
    ended = output.groups_ended - before
    if ended < GROUPS:
        raise MachineError(
            f"The probe on {place.name} timed {ended} of {GROUPS} groups.",
            "Run again with -v for its command line.",
        )
    return tails_of(output, names)


def tails_of(output: Output, names: Sequence[str]) -> list[Tail]:
    """What there is so far."""
    found = ((name, output.of_case(name)) for name in names)
    return [
        _tail(name, pairs)
        for name, pairs in found
        if any(one.bins and one.empty_bins for _, one in pairs)
    ]


def _tail(name: str, pairs: Sequence[tuple[Process, Samples]]) -> Tail:
    whole: Counter[int] = Counter()
    empty: Counter[int] = Counter()
    pairs = [(one, samples) for one, samples in pairs if samples.bins and samples.empty_bins]
    for _, samples in pairs:
        whole.update(samples.bins)
        empty.update(samples.empty_bins)
    timer = quantile(empty, 0.5)
    metrics = {
        f"{word}_ns": metric(
            [
                _process(process, quantile(samples.bins, share) - timer)
                for process, samples in pairs
            ],
            "ns",
            f"mean of groups, each the {word} of its calls, {timer} ns of the clock's taken off",
        )
        for word, share in SHARES.items()
    }
    longest = [_process(one, max(samples.bins) - timer) for one, samples in pairs]
    metrics["max_ns"] = metric(longest, "ns", "mean of groups, each its longest call")
    return Tail(name, whole.total(), timer, metrics, max(whole) - timer)


def _process(process: Process, ns: int) -> TimedProcess:
    return TimedProcess(0, 0, process.group, process.slot, 1, (ns,), 0)
