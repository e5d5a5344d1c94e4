# SPDX-License-Identifier: GPL-2.0-or-later
"""What the probe says of time, line by line: guest/probe.c lists the lines.

Lines come from another machine, perhaps over a serial line: what is damaged counts as not there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kentry.runners.probe_protocol import parse_line

# By how much two clocks of a machine may drift apart: NTP slews one by 0.05 % at most.
_CLOCK_DRIFT = 0.002
# What may be between two readings that follow each other, ns.
_CLOCK_SLACK = 1_000_000


class Process(NamedTuple):
    """Which process it was, in which run of the probe, and how many calls one of its blocks is."""

    run: int
    group: int
    slot: int
    case: str
    calls: int


@dataclass
class Samples:
    """A process's raw samples: ns of each block, of each empty one, and counters a turn.

    `counted` maps a counter to (count, calls) a turn, what reading it costs taken off.  `bins`
    and `empty_bins` map ns to how many calls, or readings without one, took as many or more, up
    to the next bin.
    """

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
    """All that the probe has said so far, in every run of it; `run` is the one that speaks.

    Processes between two readings of the clocks, between which one of them jumped, are not among
    `processes`; `lost` is how often that was.  `since_clock` are those that wait for a reading.
    """

    run: int = -1
    architecture: str = ""
    release: str = ""
    notes: bytes = b""
    machine: dict[str, str] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    processes: dict[tuple[int, int, int], tuple[Process, Samples]] = field(default_factory=dict)
    clocks: list[Clocks] = field(default_factory=list)
    jumps: list[str] = field(default_factory=list)
    lost: int = 0
    since_clock: list[tuple[int, int, int]] = field(default_factory=list)
    multiplexed: set[str] = field(default_factory=set)
    groups_ended: int = 0
    run_groups: int = 0
    run_ns: int = 0
    ended: bool = False

    def begin_run(self) -> None:
        """The lines that follow are another run's."""
        self.run += 1
        self.clocks.clear()
        self.since_clock.clear()
        self.run_groups = self.run_ns = 0
        self.ended = False

    @property
    def seconds_of_run(self) -> float:
        """How long `run_groups` of this run took by the machine's own clock; jumps left out."""
        return self.run_ns / 1e9

    @property
    def resolution(self) -> float:
        """The step of the machine's clock, ns; 1 where it is not known."""
        step = self.machine.get("resolution_ns", "")
        return float(step) if step.isdecimal() else 1.0

    def take(self, line: str) -> None:
        """One line; what is not the probe's, or damaged, is passed over."""
        word, text = parse_line(line.rstrip()) or ("", "")
        reader = _READERS.get(word)
        if reader:
            try:
                reader(self, text)
            except (ValueError, TypeError, KeyError, IndexError, OverflowError):
                return

    def of_case(self, name: str) -> list[tuple[Process, Samples]]:
        """Every process that ran the case, in order."""
        return [pair for pair in self.processes.values() if pair[0].case == name]


def _numbers(text: str) -> list[int]:
    return [int(word) for word in text.split()]


def _start(out: Output, text: str) -> None:
    out.architecture = text


def _release(out: Output, text: str) -> None:
    out.release = text


def _notes(out: Output, text: str) -> None:
    out.notes = bytes.fromhex(text)


def _timing(out: Output, text: str) -> None:
    out.machine = dict(word.split("=", 1) for word in text.split())


def _absent(out: Output, text: str) -> None:
    name, _, reason = text.partition(" ")
    out.absent[name] = reason


def _failed(out: Output, text: str) -> None:
    name, _, reason = text.partition(" ")
    out.failed[name] = reason


def _process(out: Output, text: str) -> None:
    group, slot, case, calls = text.split()
    process = Process(out.run, int(group), int(slot), case, int(calls.removeprefix("calls=")))
    if process.calls < 1:
        raise ValueError("a block of no calls")
    key = (out.run, process.group, process.slot)
    out.processes[key] = (process, Samples())
    out.since_clock.append(key)


