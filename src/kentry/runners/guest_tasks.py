# SPDX-License-Identifier: GPL-2.0-or-later
"""The tracing target: a user space boots under QEMU, and the tasks plugin writes down what it does.

As untrusted as any guest: see machine.py.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kentry.arch import Arch
from kentry.errors import GuestError, KentryError, MissingToolError
from kentry.host.cache import cache_dir, write_atomically
from kentry.host.native import tasks_plugin_file
from kentry.kernels.kernel import Kernel
from kentry.progress import Update
from kentry.runners.emulator import BACKPORTS, INSTALLED, NEWEST, Emulator, find_emulator
from kentry.runners.qemu_argv import ACCELERATOR, machine_argv, plugin_argument
from kentry.runners.supervise import Ending, supervise

# The first that lets plugins read memory, and so a task's name (plugin API version 4).
_OLDEST = (9, 2)

# The plugin's records of a boot are some 100 MB.
_FILE_LIMIT_MIB = 8192

_LINE_SHOWN = 60


@dataclass(frozen=True)
class Guest:
    """What is booted: its root file system, the kernel's words for it, and where to begin.

    `begin` is "mark" (from the runner's mark on) or "exec" (from the first program on).
    """

    initramfs: Path
    words: tuple[str, ...]
    begin: str


@dataclass(frozen=True)
class TraceOptions:
    """How a workload is traced: as targets.target.Options, `memory` in MiB, `timeout` in s.

    `cpu` is QEMU's model, None for one that user space takes for a core people have.
    `plugin` is False for a run without it, which is what tracing is compared with.
    """

    memory: int = 2048
    seed: int = 1
    timeout: float = 1800.0
    vector_length: int | None = None
    cpu: str | None = None
    emulator: str = INSTALLED
    console_file: Path | None = None
    plugin: bool = True


@dataclass(frozen=True)
class Traced:
    """How it ended, and the "target" of the trace's metadata; `records` is the plugin's file.

    `stand_in`: the installed emulator was asked for and is too old, so a private copy ran.
    """

    ending: Ending
    records: Path
    target: dict[str, Any]
    stand_in: bool = False


def tracing_emulator(arch: Arch, choice: str, update: Update) -> Emulator:
    """The emulator that `choice` names, or, where the installed one is too old, a private copy.

    MissingToolError where none that will do can be had.
    """
    emulator = find_emulator(arch, choice, update) if choice != INSTALLED else _installed(arch)
    if emulator and emulator.numbers >= _OLDEST:
        return emulator
    if choice != INSTALLED:
        oldest = ".".join(map(str, _OLDEST))
        assert emulator is not None
        raise MissingToolError(
            f"{emulator.version} cannot trace tasks: QEMU {oldest} is the first that can.",
            f"Choose --emulator {BACKPORTS} or {NEWEST}.",
        )
    try:
        return find_emulator(arch, BACKPORTS, update)
    except KentryError:
        return find_emulator(arch, NEWEST, update)


def _installed(arch: Arch) -> Emulator | None:
    try:
        return find_emulator(arch, INSTALLED)
    except MissingToolError:
        return None


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

    GuestError where QEMU itself failed; what the guest did is the caller's to judge.
    """
    emulator = tracing_emulator(arch, options.emulator, update)
    words = _kernel_words(arch, guest)
    records = folder / "events"
    argv = [
        *machine_argv(
            emulator, arch, _cpu(arch, options), options.memory, options.seed, _FILE_LIMIT_MIB
        ),
        *("-kernel", str(kernel.image), "-initrd", str(guest.initramfs)),
        *("-append", " ".join(words)),
    ]
    if options.plugin:
        text = "".join(f"{line}\n" for line in hooks)
        inputs = cache_dir("boot", hashlib.sha256(text.encode()).hexdigest())
        write_atomically(inputs / "hooks", text)
        plugin_words = [f"out={records}", f"hooks={inputs}/hooks", f"from={guest.begin}"]
        argv += ["-plugin", plugin_argument(tasks_plugin_file(), arch, plugin_words)]
    ending = supervise(argv, emulator.env, options.timeout, update, _doing)
    if options.console_file:
        write_atomically(options.console_file, ending.console)
    if ending.trouble and not ending.console.strip():
        raise GuestError(
            f"QEMU ended before the guest said anything: {ending.clause}.",
            "kentry doctor shows what is missing; -v shows the command line.",
            ending.trouble,
        )
    # Only a private copy needs something in its environment.
    stand_in = options.emulator == INSTALLED and bool(emulator.env)
    return Traced(ending, records, _describe(emulator, arch, options, words), stand_in)


def _cpu(arch: Arch, options: TraceOptions) -> str:
    return options.cpu or arch.core_with(options.vector_length)


def _kernel_words(arch: Arch, guest: Guest) -> list[str]:
    words = ["panic=-1", "quiet", f"console={arch.console}", *arch.boot_words]
    return [*words, "nokaslr", "randomize_kstack_offset=off", *guest.words]


def _doing(console: bytes | bytearray) -> str:
    """The last whole line of the console."""
    lines = console[-4096:].decode(errors="replace").splitlines()
    return lines[-1].strip()[:_LINE_SHOWN] if lines else "booting"


def _describe(
    emulator: Emulator, arch: Arch, options: TraceOptions, words: list[str]
) -> dict[str, Any]:
    return {
        "kind": "qemu",
        "emulator": f"QEMU {emulator.version}",
        "machine": arch.machine,
        "cpu": _cpu(arch, options),
        "accelerator": ACCELERATOR,
        "memory_mib": options.memory,
        "seed": options.seed,
        "cmdline": " ".join(words),
    }
