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

# A pair's slots: A B B A in one run of the probe, B A A B in the next.
SLOTS = 4
_OUTER, _INNER = (0, 3), (1, 2)
LEAST_GROUPS = 20


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
    planned = max(LEAST_GROUPS, plan.groups or int(plan.seconds / sampler.seconds_a_group))
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
    old = _of_side(output, number, pair.old, _OUTER, _INNER)
    new = _of_side(output, number, pair.new, _INNER, _OUTER)
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
