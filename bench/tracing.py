#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""What counting and tracing cost: a workload under plain TCG and with the tasks plugin, in turn.

counted   CPU seconds of the emulator, the same boot with the plugin / without it, as kentry run
traced    the same, as kentry vector trace
memory    the most that the emulator had, with the plugin less without it
whole     `kentry vector trace`, from a kernel in the cache to the written trace
load      reading the trace back / reading the file's bytes
"""

from __future__ import annotations

import argparse
import resource
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
from kentry.boot.task_hooks import Hooks, find_hooks
from kentry.boot.userland.root_image import build_userland, find_release
from kentry.boot.userland.workloads import find_workload
from kentry.kernels.kernel import Kernel
from kentry.kernels.resolve import resolve
from kentry.vector.trace import read_trace

SPEC = "debian:6.12"
MEMORY = 2048  # MiB
COUNT_BAR, GUEST_BAR, BOOT_BAR, LOAD_BAR = 1.5, 3.0, 480.0, 1.0  # x, x, s, s
MEMORY_BAR, BYTES_BAR = 500.0, 16.0  # MB, bytes
ROUNDS = 3


def silent(_fraction: float | None, _now: str) -> None:
    """Nothing is shown."""


def cost(
    kernel: Kernel, arch: Arch, guest: TracedWorkload, hooks: Hooks | None, tracing: bool
) -> tuple[float, float]:
    """CPU seconds of one boot, and the most MB that any so far had; `hooks` None: no plugin."""
    options = TraceOptions(memory=MEMORY, tracing=tracing)
    emulator = tracing_emulator(arch, options.emulator, silent)
    with tempfile.TemporaryDirectory() as folder:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        if hooks:
            ending = trace_guest(kernel, arch, guest, hooks, options, Path(folder), silent).ending
        else:
            core = find_processor(arch, arch.cores.get(arch.vector.units[0].lengths[0], MAX))
            argv = [
                *machine_argv(emulator, arch, core, MEMORY),
                *boot_argv(kernel, guest.initramfs, [*kernel_words(arch, core), *guest.words]),
            ]
            ending = boot(argv, emulator, options.timeout, silent)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert "kentry-workload end 0" in ending.console, ending
    taken = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return taken, after.ru_maxrss / 1000


def verdict(value: float, bar: float) -> str:
    return f"{'within' if value <= bar else 'over'} {bar:g}"


def measure(arch: Arch, workload: str, rounds: int, whole: bool) -> None:
    kernel = resolve(SPEC, arch, silent)
    guest = build_userland(
        arch, find_workload([workload]), find_release(None, arch), MEMORY, silent
    )
    rows: dict[str, tuple[Hooks | None, bool]] = {
        "plain": (None, False),
        "counted": (find_hooks(kernel, arch), False),
        "traced": (find_hooks(kernel, arch, tracing=True), True),
    }
    # In this order: the memory is the most of all boots so far.
    found = {name: [cost(kernel, arch, guest, *row)] for name, row in rows.items()}
    for _ in range(rounds - 1):
        for name, row in rows.items():
            found[name].append(cost(kernel, arch, guest, *row))
    plain = min(taken for taken, _ in found["plain"])
    print(f"{workload} {arch.name}: {plain:.2f} s of CPU time without the plugin")
    for name, bar in (("counted", COUNT_BAR), ("traced", GUEST_BAR)):
        ratio = min(taken for taken, _ in found[name]) / plain
        more = found[name][0][1] - found["plain"][0][1]
        print(
            f"  {name}: {ratio:.2f} x ({verdict(ratio, bar)}),"
            f" {more:.0f} MB more ({verdict(more, MEMORY_BAR)})"
        )
    if not whole:
        return
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "trace.parquet"
        words = [
            "vector",
            "trace",
            SPEC,
            "--arch",
            arch.name,
            "-q",
            "-o",
            str(file),
            "--",
            workload,
        ]
        start = time.monotonic()
        subprocess.run(
            [sys.executable, "-m", "kentry", *words], check=True, stdout=subprocess.DEVNULL
        )
        taken = time.monotonic() - start
        print(f"  whole command {taken:.1f} s ({verdict(taken, BOOT_BAR)} s)")
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
    parser.add_argument("arch", nargs="*", default=["arm64", "riscv64", "x86_64"])
    parser.add_argument("--workload", default="shell")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--whole", action="store_true", help="the whole command, too")
    args = parser.parse_args()
    for name in args.arch:
        measure(find_arch(name), args.workload, args.rounds, args.whole)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
