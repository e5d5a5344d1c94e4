# SPDX-License-Identifier: GPL-2.0-or-later
"""Boots a kernel, runs a workload on it, and writes what its tasks did with vector state.

What the tasks plugin wrote (plugin/events.h) becomes the columns and the task table of a trace.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from kentry.arch import Arch
from kentry.arch.processors import find_processor
from kentry.boot.console import tail
from kentry.boot.guest_tasks import (
    Ending,
    Traced,
    TracedWorkload,
    TraceOptions,
    never_began,
    read_ending,
    trace_guest,
)
from kentry.boot.plugin_trace import read_text
from kentry.boot.task_hooks import OF_TWO_TASKS, Event, find_hooks
from kentry.count.vector_units import check_built_in
from kentry.count.workload import OF_THE_KERNEL, caveats_of
from kentry.errors import KernelError, TraceError
from kentry.host import interrupt
from kentry.host.cache import scratch_folder
from kentry.kernels.kernel import Kernel, config_lines
from kentry.progress import Update
from kentry.vector.trace import Task, release_of, write_trace

_RECORD = np.dtype([("instructions", "<u8"), ("ns", "<u8"), ("task_event", "<u4"), ("arg", "<i4")])
_EVENT_BITS = 8
# A record has 32 bits for a task's number and the event.
_TASK_BITS = 32 - _EVENT_BITS
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
        text = read_text(file)
    except OSError as err:
        raise TraceError(f"The plugin wrote no list of tasks: {err.strerror}.") from err
    tasks: dict[int, Task] = {}
    table = TaskTable()
    for line in text.split("\n")[:-1]:
        kind, *fields = line.split(" ")
        try:
            if kind == "task":
                number, parent, pid, kernel = map(int, fields)
                if number >> _TASK_BITS:
                    raise ValueError("a number that no record has room for")
                tasks[number] = Task(pid, "", (), parent, bool(kernel))
            elif kind == "name":
                number, name = int(fields[0]), bytes.fromhex(fields[1]).decode(errors="replace")
                names = tuple(dict.fromkeys((*tasks[number].names, name)))
                tasks[number] = msgspec.structs.replace(tasks[number], name=name, names=names)
            elif kind == "begin":
                table.begin = (int(fields[0]), int(fields[1]))
            elif kind == "end":
                table.records = int(fields[2])
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
    policy = policy_of(kernel, arch, policy)
    update(None, "looking for what to watch in the kernel")
    hooks = find_hooks(kernel, arch, tracing=True)
    options = replace(options, tracing=True)
    with scratch_folder() as folder:
        traced = trace_guest(kernel, arch, workload, hooks, options, folder, update)
        update(None, "writing the trace")
        return write_records(kernel, arch, workload, options.vector_length, policy, path, traced)


def policy_of(kernel: Kernel, arch: Arch, policy: str | None) -> str:
    """What the kernel does with vector state: `policy`, or that of its release; KernelError."""
    check_built_in(kernel, arch.vector.units[0])
    release = release_of(kernel.release)
    if not policy and not any(release):
        raise KernelError(
            f"{kernel.spec} calls itself '{kernel.release}', which is no release of Linux.",
            "Name its policy with --kernel-policy.",
        )
    return policy or arch.vector.policy_of(release)


def write_records(
    kernel: Kernel,
    arch: Arch,
    workload: TracedWorkload,
    length: int | None,
    policy: str,
    path: Path,
    traced: Traced,
) -> Ending:
    """Writes the trace of a run whose files are there; `length` of vectors in bits."""
    console, records = traced.ending.console, traced.records
    ending = read_ending(console)
    try:
        table = read_task_table(records.with_name(records.name + ".tasks"))
    except TraceError as err:
        raise TraceError(err.sentence, err.remedy, traced.ending.stderr) from err
    if table.begin is None or not table.tasks:
        interrupt.check()
        raise never_began(traced.ending)
    # After a while without disk space some of what the plugin wrote is missing.
    whole = table.records == records.stat().st_size // _RECORD.itemsize
    complete = whole and ending.status is not None
    # The lengths of a processor that only QEMU knows are not known here.
    own = find_processor(arch, traced.target["processor"]).lengths.get(arch.vector.units[0].name)
    # The resolution of the kernel's timeouts.
    hz = re.fullmatch(r"\d{1,9}", (config_lines(kernel) or {}).get("HZ", ""))
    meta = {
        "arch": arch.name,
        "kernel": {name: getattr(kernel, name) for name in OF_THE_KERNEL},
        "target": traced.target,
        "workload": {**workload.description, "status": ending.status},
        "unit": {"vl": (length or own[0]) if own else None},
        "hz": int(hz[0]) if hz else None,
        "policy": policy,
        "trap_classes": list(arch.vector.trap_classes),
        "complete": complete,
        **({} if complete else {"console_tail": tail(console)}),
        "caveats": list(caveats_of(traced)),
    }
    write_trace(path, meta, table.tasks, map(table.cover, read_records(records)))
    return ending
