# SPDX-License-Identifier: GPL-2.0-or-later
"""Boots a kernel, runs a workload on it, and writes what its tasks did with vector state.

The tasks plugin is told where in the kernel to look: a hook is a word or an event's number, and an
address (plugin/tasks.c, take_line()).  What it wrote (plugin/events.h) becomes the columns and the
task table of a trace.
"""

import bisect
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from kentry.arch import Arch
from kentry.arch.record import Marker
from kentry.boot.console import tail
from kentry.boot.guest_tasks import (
    Ending,
    TracedWorkload,
    TraceOptions,
    read_ending,
    trace_guest,
)
from kentry.count.vector_units import check_built_in
from kentry.errors import GuestError, KernelError, TraceError
from kentry.host.cache import scratch_folder
from kentry.kernels.kernel import Kernel, config_lines
from kentry.kernels.payload import KernelText, member_offsets, text_of
from kentry.path.symbols import base_name
from kentry.progress import Update
from kentry.results import caveats
from kentry.vector.trace import OF_TWO_TASKS, Event, Task, release_of, write_trace

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
    """Finds the plugin's lines; KernelError without type information, UserError for no image."""
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


_RECORD = np.dtype([("instructions", "<u8"), ("ns", "<u8"), ("task_event", "<u4"), ("arg", "<i4")])
_EVENT_BITS = 8
# Records converted at a time: 24 MB.
_CHUNK = 1 << 20

# ZA is saved and restored row by row, in a loop of three instructions (arch/arm64/include/asm/
# fpsimdmacros.h, _sme_za_loop); rows this close to each other, in instructions, are one event.
_ZA_ROW = 8
_ROWS = (Event.SEEN_ZA_SAVE, Event.SEEN_ZA_RESTORE)

# A task that never ran, because its fork failed or the trace ends before.
_NOBODY = Task(0, "")


@dataclass
class TaskTable:
    """Tasks by number; when recording began, None: never; how much was written, -1: not all."""

    tasks: list[Task] = field(default_factory=list)
    begin: tuple[int, int] | None = None
    records: int = -1

    def cover(self, columns: tuple[npt.NDArray[Any], ...]) -> tuple[npt.NDArray[Any], ...]:
        """Adds every task of `columns` that never ran; returns them."""
        event, task, _, _, arg = columns
        others = arg[np.isin(event, OF_TWO_TASKS)]
        last = max(int(task.max(initial=0)), int(others.max(initial=0)))
        self.tasks += [_NOBODY] * (last + 1 - len(self.tasks))
        return columns


def read_task_table(file: Path) -> TaskTable:
    """Reads FILE.tasks, the last line of which may be cut; TraceError where it is no such file."""
    try:
        text = file.read_text(encoding="ascii", errors="replace")
    except OSError as err:
        raise TraceError(f"The plugin wrote no list of tasks: {err.strerror}.") from err
    tasks: dict[int, Task] = {}
    table = TaskTable()
    for line in text.split("\n")[:-1]:
        kind, *words = line.split(" ")
        try:
            if kind == "task":
                number, parent, pid, kernel = map(int, words)
                tasks[number] = Task(pid, "", (), parent, bool(kernel))
            elif kind == "name":
                number, name = int(words[0]), bytes.fromhex(words[1]).decode(errors="replace")
                names = tuple(dict.fromkeys((*tasks[number].names, name)))
                tasks[number] = msgspec.structs.replace(tasks[number], name=name, names=names)
            elif kind == "begin":
                table.begin = (int(words[0]), int(words[1]))
            elif kind == "end":
                table.records = int(words[2])
            else:
                raise ValueError(kind)
        except (ValueError, KeyError, IndexError) as err:
            raise TraceError(f"The plugin's list of tasks has the line '{line}'.") from err
    table.tasks = [tasks.get(number, _NOBODY) for number in range(max(tasks, default=-1) + 1)]
    return table


def read_records(file: Path) -> Iterator[tuple[npt.NDArray[Any], ...]]:
    """Yields columns of about a million rows at a time, without half a record at the end."""
    with open(file, "rb") as source:
        while len(rows := np.fromfile(source, dtype=_RECORD, count=_CHUNK)):
            event = (rows["task_event"] & ((1 << _EVENT_BITS) - 1)).astype(np.uint8)
            task = (rows["task_event"] >> _EVENT_BITS).astype(np.uint32)
            # Another row of the same saving or restoring of ZA is not an event.
            same_row = np.isin(event[1:], _ROWS) & (np.diff(rows["instructions"]) <= _ZA_ROW)
            same_row &= (event[1:] == event[:-1]) & (task[1:] == task[:-1])
            keep = np.concatenate([[True], ~same_row])
            columns = (event, task, rows["instructions"], rows["ns"], rows["arg"])
            yield tuple(column[keep] for column in columns)


_OF_THE_KERNEL = ("spec", "arch", "release", "build_id", "config_sha256", "compiler", "origin")
# The kernel prints one of these if the root file system does not fit into its memory.
_NO_ROOM = re.compile(r"Initramfs unpacking failed|Out of memory|No space left on device")


def trace_workload(
    kernel: Kernel,
    arch: Arch,
    workload: TracedWorkload,
    options: TraceOptions,
    policy: str | None,
    path: Path,
    update: Update,
) -> Ending:
    """Boots, runs the workload, writes the trace; `policy` is None for that of Linux's release."""
    check_built_in(kernel, arch.vector.units[0])
    if not policy:
        release = release_of(kernel.release)
        if not any(release):
            raise KernelError(
                f"{kernel.spec} calls itself '{kernel.release}', which is no release of Linux.",
                "Name its policy with --kernel-policy.",
            )
        policy = arch.vector.policy_of(release)
    update(None, "looking for what to watch in the kernel")
    hooks = find_hooks(kernel, arch)
    with scratch_folder() as folder:
        traced = trace_guest(kernel, arch, workload, hooks, options, folder, update)
        console, records = traced.ending.console, traced.records
        ending = read_ending(console)
        try:
            table = read_task_table(records.with_name(records.name + ".tasks"))
        except TraceError as err:
            raise TraceError(err.sentence, err.remedy, traced.ending.stderr) from err
        if table.begin is None or not table.tasks:
            full = _NO_ROOM.search(console)
            raise GuestError(
                "The root file system did not fit into the guest's memory."
                if full
                else f"The workload never began: {traced.ending.clause}.",
                "Give it more with --memory MIB."
                if full
                else "The console's last lines are below.",
                tail(console),
            )
        update(None, "writing the trace")
        # After a while without disk space some of what the plugin wrote is missing.
        whole = table.records == records.stat().st_size // _RECORD.itemsize
        complete = whole and ending.status is not None
        notes = [caveats.not_time(), caveats.one_instruction_a_nanosecond()]
        if traced.stand_in:
            notes.append(caveats.private_emulator(traced.target["emulator"]))
        # The resolution of the kernel's timeouts.
        hz = (config_lines(kernel) or {}).get("HZ")
        meta = {
            "arch": arch.name,
            "kernel": {name: getattr(kernel, name) for name in _OF_THE_KERNEL},
            "target": traced.target,
            "workload": {**workload.description, "status": ending.status},
            "unit": {"vl": options.vector_length or arch.vector.units[0].lengths[0]},
            "hz": int(hz) if hz else None,
            "policy": policy,
            "trap_classes": list(arch.vector.trap_classes),
            "complete": complete,
            **({} if complete else {"console_tail": tail(console)}),
            "caveats": notes,
        }

        write_trace(path, meta, table.tasks, map(table.cover, read_records(records)))
        return ending
