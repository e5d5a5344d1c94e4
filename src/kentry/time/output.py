# SPDX-License-Identifier: GPL-2.0-or-later
"""What the probe prints about time; guest/probe.c lists the lines.

The lines may come over a serial console: a damaged one counts as missing.
"""

import contextlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kentry.boot.probe_protocol import parse_line

# Two clocks of a machine may drift apart by this share: NTP slews one by 0.05 % at most.
_CLOCK_DRIFT = 0.002
# The time between two consecutive readings of clocks, ns, is at most this.
_CLOCK_SLACK = 1_000_000


@dataclass
class Process:
    """A process, the calls in one of its blocks, and its samples: ns of blocks and empty blocks.

    `counted` maps a counter to (count, calls) of each turn, with the cost of reading it
    subtracted.  `bins` and `empty_bins` are histograms of calls, and of readings of the clock
    without a call: they map the low end of a bin, ns, to how many are in it.
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
    """Everything that the probe has printed, in all its runs; `run` is the current one, in `boot`,
    and `groups_before` is how many groups had ended before it.

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
            self._take_fact(word, text)
            self._take_sample(word, text)

    def _take_fact(self, word: str, text: str) -> None:
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
