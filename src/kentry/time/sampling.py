# SPDX-License-Identifier: GPL-2.0-or-later
"""Has the probe time cases on a machine, in runs short enough for looks in between.

guest/probe.c lists its lines.  They may come over a serial console: a damaged one is missing.
"""

import contextlib
import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import NamedTuple

from kentry.boot.probe_protocol import parse_line
from kentry.errors import MachineError, UserError
from kentry.machines.machine import Machine
from kentry.progress import Update

# Two clocks of a machine may drift apart by this share: NTP slews one by 0.05 % at most.
_CLOCK_DRIFT = 0.002
_CLOCK_SLACK = 1_000_000  # the most ns between two consecutive readings of clocks
MOST_SLOTS = 64  # of the probe for processes: guest/slots.h
# A run of the probe is stopped after this multiple of its expected time, plus these seconds.
_PATIENCE, _PATIENCE_SECONDS = 10.0, 60.0
PILOT_GROUPS = 4  # of the first run, which shows how long a group takes
_LEAST_SECONDS = 1e-5  # of a group, whatever a coarse clock says
_RUN_SECONDS = 1.0  # of a run: it is what a lost connection costs
# Tails: an interval is over groups; a group has TURNS turns of CALLS calls.
GROUPS, TURNS, CALLS = 10, 10, 10_000
# A call with its readings of the clock takes less than this; and the patience for tails.
_MOST_SECONDS_A_CALL, _TAILS_PATIENCE_SECONDS = 50e-6, 120.0
GUEST_BOOTS = 8  # of a guest's table: fewer have no useful interval


@dataclass
class Process:
    """A process, the calls in one of its blocks, and its samples: ns of blocks and empty blocks.

    `counted` has (count, calls) of each turn by counter, the cost of reading it subtracted.  `bins`
    and `empty_bins` count calls, and readings of the clock alone, by the low end of a bin, ns.
    """

    run: int
    group: int
    slot: int
    case: str
    calls: int
    boot: int = 0
    turns: list[list[int]] = field(default_factory=list)
    empties: list[list[int]] = field(default_factory=list)
    counted: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    bins: Counter[int] = field(default_factory=Counter)
    empty_bins: Counter[int] = field(default_factory=Counter)


class Clocks(NamedTuple):
    """Three clocks of the machine, ns, and the cpu that read them."""

    monotonic: int
    raw: int
    boottime: int
    cpu: int


@dataclass
class Output:
    """Everything that the probe has printed; `run`, in `boot`, began after `groups_before` groups.

    `jumps` says how a clock jumped between two readings; the processes between them are dropped.
    `since_clock` are the processes since the last reading.  `run_groups` of this run took
    `run_ns` by the machine's own clock, without jumps.
    """

    run: int = -1
    boot: int = 0
    release: str = ""
    notes: bytes = b""
    machine: dict[str, str] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    processes: dict[tuple[int, int, int], Process] = field(default_factory=dict)
    clocks: list[Clocks] = field(default_factory=list)
    jumps: list[str] = field(default_factory=list)
    since_clock: list[tuple[int, int, int]] = field(default_factory=list)
    multiplexed: set[str] = field(default_factory=set)
    groups_ended: int = 0
    groups_before: int = 0
    run_groups: int = 0
    run_ns: int = 0

    def begin_run(self, boot: int = 0) -> None:
        """Begins another run, in this boot: the lines that follow belong to it."""
        self.run += 1
        self.boot = boot
        self.clocks.clear()
        self.since_clock.clear()
        self.groups_before = self.groups_ended
        self.run_groups = self.run_ns = 0

    @property
    def identity(self) -> tuple[str, bytes]:
        """The running kernel: uname -r and its ELF notes."""
        return self.release, self.notes

    @property
    def resolution(self) -> float:
        """The step of the machine's clock, ns; 1 if unknown."""
        step = self.machine.get("resolution_ns", "")
        return float(step) if step.isdecimal() else 1.0

    def take(self, line: str) -> None:
        """Takes one line; it ignores damaged lines and those of others."""
        word, text = parse_line(line.rstrip()) or ("", "")
        with contextlib.suppress(ValueError, TypeError, KeyError, IndexError, OverflowError):
            match word:
                case "release":
                    self.release = text
                case "notes":
                    self.notes = bytes.fromhex(text)
                case "timing":
                    self.machine = dict(word.split("=", 1) for word in text.split())
                case "absent" | "failed":
                    name, _, reason = text.partition(" ")
                    (self.absent if word == "absent" else self.failed)[name] = reason
                case _:
                    self._take_sample(word, text)

    def _take_sample(self, word: str, text: str) -> None:
        match word:
            case "process":
                group, slot, case, calls = text.split()
                count = int(calls.removeprefix("calls="))
                if count >= 1:
                    key = self.run, int(group), int(slot)
                    self.processes[key] = Process(*key, case, count, self.boot)
                    self.since_clock.append(key)
            case "t" | "o":
                process, (_, *values) = self._numbers(text)
                if min(values) >= 0:
                    (process.turns if word == "t" else process.empties).append(values)
            case "h" | "e":
                process, (ns, count) = self._numbers(text)
                (process.bins if word == "h" else process.empty_bins)[ns] += count
            case "c":
                group, slot, _, calls, *counters = text.split()
                process = self.processes[self.run, int(group), int(slot)]
                for counter in counters:
                    name, _, value = counter.partition("=")
                    if "/" in value:
                        # The cpu had too few counters: part of the time was counted and scaled up.
                        self.multiplexed.add(name)
                        continue
                    number, empty = map(int, value.split("-"))
                    counts = process.counted.setdefault(name, [])
                    counts.append((max(0, number - empty), int(calls)))
            case "clock":
                self._take_clock(Clocks(*map(int, text.split())))

    def _numbers(self, text: str) -> tuple[Process, list[int]]:
        """Returns the process that a line names, and the line's other numbers."""
        group, slot, *numbers = map(int, text.split())
        return self.processes[self.run, group, slot], numbers

    def _take_clock(self, now: Clocks) -> None:
        if self.clocks:
            # A slew too slow to show in one group shows over the whole run.
            jump = _jump(self.clocks[-1], now) or _jump(self.clocks[0], now)
            cpu = self.machine.get("cpu", str(now.cpu))
            if not jump and cpu != str(now.cpu):
                jump = f"cpu {cpu} was left for cpu {now.cpu}"
            if jump:
                self.jumps.append(jump)
                self.clocks.clear()
                for key in self.since_clock:
                    del self.processes[key]
            else:
                self.run_groups += 1
                self.run_ns += now.monotonic - self.clocks[-1].monotonic
            self.groups_ended += 1
        self.since_clock.clear()
        self.clocks.append(now)

    def of_case(self, name: str) -> list[Process]:
        """Returns every process that ran the case, in order."""
        return [process for process in self.processes.values() if process.case == name]


