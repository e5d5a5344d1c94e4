# SPDX-License-Identifier: GPL-2.0-or-later
"""A cost table in instructions, from the recorded paths of one kernel.

An act is counted in one of these ways, which its figure's source names:

    entry       the whole kernel entry around it: a path, cut behind each return to user space
    difference  what a case takes more than the same case in another state, less what else the
                kernel did more often in it, divided by how often it did this act
    call        the calls of a function around it, with all that they call
    function    how many more instructions of its function one state executes than another
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from kentry.arch.mechanism import CountingRules
from kentry.arch.processors import MAX
from kentry.models.costs import INSTRUCTIONS as UNIT
from kentry.models.costs import CostTable, Figure, in_order
from kentry.path.events import SWITCH
from kentry.path.symbols import base_name
from kentry.results.case_name import CaseName, State
from kentry.results.recording import INSTRUCTIONS, CaseResult, Instruction, Recording

# Why an act has no figure.
NEVER = "this kernel does no such thing in any of the cases"

# What leaves the kernel, as the disassembly spells it.
_RETURN = re.compile(r"eret|sret|sysret|iret")


def cases_needed(rules: CountingRules, length: int | None, *, sme: bool = False) -> tuple[str, ...]:
    """Names the cases that count() reads, at a vector length in bits or the cpu's own."""
    uses = ("none", "once", "each")
    states = [(call, "vec", use) for call in ("getppid", "pingpong") for use in uses]
    # x86-64 flushes nothing, and so nothing traps.
    if "flush" in rules.events:
        states.append(("first-use", "vec", "each"))
    if sme:
        states += [("pingpong", "za", "none"), ("pingpong", "za", "once")]
        states.append(("first-use", "za", "each"))
    return tuple(str(CaseName(call, State(unit, use, length))) for call, unit, use in states)


def count(
    recording: Recording, rules: CountingRules, length: int | None, command: str
) -> CostTable:
    """Counts the table of a recording of cases_needed(), which `command` makes, given the cases."""
    counter = _Counter(recording, rules, length, command)
    arch, release = recording.kernel["arch"], recording.kernel["release"]
    emulator, cpu = recording.target["emulator"], recording.target.get("processor", MAX)
    own, on = (f"{cpu}-", f" on {cpu}") if cpu != MAX else ("", "")
    name = re.sub(r"[^a-z0-9._-]+", "-", f"{arch}-{own}{release}".lower())[:64]
    about = f"kernel instructions of Linux {release}{on} under {emulator}; not time"
    figures = in_order(counter.figures)
    return CostTable(name, about, arch, UNIT, length or 0, figures, counter.absent)


