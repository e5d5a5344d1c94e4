# SPDX-License-Identifier: GPL-2.0-or-later
"""Makes a cost table: counts the acts of a kernel in a guest, or times them on this machine.

guest/costs.c prints blocks of times, on a machine or in a guest.
A measure's value is the median over its blocks.  Its interval ends at the two blocks that have
the true median between them with 95 % confidence (order statistics, no assumed distribution).  A
figure is a sum of such values with factors; its interval has the least favourable ends.

In a guest under -icount the clock counts instructions, so the same program gives a table in
instructions: a second way of counting beside cost_counts.py.  There the timer may interrupt the
same measure in most rounds, so the value is the lower quartile, between the least and the median,
or the least where no task is switched.
"""

import math
import platform
import re
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import msgspec

from kentry.arch import Arch, host_arch
from kentry.arch.processors import MAX, find_processor, vector_bits
from kentry.boot.console import boot, tail
from kentry.boot.emulator import Guest, boot_argv, kernel_words
from kentry.boot.exact import ExactOptions, emulator_of
from kentry.boot.initramfs import build_initramfs
from kentry.count import cache
from kentry.count.catalogue import choose
from kentry.errors import GuestError, KentryError, UserError
from kentry.host.cache import kept_file
from kentry.host.native import built_file
from kentry.host.process import command_line, supervise
from kentry.kernels.kernel import Kernel, config_lines
from kentry.kernels.spec import parse as parse_spec
from kentry.models.costs import INSTRUCTIONS, NS, Assumption, CostTable, Figure, in_order
from kentry.progress import Update
from kentry.vector import cost_counts

_PREFIX = "kentry-costs "
# With fewer blocks there is no interval at 95 %.
LEAST_BLOCKS = 6
# 95 % of a normal distribution are within this many standard deviations.
_SIGMAS = 1.96

SPLIT = "only the sum of save and restore is known: split evenly"

# The most of a trap that a write of CPACR_EL1 and its isb can be.
_MOST_DROP = 0.1

_AGAIN = "Run kentry vector costs again; -v shows the program's command line."


@dataclass(frozen=True)
class Span:
    """A value between two ends."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, figure: Figure) -> "Span":
        """Takes a figure's value and interval."""
        return cls(figure.value, figure.low, figure.high)

    def __add__(self, other: "Span") -> "Span":
        return Span(self.value + other.value, self.low + other.low, self.high + other.high)

    def __sub__(self, other: "Span") -> "Span":
        return self + other * -1

    def __mul__(self, factor: float) -> "Span":
        ends = sorted((self.low * factor, self.high * factor))
        return Span(self.value * factor, *ends)

    def figure(self, assume: Assumption, source: str, note: str = "") -> Figure:
        """Rounds to a tenth, the precision of clocks and cores; no cost is less than 0."""
        value, low, high = (round(max(0.0, x), 1) for x in (self.value, self.low, self.high))
        return Figure(value, low, high, assume, source, note)


