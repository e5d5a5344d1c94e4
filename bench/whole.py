#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""How long a user waits: from a kernel in the cache to the printed table, and at the prompt.

record    `kentry record SPEC`, everything measured / the same with 1 window a case; the
          difference is the counting part
matrix    `kentry record SPEC --matrix vector`, all cells in one boot / one cell in a boot of its
          own, times the cells: what measuring them one by one takes
prompt    `kentry --help` and `kentry diff` of two recordings / `python -c pass`
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

# Seconds, on two cores.
RECORD_BAR, COUNTING_BAR, PROMPT_BAR = 15.0, 2.0, 0.3
MATRIX_BAR, CELL_BAR = 60.0, 10.0
ROUNDS = 3


def wall(*words: str) -> float:
    """Seconds that a command takes."""
    start = time.monotonic()
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - start


def kentry(*words: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "kentry", *words)


def line(name: str, seconds: float, bar: float, ratio: float, of: str) -> None:
    verdict = "within" if seconds <= bar else "over"
    print(f"{name:32} {seconds:6.2f} s  ({verdict} {bar:g} s)  {ratio:5.2f} x {of}")


def record(spec: str, arch: str, folder: Path) -> None:
    """Whole runs and runs of one case, in turn."""
    base = kentry("record", spec, "--arch", arch, "-q")
    wall(*base, "-o", str(folder / f"{arch}.json"))
    whole, empty = [], []
    for _ in range(ROUNDS):
        whole.append(wall(*base))
        empty.append(wall(*base, "--case", "getppid", "--paths", "1"))
    boot = median(empty)
    line(f"record {spec} {arch}", median(whole), RECORD_BAR, median(whole) / boot, "one case")
    counting = median(a - b for a, b in zip(whole, empty, strict=True))
    line("  its counting part", counting, COUNTING_BAR, counting / boot, "one case")


def matrix(spec: str, arch: str, folder: Path) -> None:
    """The whole vector matrix, and a cell of it alone from a kernel that is in the cache."""
    file = folder / f"matrix-{arch}.json"
    base = kentry("record", spec, "--arch", arch, "-q")
    cell = median(wall(*base, "--case", "getppid+vec=once") for _ in range(ROUNDS))
    whole = wall(*base, "--matrix", "vector", "-o", str(file))
    cells = len(json.loads(file.read_text())["cases"])
    one_by_one = f"{cells} boots of a cell"
    line(f"matrix {spec} {arch}", whole, MATRIX_BAR, whole / (cells * cell), one_by_one)
    line("  one cell", cell, CELL_BAR, cell / whole, "the matrix")


def prompt(folder: Path, arch: str) -> None:
    file = str(folder / f"{arch}.json")
    runs = {
        "python -c pass": (sys.executable, "-c", "pass"),
        "kentry --help": kentry("--help"),
        "kentry diff FILE FILE": kentry("diff", file, file),
    }
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(4 * ROUNDS):
        for name, words in runs.items():
            seconds[name].append(wall(*words))
    plain = median(seconds["python -c pass"])
    for name in list(runs)[1:]:
        took = median(seconds[name])
        line(name, took, PROMPT_BAR, took / plain, "python -c pass")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spec", default="debian:6.12")
    parser.add_argument("--arch", nargs="+", default=["arm64", "riscv64", "x86_64"])
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        for arch in args.arch:
            record(args.spec, arch, Path(name))
            matrix(args.spec, arch, Path(name))
        prompt(Path(name), args.arch[0])


if __name__ == "__main__":
    main()
