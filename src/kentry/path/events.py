# SPDX-License-Identifier: GPL-2.0-or-later
"""What a path did to vector state: events, counted, each with its cause.

The cause is that of the innermost function around the event that has one in _CAUSES.  What is done
on the way back to user space restores what the window's last save, switch or kernel use lost.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache

from kentry.arch import Arch
from kentry.arch.record import Marker, VectorSide
from kentry.path.symbols import base_name
from kentry.results.recording import Instruction, VectorEvent

SYSCALL, SWITCH = "syscall", "switch"
_KERNEL_USE = "kernel use"
# The cause of a restore if its state was lost before the window.
EARLIER = "earlier"

_CAUSES = tuple(
    (cause, re.compile(pattern))
    for cause, pattern in (
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
)

# A part that a compiler split off a function does not begin it.
_PART = re.compile(r"\.(part|cold)\b")

_SAVES = frozenset(("save", "fpsimd-save", "za-save", "kernel-use"))
_RESTORES = frozenset(("restore", "fpsimd-restore", "za-restore"))
# Functions on the way back to user space, which restore what was lost before.
_LOADS = re.compile(r"\w*(load|restore|bind|exit_to_user)\w*")


def find_markers(side: VectorSide, symbols: Iterable[str], image: bytes) -> list[Marker]:
    """The markers of an architecture that a kernel's symbols and uncompressed image have."""
    names = {base_name(symbol) for symbol in symbols}
    present_markers = []
    for marker in side.markers:
        patterns = [pattern for pattern in (marker.symbol, marker.within) if pattern]
        present = all(any(map(pattern.fullmatch, names)) for pattern in patterns)
        if present and marker.code:
            present = next(marker.places(image, side.alignment), None) is not None
        if present:
            present_markers.append(marker)
    return present_markers


class EventCounter:
    """Counts the events in paths through one kernel's code."""

    def __init__(self, markers: Sequence[Marker], arch: Arch, code: Sequence[Instruction]) -> None:
        self._code = code
        self._switch = arch.vector.switch
        self._calls = [bool(arch.calls.match(insn.text)) for insn in code]
        self._functions = [base_name(insn.function) for insn in code]
        self._raw = [bytes.fromhex(insn.code) for insn in code]
        self._markers = [
            [marker for marker in markers if self._is_at(marker, index)]
            for index in range(len(code))
        ]

    def _is_at(self, marker: Marker, index: int) -> bool:
        """Returns whether the instruction itself is the marker's, wherever the path came from."""
        insn, function = self._code[index], self._functions[index]
        if marker.outside and marker.outside.fullmatch(function):
            return False
        if marker.symbol:
            begins = insn.offset == 0 and not _PART.search(insn.function)
            return begins and bool(marker.symbol.fullmatch(function))
        return bool(marker.code and marker.code.match(self._raw[index]))

    def count(self, path: Iterable[int]) -> tuple[VectorEvent, ...]:
        """Returns the events of a path, given as indexes into the code."""
        # The calls that the path is in: where each returns to, and its caller; none after a switch.
        frames: list[tuple[int, str]] = []
        counts: Counter[tuple[str, str, str]] = Counter()
        lost = EARLIER
        before = -1
        repeated: Marker | None = None
        for index in path:
            insn, function = self._code[index], self._functions[index]
            if before >= 0:
                self._step(frames, before, insn)
            if function == self._switch and insn.offset == 0:
                frames.clear()
                lost = SWITCH
            for marker in self._markers[index]:
                behind = marker.behind
                if behind and (before < 0 or not behind.match(self._raw[before])):
                    continue
                # The function and its callers, the innermost first.
                around = [function, *(name for _, name in reversed(frames))]
                if marker.symbol and any(map(marker.symbol.fullmatch, around[1:])):
                    continue
                if marker.within and not any(map(marker.within.fullmatch, around)):
                    continue
                if marker.repeats and marker is repeated:
                    continue
                repeated = marker
                causes = [cause for cause in map(_cause_of, around) if cause]
                # The kernel's own use is the weakest.
                weakest = causes[0] if causes else SYSCALL
                cause = next((cause for cause in causes if cause != _KERNEL_USE), weakest)
                if cause == SYSCALL and (
                    marker.event in _RESTORES or any(map(_LOADS.fullmatch, around))
                ):
                    cause = lost
                elif marker.event in _SAVES:
                    lost = cause
                counts[marker.event, cause, function] += 1
            before = index
        return tuple(VectorEvent(*key, count) for key, count in counts.items())

    def _step(self, frames: list[tuple[int, str]], before: int, insn: Instruction) -> None:
        """Notes a call, a return, or a jump into another function."""
        last = self._code[before]
        behind = last.address + len(last.code) // 2
        if insn.address == behind:
            return
        if self._calls[before] and insn.offset == 0:
            frames.append((behind, self._functions[before]))
            return
        for i in range(len(frames) - 1, -1, -1):
            if frames[i][0] == insn.address:
                del frames[i:]
                return


@cache
def _cause_of(function: str) -> str:
    return next((cause for cause, pattern in _CAUSES if pattern.fullmatch(function)), "")