@dataclass
class Timing:
    """What a run said: `blocks` are ns a call, by measure; in a guest (`virtual`) instructions."""

    arch: str
    bits: int
    release: str
    virtual: bool = False
    blocks: dict[str, list[float]] = field(default_factory=dict)

    def value(self, measure: str) -> Span | None:
        """Estimates what a measure took; None where there are too few blocks."""
        ordered = sorted(self.blocks.get(measure, []))
        count = len(ordered)
        if count < LEAST_BLOCKS:
            return None
        if self.virtual:
            # Interrupts add instructions, and where a round of blocks is as long as a tick, one
            # falls into the same block each time.  Only what switches tasks may have fewer, too.
            least = 0 if measure.startswith("syscall-") else count // 4
            return Span(ordered[least], ordered[0], ordered[count // 2])
        reach = _SIGMAS * math.sqrt(count) / 2
        first = max(0, math.floor(count / 2 - reach))
        last = min(count - 1, math.ceil(count / 2 + reach))
        return Span(median(ordered), ordered[first], ordered[last])


def parse(text: str, *, virtual: bool = False) -> Timing:
    """Reads the program's lines among others; UserError where some are missing or damaged."""
    timing: Timing | None = None
    ended = -1
    for line in text.splitlines():
        fields = line.partition(_PREFIX)[2].split()
        try:
            match fields:
                case []:
                    continue
                case ["start", arch, *settings]:
                    values = dict(word.split("=", 1) for word in settings)
                    timing, ended = Timing(arch, int(values["bits"]), "", virtual), -1
                case ["end", blocks] if timing:
                    ended = int(blocks.removeprefix("blocks="))
                case ["release", *release] if timing:
                    timing.release = " ".join(release)
                case ["block", measure, calls, ns] if timing:
                    timing.blocks.setdefault(measure, []).append(int(ns) / int(calls))
                case ["absent", *_] if timing:
                    continue
                case _:
                    raise ValueError("an unknown line, or the beginning is missing")
        except (ValueError, KeyError, ArithmeticError) as err:
            raise UserError(f"'{line.strip()[:60]}' is no line of costs.c's.", _AGAIN) from err
    if timing is None:
        raise UserError("There is no 'kentry-costs start' line in what was printed.", _AGAIN)
    if ended < 0 or ended != sum(map(len, timing.blocks.values())):
        raise UserError("What was printed is not whole: blocks are missing.", _AGAIN)
    return timing


@dataclass
class Sheet:
    """Works out the figures of a run one after the other; their sources begin with `command`.

    UserError where the run had no vector unit, or too few blocks.  `switch` is what a switch there
    and back takes longer for a task with its whole state live than for one without, None where
    that cannot be told.
    """

    timing: Timing
    command: str
    figures: dict[str, Figure] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    switch: Span | None = None

    def __post_init__(self) -> None:
        """Works out all figures that the measures give."""
        if not self.timing.bits:
            raise UserError(
                f"The machine (Linux {self.timing.release}) has no vector unit that its kernel"
                " knows of.",
                "Use another machine, or a kernel that is built with vector support.",
            )
        never, once = self.timing.value("syscall-never"), self.timing.value("syscall-once")
        if never is None:
            raise UserError(f"There are fewer than {LEAST_BLOCKS} blocks of a measure.", _AGAIN)
        self._keep("syscall", never, "getppid, the program's loop in it")
        self._copies()
        first = self.timing.value("first-use")
        if not first or first.low <= 0:
            why = "a process's first use takes no longer than its second"
            self.absent |= dict.fromkeys(("trap", "flush"), why)
            return
        if once:
            how = "getppid by a task that used the unit once, less one that never did"
            self._keep("flush", once - never, how)
        if again := self._later_trap(first):
            self._keep("trap", *again, f"the first in a task's life: {first.value:.4g}")
            how = "it cannot be told from the trap after it, and is in its figure; high: a tenth"
            most = Span(0.0, 0.0, again[0].value * _MOST_DROP)
            self.figures["drop"] = most.figure("assumed", f"{self.command}: {how}")
        else:
            how = "a process's first use less its second"
            self._keep("trap", first, how, "with the state's allocation")
            self.absent["drop"] = "no kernel entry that was timed does it"
        self._switch()

    def table(self, name: str, about: str) -> CostTable:
        """Makes the table of the run."""
        return CostTable(
            name=name,
            about=about,
            arch=self.timing.arch,
            unit=INSTRUCTIONS if self.timing.virtual else NS,
            vl=self.timing.bits,
            figures=in_order(self.figures),
            absent={act: why for act, why in self.absent.items() if act not in self.figures},
        )

    def _keep(self, act: str, value: Span, how: str, note: str = "") -> None:
        assume: Assumption = "derived" if self.timing.virtual else "measured"
        self.figures[act] = value.figure(assume, f"{self.command}: {how}", note)

    def _copies(self) -> None:
        """Keeps the loads and stores themselves, which user space can run in a hot cache."""
        nothing = self.timing.value("copy-nothing")
        note = "without what the kernel does around it"
        note += "" if self.timing.virtual else ", and in a hot cache"
        for act in ("save", "restore", "small_save", "small_restore", "kept_load"):
            copy = self.timing.value(f"copy-{act}")
            if copy and nothing:
                self._keep(act, copy - nothing, "the kernel's instructions, run in a loop", note)
            elif act in ("save", "restore"):
                self.absent[act] = "this cpu has not the instructions, or they could not be run"

    def _later_trap(self, first: Span) -> tuple[Span, str] | None:
        """Tells a trap after a drop at each system call (arm64's 6.1) or blocking switch (6.12)."""
        use, flush = self.timing.value("use"), self.figures.get("flush")
        each, once = self.timing.value("syscall-each"), self.timing.value("syscall-once")
        far, near = self.timing.value("trip-each"), self.timing.value("trip-never")
        if not (use and flush and each and once and far and near):
            return None
        ways = (
            (each - once - use, "getppid with a use before it, less without and less the use"),
            (
                (far - near - Span.of(flush) * 4) * 0.5 - use,
                "two processes that use the unit before each byte that they pass, less two that"
                " never do, less 4 x flush, by 2, less the use",
            ),
        )
        # A later trap allocates nothing; a save and a restore are less than a third of one.
        fits = (way for way in ways if way[0].low > first.value / 3 and way[0].value <= first.high)
        return next(fits, None)

    def _switch(self) -> None:
        """Splits a switch's saving and loading of the whole state; only their sum is timed."""
        of, sums = self.timing.value, []
        once, never, flush = of("trip-once"), of("trip-never"), self.figures.get("flush")
        if once and never and flush and "small_save" not in self.figures:
            # A system call's discard makes the state dirty, and so it is saved; not on arm64.
            how = (
                "what a round trip between two processes takes longer where both used"
                " the unit once, less 4 x flush, by 2"
            )
            sums.append(((once - never - Span.of(flush) * 4) * 0.5, how))
        use, live, without = of("use"), of("gap-each"), of("gap-never")
        if use and live and without:
            how = "what a preempted task is away for longer while it uses the unit, less a use"
            sums.append((live - without - use, how))
        self.switch, how = next((pair for pair in sums if pair[0].low > 0), (None, ""))
        if not self.switch:
            return
        for act in ("save", "restore"):
            small = self.figures.get(f"small_{act}")
            whole = self.switch * 0.5 + Span.of(small) if small else self.switch * 0.5
            source = f"small_{act} and half of {how}" if small else f"half of {how}"
            self._keep(act, whole, source, SPLIT)


def completed(table: CostTable, timed: Sheet) -> CostTable:
    """Adds to a counted table what no case does, timed on the same kernel by its guest's clock.

    arm64 stores a task's whole SVE state only if an interrupt falls between two uses, which no
    window of a case has; timed.switch is what that adds to small_save and small_restore.  No
    kernel keeps SVE on at an FPSIMD-only load yet; what it would execute for that can be run.
    """
    figures, other = dict(table.figures), timed.figures
    if "kept_load" in other:
        figures.setdefault("kept_load", other["kept_load"])
    for act in ("save", "restore"):
        small = table.figures.get(f"small_{act}")
        if act not in figures and small and act in other and timed.switch:
            # The counted figure is exact: its interval is not part of the sum.
            half = timed.switch * 0.5 + Span(small.value, small.value, small.value)
            figures[act] = half.figure("derived", other[act].source, SPLIT)
    absent = {act: why for act, why in table.absent.items() if act not in figures}
    return msgspec.structs.replace(table, figures=in_order(figures), absent=absent)


def checks(counted: CostTable, timed: Sheet) -> list[tuple[str, float, float]]:
    """Pairs what was counted along paths with what the guest timed: (what, counted, timed)."""
    mine, other = counted.prices, {act: figure.value for act, figure in timed.figures.items()}
    rows = []
    if "flush" in mine and "flush" in other:
        rows.append(("flush", mine["flush"], other["flush"]))
    if {"trap", "drop"} <= mine.keys() and {"trap", "drop"} <= other.keys():
        rows.append(("trap + drop", mine["trap"] + mine["drop"], other["trap"]))
    if {"save", "restore"} <= mine.keys() and timed.switch:
        both = mine["save"] + mine["restore"]
        rows.append(("save + restore", both, round(timed.switch.value, 1)))
    return rows


# A few hundred blocks of a millisecond take seconds; a slow machine gets more.
_SECONDS_HERE = 300.0

# A block of 500 system calls, or 50 round trips, is shorter than the time between two ticks.
_ROUNDS, _CALLS = 16, 500


def timing_program(arch: Arch) -> Path:
    """Finds the static program that times, built beside the probe; MissingToolError without it."""
    what = f"the program that times costs on {arch.name}"
    return built_file(f"costs-{arch.name}", what, f"{arch.cross}gcc")


def time_here(length: int | None) -> CostTable:
    """Times this machine at a vector length in bits; KentryError where the program fails."""
    arch = host_arch()
    argv = [str(timing_program(arch)), *([f"vl={length}"] if length else [])]
    lines: list[str] = []
    end = supervise(argv, _SECONDS_HERE, lines.append)
    if end.stopped:
        raise KentryError(
            f"The program that times costs was stopped {end.stopped}.",
            f"Run it by hand: {command_line(argv)}",
        )
    timing = parse("\n".join(lines))
    if length and timing.bits not in (0, length):
        raise UserError(
            f"This machine has vectors of {timing.bits} bits here, not {length}.",
            f"Leave --vl out, or say {timing.bits}.",
        )
    host = re.sub(r"[^a-z0-9._-]+", "-", f"{timing.arch}-{platform.node()}".lower())
    linux = f"Linux {timing.release}"
    about = f"timed by kentry vector costs on {linux}"
    command = f"kentry vector costs --here, {linux}"
    return Sheet(timing, command).table(host.strip("-._")[:64], about)


def count_costs(
    kernel: Kernel, arch: Arch, length: int | None, cpu: str, choice: str, update: Update
) -> tuple[CostTable, list[tuple[str, float, float]]]:
    """Counts the table of a kernel on a processor, in instructions, at a vector length in bits.

    Adds checks().

    Acts are counted along recorded paths.  The same kernel then boots with guest/costs.c as its
    only program, whose clock counts instructions there, one a nanosecond: that gives what no path
    has, and a check.  The program reads the guest's own clock: 62.5 MHz on arm64's machine, 10 MHz
    on riscv64's.
    """
    rules, own = arch.vector.counting, arch.vector.units[0].lengths[0]
    bits = vector_bits(arch, cpu, arch.vector.units[0].name, length)
    length = length if length != own else None
    sme = (config_lines(kernel) or {}).get("ARM64_SME") == "y"
    names = cost_counts.cases_needed(rules, length, sme=sme)
    cases = tuple(choose(arch, names))
    options = ExactOptions(cases=cases, vector_length=length, cpu=cpu, emulator=choice)
    recording = cache.record(kernel, arch, options, update, reuse=True)
    where = f"{kernel.spec} --arch {arch.name}"
    if cpu not in (MAX, parse_spec(kernel.spec).booted.get("cpu")):
        where += f" --cpu {cpu}"
    counted = cost_counts.count(recording, rules, length, f"kentry record {where}")
    table = msgspec.structs.replace(counted, vl=bits)
    # Where nothing is flushed, nothing traps, and there is nothing more to time.
    if "flush" not in rules.events:
        return table, []
    emulator = emulator_of(arch, options)
    processor = find_processor(arch, cpu)
    initramfs = kept_file("initramfs", build_initramfs(timing_program(arch), ()))
    parameters = kernel_words(arch, processor)
    parameters += ["--", f"rounds={_ROUNDS}", f"calls={_CALLS}"]
    # Linux gives a task 512 bits at most by default.
    parameters += [f"vl={length}"] if length else []
    argv = [
        *Guest(emulator, arch, processor, options.memory, options.seed, length=length).argv(),
        *boot_argv(kernel, initramfs, parameters),
    ]
    guest = boot(argv, emulator, options.timeout, update)
    if "kentry-costs end" not in guest.console:
        raise GuestError(
            f"The guest did not come to the end of what it timed: {guest.clause}.",
            "-v shows the command line.",
            guest.stderr or tail(guest.console),
        )
    command = f"kentry vector costs {where}" + (f" --vl {length}" if length else "")
    timed = Sheet(parse(guest.console, virtual=True), command)
    # The guest knows the length of a processor that kentry does not know.
    table = msgspec.structs.replace(table, vl=length or timed.timing.bits)
    return completed(table, timed), checks(table, timed)
