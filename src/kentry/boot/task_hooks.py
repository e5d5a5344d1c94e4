# SPDX-License-Identifier: GPL-2.0-or-later
"""Where the tasks plugin looks in a kernel: a hook is a word, an address and a number.

plugin/tasks.c, hook_names, says what each word is for.
"""

import bisect
import enum
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from kentry.arch import Arch
from kentry.arch.record import Marker
from kentry.kernels.kernel import Kernel
from kentry.kernels.payload import KernelText, member_offsets, text_of
from kentry.path.symbols import SymbolMap, base_name


class Event(enum.IntEnum):
    """What happened; `arg` is 0 unless its event names a meaning.

    A trace has no nested kernel entries (an interrupt in the kernel).  After SYSCALL a task is in
    a system call until its next EXIT, also across switches.  A new task's first event is an EXIT;
    kernel threads, and task 0 (the idle task), have none.
    """

    # The task enters the kernel by a system call; arg: its number, -1 where not known.
    SYSCALL = 1
    # An exception from user mode; arg: its class (arm64 ESR_EL1.EC, riscv scause, x86 -1).
    FAULT = 2
    # An interrupt was taken from user mode.
    INTERRUPT = 3
    # The task, which is running, returns to user mode; arg: the kernel's instructions since it
    # entered, without those of interrupts and exceptions in the kernel.
    EXIT = 4
    # arg: vector instructions in the user interval that now ends.  The row comes right before the
    # kernel entry, with the time of the first of them.  An instruction that traps is counted at
    # the trap and again at its retry.
    USE = 5
    # The same for SME instructions, smstart and smstop among them.
    USE_SME = 6
    # arg: bit 0 PSTATE.SM, bit 1 PSTATE.ZA at a kernel entry; only if it changed (0 at first).
    SVCR = 7
    # The cpu goes from the task to task arg; blocked: the task is no longer runnable.
    SWITCH_BLOCKED = 8
    SWITCH_PREEMPTED = 9
    # The task made task arg, a process or a thread.
    FORK = 10
    EXEC = 11
    DIE = 12
    # A signal handler's frame was set up; the handler returned.
    SIGNAL = 13
    SIGRETURN = 14
    # kernel_neon_begin(), kernel_vector_begin(), kernel_fpu_begin(), and their ends.
    KERNEL_USE = 15
    KERNEL_USE_END = 16
    # What the traced kernel did to the running task's state.
    SEEN_TRAP = 32
    SEEN_FLUSH = 33
    SEEN_DROP = 34
    SEEN_SAVE = 35
    SEEN_RESTORE = 36
    # arm64: only what FP shares with SVE.
    SEEN_SMALL_SAVE = 37
    SEEN_SMALL_RESTORE = 38
    SEEN_SMSTOP = 39
    SEEN_SME_TRAP = 40
    SEEN_ZA_SAVE = 41
    SEEN_ZA_RESTORE = 42


# Events whose arg is a task.
OF_TWO_TASKS = (Event.SWITCH_BLOCKED, Event.SWITCH_PREEMPTED, Event.FORK)

_STUB = 8  # bytes of the smallest entry of Arch.stubs

_TASK_MEMBERS = ("__state", "flags", "pid", "comm")

# wake_up_new_task: called when the new task has its pid and name (kernel/fork.c).
# flush_thread: each architecture's own; begin_new_exec() calls it to give up the old registers.
_FUNCTIONS: tuple[tuple[re.Pattern[str], str | Event], ...] = (
    (re.compile(r"wake_up_new_task"), "born"),
    (re.compile(r"flush_thread"), "exec"),
    (re.compile(r"do_exit"), Event.DIE),
    (re.compile(r"signal_setup_done"), Event.SIGNAL),
    # x86-64's kernels name the padding before a function __pfx_.
    (re.compile(r"__(?!pfx_)\w+_sys_rt_sigreturn"), Event.SIGRETURN),
    (re.compile(r"kernel_(neon|vector|fpu)_end"), Event.KERNEL_USE_END),
)

# What is a hook without tracing, too.
_ALWAYS = ("born", "exec", Event.DIE)

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


