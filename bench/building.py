#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""How long building takes, in a cache of its own that begins with the source and nothing else.

first     `kentry record source:6.12`, nothing compiled before / make by hand, without ccache
changed   the same with one file changed / the first
nothing   the same again, boot and measurement included / the first
series    six patches that touch a .c file each / make by hand after each

Usage: building.py [ARCH] [FOLDER]; some 20 minutes, 5 GB.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from time import monotonic

from kentry.arch import Arch, find_arch
from kentry.kernels import config
from kentry.kernels.resolve import resolve_source

SPEC = "source:6.12"
CHANGED_BAR, NOTHING_BAR, PATCH_BAR = 1 / 5, 3.0, 40.0  # of the first; seconds; seconds a patch
FILES = ("kernel/sys.c", "fs/stat.c", "fs/open.c", "fs/pipe.c", "mm/mmap.c", "kernel/fork.c")
JOBS = str(len(os.sched_getaffinity(0)))


def wall(*words: str) -> float:
    """Seconds that a command takes."""
    start = monotonic()
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return monotonic() - start


def kentry(*words: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "kentry", *words, "-q")


def line(name: str, seconds: float, bar: float | None, ratio: float, of: str) -> None:
    verdict = "" if bar is None else f"({'within' if seconds <= bar else 'over'} {bar:.0f} s)"
    print(f"{name:32} {seconds:7.1f} s  {verdict:18} {ratio:6.3f} x {of}", flush=True)


def patch(work: Path, name: str, number: int) -> str:
    """A patch that adds a function that nothing calls at the end of a file."""
    lines = (work / name).read_text(encoding="utf-8").splitlines()
    context = "".join(f" {text}\n" for text in lines[-3:])
    added = f"+\n+void kentry_bench_{number}(void);\n+void kentry_bench_{number}(void) {{ }}\n"
    return (
        f"From: kentry <kentry@localhost>\nSubject: [PATCH {number}/6] {name}\n\n---\n"
        f"--- a/{name}\n+++ b/{name}\n"
        f"@@ -{len(lines) - 2},3 +{len(lines) - 2},6 @@\n{context}{added}"
    )


def write_patches(work: Path, folder: Path) -> list[str]:
    files = []
    for number, name in enumerate(FILES, start=1):
        file = folder / f"{number:04}.patch"
        file.write_text(patch(work, name, number), encoding="utf-8")
        files.append(str(file))
    return files


class Make:
    """make by hand on the same tree with the same config, without ccache."""

    def __init__(self, arch: Arch, work: Path, objects: Path) -> None:
        fragment = objects / "fragment.config"
        fragment.write_text(config.tiny(arch).text(), encoding="utf-8")
        self._words = ["make", "-s", f"-j{JOBS}", "-C", str(work), f"O={objects}"]
        self._words += [f"ARCH={arch.kbuild}", f"CROSS_COMPILE={arch.cross}"]
        wall(*self._words, f"KCONFIG_ALLCONFIG={fragment}", "allnoconfig")
        self._target = arch.image_format

    def seconds(self) -> float:
        return wall(*self._words, self._target)


def main() -> int:
    arch = find_arch(sys.argv[1] if len(sys.argv) > 1 else "arm64")
    where = sys.argv[2] if len(sys.argv) > 2 else None
    with tempfile.TemporaryDirectory(dir=where) as name:
        folder = Path(name)
        os.environ["KENTRY_CACHE"] = str(folder / "cache")
        repository = resolve_source(SPEC, lambda fraction, now: None).repository
        (folder / "objects").mkdir()
        patches = write_patches(repository.work, folder)
        run(arch, patches, Make(arch, repository.work, folder / "objects"), repository.work)
    return 0


def run(arch: Arch, patches: list[str], make: Make, work: Path) -> None:
    words = ("--arch", arch.name)
    by_hand = make.seconds()
    first = wall(*kentry("record", SPEC, *words))
    line(f"first build ({arch.name})", first, None, first / by_hand, "make by hand")
    nothing = wall(*kentry("record", SPEC, *words))
    line("nothing changed", nothing, NOTHING_BAR, nothing / first, "the first")
    changed = wall(*kentry("series", SPEC, patches[0], *words))
    line("one file changed", changed, first * CHANGED_BAR, changed / first, "the first")
    series = wall(*kentry("series", SPEC, *patches, *words))
    hand = 0.0
    for name in FILES:
        (work / name).touch()
        hand += make.seconds()
    line("six patches, one known", series, 6 * PATCH_BAR, series / hand, "make by hand after each")


if __name__ == "__main__":
    raise SystemExit(main())
