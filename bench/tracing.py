#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""What tracing costs: a workload under plain TCG and with the tasks plugin, in turn.

guest     seconds of the emulator, the same boot with the plugin / without it
whole     `kentry vector trace`, from a kernel in the cache to the written trace
load      reading the trace back / reading the file's bytes
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from kentry.arch import Arch, find_arch
from kentry.arch.processors import MAX, find_processor
from kentry.boot.console import boot
from kentry.boot.emulator import boot_argv, kernel_words, machine_argv
from kentry.boot.guest_tasks import TracedWorkload, TraceOptions, trace_guest, tracing_emulator
from kentry.boot.userland.root_image import build_userland, find_release
from kentry.boot.userland.workloads import find_workload
from kentry.kernels.kernel import Kernel
from kentry.kernels.resolve import resolve
from kentry.vector.trace import read_trace
from kentry.vector.tracing import find_hooks

SPEC = "debian:6.12"
MEMORY = 2048  # MiB
GUEST_BAR, BOOT_BAR, LOAD_BAR, BYTES_BAR = 3.0, 480.0, 1.0, 16.0  # x, s, s, bytes
ROUNDS = 3


def silent(_fraction: float | None, _now: str) -> None:
    """Nothing is shown."""


def seconds(
    kernel: Kernel, arch: Arch, guest: TracedWorkload, hooks: tuple[str, ...], plugin: bool
) -> float:
    """Wall seconds of one boot."""
    options = TraceOptions(memory=MEMORY)
    emulator = tracing_emulator(arch, options.emulator, silent)
    with tempfile.TemporaryDirectory() as folder:
        start = time.monotonic()
        if plugin:
            ending = trace_guest(kernel, arch, guest, hooks, options, Path(folder), silent).ending
        else:
            core = find_processor(arch, arch.cores.get(arch.vector.units[0].lengths[0], MAX))
            argv = [
                *machine_argv(emulator, arch, core, MEMORY),
                *boot_argv(kernel, guest.initramfs, [*kernel_words(arch, core), *guest.words]),
            ]
            ending = boot(argv, emulator, options.timeout, silent)
        taken = time.monotonic() - start
    assert "kentry-workload end 0" in ending.console, ending
    return taken


def verdict(value: float, bar: float) -> str:
    return f"{'within' if value <= bar else 'over'} {bar:g}"


def measure(arch: Arch, name: str) -> None:
    kernel = resolve(SPEC, arch, silent)
    guest = build_userland(arch, find_workload([name]), find_release(None, arch), MEMORY, silent)
    hooks = find_hooks(kernel, arch)
    plain, traced = [], []
    for _ in range(ROUNDS):
        plain.append(seconds(kernel, arch, guest, (), plugin=False))
        traced.append(seconds(kernel, arch, guest, hooks, plugin=True))
    ratio = median(traced) / median(plain)
    print(
        f"{name} {arch.name}: guest {median(plain):6.2f} s plain, {median(traced):6.2f} s traced:"
        f" {ratio:.2f} x ({verdict(ratio, GUEST_BAR)})"
    )
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "trace.parquet"
        words = ["vector", "trace", SPEC, "--arch", arch.name, "-q", "-o", str(file), "--", name]
        start = time.monotonic()
        subprocess.run(
            [sys.executable, "-m", "kentry", *words], check=True, stdout=subprocess.DEVNULL
        )
        whole = time.monotonic() - start
        print(f"  whole command {whole:.1f} s ({verdict(whole, BOOT_BAR)} s)")
        load(file)


def load(file: Path) -> None:
    """Reading it whole, against reading its bytes."""
    times, bytes_only = [], []
    for _ in range(ROUNDS):
        start = time.monotonic()
        trace = read_trace(file)
        times.append(time.monotonic() - start)
        start = time.monotonic()
        size = len(file.read_bytes())
        bytes_only.append(time.monotonic() - start)
    each = size / len(trace)
    print(
        f"  {len(trace)} events load in {median(times):.3f} s"
        f" ({verdict(median(times), LOAD_BAR)} s),"
        f" {median(times) / median(bytes_only):.0f} x the bytes alone;"
        f" {each:.1f} bytes an event ({verdict(each, BYTES_BAR)})"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("arch", nargs="*", default=["arm64", "riscv64"])
    parser.add_argument("--workload", default="boot")
    args = parser.parse_args()
    for name in args.arch:
        measure(find_arch(name), args.workload)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
