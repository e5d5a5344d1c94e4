# SPDX-License-Identifier: GPL-2.0-or-later
"""Has the probe time cases on a machine, in runs short enough for looks in between."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace

from kentry.errors import MachineError, UserError
from kentry.machines.machine import Machine
from kentry.progress import Update
from kentry.time.output import Output

# The probe has this many slots for processes: guest/timed.c.
MOST_SLOTS = 64
# A run of the probe is stopped after this multiple of its expected time, plus these seconds.
_PATIENCE, _PATIENCE_SECONDS = 10.0, 60.0
# The groups of the first run, which shows how long a group takes.
PILOT_GROUPS = 4
# The least time of a group, seconds, whatever a coarse clock says.
_LEAST_SECONDS = 1e-5
# The length of a run, seconds: it is what a lost connection costs.
_RUN_SECONDS = 1.0
# Tails: an interval is over groups; a group has TURNS turns of CALLS calls.
GROUPS, TURNS, CALLS = 10, 10, 10_000
# A call with its readings of the clock takes less than this; and the patience for tails.
_MOST_SECONDS_A_CALL, _TAILS_PATIENCE_SECONDS = 50e-6, 120.0
# The boots of a guest's table: fewer have no useful interval.
GUEST_BOOTS = 8


@dataclass(frozen=True)
class Settings:
    """How a group is timed: turns of blocks of about `block_ns`, on one cpu (-1: any).

    With the defaults a turn is shorter than half a millisecond, so that drift affects all slots
    alike, and a block longer than a hundred readings of the clock.
    """

    turns: int = 8
    blocks: int = 8
    block_ns: int = 50_000
    cpu: int = -1
    seed: int = 1


# How much to measure: a float is seconds, an int the number of groups, boots or rounds.
Extent = int | float


@dataclass
class Sampler:
    """Runs groups of slots on a machine and keeps what the probe printed in `output`.

    Every other run of the probe uses `odd_slots`, if given: a slot keeps its memory for a run, and
    the effect of that must not always be on the same case.  Then a case that is absent is an
    error, because the processes of the others are known by their slots.  `boot` is the machine's;
    None: each run is the next one on a guest, and all are one elsewhere.
    """

    machine: Machine
    slots: Sequence[str]
    settings: Settings
    output: Output
    odd_slots: Sequence[str] = ()
    boot: int | None = None
    group_seconds: float = math.inf
    run_overhead: float = 0.0

    def __post_init__(self) -> None:
        if len(self.slots) > MOST_SLOTS:
            raise UserError(
                f"{len(self.slots)} processes would run interleaved; {MOST_SLOTS} is the most.",
                "Name fewer cases with --case.",
            )

    @property
    def run_is_boot(self) -> bool:
        """Whether each run of the probe is a boot of its own: then the boots are the sample."""
        return self.machine.kind == "kvm"

    @property
    def run_seconds(self) -> float:
        """The length of a run; one that is a boot must not be mostly booting."""
        return max(_RUN_SECONDS, 2 * self.run_overhead)

    @property
    def seconds_a_group(self) -> float:
        """The time of a group with its share of starting the probe; infinite before the pilot."""
        return self.group_seconds * (1 + self.run_overhead / self.run_seconds)

    def sample(self, extent: Extent, least: int, update: Update) -> None:
        """Measures groups, in seconds at least `least`; in boots GUEST_BOOTS whatever the time."""
        if isinstance(extent, float) and self.run_is_boot:
            for boot in range(GUEST_BOOTS):
                update(boot / GUEST_BOOTS, f"boot {boot + 1} of {GUEST_BOOTS}")
                groups = max(2, int(1 / self.group_seconds)) if boot else PILOT_GROUPS
                self.run_in_one(groups)
            return
        done, groups = 0, int(extent)
        if isinstance(extent, float):
            self.run(PILOT_GROUPS)
            groups = max(least, int(extent / self.seconds_a_group))
            done = PILOT_GROUPS
        self.run(
            max(0, groups - done),
            lambda ended: update(min(1.0, ended / groups), f"{ended} of {groups} groups"),
        )

    def run(self, groups: int, on_groups: Callable[[int], None] = lambda ended: None) -> None:
        """Measures more groups; `on_groups` is called with the number of all that ended."""
        while groups > 0:
            a_run = PILOT_GROUPS
            if math.isfinite(self.group_seconds):
                a_run = max(1, int(self.run_seconds / self.group_seconds))
            self.run_in_one(min(groups, a_run), on_groups)
            groups -= a_run

    def run_in_one(
        self, groups: int, on_groups: Callable[[int], None] = lambda ended: None
    ) -> None:
        """Measures more groups in one run of the probe."""
        output = self.output
        boot = output.run + 1 if self.run_is_boot else 0
        output.begin_run(boot if self.boot is None else self.boot)
        began = time.monotonic()

        def take(line: str) -> None:
            seen = output.groups_ended
            output.take(line)
            if output.groups_ended > seen:
                on_groups(output.groups_ended)

        slots = self.odd_slots if self.odd_slots and output.run % 2 else self.slots
        settings = asdict(replace(self.settings, seed=self.settings.seed + output.run))
        told = [f"{name}={value}" for name, value in settings.items()]
        words = ["time", f"groups={groups}", *told, f"cases={','.join(slots)}"]
        expected = groups * (self.group_seconds if math.isfinite(self.group_seconds) else 10.0)
        timeout = _PATIENCE * (expected + self.run_overhead) + _PATIENCE_SECONDS
        self.machine.run_probe(words, timeout, take)
        self.check(groups)
        wall = time.monotonic() - began
        a_group = output.run_ns / 1e9 / output.run_groups if output.run_groups else wall / groups
        self.group_seconds = max(a_group, _LEAST_SECONDS)
        self.run_overhead = max(0.0, wall - groups * a_group)

    def run_tails(self, groups: int) -> None:
        """Has the probe time groups of calls of each slot's case one by one."""
        self.output.begin_run()
        cpu, cases = f"cpu={self.settings.cpu}", f"cases={','.join(self.slots)}"
        words = ["tails", f"groups={groups}", f"turns={TURNS}", f"calls={CALLS}", cpu, cases]
        calls = groups * TURNS * CALLS * len(self.slots)
        timeout = _TAILS_PATIENCE_SECONDS + _MOST_SECONDS_A_CALL * calls
        self.machine.run_probe(words, timeout, self.output.take)
        self.check(groups)

    def check(self, groups: int) -> None:
        """Raises MachineError if the output is of no use, or the last run lacks groups."""
        output, name, cpu = self.output, self.machine.name, self.settings.cpu
        if output.machine.get("cpu") == "-1":
            raise MachineError(
                f"{name} has no cpu {cpu} for the probe: it is offline, or not allowed.",
                "Name another with --cpu, or see /sys/devices/system/cpu/online and taskset -p $$.",
            )
        for case, reason in output.failed.items():
            sentence = f"{case} cannot be timed on {name}: {reason}."
            remedy = "Leave it out with --case."
            if reason == "phase=turn call=0 result=-9":
                sentence = f"The process that timed {case} on {name} was killed."
                remedy = "Is there too little memory? Name fewer cases, or smaller working sets."
            raise MachineError(sentence, remedy)
        absent = [case for case in dict.fromkeys(self.slots) if case in output.absent]
        if absent and (self.odd_slots or len(absent) == len(set(self.slots))):
            raise MachineError(
                f"{absent[0]} cannot be timed on {name}: {output.absent[absent[0]]}.",
                "Name other cases.",
            )
        if output.jumps and not output.processes:
            raise MachineError(
                f"No sample from {name} can be used: {output.jumps[0]}.",
                "Do not change its clock or cpus, and do not suspend it, while it measures; see"
                " /sys/devices/system/clocksource/clocksource0/current_clocksource.",
            )
        ended = output.groups_ended - output.groups_before
        if ended < groups:
            raise MachineError(
                f"The probe on {name} timed {ended} of {groups} groups.",
                "Run again with -v for its command line.",
            )
