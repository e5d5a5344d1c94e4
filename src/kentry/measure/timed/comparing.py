# SPDX-License-Identifier: GPL-2.0-or-later
"""Two cases on one kernel, in one run: ABBA in random order, looked at as planned.

Each pair has four slots, A B B A, in every group, so that a group also compares A with A and B
with B: what those differ by is the floor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from kentry.compare.groups import pair_groups, whole_groups
from kentry.errors import MachineError
from kentry.measure.timed.analysis import NS, metrics_of_pairs
from kentry.measure.timed.output import Output, Process, Samples
from kentry.measure.timed.sampling import PILOT_GROUPS, Sampler
from kentry.model.recording import NoisyMetric
from kentry.progress import Update
from kentry.stats.exact import UNDECIDED
from kentry.stats.noisy import (
    CONFIDENCE,
    LOOKS,
    THRESHOLD,
    Estimate,
    Look,
    apply_holm,
    compare_groups,
    plan_looks,
)

# A pair's slots: A B B A in one run of the probe, B A A B in the next.
SLOTS = 4
_OUTER, _INNER = (0, 3), (1, 2)
LEAST_GROUPS, LEAST_BOOTS = 20, 6


@dataclass(frozen=True)
class Pair:
    """Two cases; `old` is what the percentages are of."""

    old: str
    new: str

    @property
    def slots(self) -> list[str]:
        """In the order of the probe's slots, in even runs of it."""
        return [self.old, self.new, self.new, self.old]

    @property
    def odd_slots(self) -> list[str]:
        """The same in odd runs."""
        return [self.new, self.old, self.old, self.new]

    @property
    def name(self) -> str:
        """As a row of a table."""
        return f"{self.old} -> {self.new}"


@dataclass(frozen=True)
class Plan:
    """When a run ends: after `seconds`, or at a look before, once every row is decided."""

    seconds: float
    threshold: float = THRESHOLD
    confidence: float = CONFIDENCE
    sequential: bool = True
    groups: int | None = None  # instead of seconds

    def looks(self) -> tuple[Look, ...]:
        """The planned looks; one where nobody looks before the end."""
        fractions = LOOKS if self.sequential else (1.0,)
        return plan_looks(1 - self.confidence, fractions)


@dataclass
class Row:
    """A pair, its metrics, and what was found of its time; None where it was not measured."""

    pair: Pair
    old: dict[str, NoisyMetric] = field(default_factory=dict)
    new: dict[str, NoisyMetric] = field(default_factory=dict)
    found: Estimate | None = None


@dataclass(frozen=True)
class Result:
    """All rows, with the look at which the run ended and how many were planned."""

    rows: tuple[Row, ...]
    look: Look
    looks: int
    groups: int
    planned: int
    unit: str = "groups"

    @property
    def options(self) -> dict[str, int]:
        """As a recording has them."""
        return {self.unit: self.groups, "looks": self.looks, "look": self.look.number}


def compare_cases(sampler: Sampler, pairs: Sequence[Pair], plan: Plan, update: Update) -> Result:
    """Measures until every row is decided at a planned look, or the plan is at its end.

    What is counted in the plan are groups, or boots where each run of the probe is one.
    """
    looks = plan.looks()
    unit, least = ("boots", LEAST_BOOTS) if sampler.run_is_boot else ("groups", LEAST_GROUPS)
    done = _pilot(sampler)
    planned = max(least, plan.groups or int(plan.seconds / _seconds_a_unit(sampler)))
    for look in looks:
        wanted = max(least, round(planned * look.fraction))

        def told(ended: int) -> None:
            update(min(1.0, ended / planned), f"{ended} of at most {planned} {unit}")

        _measure(sampler, done, wanted, told)
        done = max(done, wanted)
        rows = judged(sampler.output, pairs, plan, look, sampler.boots)
        if all(row.found and row.found.verdict != UNDECIDED for row in rows):
            break
    return Result(tuple(rows), look, len(looks), done, planned, unit)


def _pilot(sampler: Sampler) -> int:
    """How many units it was."""
    sampler.pilot()
    return 1 if sampler.run_is_boot else PILOT_GROUPS


def _seconds_a_unit(sampler: Sampler) -> float:
    if not sampler.run_is_boot:
        return sampler.seconds_a_group
    return sampler.run_overhead + _groups_a_boot(sampler) * sampler.group_seconds


def _groups_a_boot(sampler: Sampler) -> int:
    """About a second's: more would say more of the same boot."""
    return max(PILOT_GROUPS, int(1 / sampler.group_seconds))


def _measure(sampler: Sampler, done: int, wanted: int, told: Callable[[int], None]) -> None:
    if not sampler.run_is_boot:
        sampler.run(max(0, wanted - done), told)
        return
    for boot in range(done, wanted):
        told(boot)
        sampler.run_in_one(_groups_a_boot(sampler))


def judged(
    output: Output, pairs: Sequence[Pair], plan: Plan, look: Look, boots: Sequence[int] = ()
) -> list[Row]:
    """The rows as they stand at this look, Holm's correction for their number made.

    `boots` is the boot that each run of the probe was in, where they are not all one.
    """
    rows = [_row(output, boots, number, pair, plan, look) for number, pair in enumerate(pairs)]
    found = apply_holm([row.found for row in rows if row.found], 1 - plan.confidence)
    for row, one in zip(rows, found, strict=True):
        row.found = one
    return rows


def _row(
    output: Output, boots: Sequence[int], number: int, pair: Pair, plan: Plan, look: Look
) -> Row:
    old = _of_side(output, number, pair.old, _OUTER, _INNER)
    new = _of_side(output, number, pair.new, _INNER, _OUTER)
    if not old or not new:
        reason = next(iter(output.absent.items()), (pair.name, "the probe did not run it"))
        raise MachineError(
            f"{pair.name} was not timed: {reason[0]} {reason[1]}.", "Compare other cases."
        )
    row = Row(pair, metrics_of_pairs(old, boots), metrics_of_pairs(new, boots))
    groups = whole_groups(pair_groups(row.old[NS].samples, row.new[NS].samples))
    if not groups:
        raise MachineError(
            f"{pair.name} cannot be compared: calls take no longer than reading the clock, whose"
            f" step is {output.resolution:g} ns.",
            "Compare them in blocks: leave +cache= out.",
        )
    row.found = compare_groups(
        groups, threshold=plan.threshold, confidence=plan.confidence, look=look
    )
    return row


def _of_side(
    output: Output, number: int, case: str, even: Sequence[int], odd: Sequence[int]
) -> list[tuple[Process, Samples]]:
    """The processes in the slots of one side of a pair: `even` and `odd` ones of its four."""
    # By name, too: where the line that a case is absent was lost, other slots have its numbers.
    wanted = [{(SLOTS * number + slot, case) for slot in slots} for slots in (even, odd)]
    return [
        pair
        for pair in output.processes.values()
        if (pair[0].slot, pair[0].case) in wanted[pair[0].run % 2]
    ]
