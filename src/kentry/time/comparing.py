# SPDX-License-Identifier: GPL-2.0-or-later
"""Comparisons: pairs of cases on one kernel, or two kernels, always interleaved.

The one loop of planned looks (interim analyses) is run_looks().

Each pair of cases has four slots, A B B A, in every group of a run.  So a group also compares A
with A and B with B, and the noise floor is how much those differ.

Two kernels are booted A, B, B, A or B, A, A, B in each round, and the boots are the sample.  What
differs from boot to boot (which pages, which cpu has the timer) would otherwise look like a
difference of the kernels.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from kentry.errors import MachineError, UserError
from kentry.kernels.kernel import Kernel
from kentry.machines.machine import Machine
from kentry.progress import Update
from kentry.results.recording import NoisyMetric, TimedProcess
from kentry.results.samples import estimate_rows
from kentry.stats import CONFIDENCE, THRESHOLD
from kentry.stats.exact import UNDECIDED
from kentry.stats.sequential import LOOKS, Look, plan_looks
from kentry.stats.verdict import Effect
from kentry.time.analysis import NS, metrics_of, metrics_of_pairs
from kentry.time.output import Output
from kentry.time.sampling import PILOT_GROUPS, Extent, Sampler, Settings

SLOTS = 4
# The slots of A in even runs of the probe and of B in odd ones; and the other way round.
_OUTER, _INNER = (0, 3), (1, 2)
LEAST_GROUPS, LEAST_BOOTS = 20, 6
# The rounds of the first look: fewer have no interval; and the most, unless told otherwise.
LEAST_ROUNDS, ROUNDS = 6, 12
_REMEDY = "Look at its boot loader; --boot says how kernels are switched."

Metrics = Mapping[str, NoisyMetric]
Rows = list[Effect | None]


@dataclass(frozen=True)
class Schedule:
    """A comparison lasts `extent`, or ends at an earlier look once every row is decided.

    Two kernels have at most ROUNDS rounds unless `extent` is their number.  `threshold` is a
    fraction: changes up to it count as none.
    """

    extent: Extent
    threshold: float = THRESHOLD

    def check(self, least: int) -> None:
        """Raises UserError if fewer than `least` groups or rounds are asked for."""
        if isinstance(self.extent, int) and self.extent < least:
            raise UserError(
                f"--for {self.extent} is too few for an interval.", f"Write --for {least} or more."
            )


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


def run_looks(
    planned: int,
    least: int,
    unit: str,
    measure: Callable[[int, int], None],
    estimate: Callable[[Look], Rows],
) -> Ending:
    """Measures up to each planned look, at least `least` units, until every row is decided.

    `measure` is called with the number of units so far and the number that must exist, `estimate`
    with the look.
    """
    looks = plan_looks(1 - CONFIDENCE, LOOKS)
    done = 0
    for look in looks:
        before, done = done, max(done, least, round(planned * look.fraction))
        measure(before, done)
        rows = estimate(look)
        measured = [row for row in rows if row]
        if measured and all(row.verdict != UNDECIDED for row in measured):
            break
    return Ending(rows, look, len(looks), done, planned, unit)


def estimate_times(
    sides: Sequence[tuple[Metrics, Metrics]], schedule: Schedule, look: Look
) -> Rows:
    """Compares the times of each row; None where old and new have no groups in common."""
    return estimate_rows(
        [(_times(old), _times(new)) for old, new in sides], threshold=schedule.threshold, look=look
    )


def _times(metrics: Metrics) -> Sequence[TimedProcess]:
    return metrics[NS].samples if NS in metrics else ()


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
    sampler.run(PILOT_GROUPS)
    unit, least, piloted, seconds = "groups", LEAST_GROUPS, PILOT_GROUPS, sampler.seconds_a_group
    a_boot = 0
    if sampler.run_is_boot:
        # About a second a boot: more groups would tell more about the same boot only.
        a_boot = max(PILOT_GROUPS, int(1 / sampler.group_seconds))
        unit, least, piloted = "boots", LEAST_BOOTS, 1
        seconds = sampler.run_overhead + a_boot * sampler.group_seconds
    extent = schedule.extent
    planned = max(least, extent if isinstance(extent, int) else int(extent / seconds))

    def show(ended: int) -> None:
        update(min(1.0, ended / planned), f"{ended} of at most {planned} {unit}")

    def measure(before: int, count: int) -> None:
        before = max(before, piloted)
        if not sampler.run_is_boot:
            sampler.run(count - before, show)
        for boot in range(before, count if sampler.run_is_boot else 0):
            show(boot)
            sampler.run_in_one(a_boot)

    return run_looks(
        planned,
        least,
        unit,
        measure,
        lambda look: estimate_pairs(sampler.output, pairs, schedule, look),
    )


def estimate_pairs(output: Output, pairs: Sequence[Pair], schedule: Schedule, look: Look) -> Rows:
    """Returns the estimate of each pair at this look; MachineError if one cannot be compared."""
    sides = [metrics_of_pair(output, number, pair) for number, pair in enumerate(pairs)]
    rows = estimate_times(sides, schedule, look)
    for pair, row in zip(pairs, rows, strict=True):
        if row is None:
            raise MachineError(
                f"{pair.name} cannot be compared: calls take no longer than reading the clock,"
                f" whose step is {output.resolution:g} ns.",
                "Compare them in blocks: leave +cache= out.",
            )
    return rows


def metrics_of_pair(output: Output, number: int, pair: Pair) -> tuple[Metrics, Metrics]:
    """Returns both sides' metrics of the pair with this number; MachineError if it has none."""
    sides = []
    for case, even, odd in ((pair.old, _OUTER, _INNER), (pair.new, _INNER, _OUTER)):
        # The name counts too: if the line about an absent case was lost, others have its slots.
        slots = [{(SLOTS * number + slot, case) for slot in of_run} for of_run in (even, odd)]
        processes = [
            (process, samples)
            for process, samples in output.processes.values()
            if (process.slot, process.case) in slots[process.run % 2]
        ]
        if not processes:
            reason = next(iter(output.absent.items()), (pair.name, "the probe did not run it"))
            raise MachineError(
                f"{pair.name} was not timed: {reason[0]} {reason[1]}.", "Compare other cases."
            )
        sides.append(metrics_of_pairs(processes))
    return sides[0], sides[1]


