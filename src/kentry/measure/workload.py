# SPDX-License-Identifier: GPL-2.0-or-later
"""A workload on a kernel -> a trace of what its tasks did with vector state."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kentry.arch import Arch
from kentry.errors import GuestError, KernelError, TraceError
from kentry.host.scratch import scratch_folder
from kentry.kernels import config
from kentry.kernels.kernel import Kernel
from kentry.measure.vector_units import check_built_in
from kentry.model import caveats
from kentry.progress import Update
from kentry.runners.console import tail
from kentry.runners.guest_tasks import Guest, Traced, TraceOptions, trace_guest
from kentry.runners.userland.ending import Ending, read_ending
from kentry.vector.hooks import find_hooks
from kentry.vector.tasks import TaskTable, count_records, read_records, read_task_table
from kentry.vector.trace import TraceWriter

# The kernel says so where the root file system did not fit into its memory.
_NO_ROOM = re.compile(r"Initramfs unpacking failed|Out of memory|No space left on device")


@dataclass(frozen=True)
class Workload:
    """What runs: its name and command, its guest, and a description for the trace."""

    name: str
    guest: Guest
    description: Mapping[str, Any]


@dataclass(frozen=True)
class Outcome:
    """What came of it: how the workload ended, how many events there are, who was seen."""

    ending: Ending
    events: int
    tasks: int
    emulator: str


def trace_workload(
    kernel: Kernel,
    arch: Arch,
    workload: Workload,
    options: TraceOptions,
    policy: str | None,
    path: Path,
    update: Update,
) -> Outcome:
    """Boots, runs the workload, and writes what was seen to `path`.

    What was recorded is written however the workload ended.  `policy` is the kernel's own, None
    where it is what Linux of that release has.  KernelError where the kernel lacks the unit or
    type information, GuestError where nothing was recorded.
    """
    check_built_in(kernel, arch.vector.units[0])
    policy = policy or arch.vector.policy_of(_release(kernel))
    update(None, "looking for what to watch in the kernel")
    hooks = find_hooks(kernel, arch)
    with scratch_folder() as folder:
        traced = trace_guest(kernel, arch, workload.guest, hooks.lines, options, folder, update)
        ending = read_ending(traced.ending.console)
        table = _task_table(traced)
        if table.begin is None or not table.tasks:
            raise _nothing(traced, ending)
        update(None, "writing the trace")
        meta = _meta(kernel, arch, workload, options, policy, traced, ending, table)
        with TraceWriter(path, meta, table.tasks) as writer:
            for columns in read_records(traced.records):
                table.cover(columns)
                writer.append(*columns)
        return Outcome(ending, writer.rows, len(table.tasks), traced.target["emulator"])


def _task_table(traced: Traced) -> TaskTable:
    try:
        return read_task_table(traced.records.with_name(traced.records.name + ".tasks"))
    except TraceError as err:
        raise TraceError(err.sentence, err.remedy, traced.ending.stderr) from err


def _nothing(traced: Traced, ending: Ending) -> GuestError:
    if _NO_ROOM.search(traced.ending.console):
        return GuestError(
            "The root file system did not fit into the guest's memory.",
            "Give it more with --memory MIB.",
            tail(traced.ending.console),
        )
    return GuestError(
        f"The workload never began: {traced.ending.clause}.",
        "The console's last lines are below; --console FILE keeps all of it.",
        tail(traced.ending.console),
    )


def _meta(
    kernel: Kernel,
    arch: Arch,
    workload: Workload,
    options: TraceOptions,
    policy: str,
    traced: Traced,
    ending: Ending,
    table: TaskTable,
) -> dict[str, Any]:
    # A disk that was full for a while has lost some of what the plugin wrote.
    whole = table.ended and table.records == count_records(traced.records)
    complete = whole and ending.status is not None
    own = {"vl": options.vector_length or arch.vector.units[0].lengths[0]}
    return {
        "arch": arch.name,
        "kernel": _describe(kernel),
        "target": traced.target,
        "workload": {"name": workload.name, **workload.description, "status": ending.status},
        "unit": own,
        "hz": _hz(kernel),
        "policy": policy,
        "trap_classes": list(arch.vector.trap_classes),
        "complete": complete,
        **({} if complete else {"console_tail": tail(traced.ending.console)}),
        "caveats": _caveats(traced),
    }


def _caveats(traced: Traced) -> list[caveats.Caveat]:
    found = [caveats.not_time(), caveats.one_instruction_a_nanosecond()]
    if traced.stand_in:
        found.append(caveats.private_emulator(traced.target["emulator"]))
    return found


def _describe(kernel: Kernel) -> dict[str, Any]:
    return {
        "spec": kernel.spec,
        "arch": kernel.arch,
        "release": kernel.release,
        "build_id": kernel.build_id,
        "config_sha256": kernel.config_sha256,
        "compiler": kernel.compiler,
        "origin": kernel.origin,
    }


def _release(kernel: Kernel) -> tuple[int, int]:
    found = re.match(r"(\d+)\.(\d+)", kernel.release)
    if not found:
        raise KernelError(
            f"{kernel.spec} calls itself '{kernel.release}', which is no release of Linux.",
            "Name its policy with --kernel-policy.",
        )
    return int(found[1]), int(found[2])


def _hz(kernel: Kernel) -> int | None:
    """CONFIG_HZ, which is how finely the kernel's timeouts are measured."""
    if not kernel.config:
        return None
    options = config.read(kernel.config.read_text(encoding="utf-8", errors="replace"))
    return int(options["CONFIG_HZ"]) if "CONFIG_HZ" in options else None