@dataclass(frozen=True)
class Hooks:
    """What the plugin is told: `lines`, and the functions by address; what its numbers mean.

    `functions` are (address, name); the plugin's number of the first is FIRST_FUNCTION.
    """

    lines: tuple[str, ...]
    functions: tuple[tuple[int, str], ...] = ()
    faults: dict[int, str] = field(default_factory=dict)
    interrupts: dict[int, str] = field(default_factory=dict)


# plugin/tasks.c: user mode, firmware and code without a symbol are before the functions.
OF_USER, OF_FIRMWARE, OF_NO_SYMBOL, FIRST_FUNCTION = range(4)
# The number of an interrupt that comes by one of Arch.stubs.
_OF_STUB = -1


def find_hooks(kernel: Kernel, arch: Arch, *, tracing: bool = False) -> Hooks:
    """Finds what the plugin must know, with `tracing` also what the kernel does to vector state.

    KernelError without type information, UserError for no image.
    """
    text = text_of(kernel)
    offsets = member_offsets(text.image, "task_struct", _TASK_MEMBERS, kernel.spec)
    hooks = Hooks(
        (),
        SymbolMap((one.address, one.name) for one in kernel.symbols).functions,
        dict(arch.exceptions.faults),
        dict(arch.exceptions.interrupts) or {_OF_STUB: "device"},
    )
    lines = [f"offset {name} {offset}" for name, offset in offsets.items()]
    lines += _functions(kernel, arch, tracing)
    lines += _entries(kernel, arch, hooks)
    for marker in arch.vector.markers if tracing else ():
        if act := _ACTS.get(marker.event):
            addresses = _places(marker, kernel, text, arch)
            lines += [f"event {address:x} {act.value}" for address in addresses]
    # A function that has several names is one hook.
    return replace(hooks, lines=tuple(dict.fromkeys(lines)))


def _functions(kernel: Kernel, arch: Arch, tracing: bool) -> Iterator[str]:
    """Yields a line for every function of the kernel that is a hook by its name."""
    side = arch.vector
    names = {side.switch: "switch", side.settled: "settled", side.fork: "fork"}
    patterns = [row for row in _FUNCTIONS if tracing or row[1] in _ALWAYS]
    for symbol in kernel.symbols:
        if word := names.get(base_name(symbol.name)):
            yield f"{word} {symbol.address:x} 0"
        if arch.handlers.fullmatch(symbol.name):
            yield f"handler {symbol.address:x} 0"
        for pattern, kind in patterns:
            if pattern.fullmatch(symbol.name):
                hook = ("event", kind.value) if isinstance(kind, Event) else (kind, 0)
                yield f"{hook[0]} {symbol.address:x} {hook[1]}"


def _entries(kernel: Kernel, arch: Arch, hooks: Hooks) -> Iterator[str]:
    """Yields a line for every first instruction of an entry; puts the names into `hooks`."""
    addresses = kernel.symbols.addresses
    numbers: dict[str, int] = {}
    for symbol in kernel.symbols:
        for pattern, word, offsets in arch.exceptions.entries:
            if match := pattern.fullmatch(symbol.name):
                number = 0
                if pattern.groups:
                    number = numbers.setdefault(match[1], len(numbers))
                    causes = hooks.faults if word == "fault" else hooks.interrupts
                    causes[number] = match[1].replace("_", " ")
                for offset in offsets:
                    yield f"{word} {symbol.address + offset:x} {number}"
        if symbol.name in arch.stubs:
            # Every place up to the next symbol may be the beginning of a stub.
            after = bisect.bisect_right(addresses, symbol.address)
            end = addresses[after] if after < len(addresses) else symbol.address + _STUB
            for address in range(symbol.address, end, _STUB):
                yield f"interrupt {address:x} {_OF_STUB}"


def _places(marker: Marker, kernel: Kernel, text: KernelText, arch: Arch) -> Iterator[int]:
    """Yields the addresses of a marker's instructions, or of the functions that it names."""
    if marker.symbol:
        yield from (one.address for one in kernel.symbols if marker.symbol.fullmatch(one.name))
        return
    for place in marker.places(text.text, arch.vector.alignment):
        address = text.start + place
        symbol = kernel.symbols.at(address)
        name = base_name(symbol.name) if symbol else ""
        if not (marker.outside and marker.outside.fullmatch(name)):
            yield address
