#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""System calls of programs, as `kentry run` counts them and as the kernel does, in one boot.

The kernel's tracepoint raw_syscalls:sys_enter writes each call of the program and its children into
a ring buffer, which awk counts in the guest after the program's end.  The shell, awk and sleep that
do so have names of their own, and their calls are left out on both sides.

calls     system calls that the tracepoint saw
numbers   different ones among them
kentry    equal, or by number what kentry counted and what the tracepoint did
rows      whether all rows add up to all instructions; and returns that no instruction was seen for
clock     how far the count is ahead of the guest's clock, and faults in the program's memory
again     with --twice: whether a second boot with the same seed makes the same file, byte for byte
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections import Counter
from dataclasses import dataclass, replace

from kentry.arch import ARCHES, Arch, find_arch
from kentry.arch.processors import MAX
from kentry.boot.guest_tasks import Ending, TraceOptions
from kentry.boot.userland.root_image import build_userland, find_release
from kentry.boot.userland.workloads import Workload, find_workload
from kentry.count.workload import run_workload
from kentry.errors import KentryError
from kentry.kernels.resolve import resolve
from kentry.results.document import dump
from kentry.results.workload import FAULT, SYSCALL, to_file
from kentry.results.workload import Workload as Ran

PROGRAMS = (
    *("git-status", "git-log", "compile", "compileall", "tar-xz"),
    *("sqlite", "fio", "redis-benchmark", "nginx", "postgres"),
)
# What counts in the guest, by names that no program of a workload has.
OWN = ("counter-sh", "counter-awk", "counter-sleep")
TRACING = "/sys/kernel/tracing"
ENTER = f"{TRACING}/events/raw_syscalls/sys_enter"
# The runner is "init" until it becomes the program.
PREPARE = (
    f"mount -t tracefs tracefs {TRACING}",
    f"echo 131072 >{TRACING}/buffer_size_kb",
    "echo '" + " && ".join(f'comm != "{name}"' for name in ("init", *OWN)) + f"' >{ENTER}/filter",
    "cp /bin/sh /kentry/counter-sh",
    "cp $(command -v mawk) /kentry/counter-awk",
    "cp /bin/sleep /kentry/counter-sleep",
)
# A server that was told to end has ended after a second, which an idle guest skips.
SCRIPT = f"""\
echo 1 >{ENTER}/enable
(exec "$@")
status=$?
/kentry/counter-sleep 1
echo 0 >{ENTER}/enable
/kentry/counter-awk 'match($0, /sys_enter: NR -?[0-9]+/) {{
	count[substr($0, RSTART + 14, RLENGTH - 14)]++
}}
/^overrun:/ {{ lost = $2 }}
END {{
	printf "\\nlost %d calls", lost
	for (number in count)
		printf " %d:%d", number, count[number]
	printf "\\n"
}}' {TRACING}/trace {TRACING}/per_cpu/cpu0/stats
exit $status
"""


def silent(_fraction: float | None, _now: str) -> None:
    """Nothing is shown."""


def counted(workload: Workload) -> Workload:
    """The workload, between whose marks the kernel counts its calls, too."""
    return replace(
        workload,
        argv=("/kentry/counter-sh", "-c", SCRIPT, "sh", *workload.argv),
        prepare=(*workload.prepare, *PREPARE),
        packages=(*workload.packages, "mount", "mawk"),
    )


def run(
    spec: str, arch: Arch, workload: Workload, memory: int = 2048, timeout: float = 1800.0
) -> tuple[Ran, Ending]:
    """Boots it once, as kentry run does."""
    kernel = resolve(spec, arch, silent)
    guest = build_userland(arch, workload, find_release(None, arch), memory, silent)
    options = TraceOptions(memory=memory, cpu=MAX, timeout=timeout)
    return run_workload(kernel, arch, guest, options, silent)


