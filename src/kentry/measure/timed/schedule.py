# SPDX-License-Identifier: GPL-2.0-or-later
"""When a comparison ends: the one loop of planned looks (interim analyses)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kentry.compare.groups import pair_groups, whole_groups
from kentry.measure.timed.analysis import NS
from kentry.model.recording import NoisyMetric
from kentry.stats import CONFIDENCE, THRESHOLD
from kentry.stats.exact import UNDECIDED
from kentry.stats.sequential import LOOKS, Look, plan_looks
from kentry.stats.verdict import Estimate, apply_holm, compare_groups

Metrics = Mapping[str, NoisyMetric]


@dataclass(frozen=True)
class Schedule:
    """A comparison lasts `seconds`, or ends at an earlier look once every row is decided.

    With `groups` it has that many groups instead; if not `sequential`, only one look at its end.
    `threshold` is a fraction: changes up to it count as none.
    """

    seconds: float
    threshold: float = THRESHOLD
    confidence: float = CONFIDENCE
    sequential: bool = True
    groups: int | None = None

    def looks(self) -> tuple[Look, ...]:
        """The planned looks."""
        return plan_looks(1 - self.confidence, LOOKS if self.sequential else (1.0,))


Rows = list[Estimate | None]


@dataclass(frozen=True)
class Ending:
    """Where a comparison ended: an estimate a row (None: not measured), the look, units measured.

    A unit is what a look counts: groups, boots or rounds; at most `planned` of them.
    """

    rows: Rows
    look: Look
    looks: int
    done: int
    planned: int
    unit: str

    @property
    def options(self) -> dict[str, int]:
        """As a recording has them."""
        return {self.unit: self.done, "looks": self.looks, "look": self.look.number}


def run_schedule(
    schedule: Schedule,
    planned: int,
    least: int,
    unit: str,
    measure: Callable[[int], None],
    estimate: Callable[[Look], Rows],
) -> Ending:
    """Measures up to each planned look, at least `least` units, until every row is decided.

    `measure` is called with the number of units that must exist, `estimate` with the look.
    """
    looks = schedule.looks()
    done = 0
    for look in looks:
        done = max(done, least, round(planned * look.fraction))
        measure(done)
        rows = estimate(look)
        measured = [row for row in rows if row]
        if measured and all(row.verdict != UNDECIDED for row in measured):
            break
    return Ending(rows, look, len(looks), done, planned, unit)


def estimate_rows(sides: Sequence[tuple[Metrics, Metrics]], schedule: Schedule, look: Look) -> Rows:
    """The time of new against old in each row that has groups of both, with Holm's correction."""
    groups = [
        whole_groups(pair_groups(old[NS].samples, new[NS].samples))
        if NS in old and NS in new
        else []
        for old, new in sides
    ]
    estimates = [
        compare_groups(row, threshold=schedule.threshold, confidence=schedule.confidence, look=look)
        for row in groups
        if row
    ]
    corrected = iter(apply_holm(estimates, 1 - schedule.confidence))
    return [next(corrected) if row else None for row in groups]
