# SPDX-License-Identifier: GPL-2.0-or-later
"""Two kernels on one machine, interleaved: each round boots A, B, B, A or B, A, A, B.

The boots are the sample.  What differs from boot to boot (which pages, which cpu has the timer)
would otherwise look like a difference of the kernels.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from kentry.errors import MachineError
from kentry.kernels.kernel import Kernel
from kentry.measure.timed.analysis import metrics_of
from kentry.measure.timed.comparing import Ending, Metrics, Schedule, estimate_rows, run_schedule
from kentry.measure.timed.output import Output
from kentry.measure.timed.sampling import Sampler, Settings
from kentry.progress import Update
from kentry.runners.machine import Machine

# The rounds of the first look: fewer have no interval.
LEAST_ROUNDS = 6
_REMEDY = "Look at its boot loader; --boot says how kernels are switched."


@dataclass
class KernelRuns:
    """One of the kernels: what the probe printed on it, and the boot of each of its runs."""

    kernel: str
    output: Output = field(default_factory=Output)
    boots: list[int] = field(default_factory=list)
    booted: Kernel | None = None
    # uname -r and the ELF notes of its first boot.
    identity: tuple[str, bytes] | None = None

    def metrics(self, case: str) -> Metrics:
        """The case's metrics over all boots of the kernel."""
        return metrics_of(self.output, case, self.boots)


@dataclass(frozen=True)
class BootPlan:
    """What is measured: cases, groups in each boot, and the most rounds of four boots."""

    cases: Sequence[str]
    groups: int
    rounds: int
    settings: Settings


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
    planned = max(LEAST_ROUNDS, plan.rounds)
    order = random.Random(plan.settings.seed)  # noqa: S311

    def measure(before: int, count: int) -> None:
        for number in range(before, count):

            def show(fraction: float | None, now: str, number: int = number) -> None:
                update(number / planned, f"round {number + 1} of at most {planned}: {now}")

            run_round(machine, sides, plan, order, number, show)

    return run_schedule(
        schedule,
        planned,
        LEAST_ROUNDS,
        "rounds",
        measure,
        lambda look: estimate_rows(
            [(sides[0].metrics(case), sides[1].metrics(case)) for case in plan.cases],
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
        side.boots.append(4 * number + turn)
        output = side.output
        Sampler(machine, plan.cases, plan.settings, output).run_in_one(plan.groups)
        # A boot loader may silently fall back to another kernel.
        identity = (output.release, output.notes)
        side.identity = side.identity or identity
        if identity != side.identity:
            raise MachineError(
                f"{machine.name} was told to boot {side.kernel}, but runs another kernel than"
                f" before: {output.release}.",
                _REMEDY,
            )
        if not any(key[0] == output.run for key in output.processes):
            raise MachineError(
                f"{side.kernel} on {machine.name} timed nothing.", "Run again with -v."
            )
    notes = old.identity is not None and old.identity[1]
    if notes and old.kernel != new.kernel and old.identity == new.identity:
        raise MachineError(
            f"{machine.name} runs the same kernel, {old.output.release}, whether it is told to"
            f" boot {sides[0].kernel} or {sides[1].kernel}.",
            _REMEDY,
        )
