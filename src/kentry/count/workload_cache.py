# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs of programs that were made before, by the content of everything that shapes one."""

import contextlib
from dataclasses import asdict, dataclass, replace
from typing import Any

from kentry.arch import Arch
from kentry.arch.processors import find_processor
from kentry.boot.guest_tasks import TracedWorkload, TraceOptions, tracing_emulator
from kentry.boot.userland import workloads
from kentry.boot.userland.root_image import build_userland
from kentry.count.cache import of_kernel
from kentry.count.workload import run_workload
from kentry.errors import GuestError, RecordingError
from kentry.host import interrupt
from kentry.host.archive import Release
from kentry.host.cache import (
    cache_dir,
    check_room,
    digest_of,
    fresh_folder,
    read_manifest,
    sha256_of,
    write_manifest,
)
from kentry.host.native import tasks_plugin_file
from kentry.kernels.kernel import Kernel
from kentry.progress import Update, say
from kentry.results.workload import Workload, read_workload, write_workload

_WORKLOAD_BYTES = 32 << 20
_FILE = "workload.json"


@dataclass(frozen=True, kw_only=True)
class Program:
    """What to run in which release's user space, in a boot a seed; plain data, as a unit is."""

    workload: workloads.Workload
    release: Release
    options: TraceOptions
    seeds: tuple[int, ...]

    def emulator(self, arch: Arch, update: Update) -> str:
        """The version of the emulator that runs it."""
        processor = find_processor(arch, self.options.cpu)
        own = tracing_emulator(arch, self.options.emulator, update, processor.since)
        return own.version


def run_program(
    kernel: Kernel, arch: Arch, program: Program, update: Update, *, reuse: bool
) -> list[Workload]:
    """A boot a seed, with `reuse` those that the cache has; GuestError where one did not end well.

    What ends with another status than 0 may not do so again, and is not kept.
    """
    options, seeds = program.options, program.seeds
    guest = build_userland(arch, program.workload, program.release, options.memory, update)
    found = []
    for number, seed in enumerate(seeds, 1):

        def of_boot(fraction: float | None, now: str, number: int = number) -> None:
            update(fraction, f"boot {number} of {len(seeds)}: {now}")

        own = replace(options, seed=seed)
        kept = cache_dir("workloads") / digest_of(_made_for(kernel, arch, guest, own, update))
        if reuse and kept.exists():
            # A newer kentry's is whole, and yet not read.
            with contextlib.suppress(RecordingError):
                if read_manifest(kept):
                    found.append(read_workload(kept / _FILE))
                    continue
            say(f"{kept} is damaged or of another run. It is made again.")
        check_room(kept.parent, _WORKLOAD_BYTES)
        workload, ending = run_workload(kernel, arch, guest, own, of_boot)
        interrupt.check()
        if ending.status != 0:
            raise GuestError(
                f"The program {ending.clause} on {kernel.spec}, in the boot with seed {seed}.",
                "The last of what it printed is below.",
                ending.output,
            )
        with fresh_folder(kept) as folder:
            write_workload(workload, folder / _FILE)
            write_manifest(folder, [_FILE])
        found.append(workload)
    return found


def _made_for(
    kernel: Kernel, arch: Arch, guest: TracedWorkload, options: TraceOptions, update: Update
) -> dict[str, Any]:
    """Returns all that a run depends on."""
    ran_with = asdict(options)
    for name in ("console_file", "timeout", "tracing"):
        del ran_with[name]
    processor = find_processor(arch, options.cpu)
    return {
        # Raised whenever what is kept is another: it was a file, and is a folder.
        "version": 2,
        **of_kernel(kernel),
        "emulator": tracing_emulator(arch, options.emulator, update, processor.since).version,
        "processor": processor.qemu(options.vector_length),
        "plugin": sha256_of(tasks_plugin_file()),
        "words": list(guest.words),
        "program": dict(guest.description),
        "options": ran_with,
    }
