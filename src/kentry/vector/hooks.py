# SPDX-License-Identifier: GPL-2.0-or-later
"""Where in a kernel the tasks plugin looks: addresses of functions and of marker instructions.

A hook is a word or an event's number, and an address: plugin/tasks.c, take_line().  Every
architecture has had the functions, which are global, since Linux 6.1.
"""

import bisect
import re
from collections.abc import Iterator

from kentry.arch import Arch
from kentry.arch.record import Marker
from kentry.kernels.kernel import Kernel
from kentry.kernels.payload import KernelText, member_offsets, text_of
from kentry.path.symbols import base_name
from kentry.vector.trace import Event

_WORD = 4  # bytes of an arm64 instruction
_STUB = 8  # bytes of the smallest entry of Arch.stubs

_TASK_MEMBERS = ("__state", "flags", "pid", "comm")

# wake_up_new_task: called when the new task has its pid and name (kernel/fork.c).
# flush_thread: each architecture's own; begin_new_exec() calls it to give up the old registers.
_FUNCTIONS: tuple[tuple[re.Pattern[str], str | Event], ...] = (
    (re.compile(r"entry_SYSCALL_64"), "syscall"),
    (re.compile(r"wake_up_new_task"), "born"),
    (re.compile(r"flush_thread"), "exec"),
    (re.compile(r"do_exit"), Event.DIE),
    (re.compile(r"signal_setup_done"), Event.SIGNAL),
    # x86-64's kernels name the padding before a function __pfx_.
    (re.compile(r"__(?!pfx_)\w+_sys_rt_sigreturn"), Event.SIGRETURN),
    (re.compile(r"kernel_(neon|vector|fpu)_end"), Event.KERNEL_USE_END),
)

# The events of a unit's markers, as the traced kernel's acts.
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


def find_hooks(kernel: Kernel, arch: Arch) -> tuple[str, ...]:
    """Finds the plugin's lines for a kernel.

    Raises KernelError where it has no type information, UserError where its image is none.
    """
    text = text_of(kernel)
    offsets = member_offsets(text.image, "task_struct", _TASK_MEMBERS, kernel.spec)
    lines = [f"offset {name} {offset}" for name, offset in offsets.items()]
    lines += _functions(kernel, arch)
    for marker in arch.vector.markers:
        if act := _ACTS.get(marker.event):
            addresses = _places(marker, kernel, text, arch)
            lines += [f"{act.value} {address:x}" for address in addresses]
    # A function that has several names is one hook.
    return tuple(dict.fromkeys(lines))


def _functions(kernel: Kernel, arch: Arch) -> Iterator[str]:
    """Yields a line for every function of the kernel that is a hook by its name."""
    side = arch.vector
    names = {side.switch: "switch", side.settled: "settled", side.fork: "fork"}
    patterns: list[tuple[re.Pattern[str], str | Event, int]] = [
        *((pattern, word, 0) for pattern, word in (*side.entered, *_FUNCTIONS)),
        *((trap.symbol, "interrupt", trap.offset) for trap in arch.traps if trap.kind == "irq"),
    ]
    addresses = kernel.symbols.addresses
    for symbol in kernel.symbols:
        if word := names.get(base_name(symbol.name)):
            yield f"{word} {symbol.address:x}"
        for pattern, kind, offset in patterns:
            if pattern.fullmatch(symbol.name):
                hook = kind.value if isinstance(kind, Event) else kind
                yield f"{hook} {symbol.address + offset:x}"
        if symbol.name in arch.stubs:
            # Every place up to the next symbol may be the beginning of a stub.
            after = bisect.bisect_right(addresses, symbol.address)
            end = addresses[after] if after < len(addresses) else symbol.address + _STUB
            for address in range(symbol.address, end, _STUB):
                yield f"interrupt {address:x}"


def _places(marker: Marker, kernel: Kernel, text: KernelText, arch: Arch) -> Iterator[int]:
    """Yields the addresses of a marker's instructions, or of the functions that it names."""
    if marker.symbol:
        yield from (one.address for one in kernel.symbols if marker.symbol.fullmatch(one.name))
        return
    assert marker.code is not None
    behind = marker.behind.pattern if marker.behind else b""
    pattern = re.compile(behind + marker.code.pattern, re.DOTALL)
    # The marker comes after the instruction that `behind` matches, a whole word.
    skip = _WORD if behind else 0
    for address in text.places(pattern, arch.vector.alignment):
        symbol = kernel.symbols.at(address + skip)
        name = base_name(symbol.name) if symbol else ""
        if not (marker.outside and marker.outside.fullmatch(name)):
            yield address + skip
