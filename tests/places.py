# SPDX-License-Identifier: GPL-2.0-or-later
"""A place that takes no time: it says what a probe would say of a machine whose times are known."""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from kentry.arch import ARCHES
from kentry.boot.probe_protocol import OnLine
from kentry.errors import MachineError
from kentry.machines.machine import CommandResult, Machine
from kentry.progress import Update

SECOND = 1_000_000_000
BLOCK_CALLS = 640
LOOP_NS, TIMER_NS = 1.5, 20
MACHINE = "cpus=8 timer_ns=20 resolution_ns=1 clock=vdso"
COUNTERS = "kernel-cycles,user-cycles"
# Cycles a nanosecond.
GHZ = 3


def silent(fraction: float | None, now: str) -> None:
    """An Update that shows nothing."""


@dataclass
class FakePlace(Machine):
    """`ns` is what a call of each case takes; all shares are of that.

    `spread` is how far processes differ, `noise` how far blocks do (only ever upwards), `drift`
    by how much more the last of a hundred groups takes than the first.  `kernels` are factors by
    the kernel that was booted, `boot_spread` how far boots of one kernel differ.  `jumps` are
    numbers of groups, counted through all runs, whose clock jumps.  `absent` and `failed` map
    cases to reasons, `dies_in` is the run of the probe, from 0, that ends after a group, `refuses`
    the boot that does not come to its end.
    """

    ns: Mapping[str, float] = field(default_factory=dict)
    spread: float = 0.001
    noise: float = 0.002
    drift: float = 0.0
    seed: int = 1
    kernels: Mapping[str, float] = field(default_factory=dict)
    boot_spread: float = 0.0
    jumps: frozenset[int] = frozenset()
    absent: Mapping[str, str] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)
    dies_in: int | None = None
    refuses: int | None = None
    counters: str = COUNTERS
    cpu: int = 0
    kind: str = "ssh"
    name: str = "ssh:bench"

    def __post_init__(self) -> None:
        self.arch = ARCHES["x86_64"]
        self.random = random.Random(self.seed)
        self.runs: list[list[str]] = []
        self.booted: list[str] = []
        self.closed = False
        self.groups = 0
        self._clock, self._ahead = SECOND, 0
        self._boot_level = 1.0

    # --- a Machine -------------------------------------------------------------

    def run_probe(self, words: Sequence[str], timeout: float, on_line: OnLine) -> None:
        """Says what a probe with these arguments would."""
        if words[0].startswith("facts="):
            for line in ("file /proc/self/status", "> Pid: 1", "end files=1"):
                on_line(f"kentry-probe {line}")
            return
        run, ended = len(self.runs), -1
        self.runs.append(list(words))
        for line in self._lines(words):
            on_line(f"kentry-probe {line}")
            ended += line.startswith("clock ")
            if run == self.dies_in and ended == 1:
                raise MachineError(f"The probe on {self.name} did not come to its end.", "Again.")

    def run_command(self, argv: Sequence[str], timeout: float) -> CommandResult:
        """No program is there."""
        return CommandResult(127, "", f"{argv[0]}: not found")

    def boot(self, kernel: str, update: Update) -> None:
        """Boots another kernel."""
        if len(self.booted) == self.refuses:
            raise MachineError(f"{self.name} did not boot {kernel}.", "Look at its console.")
        self.booted.append(kernel)
        self._boot_level = 1 + self.random.gauss(0, self.boot_spread)

    def close(self) -> None:
        """Nothing was put anywhere."""
        self.closed = True

    # --- what the probe says -----------------------------------------------------

    def _lines(self, words: Sequence[str]) -> Iterator[str]:
        given = dict(word.split("=", 1) for word in words if "=" in word)
        wanted = given["cases"].split(",")
        slots = [name for name in wanted if name not in self.absent]
        yield f"start {self.arch.name}"
        yield f"release {self.booted[-1] if self.booted else '6.12.1-fake'}"
        self.cpu = max(0, int(given["cpu"]))
        yield f"timing cpu={self.cpu} {MACHINE} counters={self.counters}"
        for name in dict.fromkeys(wanted):
            if name in self.absent:
                yield f"absent {name} {self.absent[name]}"
        yield self._clocks()
        for name in slots:
            if name in self.failed:
                yield f"failed {name} {self.failed[name]}"
                yield "end groups=0"
                return
        done = 0
        for group in range(int(given["groups"]) if slots else 0):
            level = self._level()
            for slot, name in enumerate(slots):
                say = self._tail if words[0] == "tails" else self._process
                yield from say(f"{group} {slot}", name, level, given)
            yield self._clocks()
            done += 1
        yield f"end groups={done}"

    def _level(self) -> float:
        kernel = self.kernels.get(self.booted[-1], 1.0) if self.booted else 1.0
        self.groups += 1
        return kernel * self._boot_level * (1 + self.drift * self.groups / 100)

    def _clocks(self) -> str:
        self._clock += SECOND
        if self.groups - 1 in self.jumps:
            self._ahead += SECOND // 2
        return f"clock {self._clock} {self._clock - self._ahead} {self._clock} {self.cpu}"

    def _block(self, ns: float, noise: float) -> int:
        return round(ns * (1 + abs(self.random.gauss(0, noise))))

    def _ns(self, name: str) -> float:
        return self.ns[name] if name in self.ns else self.ns[name.partition("+")[0]]

    def _process(self, at: str, name: str, level: float, given: Mapping[str, str]) -> Iterator[str]:
        turns, blocks = int(given["turns"]), int(given["blocks"])
        ns = self._ns(name) * level * (1 + self.random.gauss(0, self.spread))
        calls = 1 if "+cache=" in name else BLOCK_CALLS
        yield f"process {at} {name} calls={calls}"
        for turn in range(turns):
            of = TIMER_NS if calls == 1 else 0
            values = [self._block(ns * calls + of, self.noise) for _ in range(blocks)]
            yield f"t {at} {turn} {' '.join(map(str, values))}"
            if calls == 1:
                yield f"o {at} {turn} {' '.join([str(TIMER_NS)] * (blocks // 4 + 1))}"
                continue
            yield f"o {at} {turn} {round(LOOP_NS * calls)}"
            cycles = round(ns * calls * blocks * GHZ)
            counted = " ".join(f"{one}={cycles + 900}-900" for one in self.counters.split(","))
            if not self.counters.startswith("none"):
                yield f"c {at} {turn} {calls * blocks} {counted}"

    def _tail(self, at: str, name: str, level: float, given: Mapping[str, str]) -> Iterator[str]:
        calls = int(given["turns"]) * int(given["calls"])
        ns = round(self._ns(name) * level)
        rare = calls // 500
        yield f"process {at} {name} calls=1"
        yield f"h {at} {ns + TIMER_NS} {calls - rare - 1}"
        if rare:
            yield f"h {at} {4 * ns + TIMER_NS} {rare}"
        yield f"h {at} {1000 * ns + TIMER_NS} 1"
        yield f"e {at} {TIMER_NS} {calls // 16 + 1}"
