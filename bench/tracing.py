#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""What counting and tracing cost: a workload under plain TCG and with the tasks plugin, in turn.

counted   CPU seconds of the emulator, the same boot with the plugin / without it, as kentry run;
          then seconds of the wall, which other work on the machine makes longer
traced    the same, as kentry vector trace
memory    the most that the emulator had, with the plugin less without it; and kentry itself
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
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from kentry.arch import Arch, find_arch
from kentry.arch.processors import MAX, find_processor
from kentry.boot.console import boot
from kentry.boot.emulator import Guest, boot_argv, kernel_words
from kentry.boot.guest_tasks import TracedWorkload, TraceOptions, trace_guest, tracing_emulator
from kentry.boot.task_hooks import Hooks, find_hooks
from kentry.boot.userland.root_image import build_userland, find_release
from kentry.boot.userland.workloads import find_workload
from kentry.count.workload import make_workload
from kentry.host.cache import scratch_folder
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


@dataclass(frozen=True)
class Cost:
    """Of one boot: seconds of a processor and of the wall, MB of the emulator and of kentry."""

    cpu: float
    wall: float
    emulator: float
    kentry: float


def cost(
    kernel: Kernel, arch: Arch, guest: TracedWorkload, hooks: Hooks | None, tracing: bool
) -> Cost:
    """What one boot takes; `hooks` None: without the plugin."""
    # Its children and what they took are of this boot alone.
    with ProcessPoolExecutor(1) as pool:
        return pool.submit(_cost, kernel, arch, guest, hooks, tracing).result()


def _cost(
    kernel: Kernel, arch: Arch, guest: TracedWorkload, hooks: Hooks | None, tracing: bool
) -> Cost:
    options = TraceOptions(memory=MEMORY, tracing=tracing, timeout=7200)
    emulator = tracing_emulator(arch, options.emulator, silent)
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    with scratch_folder() as folder:
        if hooks:
            traced = trace_guest(kernel, arch, guest, hooks, options, folder, silent)
            ending = traced.ending
            make_workload(kernel, guest, hooks, traced)
        else:
            core = find_processor(arch, arch.cores.get(arch.vector.units[0].lengths[0], MAX))
            argv = [
                *Guest(emulator, arch, core, MEMORY).argv(),
                *boot_argv(kernel, guest.initramfs, [*kernel_words(arch, core), *guest.words]),
            ]
            ending = boot(argv, emulator, options.timeout, silent)
    wall, after = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    assert "kentry-workload end 0" in ending.console, ending
    return Cost(
        cpu=after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        wall=wall,
        emulator=after.ru_maxrss / 1000,
        kentry=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000,
    )


def verdict(value: float, bar: float) -> str:
    return f"{'within' if value <= bar else 'over'} {bar:g}"


def measure(arch: Arch, workload: str, rounds: int, whole: bool, only_counted: bool) -> None:
    kernel = resolve(SPEC, arch, silent)
    guest = build_userland(
        arch, find_workload([workload]), find_release(None, arch), MEMORY, silent
    )
    rows: dict[str, tuple[Hooks | None, bool]] = {
        "plain": (None, False),
        "counted": (find_hooks(kernel, arch), False),
    }
    if not only_counted:
        rows["traced"] = (find_hooks(kernel, arch, tracing=True), True)
    found: dict[str, list[Cost]] = {name: [] for name in rows}
    for _ in range(rounds):
        for name, row in rows.items():
            found[name].append(cost(kernel, arch, guest, *row))
    plain = found.pop("plain")
    least = min(one.cpu for one in plain)
    print(f"{workload} {arch.name}: {least:.2f} s of CPU time without the plugin", flush=True)
    for name, costs in found.items():
        ratio = min(one.cpu for one in costs) / least
        wall = min(one.wall for one in costs) / min(one.wall for one in plain)
        more = max(one.emulator for one in costs) - min(one.emulator for one in plain)
        own = max(one.kentry for one in costs)
        bar = COUNT_BAR if name == "counted" else GUEST_BAR
        print(
            f"  {name}: {ratio:.2f} x ({verdict(ratio, bar)}), {wall:.2f} x of the wall,"
            f" {more:.0f} MB more and {own:.0f} MB of kentry ({verdict(more + own, MEMORY_BAR)})",
            flush=True,
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
    parser.add_argument("--workload", action="append", help="a name or a script; shell by default")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--whole", action="store_true", help="the whole command, too")
    parser.add_argument("--counted", action="store_true", help="kentry run alone, and no traces")
    args = parser.parse_args()
    for workload in args.workload or ["shell"]:
        for name in args.arch:
            measure(find_arch(name), workload, args.rounds, args.whole, args.counted)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
