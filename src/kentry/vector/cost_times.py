# SPDX-License-Identifier: GPL-2.0-or-later
"""A cost table out of what guest/costs.c printed: blocks of times, from a machine or a guest.

A measure's value is the median over its blocks; its interval is between two of them, between
which the true median is with 95 % (order statistics: no distribution is assumed).  A figure is a
sum of such values with factors, its ends those of the least favourable case.

In a guest under -icount the clock counts instructions, so the same program gives a table in
instructions, a second way of counting beside cost_counts.py.  There the timer may hit the same
measure in most of the rounds, so the value is the lower quartile, between the least and the median.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from kentry.errors import UserError
from kentry.vector.costs import ACTS, INSTRUCTIONS, NS, CostTable, Figure

_PREFIX = "kentry-costs "
# Fewer blocks than that have no interval at 95 %.
LEAST_BLOCKS = 6
# Standard deviations on either side that 95 % of a normal distribution are in.
_SIGMAS = 1.96

MEASURED, DERIVED, _ASSUMED = "measured", "derived", "assumed"

SPLIT = "only the sum of save and restore is known: split evenly"

# Of the trap, what a write of CPACR_EL1 and its isb may be.
_MOST_DROP = 0.1

_AGAIN = "Run the program again (kentry vector costs --program), and copy all that it prints."


@dataclass(frozen=True)
class Interval:
    """A value between two ends."""

    value: float
    low: float
    high: float

    def __add__(self, other: Interval) -> Interval:
        return Interval(self.value + other.value, self.low + other.low, self.high + other.high)

    def __sub__(self, other: Interval) -> Interval:
        return self + other.times(-1)

    def times(self, factor: float) -> Interval:
        """The interval with everything in it multiplied."""
        ends = sorted((self.low * factor, self.high * factor))
        return Interval(self.value * factor, *ends)

    @property
    def is_something(self) -> bool:
        """Whether it is more than nothing, at every place of the interval."""
        return self.low > 0


@dataclass
class Timing:
    """What one run of the program said: `blocks` are ns a call, by measure; `bits` 0: no unit.

    `virtual`: the clock counted a guest's instructions.
    """

    arch: str
    bits: int
    release: str
    virtual: bool = False
    blocks: dict[str, list[float]] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)

    def value(self, measure: str) -> Interval | None:
        """What a measure took, with its interval; None where there are too few blocks."""
        found = self.blocks.get(measure, [])
        if len(found) < LEAST_BLOCKS:
            return None
        return quartile(found) if self.virtual else median(found)


def median(values: Iterable[float]) -> Interval:
    """The middle of the values, and the two of them between which the true one is with 95 %."""
    ordered = sorted(values)
    count = len(ordered)
    middle = (ordered[(count - 1) // 2] + ordered[count // 2]) / 2
    reach = _SIGMAS * math.sqrt(count) / 2
    first = max(0, math.floor(count / 2 - reach))
    last = min(count - 1, math.ceil(count / 2 + reach))
    return Interval(middle, ordered[first], ordered[last])


def quartile(values: Iterable[float]) -> Interval:
    """What a quarter of the values are below, between the least of them and the middle one."""
    ordered = sorted(values)
    count = len(ordered)
    return Interval(ordered[count // 4], ordered[0], ordered[count // 2])


def parse(text: str, *, virtual: bool = False) -> Timing:
    """The lines of one run, among which others may be; UserError where it is not whole.

    `virtual` where the clock counted a guest's instructions.
    """
    timing: Timing | None = None
    ended = -1
    for line in text.splitlines():
        start = line.find(_PREFIX)
        words = line[start + len(_PREFIX) :].split() if start >= 0 else []
        if not words:
            continue
        try:
            if words[0] == "start":
                timing, ended = _started(words, virtual), -1
            elif timing is None:
                raise ValueError("it begins in the middle")
            elif words[0] == "end":
                ended = int(words[1].removeprefix("blocks="))
            else:
                _take(timing, words)
        except (ValueError, IndexError, KeyError) as err:
            raise UserError(f"'{line.strip()[:60]}' is no line of costs.c's.", _AGAIN) from err
    if timing is None:
        raise UserError("There is no 'kentry-costs start' line in what was printed.", _AGAIN)
    if ended < 0 or ended != sum(map(len, timing.blocks.values())):
        raise UserError("What was printed is not whole: blocks are missing.", _AGAIN)
    return timing


def _started(words: list[str], virtual: bool) -> Timing:
    values = dict(word.split("=", 1) for word in words[2:])
    return Timing(words[1], int(values["bits"]), "", virtual)


def _take(timing: Timing, words: list[str]) -> None:
    if words[0] == "release":
        timing.release = " ".join(words[1:])
    elif words[0] == "absent":
        timing.absent[words[1]] = " ".join(words[2:])
    elif words[0] == "block":
        calls, ns = int(words[2]), int(words[3])
        if calls <= 0:
            raise ValueError("no calls")
        timing.blocks.setdefault(words[1], []).append(ns / calls)
    else:
        raise ValueError("unknown word")


# --- figures ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Timed:
    """A table, and for the acts that it lacks the reason.

    `switch` is what a switch there and back takes longer for a task with its whole state live
    than for one without; None where that was not to be told.
    """

    table: CostTable
    absent: dict[str, str]
    switch: Interval | None


def tabulate(timing: Timing, name: str, about: str, command: str) -> Timed:
    """The figures of a run; UserError where it had no vector unit, or too few blocks.

    `command` is what a figure's source begins with.
    """
    if not timing.bits:
        raise UserError(
            f"The machine (Linux {timing.release}) has no vector unit that its kernel knows of.",
            "Take another, or a kernel with the option.",
        )
    if timing.value("syscall-never") is None:
        raise UserError(
            f"There are fewer than {LEAST_BLOCKS} blocks of a measure.",
            "Run the program with more rounds: rounds=30.",
        )
    sheet = _Sheet(timing, DERIVED if timing.virtual else MEASURED, command)
    sheet.fill()
    figures = {act: sheet.figures[act] for act in ACTS if act in sheet.figures}
    unit = INSTRUCTIONS if timing.virtual else NS
    table = CostTable(name, timing.arch, unit, figures, about, timing.bits)
    absent = {act: why for act, why in sheet.absent.items() if act not in figures}
    return Timed(table, absent, sheet.switch)


class _Sheet:
    """Works out one figure after the other."""

    def __init__(self, timing: Timing, assume: str, command: str) -> None:
        self._timing = timing
        self._assume = assume
        self._command = command
        self.figures: dict[str, Figure] = {}
        self.absent: dict[str, str] = {}
        self.switch: Interval | None = None

    def fill(self) -> None:
        self._keep("syscall", self._of("syscall-never"), "getppid, the program's loop in it")
        self._copies()
        first = self._of("first-use")
        if first and first.is_something:
            self._flush()
            self._trap(first)
            self._switch()
        else:
            for act in ("trap", "flush"):
                self.absent[act] = "a process's first use takes no longer than its second"

    def _of(self, measure: str) -> Interval | None:
        return self._timing.value(measure)

    def _keep(
        self, act: str, value: Interval | None, how: str, note: str = "", assume: str = ""
    ) -> None:
        if value is None:
            self.absent[act] = "it was not measured"
            return
        source = f"{self._command}: {how}"
        middle, low, high = (max(0.0, one) for one in (value.value, value.low, value.high))
        self.figures[act] = Figure(
            _rounded(middle), _rounded(low), _rounded(high), assume or self._assume, source, note
        )

    def _copies(self) -> None:
        """What can be run in user space: the loads and stores themselves, in a hot cache."""
        nothing = self._of("copy-nothing")
        note = "without what the kernel does around it"
        note += "" if self._timing.virtual else ", and in a hot cache"
        for act in ("save", "restore", "small_save", "small_restore", "kept_load"):
            copy = self._of(f"copy-{act}")
            if copy and nothing:
                self._keep(act, copy - nothing, "the kernel's instructions, run in a loop", note)
            elif act in ("save", "restore"):
                self.absent[act] = "this cpu has not the instructions, or they could not be run"

    def _flush(self) -> None:
        never, once = self._of("syscall-never"), self._of("syscall-once")
        if never and once:
            self._keep("flush", once - never, "getppid by a task that used the unit once, less one"
                       " that never did")  # fmt: skip

    def _trap(self, first: Interval) -> None:
        """The first of a task's life; where the kernel takes the unit away, the later ones."""
        again, how = self._trap_again(first)
        if again:
            self._keep("trap", again, how, f"the first in a task's life: {first.value:.4g}")
            self._keep(
                "drop",
                Interval(0.0, 0.0, again.value * _MOST_DROP),
                "it cannot be told from the trap after it, and is in its figure; high: a tenth",
                assume=_ASSUMED,
            )
        else:
            how = "a process's first use less its second"
            self._keep("trap", first, how, "with the state's allocation")
            self.absent["drop"] = "no kernel entry that was timed does it"

    def _trap_again(self, first: Interval) -> tuple[Interval | None, str]:
        """Dropped at every system call, as arm64's 6.1 does, or at a blocking switch, as 6.12."""
        use, flush = self._of("use"), self.figures.get("flush")
        each, once = self._of("syscall-each"), self._of("syscall-once")
        far, near = self._of("trip-each"), self._of("trip-never")
        if not (use and flush and each and once and far and near):
            return None, ""
        flushes = Interval(flush.value, flush.low, flush.high).times(4)
        found = (
            (each - once - use, "getppid with a use before it, less without and less the use"),
            (
                (far - near - flushes).times(1 / 2) - use,
                "two processes that use the unit before each byte that they pass, less two that"
                " never do, less 4 x flush, by 2, less the use",
            ),
        )
        for value, how in found:
            # A later trap allocates nothing; a save and a restore are less than a third of one.
            if value.low > first.value / 3 and value.value <= first.high:
                return value, how
        return None, ""

    def _switch(self) -> None:
        """A switched-out task's whole state goes out and in; timed is the sum of the two."""
        found = next(((one, how) for one, how in self._switches() if one.is_something), None)
        if not found:
            return
        self.switch, how = found
        half = self.switch.times(1 / 2)
        for act in ("save", "restore"):
            small = self.figures.get(f"small_{act}")
            both = half + Interval(small.value, small.low, small.high) if small else half
            source = f"half of {how}"
            self._keep(act, both, f"small_{act} and {source}" if small else source, SPLIT)

    def _switches(self) -> Iterator[tuple[Interval, str]]:
        use, live, without = self._of("use"), self._of("gap-each"), self._of("gap-never")
        once, never = self._of("trip-once"), self._of("trip-never")
        flush = self.figures.get("flush")
        if once and never and flush and "small_save" not in self.figures:
            # What is discarded at a system call is dirty, and saved: not so on arm64.
            flushes = Interval(flush.value, flush.low, flush.high).times(4)
            more = (once - never - flushes).times(1 / 2)
            yield (
                more,
                "what a round trip between two processes takes longer where both used"
                + (" the unit once, less 4 x flush, by 2"),
            )
        if use and live and without:
            how = "what a preempted task is away for longer while it uses the unit, less a use"
            yield live - without - use, how


