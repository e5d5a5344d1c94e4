# SPDX-License-Identifier: GPL-2.0-or-later
"""Two cases on one kernel, in one run: ABBA in random order, looked at as planned.

Each pair has four slots, A B B A, in every group, so that a group also compares A with A and B
with B: what those differ by is the floor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from kentry.errors import PlaceError
from kentry.progress import Update
from kentry.recording import NoisyMetric, TimedProcess
from kentry.stats.exact import UNDECIDED
from kentry.stats.noisy import (
    CONFIDENCE,
    LOOKS,
    THRESHOLD,
    Comparison,
    Group,
    Look,
    Sequential,
    apply_holm,
    compare_groups,
)
from kentry.timing.analysis import NS, metrics_of_pairs
from kentry.timing.output import Output, Process, Samples
from kentry.timing.sampling import PILOT_GROUPS, Sampler
from kentry.timing.values import process_values

# Which slots of its four are A's.
OLD_SLOTS, NEW_SLOTS = (0, 3), (1, 2)
SLOTS = 4
LEAST_GROUPS = 20


@dataclass(frozen=True)
class Pair:
    """Two cases; `old` is what the percentages are of."""

    old: str
    new: str

    @property
    def slots(self) -> list[str]:
        """In the order of the probe's slots."""
        return [self.old, self.new, self.new, self.old]

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
        return Sequential(1 - self.confidence, fractions).looks


@dataclass
class Row:
    """A pair, its metrics, and what was found of its time; None where it was not measured."""

    pair: Pair
    old: dict[str, NoisyMetric] = field(default_factory=dict)
    new: dict[str, NoisyMetric] = field(default_factory=dict)
    found: Comparison | None = None


@dataclass(frozen=True)
class Result:
    """All rows, with the look at which the run ended and how many were planned."""

    rows: tuple[Row, ...]
    look: Look
    looks: int
    groups: int
    planned: int

    @property
    def options(self) -> dict[str, int]:
        """As a recording has them."""
        return {"groups": self.groups, "looks": self.looks, "look": self.look.number}


def compare_cases(sampler: Sampler, pairs: Sequence[Pair], plan: Plan, update: Update) -> Result:
    """Measures until every row is decided at a planned look, or the plan is at its end."""
    looks = plan.looks()
    sampler.pilot()
    planned = plan.groups or max(LEAST_GROUPS, int(plan.seconds / sampler.seconds_a_group))
    done = PILOT_GROUPS
    for look in looks:
        wanted = max(LEAST_GROUPS, round(planned * look.fraction))
        sampler.run(
            max(0, wanted - done),
            lambda ended: update(ended / planned, f"{ended} of at most {planned} groups"),
        )
        done = max(done, wanted)
        rows = judged(sampler.output, pairs, plan, look)
        if all(row.found and row.found.verdict != UNDECIDED for row in rows):
            break
    return Result(tuple(rows), look, len(looks), done, planned)


def judged(output: Output, pairs: Sequence[Pair], plan: Plan, look: Look) -> list[Row]:
    """The rows as they stand at this look, Holm's correction for their number made."""
    rows = [_row(output, number, pair, plan, look) for number, pair in enumerate(pairs)]
    found = apply_holm([row.found for row in rows if row.found], 1 - plan.confidence)
    for row, one in zip(rows, found, strict=True):
        row.found = one
    return rows


def _row(output: Output, number: int, pair: Pair, plan: Plan, look: Look) -> Row:
    old = _of_slots(output, number, OLD_SLOTS)
    new = _of_slots(output, number, NEW_SLOTS)
    if not old or not new:
        reason = next(iter(output.absent.items()), (pair.name, "the probe did not run it"))
        raise PlaceError(
            f"{pair.name} was not timed: {reason[0]} {reason[1]}.", "Compare other cases."
        )
    row = Row(pair, metrics_of_pairs(old), metrics_of_pairs(new))
    groups = paired_groups(row.old[NS].samples, row.new[NS].samples)
    row.found = compare_groups(
        groups, threshold=plan.threshold, confidence=plan.confidence, looks=look
    )
    return row


def _of_slots(output: Output, number: int, slots: Sequence[int]) -> list[tuple[Process, Samples]]:
    wanted = {SLOTS * number + slot for slot in slots}
    return [pair for pair in output.processes.values() if pair[0].slot in wanted]


def paired_groups(old: Sequence[TimedProcess], new: Sequence[TimedProcess]) -> list[Group]:
    """Groups that have both sides, whole."""
    sides: list[dict[tuple[int, int], list[TimedProcess]]] = [{}, {}]
    for side, processes in zip(sides, (old, new), strict=True):
        for one in processes:
            side.setdefault((one.boot, one.group), []).append(one)
    return [
        Group(key[0], tuple(process_values(sides[0][key])), tuple(process_values(sides[1][key])))
        for key in sides[0]
        if len(sides[0][key]) == len(sides[1].get(key, ())) > 0
    ]
