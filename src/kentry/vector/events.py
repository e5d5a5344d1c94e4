# SPDX-License-Identifier: GPL-2.0-or-later
"""What a path did to vector state: events, counted, each with its cause.

The cause is the innermost function around the event that stands for one (_CAUSES); of what is
done on the way back to user space, which only makes good what was lost before, that of the last
save, switch or use by the kernel in the same window.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache

from kentry.arch.record import Marker, VectorSide
from kentry.model.recording import Event, Instruction
from kentry.path.symbols import base_name

SYSCALL, SWITCH = "syscall", "switch"
_KERNEL_USE = "kernel use"
# Of a restore: what made it necessary came before the window.
EARLIER = "earlier"

_CAUSES = (
    ("first use", r"do_sve_acc|do_sme_acc|riscv_v_first_use_handler|exc_device_not_available"),
    (
        "signal",
        r"(arch_)?do_signal\w*|handle_signal|setup_rt_frame|(\w+_)?sys_rt_sigreturn"
        r"|\w*restore_sigframe\w*|fpu__restore_sig|\w*signal_preserve\w*",
    ),
    ("fork", r"copy_process|arch_dup_task_struct|copy_thread|kernel_clone|fpu_clone"),
    ("exec", r"begin_new_exec|\w*flush_thread\w*"),
    ("user copy", r"enter_vector_usercopy|\w*vector_usercopy\w*"),
    (SWITCH, r"__schedule|schedule|__switch_to|fpsimd_thread_switch|finish_task_switch"),
    (_KERNEL_USE, r"kernel_(neon|vector|fpu)_begin\w*"),
)
_PATTERNS = tuple((cause, re.compile(pattern)) for cause, pattern in _CAUSES)

# What a compiler split off a function is not where the function begins.
_PART = re.compile(r"\.(part|cold)\b")

_SAVES = frozenset(("save", "fpsimd-save", "za-save", "kernel-use"))
_RESTORES = frozenset(("restore", "fpsimd-restore", "za-restore"))
# On the way back to user space: what is done there makes good what was lost before.
_LOADS = re.compile(r"\w*(load|restore|bind|exit_to_user)\w*")


@dataclass(frozen=True)
class Markers:
    """The markers that a kernel has, and the events that nothing in it stands for."""

    found: tuple[Marker, ...]
    absent: tuple[str, ...]


def find_markers(side: VectorSide, symbols: Iterable[str], image: bytes) -> Markers:
    """Looks for every marker of an architecture in a kernel's symbols and uncompressed image."""
    names = {base_name(symbol) for symbol in symbols}
    found, absent = [], []
    for marker in side.markers:
        if _is_there(marker, names, image, side.alignment):
            found.append(marker)
        else:
            absent.append(marker.event)
    return Markers(tuple(found), tuple(absent))


def _is_there(marker: Marker, names: Iterable[str], image: bytes, alignment: int) -> bool:
    wanted = [pattern for pattern in (marker.symbol, marker.within) if pattern]
    if not all(any(map(pattern.fullmatch, names)) for pattern in wanted):
        return False
    if not marker.code:
        return True
    pattern = marker.code
    if marker.behind:
        pattern = re.compile(marker.behind.pattern + pattern.pattern, re.DOTALL)
    match = pattern.search(image)
    while match and match.start() % alignment:
        match = pattern.search(image, match.start() + 1)
    return match is not None


class EventCounter:
    """Counts the events in paths through one kernel's code."""

    def __init__(
        self,
        markers: Markers,
        side: VectorSide,
        calls: re.Pattern[str],
        code: Sequence[Instruction],
    ) -> None:
        self._code = code
        self._switch = side.switch
        self._calls = [bool(calls.match(insn.text)) for insn in code]
        self._functions = [base_name(insn.function) for insn in code]
        raw = [bytes.fromhex(insn.code) for insn in code]
        self._markers = [
            self._of_instruction(index, raw[index], markers.found) for index in range(len(code))
        ]
        self._raw = raw

    def _of_instruction(
        self, index: int, raw: bytes, markers: Sequence[Marker]
    ) -> tuple[Marker, ...]:
        insn, function = self._code[index], self._functions[index]
        return tuple(
            marker
            for marker in markers
            if not (marker.outside and marker.outside.fullmatch(function))
            and (
                insn.offset == 0
                and not _PART.search(insn.function)
                and marker.symbol.fullmatch(function)
                if marker.symbol
                else marker.code and marker.code.match(raw)
            )
        )

    def count(self, path: Iterable[int]) -> tuple[Event, ...]:
        """The events of a path, given as indexes into the code."""
        walk = _Walk()
        counts: Counter[tuple[str, str, str]] = Counter()
        lost = EARLIER
        before = -1
        repeated: Marker | None = None
        for index in path:
            if before >= 0:
                self._follow(walk, before, index)
            function = self._functions[index]
            if function == self._switch and self._code[index].offset == 0:
                walk.frames.clear()
                lost = SWITCH
            for marker in self._markers[index]:
                if not self._applies(marker, walk, function, before):
                    continue
                if marker.repeats and marker is repeated:
                    continue
                repeated = marker
                cause = walk.cause(function)
                if cause == SYSCALL and (
                    marker.event in _RESTORES or walk.is_within(_LOADS, function)
                ):
                    cause = lost
                elif marker.event in _SAVES:
                    lost = cause
                counts[marker.event, cause, function] += 1
            before = index
        return tuple(Event(*key, count) for key, count in counts.items())

    def _applies(self, marker: Marker, walk: _Walk, function: str, before: int) -> bool:
        if marker.behind and (before < 0 or not marker.behind.match(self._raw[before])):
            return False
        if marker.symbol and walk.is_called_by(marker.symbol):
            return False
        return not marker.within or walk.is_within(marker.within, function)

    def _follow(self, walk: _Walk, before: int, index: int) -> None:
        """Takes note of a call, a return, or a jump into another function."""
        last, insn = self._code[before], self._code[index]
        behind = last.address + len(last.code) // 2
        if insn.address == behind:
            return
        if self._calls[before] and insn.offset == 0:
            walk.frames.append((behind, self._functions[before]))
        else:
            walk.came_to(insn.address)


@dataclass
class _Walk:
    """The calls that a path is in, as far as it made them: (where each returns to, its caller).

    After a switch to another task nothing is known of the calls that task was in.
    """

    frames: list[tuple[int, str]] = field(default_factory=list)

    def came_to(self, address: int) -> None:
        for i in range(len(self.frames) - 1, -1, -1):
            if self.frames[i][0] == address:
                del self.frames[i:]
                return

    def is_within(self, pattern: re.Pattern[str], function: str) -> bool:
        return bool(pattern.fullmatch(function)) or self.is_called_by(pattern)

    def is_called_by(self, pattern: re.Pattern[str]) -> bool:
        return any(pattern.fullmatch(name) for _, name in self.frames)

    def cause(self, function: str) -> str:
        """The innermost that stands for a cause; use by the kernel gives way to what it is for."""
        weak = ""
        for name in (function, *(name for _, name in reversed(self.frames))):
            cause = _cause_of(name)
            if cause == _KERNEL_USE:
                weak = weak or cause
            elif cause:
                return cause
        return weak or SYSCALL


@cache
def _cause_of(function: str) -> str:
    """What the function stands for, or nothing."""
    return next((cause for cause, pattern in _PATTERNS if pattern.fullmatch(function)), "")
