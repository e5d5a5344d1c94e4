#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Kernels whose code only moved, and what kentry diff says of them; nm says the same, or it fails.

Linux is built as it is, and with an object file that is linked before the entry code grown by 8,
16 and 32 bytes that nothing executes.  `kentry diff` must call every case the same, with the same
instructions at other addresses.  Which functions moved, by how much, and how many windows the paths
enter is computed once more, from the symbols that nm reads in both vmlinux.

    python -m bench.layout [ARCH ...]       # four builds each, a few minutes
"""

from __future__ import annotations

import subprocess
import sys
from bisect import bisect_right
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from kentry.arch import ARCHES, Arch, find_arch
from kentry.boot.exact import ExactOptions
from kentry.compare.counted import compare
from kentry.count.catalogue import choose
from kentry.host.cache import scratch_folder
from kentry.kernels.kernel import Kernel
from kentry.kernels.resolve import resolve
from kentry.progress import progress
from kentry.results.comparison import CaseComparison
from kentry.results.recording import Instruction, Recording
from kentry.show.beside import layout_blocks
from kentry.show.text import written
from kentry.stats.exact import SAME
from kentry.study.plan import Unit, perform

GROWTHS = (8, 16, 32)  # bytes
SIZES = (16, 32, 64)
# init/ is linked before all other code but the first instructions.  File scope, so gcc puts it in
# front of the file's functions.
PATCH = """\
From: kentry <kentry@localhost>
Date: Thu, 1 Jan 1970 00:00:00 +0000
Subject: [PATCH] init: grow by {0} bytes that nothing executes

---
--- a/init/main.c
+++ b/init/main.c
@@ -1,3 +1,4 @@
 // SPDX-License-Identifier: GPL-2.0-only
+asm(".pushsection .text; .skip {0}; .popsection");
 /*
  *  linux/init/main.c
"""


def measured(
    spec: str, arch: Arch, cases: Sequence[str], folder: Path, grown: int = 0
) -> tuple[Kernel, Recording]:
    """Linux, grown by some bytes, built and measured; any KentryError."""
    label = f"{spec} ({arch.name}), {grown} bytes more"
    if grown:
        patch = folder / f"{grown}.patch"
        patch.write_text(PATCH.format(grown))
        spec = f"{spec},patches={patch}"
    with progress(label) as update:
        kernel = resolve(spec, arch, update)
        unit = Unit(spec=spec, arch=arch.name, measurement=ExactOptions(tuple(cases)))
        return kernel, perform(unit, update).measured(unit)


def symbols(kernel: Kernel, arch: Arch) -> tuple[list[int], list[tuple[str, int]]]:
    """The addresses of code in a vmlinux, and the names: (name, how many had it before)."""
    argv = [f"{arch.cross}nm", "-n", str(kernel.image.parent / "vmlinux")]
    lines = subprocess.run(argv, check=True, capture_output=True, text=True).stdout.splitlines()
    addresses, names = [], []
    seen: dict[str, int] = {}
    for address, kind, name in (line.split() for line in lines if len(line.split()) == 3):
        if kind in "tTwW":
            addresses.append(int(address, 16))
            names.append((name, seen.setdefault(name, 0)))
            seen[name] += 1
    return addresses, names


def moved_by_nm(
    old: tuple[list[int], list[tuple[str, int]]],
    new: tuple[list[int], list[tuple[str, int]]],
    path: Sequence[Instruction],
) -> list[int]:
    """Where each instruction of the old path lies in the new vmlinux."""
    places = dict(zip(new[1], new[0], strict=True))
    found = []
    for insn in path:
        at = bisect_right(old[0], insn.address) - 1
        found.append(places[old[1][at]] + insn.address - old[0][at])
    return found


def windows(addresses: Sequence[int], path: Sequence[Instruction], size: int) -> int:
    """How many windows are entered, byte by byte."""
    each = (
        byte // size
        for address, insn in zip(addresses, path, strict=True)
        for byte in range(address, address + len(insn.code) // 2)
    )
    return sum(1 for _ in groupby(each))


def problems(
    row: CaseComparison, old: Recording, new: Recording, places: Sequence[int]
) -> list[str]:
    """What kentry says of a case that is not so; `places` are those that nm says."""
    before, after = (
        recording.instructions(path)
        for recording in (old, new)
        if (case := recording.case(row.name)) and (path := case.modal_path)
    )
    if row.verdict != SAME or not row.identical_path:
        return [f"{row.name} is {row.verdict}, identical path {row.identical_path}"]
    wrong = []
    if [insn.address for insn in after] != places:
        wrong.append(f"{row.name} was executed where nm has other functions")
    pages = row.layout.whole_pages if row.layout else 0
    by_nm = {
        (insn.function, place - insn.address - pages)
        for insn, place in zip(before, places, strict=True)
        if place - insn.address != pages
    }
    by_kentry = {(one.name, one.by) for one in row.layout.moved} if row.layout else set()
    if by_kentry != by_nm:
        wrong.append(f"{row.name}: {by_kentry} moved, and by nm {by_nm}")
    if not row.layout:
        return wrong
    for size in SIZES:
        counted = tuple(
            windows(side, before, size) for side in ([one.address for one in before], places)
        )
        if counted != (said := row.layout.metrics[f"fetches.{size}"]):
            wrong.append(f"{row.name}: {said} windows of {size} bytes, and by nm {counted}")
    return wrong


def report(spec: str, arch: Arch, growths: Sequence[int], cases: Sequence[str]) -> int:
    """Prints a block a kernel; how many are wrong."""
    failed = 0
    with scratch_folder() as folder:
        kernel, old = measured(spec, arch, cases, folder)
        names = symbols(kernel, arch)
        for growth in growths:
            grown, new = measured(spec, arch, cases, folder, growth)
            moved = symbols(grown, arch)
            rows = compare(old, new).cases
            wrong = []
            for row in rows:
                case = old.case(row.name)
                assert case and case.modal_path
                places = moved_by_nm(names, moved, old.instructions(case.modal_path))
                wrong += problems(row, old, new, places)
            elsewhere = sum(bool(row.layout) for row in rows)
            failed += bool(wrong) or not elsewhere
            print(
                f"{arch.name}, {growth} bytes more: {elsewhere} of {len(rows)} cases execute the"
                f" same instructions at other addresses; {'WRONG' if wrong else 'as nm says'}",
                *wrong,
            )
            print(written(layout_blocks(rows)), flush=True)
    return failed


def main() -> int:
    """All architectures, or those named; 1 if kentry diff says of one what is not so."""
    chosen = [find_arch(name) for name in sys.argv[1:]] or list(ARCHES.values())
    failed = [report("source:6.12,config=tiny", arch, GROWTHS, choose(arch, ())) for arch in chosen]
    of = len(chosen) * len(GROWTHS)
    print(f"same instructions at other addresses, with what moved: {of - sum(failed)} of {of}")
    return 1 if any(failed) else 0


if __name__ == "__main__":
    raise SystemExit(main())
