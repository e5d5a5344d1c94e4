#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The diff of two paths of 5,000 instructions, and git's diff of the same instructions as text.

changed  every 40th instruction replaced, every 97th left out, registers renamed, all moved
unlike   two paths that have nothing but mnemonics in common: every pair is tried

git compares lines, so it gets what kentry compares: instructions without addresses.  The time of
both is that of a whole process's work but for its start, the least of some runs in turn.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from kentry.arch import find_arch
from kentry.compare.path_diff import diff_paths
from kentry.model.recording import Instruction

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
    """The least time of some runs."""
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    arch = find_arch("arm64")
    old = path(LENGTH, 1, 0xFFFF800080000000)
    slow = 0
    for name, new in (("changed", changed(old)), ("unlike", path(LENGTH, 7, 0xFFFF900080000000))):
        own = seconds(lambda new=new: diff_paths(old, new, arch), options.runs)  # type: ignore[misc]
        with tempfile.TemporaryDirectory() as folder:
            files = [Path(folder) / side for side in ("old", "new")]
            for file, side in zip(files, (old, new), strict=True):
                file.write_text("".join(f"{insn.text}\n" for insn in side))
            argv = ["git", "diff", "--no-index", "--patience", *map(str, files)]
            git = seconds(
                lambda: subprocess.run(argv, capture_output=True, check=False), options.runs
            )  # noqa: B023
        print(f"{name}: {own:.2f} s for two paths of {LENGTH} (bar {SECONDS_BAR:g} s); git diff")
        print(f"  --patience {git:.3f} s: ratio {own / git:.1f}")
        slow += own > SECONDS_BAR
    return 1 if slow else 0


if __name__ == "__main__":
    raise SystemExit(main())