@dataclass
class _Counter:
    """Works out one figure after the other; a later one may need an earlier one."""

    recording: Recording
    rules: CountingRules
    length: int | None
    command: str
    figures: dict[str, Figure] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Fills `figures` and `absent`."""
        plain = self._case("getppid", "none")
        counts = [plain.metrics[INSTRUCTIONS].value] if plain else []
        self._keep("syscall", counts, [plain] if plain else [], "all of it")
        self._entry("trap", "vec")
        self._entry("sme_trap", "za")
        self._difference("flush", "getppid", "once", "none")
        for act in self.rules.calls:
            self._call(act, self._case("pingpong", "none"))
        for act in self.rules.inner:
            self._function(act)
        for act, small in (("za_save", "small_save"), ("za_restore", "small_restore")):
            case = self._case("pingpong", "once", "za")
            if case and small in self.figures:
                self._call(act, case, small)
        if not self._difference("drop", "getppid", "each", "none"):
            self._difference("drop", "pingpong", "each", "once")
        if plain and self._times(plain, "smstop"):
            self._keep("smstop", [1], [plain], "the instruction; in syscall, too")

    def _case(self, call: str, use: str, unit: str = "vec") -> CaseResult | None:
        return self.recording.case(str(CaseName(call, State(unit, use, self.length))))

    def _times(self, case: CaseResult, act: str, *, outside_traps: bool = False) -> int:
        """Counts how often a case has the act."""
        event = self.rules.events.get(act)
        return sum(
            row.times
            for row in case.events or ()
            if row.name == event and not (outside_traps and row.cause == "first use")
        )

    def _keep(
        self, act: str, values: Sequence[int], cases: Sequence[CaseResult], how: str, note: str = ""
    ) -> None:
        """Keeps the commonest of several counts as the figure, the others as its interval."""
        if not values:
            self.absent[act] = NEVER
            return
        value = min(values, key=lambda v: (-values.count(v), v))
        source = f"{self.command} --case {','.join(case.name for case in cases)}: {how}"
        self.figures[act] = Figure(value, min(values), max(values), "counted", source, note)
        self.absent.pop(act, None)

    def _entry(self, act: str, unit: str) -> None:
        """Counts the kernel entries of a modal path in which the act's event begins."""
        first = self._case("first-use", "each", unit)
        if act not in self.rules.events or not first:
            return
        how = "the whole kernel entry that it is in"
        most = max(self._entry_lengths(first, act), default=0)
        for call in ("getppid", "pingpong"):
            case = self._case(call, "each", unit)
            if case and (values := self._entry_lengths(case, act)):
                note = f"the first in a task's life allocates: {most}" if most else ""
                self._keep(act, values, [case], how, note)
                return
        firmware = first.metrics.get("firmware_instructions")
        more = f"; and {firmware.value} of firmware" if firmware and firmware.value else ""
        note = f"with the allocation, which only the first in a task's life makes{more}"
        self._keep(act, [most] if most else [], [first], how, note)

    def _entry_lengths(self, case: CaseResult, act: str) -> list[int]:
        event = self.rules.events[act]
        functions = {row.function for row in case.events or () if row.name == event}
        path = case.modal_path
        lengths: list[int] = []
        length, begins = 0, False
        for insn in self.recording.instructions(path) if path else ():
            length += 1
            begins |= insn.offset == 0 and base_name(insn.function) in functions
            if _RETURN.match(insn.text):
                lengths += [length] if begins else []
                length, begins = 0, False
        return lengths

    def _difference(self, act: str, call: str, use: str, other: str) -> bool:
        """Counts what a case takes more than in another state; False where that gives no figure."""
        own, two = self._case(call, use), self._case(call, other)
        if act not in self.rules.events or not (own and two and own.modal_path and two.modal_path):
            return False
        # What a trap does is part of the trap's figure.
        more = {
            name: self._times(own, name, outside_traps=name != "trap")
            - self._times(two, name, outside_traps=name != "trap")
            for name in self.rules.events
        }
        times = more.pop(act)
        others = {name: number for name, number in more.items() if number}
        if times <= 0 or not others.keys() <= self.figures.keys():
            self.absent.setdefault(act, NEVER)
            return False
        rest = own.modal_path.length - two.modal_path.length
        rest -= sum(int(self.figures[name].value) * number for name, number in others.items())
        if rest < 0 or rest % times:
            self.absent[act] = f"the counts of {own.name} do not add up to a whole number of it"
            return False
        less = "".join(f" less {number} x {name}" for name, number in others.items())
        by = f", by {times}" if times > 1 else ""
        self._keep(act, [rest // times], [own, two], f"the first less the second{less}{by}")
        return True

    def _call(self, act: str, case: CaseResult | None, less: str = "") -> None:
        """Counts calls of the functions around an act, less the figure of another act in them."""
        if not case:
            self.absent[act] = NEVER
            return
        functions = self.rules.calls[less or act]
        path = self.recording.instructions(case.modal_path) if case.modal_path else ()
        # The longest, as many as there are events: other calls return without doing it.
        values = sorted(call_lengths(path, re.compile(functions)), reverse=True)
        values = values[: self._times(case, act)]
        known = int(self.figures[less].value) if less else 0
        tail = f" less {less}" if less else ", with what they call"
        how = f"calls of {functions.replace('|', ' or ')}{tail}"
        self._keep(act, [value - known for value in values], [case], how)

    def _function(self, act: str) -> None:
        """Counts how much more of the function that does the act at a switch one state executes."""
        own, two = self._case("pingpong", "once"), self._case("pingpong", "none")
        self.absent[act] = NEVER
        if not (own and two):
            return
        for event in own.events or ():
            if event.name == self.rules.events[act] and event.cause == SWITCH:
                counts = [dict(case.functions).get(event.function, 0) for case in (own, two)]
                value = (counts[0] - counts[1]) // event.times
                how = f"{event.function} in the first less in the second, by {event.times}"
                self._keep(act, [value], [own, two], how)
                return


def call_lengths(path: Sequence[Instruction], functions: re.Pattern[str]) -> list[int]:
    """Counts the instructions of each call of these functions, with what it called.

    A call begins at the function's first instruction.  It ends where the path comes back to the
    instruction behind the one that led there.  A call that does not end, because the kernel
    switched to another task, is left out.
    """
    lengths: list[int] = []
    open_calls: list[tuple[int, int]] = []
    for index, (before, insn) in enumerate(pairwise(path), start=1):
        if open_calls and insn.address == open_calls[-1][0]:
            lengths.append(index - open_calls.pop()[1])
        if insn.offset == 0 and functions.fullmatch(base_name(insn.function)):
            behind = before.address + len(before.code) // 2
            if insn.address != behind and not (open_calls and open_calls[-1][0] == behind):
                open_calls.append((behind, index))
    return lengths
