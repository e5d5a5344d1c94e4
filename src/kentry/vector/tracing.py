# SPDX-License-Identifier: GPL-2.0-or-later
"""Boots a kernel, runs a workload on it, and writes what its tasks did with vector state."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kentry.arch import Arch
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
from kentry.progress import Update
from kentry.results import caveats
from kentry.vector.hooks import find_hooks
from kentry.vector.tasks import count_records, read_records, read_task_table
from kentry.vector.trace import release_of, write_trace

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
    """Boots, runs the workload, and writes what was seen to `path`; returns how it ended.

    `policy` is the kernel's own, None for what Linux of that release has.  KernelError where the
    kernel lacks the unit or type information, GuestError where nothing was recorded.
    """
    check_built_in(kernel, arch.vector.units[0])
    if not policy:
        release = release_of({"kernel": {"release": kernel.release}})
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
            if _NO_ROOM.search(console):
                raise GuestError(
                    "The root file system did not fit into the guest's memory.",
                    "Give it more with --memory MIB.",
                    tail(console),
                )
            raise GuestError(
                f"The workload never began: {traced.ending.clause}.",
                "The console's last lines are below.",
                tail(console),
            )
        update(None, "writing the trace")
        # After a while without disk space some of what the plugin wrote is missing.
        whole = table.records == count_records(records)
        complete = whole and ending.status is not None
        notes = [caveats.not_time(), caveats.one_instruction_a_nanosecond()]
        if traced.stand_in:
            notes.append(caveats.private_emulator(traced.target["emulator"]))
        # The resolution of the kernel's timeouts.
        hz = (config_lines(kernel) or {}).get("HZ")
        meta = {
            "arch": arch.name,
            "kernel": {
                name: getattr(kernel, name)
                for name in ("spec", "arch", "release", "build_id", "config_sha256", "compiler")
            }
            | {"origin": kernel.origin},
            "target": traced.target,
            "workload": {"name": workload.name, **workload.description, "status": ending.status},
            "unit": {"vl": options.vector_length or arch.vector.units[0].lengths[0]},
            "hz": int(hz) if hz else None,
            "policy": policy,
            "trap_classes": list(arch.vector.trap_classes),
            "complete": complete,
            **({} if complete else {"console_tail": tail(console)}),
            "caveats": notes,
        }

        def parts() -> Iterator[tuple[Any, ...]]:
            for columns in read_records(records):
                table.cover(columns)
                yield columns

        write_trace(path, meta, table.tasks, parts())
        return ending
