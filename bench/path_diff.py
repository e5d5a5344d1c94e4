#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The diff of two paths of 5,000 instructions, and git's diff of the same instructions as text.

changed  every 40th instruction replaced, every 97th left out, registers renamed, all moved
unlike   two paths that have nothing but mnemonics in common: every pair is tried

git compares lines, so it gets what kentry compares: instructions without addresses.  CPU time, user
and system, the least of some runs: kentry's own without its start, and that of git's process.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from kentry.arch import find_arch
from kentry.compare.path_diff import diff_paths
from kentry.results.recording import Instruction

LENGTH = 5000
SECONDS_BAR = 1.0
_WORDS = ("add", "sub", "and", "orr", "eor", "lsl", "lsr", "asr")
_FUNCTION = 50


def path(count: int, seed: int, base: int) -> list[Instruction]:
    """Instructions of functions of 50, no two of which are alike."""
    found = []
    for n in range(count):
        value = (n * 2654435761 + seed * 40503) % (1 << 32)
        text = (
            f"{_WORDS[value >> 5 & 7]} x{value % 16}, x{value >> 8 & 15}, #{value >> 12 & 0xFFF:#x}"
        )
        function = f"function_{n // _FUNCTION}"
        address = base + 4 * n
        found.append(Instruction(address, "1f2003d5", text, function, 4 * (n % _FUNCTION)))
    return found


def changed(old: list[Instruction]) -> list[Instruction]:
    """A path with changes such as another release makes."""
    new = []
    for n, insn in enumerate(old):
        if n % 97 == 0:
            continue
        text = "mrs x0, tpidr_el1" if n % 40 == 0 else insn.text.replace("x1, ", "x2, ")
        new.append(insn._replace(address=insn.address + 0x10000, text=text))
    return new


def seconds(work: Callable[[], object], runs: int) -> float:
    """The least CPU time of some runs, with that of child processes."""
    times = []
    for _ in range(runs):
        start = sum(os.times()[:4])
        work()
        times.append(sum(os.times()[:4]) - start)
    return min(times)


def compare(name: str, old: list[Instruction], new: list[Instruction], runs: int) -> bool:
    """Prints both times and their ratio; whether kentry's is within the bar."""
    arch = find_arch("arm64")
    own = seconds(lambda: diff_paths(name, old, new, arch), runs)
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / side for side in ("old", "new")]
        for file, side in zip(files, (old, new), strict=True):
            file.write_text("".join(f"{insn.text}\n" for insn in side))
        argv = ["git", "diff", "--no-index", "--patience", *map(str, files)]
        # The clock of CPU time has steps of 10 ms.
        git = seconds(
            lambda: [subprocess.run(argv, capture_output=True, check=False) for _ in range(20)],
            runs,
        )
    print(
        f"{name}: {own:.2f} s of CPU time for two paths of {LENGTH} instructions (bar"
        f" {SECONDS_BAR:g} s), git diff --patience {git / 20:.3f} s: ratio {own / git * 20:.1f}"
    )
    return own <= SECONDS_BAR


def main() -> int:
    """Both pairs; 1 if one takes longer than the bar."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--runs", type=int, default=5)
    runs = parser.parse_args().runs
    old = path(LENGTH, 1, 0xFFFF800080000000)
    within = [
        compare("changed", old, changed(old), runs),
        compare("unlike", old, path(LENGTH, 7, 0xFFFF900080000000), runs),
    ]
    return 0 if all(within) else 1


if __name__ == "__main__":
    raise SystemExit(main())
