#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Every workload on every architecture, without a plugin: does it end with 0, and what it takes.

size    MiB of the user space
wall    seconds of the emulator, from its start to the power off
cpu     seconds of a processor that it took
status  the workload's exit code, or 128 and a signal's number; - where it did not end
again   with --twice: whether a second boot printed the same, with the kernel's time stamps
"""

from __future__ import annotations

import argparse
import resource
import time
from dataclasses import dataclass

from kentry.arch import ARCHES, Arch, find_arch
from kentry.arch.processors import MAX, find_processor
from kentry.boot.console import boot
from kentry.boot.emulator import Guest, boot_argv, kernel_words
from kentry.boot.guest_tasks import Ending, TraceOptions, read_ending, tracing_emulator
from kentry.boot.userland.root_image import build_userland, find_release
from kentry.boot.userland.workloads import WORKLOADS, find_workload
from kentry.errors import KentryError
from kentry.kernels.resolve import resolve

TIMEOUT = 600.0


def silent(_fraction: float | None, _now: str) -> None:
    """Nothing is shown."""


@dataclass(frozen=True)
class Run:
    """A guest's console, the emulator's seconds and those of a processor; MiB of the user space."""

    console: str
    wall: float
    cpu: float
    size: int

    @property
    def ending(self) -> Ending:
        return read_ending(self.console)


def run(spec: str, arch: Arch, words: list[str], memory: int = 2048) -> Run:
    """Boots a workload once."""
    kernel = resolve(spec, arch, silent)
    guest = build_userland(arch, find_workload(words), find_release(None, arch), memory, silent)
    emulator = tracing_emulator(arch, TraceOptions().emulator, silent)
    core = find_processor(arch, arch.cores.get(arch.vector.units[0].lengths[0], MAX))
    argv = [
        *Guest(emulator, arch, core, memory).argv(),
        *boot_argv(kernel, guest.initramfs, [*kernel_words(arch, core), *guest.words]),
    ]
    start, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    console = boot(argv, emulator, TIMEOUT, silent).console
    wall, after = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Run(console, wall, cpu, guest.initramfs.stat().st_size >> 20)


def measure(spec: str, arch: Arch, words: list[str], memory: int, twice: bool) -> bool:
    """Prints a row; whether the workload ended with 0, in two boots alike."""
    done = run(spec, arch, words, memory)
    same = not twice or run(spec, arch, words, memory).console == done.console
    status = "-" if done.ending.status is None else done.ending.status
    again = ("", "same" if same else "another")[twice]
    print(
        f"{' '.join(words):16} {arch.name:8} {done.size:5} {done.wall:7.1f} {done.cpu:7.1f}"
        f" {status:>7} {again:>7}",
        flush=True,
    )
    if done.ending.status != 0:
        print(done.ending.output, flush=True)
    return same and done.ending.status == 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("workload", nargs="*", default=list(WORKLOADS))
    parser.add_argument("--arch", action="append", choices=list(ARCHES))
    parser.add_argument("--spec", default="debian:6.12")
    parser.add_argument("--memory", type=int, default=2048, help="MiB of the guest")
    parser.add_argument("--twice", action="store_true", help="boot each a second time")
    args = parser.parse_args()
    print(
        f"{'workload':16} {'arch':8} {'size':>5} {'wall':>7} {'cpu':>7} {'status':>7}", flush=True
    )
    good = True
    for name in args.arch or ARCHES:
        for workload in args.workload:
            try:
                words = workload.split()
                good &= measure(args.spec, find_arch(name), words, args.memory, args.twice)
            except KentryError as err:
                print(f"{workload:16} {name:8} {err.sentence} {err.remedy}", flush=True)
                good = False
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