def _samples(out: Output, group: int, slot: int) -> Samples:
    return out.processes[out.run, group, slot][1]


def _turn(out: Output, text: str) -> None:
    group, slot, _, *values = _numbers(text)
    _samples(out, group, slot).turns.append(_durations(values))


def _empty(out: Output, text: str) -> None:
    group, slot, _, *values = _numbers(text)
    _samples(out, group, slot).empties.append(_durations(values))


def _durations(values: list[int]) -> list[int]:
    if min(values) < 0:
        raise ValueError("less than no time")
    return values


def _counted(out: Output, text: str) -> None:
    group, slot, _, calls, *counters = text.split()
    samples = _samples(out, int(group), int(slot))
    for counter in counters:
        name, _, value = counter.partition("=")
        if "/" in value:
            # The cpu had fewer counters than were asked for: what is counted part of the time
            # and scaled up is no count.
            out.multiplexed.add(name)
        else:
            count, empty = map(int, value.split("-"))
            samples.counted.setdefault(name, []).append((max(0, count - empty), int(calls)))


def _bin(out: Output, text: str) -> None:
    group, slot, ns, count = _numbers(text)
    _samples(out, group, slot).bins[ns] += count


def _empty_bin(out: Output, text: str) -> None:
    group, slot, ns, count = _numbers(text)
    _samples(out, group, slot).empty_bins[ns] += count


def _clock(out: Output, text: str) -> None:
    now = Clocks(*_numbers(text))
    if out.clocks:
        # A slew too slow for one group shows over the whole run.
        jump = _jump(out.clocks[-1], now) or _jump(out.clocks[0], now) or _moved(out.machine, now)
        if not jump:
            out.run_groups += 1
            out.run_ns += now.monotonic - out.clocks[-1].monotonic
        else:
            out.lost += 1
            out.jumps.append(jump)
            out.clocks.clear()
            for key in out.since_clock:
                del out.processes[key]
        out.groups_ended += 1
    out.since_clock.clear()
    out.clocks.append(now)


def _jump(before: Clocks, now: Clocks) -> str:
    """What is wrong with the time between two readings; "" if nothing."""
    passed, raw = now.monotonic - before.monotonic, now.raw - before.raw
    slept = now.boottime - now.monotonic - (before.boottime - before.monotonic)
    if passed < 0:
        return f"it went back by {-passed} ns"
    if slept > _CLOCK_SLACK:
        return f"the machine slept for {slept / 1e9:.1f} s"
    if abs(passed - raw) > raw * _CLOCK_DRIFT + _CLOCK_SLACK:
        return f"{passed / 1e9:.3f} s passed by one clock and {raw / 1e9:.3f} s by another"
    return ""


def _moved(machine: Mapping[str, str], now: Clocks) -> str:
    """Whether the processes are elsewhere than they were put: their cpu went offline, say."""
    cpu = machine.get("cpu", str(now.cpu))
    return "" if cpu == str(now.cpu) else f"cpu {cpu} was left for cpu {now.cpu}"


def _end(out: Output, text: str) -> None:
    out.ended = True


_READERS = {
    "start": _start,
    "release": _release,
    "notes": _notes,
    "timing": _timing,
    "absent": _absent,
    "failed": _failed,
    "process": _process,
    "t": _turn,
    "o": _empty,
    "c": _counted,
    "h": _bin,
    "e": _empty_bin,
    "clock": _clock,
    "end": _end,
}


def quantile(bins: Mapping[int, int], share: float) -> int:
    """The bin below or in which `share` of a histogram's samples are; ValueError if empty."""
    wanted, seen = share * sum(bins.values()), 0
    for ns in sorted(bins):
        seen += bins[ns]
        if seen >= wanted:
            return ns
    raise ValueError("an empty histogram")
