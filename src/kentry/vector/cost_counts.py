# SPDX-License-Identifier: GPL-2.0-or-later
"""A cost table in instructions, from the recorded paths of one kernel.

What an act is is counted in one of these ways, which its figure's source names:

    entry       the whole kernel entry that it is in: a path, cut behind each return to user space
    difference  what a case takes more than the same case in another state, less what else the
                kernel did more often in it, divided by how often it did this
    call        the calls of a function that it is in, with all that they call
    function    how much more of the function it stands in one state executes than another
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from kentry.model.case_name import State
from kentry.model.recording import INSTRUCTIONS, CaseResult, Instruction, Recording
from kentry.path.symbols import base_name
from kentry.vector.costs import INSTRUCTIONS as UNIT
from kentry.vector.costs import CostTable, Figure
from kentry.vector.events import SWITCH

COUNTED = "counted"

# What leaves the kernel, as the disassembly spells it.
_RETURN = re.compile(r"eret|sret|sysret|iret")


@dataclass(frozen=True)
class Rules:
    """How an architecture's acts are counted.

    `events` maps an act to the event that is it, `units` names the units whose cases are needed.
    `calls` are, by act, the functions around it; `inner` those acts that stand in a function that
    does much else.  `bodies` maps an act to (the act that is done in its place, the function that
     that would do this).  `sme` are acts of a unit of their own.
    """

    events: dict[str, str]
    calls: dict[str, str]
    inner: tuple[str, ...] = ()


_ARM64 = Rules(
    events={
        "trap": "trap",
        "flush": "flush",
        "drop": "drop",
        "small_save": "fpsimd-save",
        "small_restore": "fpsimd-restore",
        "za_save": "za-save",
        "za_restore": "za-restore",
        "sme_trap": "sme-trap",
        "smstop": "smstop",
    },
    calls={
        # fpsimd_save: before 6.8.
        "small_save": "fpsimd_save|fpsimd_save_user_state",
        "small_restore": "fpsimd_restore_current_state",
    },
)
_RISCV64 = Rules(
    events={"trap": "trap", "flush": "discard", "save": "save", "restore": "restore"},
    calls={},
    inner=("save", "restore"),
)
_X86_64 = Rules(
    events={"trap": "trap", "save": "save", "restore": "restore"},
    calls={"save": "save_fpregs_to_fpstate", "restore": "switch_fpu_return"},
)
RULES = {"arm64": _ARM64, "riscv64": _RISCV64, "x86_64": _X86_64}

# An absent figure's reason, where there is no such thing.
NEVER = "this kernel does no such thing in any of the cases"


@dataclass(frozen=True)
class Counted:
    """A table, and for the acts that it lacks the reason."""

    table: CostTable
    absent: dict[str, str]


def cases_needed(arch: str, length: int | None, *, sme: bool = False) -> tuple[str, ...]:
    """The names of the cases that count() wants, at a vector length in bits or the cpu's own."""
    words = [
        ("getppid", "vec", ("none", "once", "each")),
        ("pingpong", "vec", ("none", "once", "each")),
        ("first-use", "vec", ("each",)),
    ]
    if not RULES[arch].events.get("flush"):
        words = words[:2]  # Nothing traps where nothing is flushed: x86-64.
    if sme:
        words += [("pingpong", "za", ("none", "once")), ("first-use", "za", ("each",))]
    return tuple(f"{case}{State(unit, use, length)}" for case, unit, uses in words for use in uses)


def count(recording: Recording, length: int | None, command: str) -> Counted:
    """The table of a recording with the cases of cases_needed().

    `command` is what a figure's source begins with: it makes the recording, given the cases.
    """
    counter = _Counter(recording, RULES[recording.kernel["arch"]], length, command)
    counter.run()
    kernel = recording.kernel
    name = re.sub(r"[^a-z0-9._-]+", "-", f"{kernel['arch']}-{kernel['release']}".lower())[:64]
    table = CostTable(
        name,
        kernel["arch"],
        UNIT,
        counter.in_order(),
        f"kernel instructions of Linux {kernel['release']} under {recording.target['emulator']};"
        " not time",
    )
    return Counted(table, counter.absent)