def calls_of_kentry(ran: Ran) -> Counter[int]:
    """The program's system calls by number, without those of what counts."""
    found: Counter[int] = Counter()
    for program in ran.programs:
        for index, calls, _ in () if program.name in ("init", *OWN) else program.rows:
            row = ran.rows[index]
            if row.what == SYSCALL and calls and row.number is not None:
                found[row.number] += calls
    return found


def calls_of_the_kernel(ending: Ending) -> Counter[int]:
    """Those that the tracepoint saw; ValueError where there is no count, or not of all."""
    line = re.search(r"^lost (\d+) calls(.*)$", ending.output, re.MULTILINE)
    if not line or line[1] != "0":
        raise ValueError(line[0] if line else "no count was printed")
    pairs = (pair.split(":") for pair in line[2].split())
    return Counter({int(number): int(count) for number, count in pairs})


def differences(ran: Ran, ours: Counter[int], kernels: Counter[int]) -> list[str]:
    """By number, what kentry counted and what the kernel did, where it is not the same."""
    names = {row.number: row.name for row in ran.rows if row.what == SYSCALL}
    return [
        f"{names.get(number, number)} {ours[number]} and {kernels[number]}"
        for number in sorted(ours.keys() | kernels.keys())
        if ours[number] != kernels[number]
    ]


@dataclass(frozen=True)
class Checked:
    """One line of the table."""

    program: str
    arch: str
    release: str
    calls: int
    numbers: int
    different: tuple[str, ...]
    instructions: int
    missed: bool
    ahead: int
    faults: int
    seconds: float
    again: bool | None

    @property
    def good(self) -> bool:
        return not (self.different or self.missed) and self.again is not False

    def line(self) -> str:
        again = {None: "", True: "same", False: "another"}[self.again]
        missed = "missed returns" if self.missed else "whole"
        return (
            f"{self.program:16} {self.arch:8} {self.calls:7} {self.numbers:7}"
            f" {'; '.join(self.different) or 'equal':8} {missed:8} {self.ahead:6} {self.faults:6}"
            f" {again:7} {self.seconds:7.0f}"
        )


def check(spec: str, arch: Arch, name: str, twice: bool) -> Checked:
    """Runs a program and holds it against the kernel; ValueError where that cannot be done."""
    workload, start = counted(find_workload(name.split())), time.monotonic()
    ran, ending = run(spec, arch, workload)
    seconds = time.monotonic() - start
    if ending.status != 0:
        raise ValueError(f"the program {ending.clause}: {ending.output}")
    ours, kernels = calls_of_kentry(ran), calls_of_the_kernel(ending)
    again = None
    if twice:
        again = dump(to_file(run(spec, arch, workload)[0])) == dump(to_file(ran))
    return Checked(
        program=name,
        arch=arch.name,
        release=ran.kernel["release"],
        calls=kernels.total(),
        numbers=len(kernels),
        different=tuple(differences(ran, ours, kernels)),
        instructions=ran.instructions,
        missed="missed-returns" in {one["kind"] for one in ran.caveats},
        ahead=ran.clock.ahead if ran.clock else 0,
        faults=sum(row.calls for row in ran.rows if row.what == FAULT),
        seconds=seconds,
        again=again,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", nargs="*", default=list(PROGRAMS))
    parser.add_argument("--arch", action="append", choices=list(ARCHES))
    parser.add_argument("--spec", default="debian:6.12")
    parser.add_argument("--twice", action="store_true", help="boot each a second time")
    args = parser.parse_args()
    print(
        f"{'program':16} {'arch':8} {'calls':>7} {'numbers':>7} {'kentry':8} {'rows':8}"
        f" {'clock':>6} {'faults':>6} {'again':7} {'seconds':>7}",
        flush=True,
    )
    good = True
    for program in args.program:
        for name in args.arch or ARCHES:
            try:
                checked = check(args.spec, find_arch(name), program, args.twice)
            except (KentryError, ValueError) as err:
                print(f"{program:16} {name:8} {err}", file=sys.stderr, flush=True)
                good = False
                continue
            print(checked.line(), flush=True)
            good &= checked.good
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
