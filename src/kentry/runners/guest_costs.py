# SPDX-License-Identifier: GPL-2.0-or-later
"""Boots a kernel with guest/costs.c as its only program, under emulation and without a plugin.

Time is instructions there (-icount shift=0: one a nanosecond), read through the guest's own
clock: 62.5 MHz on arm64's machine, 10 MHz on riscv64's.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from kentry.arch import Arch
from kentry.errors import GuestError
from kentry.host.cache import cache_dir, write_atomically
from kentry.kernels.kernel import Kernel
from kentry.progress import Update
from kentry.runners.console import tail
from kentry.runners.emulator import find_emulator
from kentry.runners.exact import ExactOptions
from kentry.runners.initramfs import build_initramfs
from kentry.runners.qemu_argv import machine_argv
from kentry.runners.supervise import supervise

# A block of 500 system calls, or 50 round trips, is shorter than the time between two ticks.
ROUNDS, CALLS = 16, 500


def time_in_guest(
    kernel: Kernel, arch: Arch, program: Path, options: ExactOptions, update: Update
) -> str:
    """What the program printed; GuestError where it did not come to its end.

    Of the options these matter: timeout, memory, seed, emulator, vector_length, console_file.
    """
    emulator = find_emulator(arch, options.emulator)
    initramfs = build_initramfs(program, ())
    folder = cache_dir("boot", hashlib.sha256(initramfs).hexdigest())
    write_atomically(folder / "initramfs", initramfs)
    cpu = arch.cpu_with(options.vector_length)
    words = ["panic=-1", "quiet", f"console={arch.console}", *arch.boot_words]
    words += ["nokaslr", "randomize_kstack_offset=off", "--", f"rounds={ROUNDS}", f"calls={CALLS}"]
    argv = [
        *machine_argv(emulator, arch, cpu, options.memory, options.seed),
        *("-kernel", str(kernel.image), "-initrd", f"{folder}/initramfs"),
        *("-append", " ".join(words)),
    ]
    ending = supervise(argv, emulator.env, options.timeout, update)
    if options.console_file:
        write_atomically(options.console_file, ending.console)
    if "kentry-costs end" not in ending.console:
        raise GuestError(
            f"The guest did not come to the end of what it timed: {ending.clause}.",
            "Try --timeout 600; -v shows the command line.",
            ending.trouble or tail(ending.console),
        )
    return ending.console