def _jump(before: Clocks, now: Clocks) -> str:
    """Returns what is wrong with the time between two readings; "" if nothing is."""
    passed, raw = now.monotonic - before.monotonic, now.raw - before.raw
    slept = now.boottime - now.monotonic - (before.boottime - before.monotonic)
    if passed < 0:
        return f"it went back by {-passed} ns"
    if slept > _CLOCK_SLACK:
        return f"the machine slept for {slept / 1e9:.1f} s"
    if abs(passed - raw) > raw * _CLOCK_DRIFT + _CLOCK_SLACK:
        return f"{passed / 1e9:.3f} s passed by one clock and {raw / 1e9:.3f} s by another"
    return ""


def quantile(bins: Mapping[int, int], share: float) -> int:
    """Finds the bin of the histogram's quantile; ValueError if the histogram is empty."""
    rank, seen = share * sum(bins.values()), 0
    for ns in sorted(bins):
        seen += bins[ns]
        if seen >= rank:
            return ns
    raise ValueError("an empty histogram")


# --- runs of the probe ---------------------------------------------------------------------


@dataclass(frozen=True)
class Settings:
    """How a group is timed: turns below 0.5 ms, so that drift is alike in all; cpu -1 is any."""

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

    Every other run uses `odd_slots`, if any: a slot keeps its memory for a run, which must not
    always affect the same case.  Then an absent case is an error, as others are known by their
    slots.  `boot` is the machine's; None: on a guest each run is one, elsewhere all are one.
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
    def seconds_a_group(self) -> float:
        """The time of a group with its share of starting the probe; infinite before the pilot."""
        return self.group_seconds * (1 + self.run_overhead / self._run_seconds())

    def _run_seconds(self) -> float:
        # One that is a boot must not be mostly booting.
        return max(_RUN_SECONDS, 2 * self.run_overhead)

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
                a_run = max(1, int(self._run_seconds() / self.group_seconds))
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
        arguments = ["time", f"groups={groups}", *told, f"cases={','.join(slots)}"]
        expected = groups * (self.group_seconds if math.isfinite(self.group_seconds) else 10.0)
        timeout = _PATIENCE * (expected + self.run_overhead) + _PATIENCE_SECONDS
        self.machine.run_probe(arguments, timeout, take)
        self.check(groups)
        wall = time.monotonic() - began
        a_group = output.run_ns / 1e9 / output.run_groups if output.run_groups else wall / groups
        self.group_seconds = max(a_group, _LEAST_SECONDS)
        self.run_overhead = max(0.0, wall - groups * a_group)

    def run_tails(self, groups: int) -> None:
        """Has the probe time groups of calls of each slot's case one by one."""
        self.output.begin_run()
        cpu, cases = f"cpu={self.settings.cpu}", f"cases={','.join(self.slots)}"
        arguments = ["tails", f"groups={groups}", f"turns={TURNS}", f"calls={CALLS}", cpu, cases]
        calls = groups * TURNS * CALLS * len(self.slots)
        timeout = _TAILS_PATIENCE_SECONDS + _MOST_SECONDS_A_CALL * calls
        self.machine.run_probe(arguments, timeout, self.output.take)
        self.check(groups)

    def check(self, groups: int) -> None:
        """Raises MachineError if the output is of no use, or the last run lacks groups."""
        output, name, cpu = self.output, self.machine.name, self.settings.cpu
        if output.machine.get("cpu") == "-1":
            raise MachineError(
                f"{name} has no cpu {cpu} for the probe: it is offline, or not allowed.",
                "Name another with --pin, or see /sys/devices/system/cpu/online and taskset -p $$.",
            )
        for case, reason in output.failed.items():
            sentence = f"{case} cannot be timed on {name}: {reason}."
            remedy = "Leave it out with --case."
            if reason == "phase=turn call=0 result=-9":
                sentence = f"The process that timed {case} on {name} was killed."
                remedy = "Name fewer cases, or smaller working sets: memory may be short."
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