@dataclass
class KernelRuns:
    """One of the kernels: what the probe printed in all its boots, and the file that was booted."""

    kernel: str
    output: Output = field(default_factory=Output)
    booted: Kernel | None = None


@dataclass(frozen=True)
class BootPlan:
    """What is measured in each boot of a kernel."""

    cases: Sequence[str]
    settings: Settings
    groups: int = 20


def compare_kernels(
    machine: Machine,
    sides: tuple[KernelRuns, KernelRuns],
    plan: BootPlan,
    schedule: Schedule,
    update: Update,
) -> Ending:
    """Boots the two interleaved until every case is decided at a planned look, or to the end.

    What was measured is in `sides`, however it ends.  Rows are those of `plan.cases`.
    """
    old, new = (side.output for side in sides)
    planned = schedule.extent if isinstance(schedule.extent, int) else ROUNDS
    order = random.Random(plan.settings.seed)  # noqa: S311

    def measure(before: int, count: int) -> None:
        for number in range(before, count):

            def show(fraction: float | None, now: str, number: int = number) -> None:
                update(number / planned, f"round {number + 1} of at most {planned}: {now}")

            run_round(machine, sides, plan, order, number, show)

    return run_looks(
        planned,
        LEAST_ROUNDS,
        "rounds",
        measure,
        lambda look: estimate_times(
            [(metrics_of(old, case), metrics_of(new, case)) for case in plan.cases],
            schedule,
            look,
        ),
    )


def run_round(
    machine: Machine,
    sides: tuple[KernelRuns, KernelRuns],
    plan: BootPlan,
    order: random.Random,
    number: int,
    update: Update,
) -> None:
    """Boots and measures A, B, B, A, or B, A, A, B, as `order` has it.

    MachineError if a boot fails, times nothing, or runs another kernel than it should.
    """
    old, new = sides if order.random() < 0.5 else (sides[1], sides[0])
    for turn, side in enumerate((old, new, new, old)):
        update(None, side.kernel)
        machine.boot(side.kernel, update)
        side.booted = machine.kernel
        output, before = side.output, side.output.identity
        sampler = Sampler(machine, plan.cases, plan.settings, output, boot=4 * number + turn)
        sampler.run_in_one(plan.groups)
        # A boot loader may silently fall back to another kernel.
        if output.run and output.identity != before:
            raise MachineError(
                f"{machine.name} was told to boot {side.kernel}, but runs another kernel than"
                f" before: {output.release}.",
                _REMEDY,
            )
        if not any(key[0] == output.run for key in output.processes):
            raise MachineError(
                f"{side.kernel} on {machine.name} timed nothing.", "Run again with -v."
            )
    is_same = old.output.notes and old.output.identity == new.output.identity
    if is_same and old.kernel != new.kernel:
        raise MachineError(
            f"{machine.name} runs the same kernel, {old.output.release}, whether it is told to"
            f" boot {sides[0].kernel} or {sides[1].kernel}.",
            _REMEDY,
        )
