# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs ten programs on three kernels and three architectures; writes down what they spent.

docs/reference/programs.json has a row for each run, and the reference page is made of it.  What
is there is not run again, nor is a program whose file of kentry run is in build/programs/.  One
guest runs at a time; what fails leaves its cell empty and is printed.
Usage: nice python scripts/programs.py [--arch ARCH] [--spec SPEC] [--until HH:MM] [PROGRAM...]
"""

import argparse
import json
import re
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from kentry.arch import ARCHES, find_arch
from kentry.results.workload import ENTRIES, FAULT, SYSCALL, USER, Workload, read_workload

ROOT = Path(__file__).parents[1]
FILE = ROOT / "docs" / "reference" / "programs.json"
KEPT = ROOT / "build" / "programs"
PROGRAMS = (
    *("git-status", "git-log", "compile", "compileall", "tar-xz"),
    *("sqlite", "fio", "redis-benchmark", "nginx", "postgres"),
)
# The cells, in the order in which they are filled.  On `max` glibc's memcpy uses FEAT_MOPS in
# place of SVE, and a Neoverse N2 has no FEAT_MOPS.
# Debian has no 6.1 for riscv64.
CELLS = (
    ("arm64", "debian:6.12"),
    ("arm64", "debian:6.1"),
    ("arm64", "debian:newest"),
    ("arm64", "debian:6.12,cpu=neoverse-n2"),
    ("x86_64", "debian:6.12"),
    ("riscv64", "debian:6.12"),
    ("x86_64", "debian:newest"),
    ("riscv64", "debian:newest"),
    ("x86_64", "debian:6.1"),
)
# Kinds of entry whose median the page has.
LARGEST = 3
# The kernel's functions that keep the state of vector and floating-point units, in Linux 6.1 to
# 7.3: arch/arm64/kernel/fpsimd.c, entry-fpsimd.S; arch/riscv/kernel/vector.c, fpu.S;
# arch/x86/kernel/fpu/.
VECTOR = {
    "arm64": re.compile(r"(\w+_)?(sve|sme|fpsimd)_\w+"),
    "riscv64": re.compile(r"(__)?riscv_v_\w+|__fstate_\w+|__switch_to_(fpu|vector)"),
    "x86_64": re.compile(r"(\w+_)?(fpu|fpregs|fpstate|xfeatures|xstate|xfd)(_\w+)?"),
}


def summary(workload: Workload) -> dict[str, Any]:
    """The row of a run: counts of instructions, but for what is said of entries and switches."""
    kernel, entries = workload.kernel, [row for row in workload.rows if row.what in ENTRIES]
    calls = [row for row in entries if row.what == SYSCALL]
    traps = find_arch(kernel["arch"]).vector.trap_classes
    vector: Counter[str] = Counter()
    for row in workload.rows:
        for index, count in row.functions:
            name = workload.functions[index]
            if row.what != USER and VECTOR[kernel["arch"]].fullmatch(name):
                vector[name] += count
    return {
        "kernel": kernel["release"],
        "release": workload.workload.release,
        "processor": workload.target["processor"],
        "emulator": workload.target["emulator"],
        "instructions": workload.instructions,
        "in_kernel": workload.kernel_instructions,
        "entries": sum(row.calls for row in entries),
        "syscalls": sum(row.calls for row in calls),
        "around": sum(row.entry + row.exit for row in calls),
        "medians": [[row.name, row.calls, row.quantile(0.5)] for row in entries[:LARGEST]],
        "first_uses": sum(
            row.calls for row in entries if row.what == FAULT and row.number in traps
        ),
        "switches": sum(row.blocked + row.preempted for row in entries),
        "vector": dict(vector.most_common()),
    }


def file_of(name: str, spec: str, arch: str) -> Path:
    """Where the run's file of kentry run is kept."""
    return KEPT / f"{name}-{spec.partition(':')[2]}-{arch}.json"


def measure(name: str, spec: str, arch: str) -> None:
    """Runs the program; a failure is printed and leaves no file."""
    KEPT.mkdir(parents=True, exist_ok=True)
    file, kentry = file_of(name, spec, arch), str(Path(sys.executable).parent / "kentry")
    argv = [kentry, "run", spec, "--arch", arch, "-o", str(file), "--", name]
    start = time.monotonic()
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    print(f"{name} {spec} {arch}: {time.monotonic() - start:.0f} s", flush=True)
    if done.returncode:
        print(done.stderr, flush=True)
        file.unlink(missing_ok=True)


def main() -> None:
    """Fills the empty cells of what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", nargs="*", help=", ".join(PROGRAMS))
    parser.add_argument("--arch", choices=list(ARCHES))
    parser.add_argument("--spec", choices=dict.fromkeys(spec for _, spec in CELLS))
    parser.add_argument("--until", default="99", metavar="HH:MM", help="begin no run after it")
    args = parser.parse_args()
    rows: dict[str, Any] = json.loads(FILE.read_text())["rows"] if FILE.exists() else {}
    for arch, spec in CELLS:
        for name in args.program or PROGRAMS:
            if args.arch not in (None, arch) or args.spec not in (None, spec):
                continue
            key, file = f"{arch} {spec} {name}", file_of(name, spec, arch)
            if not file.exists() and key not in rows and time.strftime("%H:%M") < args.until:
                measure(name, spec, arch)
            if file.exists():
                rows[key] = summary(read_workload(file))
                table = {"programs": PROGRAMS, "cells": CELLS, "rows": rows}
                FILE.write_text(json.dumps(table, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
