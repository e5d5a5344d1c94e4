# SPDX-License-Identifier: GPL-2.0-or-later
"""Boots a user space under QEMU; the tasks plugin records what its tasks do.

See qemu_argv.py for how the guest is confined.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kentry.arch import Arch
from kentry.errors import KentryError, MissingToolError
from kentry.host.cache import kept_file
from kentry.host.native import tasks_plugin_file
from kentry.kernels.kernel import Kernel
from kentry.progress import Update
from kentry.runners.console import GuestExit, boot
from kentry.runners.emulator import BACKPORTS, INSTALLED, NEWEST, Emulator, find_emulator
from kentry.runners.qemu_argv import (
    ACCELERATORS,
    ICOUNT,
    boot_argv,
    kernel_words,
    machine_argv,
    plugin_argv,
)

# The first QEMU that lets plugins read memory, and so a task's name (plugin API version 4).
_OLDEST = (9, 2)

# The plugin's records of a boot are some 100 MB.
_FILE_LIMIT_MIB = 8192

_LINE_SHOWN = 60  # characters of the console's last line in the progress


@dataclass(frozen=True)
class Guest:
    """What is booted: its root file system, and the kernel's words for it."""

    initramfs: Path
    words: tuple[str, ...]


@dataclass(frozen=True)
class TraceOptions:
    """How a workload is traced; `memory` is in MiB, `timeout` in seconds.

    `cpu` is QEMU's model, None for that of a core with vectors of `vector_length` bits.
    """

    memory: int = 2048
    seed: int = 1
    timeout: float = 1800.0
    vector_length: int | None = None
    cpu: str | None = None
    emulator: str = INSTALLED
    console_file: Path | None = None


@dataclass(frozen=True)
class Traced:
    """How the guest ended, the plugin's file of `records`, and the trace's "target".

    `stand_in`: a private copy of QEMU ran, because the installed one is too old.
    """

    ending: GuestExit
    records: Path
    target: dict[str, Any]
    stand_in: bool = False


def tracing_emulator(arch: Arch, choice: str, update: Update) -> Emulator:
    """The emulator that `choice` names, or a private copy where the installed one is too old.

    MissingToolError where there is none that can trace tasks.
    """
    if choice != INSTALLED:
        emulator = find_emulator(arch, choice, update)
        if emulator.numbers < _OLDEST:
            oldest = ".".join(map(str, _OLDEST))
            raise MissingToolError(
                f"{emulator.version} cannot trace tasks: QEMU {oldest} is the first that can.",
                f"Choose --emulator {BACKPORTS} or {NEWEST}.",
            )
        return emulator
    try:
        emulator = find_emulator(arch, INSTALLED)
        if emulator.numbers >= _OLDEST:
            return emulator
    except MissingToolError:
        pass
    try:
        return find_emulator(arch, BACKPORTS, update)
    except KentryError:
        return find_emulator(arch, NEWEST, update)


def trace_guest(
    kernel: Kernel,
    arch: Arch,
    guest: Guest,
    hooks: tuple[str, ...],
    options: TraceOptions,
    folder: Path,
    update: Update,
) -> Traced:
    """Boots `guest` on `kernel`; the plugin's files are in `folder` afterwards.

    GuestError where QEMU itself failed.  Whether the workload ended well is for the caller to see.
    """
    emulator = tracing_emulator(arch, options.emulator, update)
    cpu = options.cpu or arch.core_with(options.vector_length)
    words = [*kernel_words(arch), *guest.words]
    records = folder / "events"
    hooks_file = kept_file("hooks", "".join(f"{line}\n" for line in hooks))
    argv = [
        *machine_argv(
            emulator, arch, cpu, options.memory, options.seed, file_limit=_FILE_LIMIT_MIB
        ),
        *boot_argv(kernel, guest.initramfs, words),
        *plugin_argv(tasks_plugin_file(), arch, [f"out={records}", f"hooks={hooks_file}"]),
    ]
    ending = boot(argv, emulator, options.timeout, update, options.console_file, _last_line)
    target = {
        "kind": "qemu",
        "emulator": f"QEMU {emulator.version}",
        "machine": arch.machine,
        "cpu": cpu,
        "accelerator": ACCELERATORS[ICOUNT],
        "memory_mib": options.memory,
        "seed": options.seed,
        "cmdline": " ".join(words),
    }
    # Only a private copy needs something in its environment.
    stand_in = options.emulator == INSTALLED and bool(emulator.env)
    return Traced(ending, records, target, stand_in)


def _last_line(lines: Sequence[str]) -> str:
    return lines[-1].strip()[:_LINE_SHOWN] if lines else "booting"