def _rounded(value: float) -> float:
    """To a tenth: no clock and no core says more."""
    return round(value, 1)


def completed(table: CostTable, timed: Timed) -> CostTable:
    """A counted table with what no case does, from the same kernel timed by its guest's clock.

    arm64 stores a task's whole SVE state only where an interrupt falls between two uses, which no
    window of a case has; timed.switch is what that adds to its small_save and small_restore.  No
    kernel yet keeps SVE on at an FPSIMD-only load; what it would execute for that can be run.
    """
    figures = dict(table.figures)
    if "kept_load" in timed.table.figures and "kept_load" not in figures:
        figures["kept_load"] = timed.table.figures["kept_load"]
    for act in ("save", "restore"):
        small, timed_one = table.figures.get(f"small_{act}"), timed.table.figures.get(act)
        if act in figures or not (small and timed_one and timed.switch):
            continue
        half = timed.switch.times(1 / 2)
        figures[act] = Figure(
            _rounded(small.value + half.value),
            _rounded(small.value + half.low),
            _rounded(small.value + half.high),
            DERIVED,
            timed_one.source,
            SPLIT,
        )
    return replace(table, figures={act: figures[act] for act in ACTS if act in figures})


# Counted and timed by the guest's clock may differ by so many instructions, or by this share: the
# clock has ticks of 16 and 100 instructions, and a trap of the timer's may be in most blocks.
TOLERANCE, TOLERANCE_SHARE = 5.0, 0.03


def checks(counted: CostTable, timed: Timed) -> list[tuple[str, float, float]]:
    """What was counted along paths and timed by the guest's own clock: (what, counted, timed)."""
    figures, other = counted.figures, timed.table.figures
    found = []
    if "flush" in figures and "flush" in other:
        found.append(("flush", figures["flush"].value, other["flush"].value))
    if {"trap", "drop"} <= figures.keys() and {"trap", "drop"} <= other.keys():
        both = figures["trap"].value + figures["drop"].value
        found.append(("trap + drop", both, other["trap"].value))
    if {"save", "restore"} <= figures.keys() and timed.switch:
        both = figures["save"].value + figures["restore"].value
        found.append(("save + restore", both, _rounded(timed.switch.value)))
    return found


def agree(counted: float, timed: float) -> bool:
    """Whether the two are within TOLERANCE."""
    return abs(counted - timed) <= max(TOLERANCE, TOLERANCE_SHARE * counted)
