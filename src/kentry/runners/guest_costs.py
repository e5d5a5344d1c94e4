# SPDX-License-Identifier: GPL-2.0-or-later
"""Boots a kernel with guest/costs.c as its only program, under emulation and without a plugin.

The guest's time counts instructions, one a nanosecond, and the program reads it through the
guest's own clock: 62.5 MHz on arm64's machine, 10 MHz on riscv64's.
"""

from __future__ import annotations

from pathlib import Path

from kentry.arch import Arch
from kentry.errors import GuestError
from kentry.host.cache import kept_file
from kentry.kernels.kernel import Kernel
from kentry.progress import Update
from kentry.runners.console import boot, tail
from kentry.runners.emulator import find_emulator
from kentry.runners.exact import ExactOptions
from kentry.runners.initramfs import build_initramfs
from kentry.runners.qemu_argv import boot_argv, kernel_words, machine_argv

# A block of 500 system calls, or 50 round trips, is shorter than the time between two ticks.
ROUNDS, CALLS = 16, 500


def time_in_guest(
    kernel: Kernel, arch: Arch, program: Path, options: ExactOptions, update: Update
) -> str:
    """What the program printed; GuestError where it did not come to its end.

    Uses these options: timeout, memory, seed, emulator, vector_length, console_file.
    """
    emulator = find_emulator(arch, options.emulator)
    cpu = arch.cpu_with(options.vector_length)
    initramfs = kept_file("initramfs", build_initramfs(program, ()))
    words = [*kernel_words(arch), "--", f"rounds={ROUNDS}", f"calls={CALLS}"]
    argv = [
        *machine_argv(emulator, arch, cpu, options.memory, options.seed),
        *boot_argv(kernel, initramfs, words),
    ]
    guest = boot(argv, emulator, options.timeout, update, options.console_file)
    if "kentry-costs end" not in guest.console:
        raise GuestError(
            f"The guest did not come to the end of what it timed: {guest.clause}.",
            "-v shows the command line.",
            guest.stderr or tail(guest.console),
        )
    return guest.console
