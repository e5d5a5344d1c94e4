#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""`kentry run` from nothing cached, and again: what the seconds go to.

wall    seconds, which waits for the network and other work on the machine make longer
cpu     seconds of a processor, kentry's and those of what it started
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import time
from collections.abc import Callable
from typing import TypeVar

from kentry.arch import find_arch
from kentry.arch.processors import MAX
from kentry.boot.guest_tasks import TraceOptions, trace_guest, tracing_emulator
from kentry.boot.task_hooks import find_hooks
from kentry.boot.userland.root_image import build_userland, find_release
from kentry.boot.userland.workloads import find_workload
from kentry.count.workload import make_workload, read_counts
from kentry.host.cache import scratch_folder
from kentry.kernels.resolve import resolve

FIRST_BAR, AGAIN_BAR = 90.0, 30.0  # s
MEMORY = 2048  # MiB
Result = TypeVar("Result")


def silent(_fraction: float | None, _now: str) -> None:
    """Nothing is shown."""


class Clock:
    """Prints what steps take, and their sum."""

    def __init__(self) -> None:
        self.sums = (0.0, 0.0)

    @staticmethod
    def now() -> tuple[float, float]:
        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return time.monotonic(), sum(one.ru_utime + one.ru_stime for one in used)

    def step(self, name: str, do: Callable[[], Result]) -> Result:
        """Does it, and prints how long that took."""
        before = self.now()
        result = do()
        wall, cpu = (now - then for now, then in zip(self.now(), before, strict=True))
        self.sums = (self.sums[0] + wall, self.sums[1] + cpu)
        print(f"  {name:28} {wall:7.1f} {cpu:7.1f}", flush=True)
        return result

    def end(self, bar: float) -> None:
        wall, cpu = self.sums
        verdict = "within" if wall <= bar else "over"
        print(f"  {'in all':28} {wall:7.1f} {cpu:7.1f}  {verdict} {bar:g} s", flush=True)


def run(spec: str, arch_name: str, name: str, bar: float) -> None:
    """Each step of kentry run, in its order."""
    clock, arch = Clock(), find_arch(arch_name)
    kernel = clock.step("the kernel", lambda: resolve(spec, arch, silent))
    workload, release = find_workload([name]), find_release(None, arch)
    guest = clock.step(
        "the user space", lambda: build_userland(arch, workload, release, MEMORY, silent)
    )
    hooks = clock.step("what to watch in the kernel", lambda: find_hooks(kernel, arch))
    options = TraceOptions(memory=MEMORY, cpu=MAX)
    clock.step("the emulator", lambda: tracing_emulator(arch, options.emulator, silent))
    with scratch_folder() as folder:
        traced = clock.step(
            "the guest",
            lambda: trace_guest(kernel, arch, guest, hooks, options, folder, silent),
        )
        counts = read_counts(traced.counts)
        clock.step("the result", lambda: make_workload(kernel, guest, hooks, traced))
    clock.end(bar)
    before, after = counts.begin[0], counts.end[0] - counts.begin[0]
    print(f"  the guest executed {before} instructions before the program, {after} of it")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("workload", nargs="?", default="git-status")
    parser.add_argument("--arch", default="arm64")
    parser.add_argument("--spec", default="debian:6.12")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as cache:
        os.environ["KENTRY_CACHE"] = cache
        for title, bar in (("from nothing cached", FIRST_BAR), ("again", AGAIN_BAR)):
            print(f"{args.workload} on {args.spec} ({args.arch}), {title}: s of the wall, of a cpu")
            run(args.spec, args.arch, args.workload, bar)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
