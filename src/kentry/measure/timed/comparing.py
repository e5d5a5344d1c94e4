# SPDX-License-Identifier: GPL-2.0-or-later
"""Pairs of cases on one kernel, interleaved in one run.

Each pair has four slots, A B B A, in every group.  So a group also compares A with A and B with B,
and the noise floor is how much those differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kentry.errors import MachineError
from kentry.measure.timed.analysis import metrics_of_pairs
from kentry.measure.timed.output import Output
from kentry.measure.timed.sampling import PILOT_GROUPS, Sampler
from kentry.measure.timed.schedule import (
    Ending,
    Metrics,
    Rows,
    Schedule,
    estimate_rows,
    run_schedule,
)
from kentry.progress import Update
from kentry.stats.sequential import Look

SLOTS = 4
# The slots of A in even runs of the probe and of B in odd ones; and the other way round.
_OUTER, _INNER = (0, 3), (1, 2)
LEAST_GROUPS, LEAST_BOOTS = 20, 6


@dataclass(frozen=True)
class Pair:
    """Two cases; percentages are of `old`."""

    old: str
    new: str

    @property
    def slots(self) -> list[str]:
        """The cases of the probe's slots in even runs."""
        return [self.old, self.new, self.new, self.old]

    @property
    def odd_slots(self) -> list[str]:
        """The cases of the probe's slots in odd runs."""
        return [self.new, self.old, self.old, self.new]

    @property
    def name(self) -> str:
        """As a row of a table."""
        return f"{self.old} -> {self.new}"


def compare_cases(
    sampler: Sampler, pairs: Sequence[Pair], schedule: Schedule, update: Update
) -> Ending:
    """Measures until every pair is decided at a planned look, or the schedule ends.

    The unit of the schedule is a group, or a boot if each run of the probe is one.
    """
    sampler.pilot()
    unit, least, measured, seconds = "groups", LEAST_GROUPS, PILOT_GROUPS, sampler.seconds_a_group
    a_boot = 0
    if sampler.run_is_boot:
        # About a second a boot: more groups would tell more about the same boot only.
        a_boot = max(PILOT_GROUPS, int(1 / sampler.group_seconds))
        unit, least, measured = "boots", LEAST_BOOTS, 1
        seconds = sampler.run_overhead + a_boot * sampler.group_seconds
    planned = max(least, schedule.groups or int(schedule.seconds / seconds))

    def show(ended: int) -> None:
        update(min(1.0, ended / planned), f"{ended} of at most {planned} {unit}")

    def measure(count: int) -> None:
        nonlocal measured
        if not sampler.run_is_boot:
            sampler.run(max(0, count - measured), show)
        for boot in range(measured, count if sampler.run_is_boot else 0):
            show(boot)
            sampler.run_in_one(a_boot)
        measured = max(measured, count)

    return run_schedule(
        schedule,
        planned,
        least,
        unit,
        measure,
        lambda look: estimate_pairs(sampler.output, pairs, schedule, look, sampler.boots),
    )


def estimate_pairs(
    output: Output, pairs: Sequence[Pair], schedule: Schedule, look: Look, boots: Sequence[int] = ()
) -> Rows:
    """The estimate of each pair at this look; MachineError if one cannot be compared.

    `boots` is the boot of each run of the probe, if they are not all in one.
    """
    sides = [metrics_of_pair(output, number, pair, boots) for number, pair in enumerate(pairs)]
    rows = estimate_rows(sides, schedule, look)
    for pair, row in zip(pairs, rows, strict=True):
        if row is None:
            raise MachineError(
                f"{pair.name} cannot be compared: calls take no longer than reading the clock,"
                f" whose step is {output.resolution:g} ns.",
                "Compare them in blocks: leave +cache= out.",
            )
    return rows


def metrics_of_pair(
    output: Output, number: int, pair: Pair, boots: Sequence[int]
) -> tuple[Metrics, Metrics]:
    """The metrics of both sides of the pair with this number; MachineError if it was not timed."""
    sides = []
    for case, even, odd in ((pair.old, _OUTER, _INNER), (pair.new, _INNER, _OUTER)):
        # The name counts too: if the line about an absent case was lost, others have its slots.
        slots = [{(SLOTS * number + slot, case) for slot in of_run} for of_run in (even, odd)]
        processes = [
            one
            for one in output.processes.values()
            if (one[0].slot, one[0].case) in slots[one[0].run % 2]
        ]
        if not processes:
            reason = next(iter(output.absent.items()), (pair.name, "the probe did not run it"))
            raise MachineError(
                f"{pair.name} was not timed: {reason[0]} {reason[1]}.", "Compare other cases."
            )
        sides.append(metrics_of_pairs(processes, boots))
    return sides[0], sides[1]
