# SPDX-License-Identifier: GPL-2.0-or-later
"""Where in a kernel the tasks plugin looks: addresses of functions and of marker instructions.

A hook is a kind or an event's number, and an address: plugin/tasks.c, take_line().  The
functions are global ones that every architecture has had since Linux 6.1.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterator
from dataclasses import dataclass

from kentry.arch import Arch
from kentry.arch.record import Marker
from kentry.kernels.btf import member_offsets
from kentry.kernels.kernel import Kernel, Symbol
from kentry.kernels.payload import KernelText, text_of
from kentry.path.symbols import base_name
from kentry.vector.trace import Event

_WORD = 4  # bytes of an arm64 instruction
_STUB = 8  # bytes that the smallest entry of Arch.stubs has

_TASK_MEMBERS = ("__state", "flags", "pid", "comm")

# wake_up_new_task: called when the new task has its pid and name (kernel/fork.c).
# flush_thread: the architecture's; begin_new_exec() calls it where the old program's registers
# are given up.
_FUNCTIONS = (
    (re.compile(r"entry_SYSCALL_64"), "syscall"),
    (re.compile(r"wake_up_new_task"), "born"),
    (re.compile(r"flush_thread"), "exec"),
    (re.compile(r"do_exit"), Event.DIE),
    (re.compile(r"signal_setup_done"), Event.SIGNAL),
    # Not the padding before it, which x86-64's kernels name __pfx_.
    (re.compile(r"__(?!pfx_)\w+_sys_rt_sigreturn"), Event.SIGRETURN),
    (re.compile(r"kernel_(neon|vector|fpu)_end"), Event.KERNEL_USE_END),
)

# The markers of a unit, as the traced kernel's acts.
_ACTS = {
    "trap": Event.SEEN_TRAP,
    "flush": Event.SEEN_FLUSH,
    "discard": Event.SEEN_FLUSH,
    "drop": Event.SEEN_DROP,
    "save": Event.SEEN_SAVE,
    "restore": Event.SEEN_RESTORE,
    "fpsimd-save": Event.SEEN_SMALL_SAVE,
    "fpsimd-restore": Event.SEEN_SMALL_RESTORE,
    "smstop": Event.SEEN_SMSTOP,
    "sme-trap": Event.SEEN_SME_TRAP,
    "za-save": Event.SEEN_ZA_SAVE,
    "za-restore": Event.SEEN_ZA_RESTORE,
    "kernel-use": Event.KERNEL_USE,
}


@dataclass(frozen=True)
class Hooks:
    """What the plugin is told: its lines, and the events that can be seen with them."""

    lines: tuple[str, ...]
    events: frozenset[Event]


def find_hooks(kernel: Kernel, arch: Arch) -> Hooks:
    """The hooks of a kernel.

    Raises KernelError where it has no type information, UserError where its image is none.
    """
    text = text_of(kernel)
    offsets = member_offsets(text.image, "task_struct", _TASK_MEMBERS, kernel.spec)
    lines = [f"offset {name} {offset}" for name, offset in offsets.items()]
    lines += _functions(kernel, arch)
    acts = set()
    for marker in arch.vector.markers:
        act = _ACTS.get(marker.event)
        found = list(_places(marker, kernel, text, arch)) if act else []
        if act and found:
            lines += [f"{act.value} {address:x}" for address in found]
            acts.add(act)
    # A function that has several names is one hook.
    return Hooks(tuple(dict.fromkeys(lines)), frozenset(acts))


def _functions(kernel: Kernel, arch: Arch) -> Iterator[str]:
    """A line for every function that is a hook by its name, of the kernel and of `arch`."""
    for symbol in kernel.symbols:
        yield from _of_arch(symbol, arch)
        for pattern, kind in _FUNCTIONS:
            if pattern.fullmatch(symbol.name):
                word = kind.value if isinstance(kind, Event) else kind
                yield f"{word} {symbol.address:x}"
        if symbol.name in arch.stubs:
            yield from _stubs(symbol, kernel)


def _of_arch(symbol: Symbol, arch: Arch) -> Iterator[str]:
    side = arch.vector
    for name, kind in ((side.switch, "switch"), (side.settled, "settled"), (side.fork, "fork")):
        if base_name(symbol.name) == name:
            yield f"{kind} {symbol.address:x}"
    for pattern, kind in side.entered:
        if pattern.fullmatch(symbol.name):
            yield f"{kind} {symbol.address:x}"
    for trap in arch.traps:
        if trap.kind == "irq" and trap.symbol.fullmatch(symbol.name):
            yield f"interrupt {symbol.address + trap.offset:x}"


def _stubs(first: Symbol, kernel: Kernel) -> Iterator[str]:
    """A line for every place up to the next symbol at which a stub may begin."""
    addresses = kernel.symbols.addresses
    after = bisect.bisect_right(addresses, first.address)
    end = addresses[after] if after < len(addresses) else first.address + _STUB
    for address in range(first.address, end, _STUB):
        yield f"interrupt {address:x}"


def _places(marker: Marker, kernel: Kernel, text: KernelText, arch: Arch) -> Iterator[int]:
    """The addresses of a marker's instructions, or of the functions that it names."""
    if marker.symbol:
        for symbol in kernel.symbols:
            if marker.symbol.fullmatch(symbol.name):
                yield symbol.address
        return
    assert marker.code is not None
    behind = marker.behind.pattern if marker.behind else b""
    pattern = re.compile(behind + marker.code.pattern, re.DOTALL)
    # The instruction behind which a marker stands is a whole word.
    skip = _WORD if behind else 0
    for address in text.places(pattern, arch.vector.alignment):
        symbol_at = kernel.symbols.at(address + skip)
        name = base_name(symbol_at.name) if symbol_at else ""
        if not (marker.outside and marker.outside.fullmatch(name)):
            yield address + skip