class _Counter:
    """Works out one figure after the other; a later one may need an earlier one."""

    def __init__(
        self, recording: Recording, rules: Rules, length: int | None, command: str
    ) -> None:
        self._recording = recording
        self._rules = rules
        self._length = length
        self._command = command
        self.figures: dict[str, Figure] = {}
        self.absent: dict[str, str] = {}

    def run(self) -> None:
        self._syscall()
        for act, unit in (("trap", "vec"), ("sme_trap", "za")):
            self._entry(act, unit)
        self._difference("flush", "getppid", "once", "none")
        for act, functions in self._rules.calls.items():
            self._call(act, functions)
        for act in self._rules.inner:
            self._function(act)
        for act in ("za_save", "za_restore"):
            self._za(act)
        if not self._difference("drop", "getppid", "each", "none"):
            self._difference("drop", "pingpong", "each", "once")
        self._smstop()

    def in_order(self) -> dict[str, Figure]:
        from kentry.vector.costs import ACTS

        return {act: self.figures[act] for act in ACTS if act in self.figures}

    # --- cases ---

    def _name(self, case: str, use: str, unit: str = "vec") -> str:
        return f"{case}{State(unit, use, self._length)}"

    def _case(self, case: str, use: str, unit: str = "vec") -> CaseResult | None:
        return self._recording.case(self._name(case, use, unit))

    def _times(self, case: CaseResult, event: str, *, switch_or_call: bool = False) -> int:
        """How often an event is in the case; of those in a trap nothing where so asked."""
        return sum(
            one.times
            for one in case.events or ()
            if one.name == event and not (switch_or_call and one.cause == "first use")
        )

    def _source(self, names: Sequence[str], how: str) -> str:
        return f"{self._command} --case {','.join(names)}: {how}"

    def _keep(self, act: str, values: Sequence[int], source: str, note: str = "") -> None:
        """The commonest of several counts; the others are its interval."""
        value = min(values, key=lambda one: (-values.count(one), one))
        self.figures[act] = Figure(value, min(values), max(values), COUNTED, source, note)
        self.absent.pop(act, None)

    # --- the ways to count ---

    def _syscall(self) -> None:
        case = self._case("getppid", "none")
        assert case
        self._keep(
            "syscall",
            [case.metrics[INSTRUCTIONS].value],
            self._source([case.name], "all of it"),
        )

    def _entry(self, act: str, unit: str) -> None:
        event = self._rules.events.get(act)
        if not event or not self._case("first-use", "each", unit):
            return
        first = self._case("first-use", "each", unit)
        most = max(self._trap_lengths(first, event), default=0) if first else 0
        others = [self._case("getppid", "each", unit), self._case("pingpong", "each", unit)]
        how = "the whole kernel entry that it is in"
        for case in others:
            values = self._trap_lengths(case, event) if case else []
            if case and values:
                note = f"the first in a task's life allocates: {most}" if most else ""
                self._keep(act, values, self._source([case.name], how), note)
                return
        if first and most:
            firmware = first.metrics.get("firmware_instructions")
            more = f"; and {firmware.value} of firmware" if firmware and firmware.value else ""
            note = f"with the allocation, which only the first in a task's life makes{more}"
            self._keep(act, [most], self._source([first.name], how), note)
            return
        self.absent[act] = NEVER

    def _trap_lengths(self, case: CaseResult, event: str) -> list[int]:
        """The kernel entries of its commonest path that begin the event."""
        functions = {one.function for one in case.events or () if one.name == event}
        return [
            len(entry)
            for entry in self._entries(case)
            if any(insn.offset == 0 and base_name(insn.function) in functions for insn in entry)
        ]

    def _entries(self, case: CaseResult) -> Iterator[list[Instruction]]:
        path = case.modal_path
        entry: list[Instruction] = []
        for insn in self._recording.instructions(path) if path else ():
            entry.append(insn)
            if _RETURN.match(insn.text):
                yield entry
                entry = []

    def _difference(self, act: str, base: str, use: str, other: str) -> bool:
        event = self._rules.events.get(act)
        one, two = self._case(base, use), self._case(base, other)
        if not event or not one or not two or not (one.modal_path and two.modal_path):
            return False
        more = self._more(one, two)
        times = more.pop(act, 0)
        known = all(other in self.figures for other, count in more.items() if count)
        if times <= 0 or not known:
            self.absent.setdefault(act, NEVER)
            return False
        rest = one.modal_path.length - two.modal_path.length
        rest -= sum(int(self.figures[a].value) * n for a, n in more.items() if n)
        if rest < 0 or rest % times:
            self.absent[act] = f"the counts of {one.name} do not add up to a whole number of it"
            return False
        less = "".join(f" less {n} x {a}" for a, n in more.items() if n)
        by = f", by {times}" if times > 1 else ""
        how = f"the first less the second{less}{by}"
        self._keep(act, [rest // times], self._source([one.name, two.name], how))
        return True

    def _more(self, one: CaseResult, two: CaseResult) -> Counter[str]:
        """By act, how often it is in one case more than in the other; not what a trap does."""
        more: Counter[str] = Counter()
        for act, event in self._rules.events.items():
            sides = [self._times(case, event, switch_or_call=act != "trap") for case in (one, two)]
            more[act] = sides[0] - sides[1]
        return more

    def _call(self, act: str, functions: str) -> None:
        case = self._case("pingpong", "none")
        assert case
        values = self._call_lengths(case, self._rules.events[act], functions)
        if values:
            how = f"calls of {functions.replace('|', ' or ')}, with what they call"
            self._keep(act, values, self._source([case.name], how))
        else:
            self.absent[act] = NEVER

    def _call_lengths(self, case: CaseResult, event: str, functions: str) -> list[int]:
        """The longest calls, as many as there are events: others return without doing it."""
        if not case.modal_path:
            return []
        path = self._recording.instructions(case.modal_path)
        lengths = sorted(calls(path, re.compile(functions)), reverse=True)
        return lengths[: self._times(case, event)]

    def _za(self, act: str) -> None:
        case = self._case("pingpong", "once", "za")
        small = act.replace("za_", "small_")
        if not case or small not in self.figures:
            return
        values = self._call_lengths(case, self._rules.events[act], self._rules.calls[small])
        if values:
            less = int(self.figures[small].value)
            how = f"calls of {self._rules.calls[small].replace('|', ' or ')} less {small}"
            self._keep(act, [v - less for v in values], self._source([case.name], how))
        else:
            self.absent[act] = NEVER

    def _function(self, act: str) -> None:
        one, two = self._case("pingpong", "once"), self._case("pingpong", "none")
        assert one and two
        found = [
            event
            for event in one.events or ()
            if event.name == self._rules.events[act] and event.cause == SWITCH
        ]
        if not found:
            self.absent[act] = NEVER
            return
        function, times = found[0].function, found[0].times
        counts = [dict(case.functions).get(function, 0) for case in (one, two)]
        how = f"{function} in the first less in the second, by {times}"
        source = self._source([one.name, two.name], how)
        self._keep(act, [(counts[0] - counts[1]) // times], source)

    def _smstop(self) -> None:
        case = self._case("getppid", "none")
        if case and self._times(case, self._rules.events.get("smstop", "")):
            self._keep("smstop", [1], self._source([case.name], "the instruction; in syscall, too"))


def calls(path: Sequence[Instruction], functions: re.Pattern[str]) -> list[int]:
    """How many instructions each call of these functions took, with what it called.

    A call is known by its first instruction; it ends where the path comes back to the
    instruction behind the one that led there.  One that never does, because another task was
    switched to, is left out.
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
