# SPDX-License-Identifier: GPL-2.0-or-later
"""Has the probe time cases on a place, in runs that are short enough to look in between."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kentry.errors import MachineError, UserError
from kentry.measure.timed.output import Output
from kentry.runners.machine import Machine

# At most so many processes take turns: guest/timed.c.
MOST_SLOTS = 64
# A run of the probe may take so many times as long as it should, and so many seconds more.
_PATIENCE, _PATIENCE_SECONDS = 10.0, 60.0
# Of the first run, from which it is known how long a group takes.
PILOT_GROUPS = 4
# No group is shorter, whatever a clock of coarse steps says.
_LEAST_SECONDS = 1e-5
# A run is about so long, seconds: it is what is lost with a connection.
_RUN_SECONDS = 1.0


@dataclass(frozen=True)
class Settings:
    """How a group is timed: turns of so many blocks of about `block_ns`, on one cpu.

    With these a turn is shorter than half a millisecond, so that what drifts is in all slots
    alike, and a block longer than a hundred readings of the clock.
    """

    turns: int = 8
    blocks: int = 8
    block_ns: int = 50_000
    cpu: int = -1
    seed: int = 1

    def words(self, slots: Sequence[str], groups: int, run: int) -> list[str]:
        """The probe's arguments."""
        return [
            "time",
            f"groups={groups}",
            f"turns={self.turns}",
            f"blocks={self.blocks}",
            f"block_ns={self.block_ns}",
            f"cpu={self.cpu}",
            f"seed={self.seed + run}",
            f"cases={','.join(slots)}",
        ]


def run_is_boot(place: Machine) -> bool:
    """Whether each run of the probe is a boot of its own, and so what is sampled."""
    return place.kind == "kvm"


def boots_of_runs(place: Machine, output: Output) -> list[int]:
    """The boot of each run of the probe so far; empty where they are all one."""
    return list(range(output.run + 1)) if run_is_boot(place) else []


@dataclass
class Sampler:
    """Runs groups of slots on a place; everything that was said is in `output`, however it ended.

    Every other run of the probe has `odd_slots` instead, if there are any: a slot's memory is a
    run's, and what it does to time must not always be the same case's.  With
    `all_of_them` a case that is absent ends it: slots are known by their numbers.
    """

    place: Machine
    slots: Sequence[str]
    settings: Settings
    output: Output
    odd_slots: Sequence[str] = ()
    all_of_them: bool = False
    group_seconds: float = math.inf
    run_overhead: float = 0.0

    @property
    def run_is_boot(self) -> bool:
        """Whether each run of the probe is a boot of its own, and so what is sampled."""
        return run_is_boot(self.place)

    @property
    def boots(self) -> list[int]:
        """The boot of each run so far, where they are not all one."""
        return boots_of_runs(self.place, self.output)

    @property
    def seconds_a_group(self) -> float:
        """What a group takes with its share of starting the probe; infinite before the pilot."""
        return self.group_seconds * (1 + self.run_overhead / self._run_seconds)

    @property
    def _run_seconds(self) -> float:
        # Where a run is a boot, it is not to be mostly booting.
        return max(_RUN_SECONDS, 2 * self.run_overhead)

    def __post_init__(self) -> None:
        if len(self.slots) > MOST_SLOTS:
            raise UserError(
                f"{len(self.slots)} processes would take turns; {MOST_SLOTS} is the most.",
                "Name fewer cases with --case.",
            )

    def pilot(self) -> None:
        """The first groups; how long one takes is known after them."""
        self.run(PILOT_GROUPS)

    def run(self, groups: int, told: Callable[[int], None] = lambda done: None) -> None:
        """So many groups more; `told` is called with how many of them are done."""
        while groups > 0:
            now = min(groups, self._groups_a_run())
            self._run_once(now, told)
            groups -= now

    def run_in_one(self, groups: int) -> None:
        """So many groups in one run of the probe: where each run is a boot."""
        self._run_once(groups, lambda done: None)

    def _groups_a_run(self) -> int:
        if not math.isfinite(self.group_seconds):
            return PILOT_GROUPS
        return max(1, int(self._run_seconds / self.group_seconds))

    def _run_once(self, groups: int, told: Callable[[int], None]) -> None:
        output = self.output
        output.begin_run()
        before, began = output.groups_ended, time.monotonic()

        def take(line: str) -> None:
            seen = output.groups_ended
            output.take(line)
            if output.groups_ended > seen:
                told(output.groups_ended)

        slots = self.odd_slots if self.odd_slots and output.run % 2 else self.slots
        words = self.settings.words(slots, groups, output.run)
        self.place.run_probe(words, self._timeout(groups), take)
        ended = output.groups_ended - before
        check(output, self.place.name, self.slots, self.settings.cpu, all_of_them=self.all_of_them)
        if ended < groups:
            raise MachineError(
                f"The probe on {self.place.name} timed {ended} of {groups} groups.",
                "Run again with -v for its command line.",
            )
        wall = time.monotonic() - began
        of_one = output.seconds_of_run / output.run_groups if output.run_groups else wall / groups
        self.group_seconds = max(of_one, _LEAST_SECONDS)
        self.run_overhead = max(0.0, wall - groups * of_one)

    def _timeout(self, groups: int) -> float:
        expected = groups * (self.group_seconds if math.isfinite(self.group_seconds) else 10.0)
        return _PATIENCE * (expected + self.run_overhead) + _PATIENCE_SECONDS


def check(
    output: Output, name: str, slots: Sequence[str], cpu: int = -1, *, all_of_them: bool = False
) -> None:
    """MachineError where what the probe said cannot be used; one sentence for each way.

    With `all_of_them` a case that is absent is one, too: slots are known by their numbers.
    """
    if output.machine.get("cpu") == "-1":
        raise MachineError(
            f"{name} has no cpu {cpu} that may be used: it is offline, or not allowed here.",
            "Name another with --cpu, or see /sys/devices/system/cpu/online and taskset -p $$.",
        )
    for case, reason in output.failed.items():
        if reason == "phase=turn call=0 result=-9":
            raise MachineError(
                f"The process that timed {case} on {name} was killed.",
                "Is there too little memory? Name fewer cases, or smaller working sets.",
            )
        raise MachineError(
            f"{case} cannot be timed on {name}: {reason}.", "Leave it out with --case."
        )
    absent = [case for case in dict.fromkeys(slots) if case in output.absent]
    if absent and (all_of_them or len(absent) == len(set(slots))):
        raise MachineError(
            f"{absent[0]} cannot be timed on {name}: {output.absent[absent[0]]}.",
            "Name other cases.",
        )
    if output.lost and not output.processes:
        raise MachineError(
            f"Nothing that {name} timed can be used: {output.jumps[0]}.",
            "Leave its clock, its cpus and itself as they are while it measures; see"
            " /sys/devices/system/clocksource/clocksource0/current_clocksource.",
        )
