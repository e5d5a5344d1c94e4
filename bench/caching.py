# SPDX-License-Identifier: GPL-2.0-or-later
"""The model of caches against cachegrind and QEMU's cache plugin: the same misses, and how fast.

All three have the same two levels, and the same user program.  QEMU's plugin is built here from
Debian's source package of QEMU; nothing of it is shipped.  qemu-user and glib's headers are
unpacked from Debian's packages, not installed.

    python -m bench.caching [ROUNDS]
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from debian.deb822 import Deb822
from tests.cachegrind import build, cachegrind, hierarchy, trace

from kentry.host.cache import cache_dir
from kentry.models.caches import Hierarchy, Model

# Million accesses a second.
BAR = 20
ROUNDS, LONGER = 200_000, 20
LEVELS = hierarchy((8 << 10, 2), (32 << 10, 8), (256 << 10, 16))
_SOURCES = (Path("/etc/apt/sources.list.d"), Path("/etc/apt/sources.list"))


def run(argv: Sequence[str | Path], folder: Path | None = None) -> float:
    """Seconds of a command."""
    began = time.monotonic()
    subprocess.run([str(word) for word in argv], check=True, cwd=folder, capture_output=True)
    return time.monotonic() - began


def sources(folder: Path) -> list[str]:
    """apt-get's options for the source packages of the archives that apt has binary ones of."""
    paragraphs = []
    for file in [*_SOURCES[0].glob("*.sources")]:
        for one in Deb822.iter_paragraphs(file.read_text()):
            one["Types"] = "deb-src"
            paragraphs.append(str(one))
    if _SOURCES[1].exists():
        text = re.sub(r"^deb\b", "deb-src", _SOURCES[1].read_text(), flags=re.MULTILINE)
        (folder / "sources.list").write_text(text)
    (folder / "parts").mkdir()
    (folder / "parts" / "source.sources").write_text("\n".join(paragraphs))
    (folder / "lists").mkdir()
    (folder / "sources.list").touch()
    return [
        *("-o", f"Dir::Etc::sourcelist={folder}/sources.list"),
        *("-o", f"Dir::Etc::sourceparts={folder}/parts"),
        *("-o", f"Dir::State::lists={folder}/lists"),
        *("-o", "APT::Sandbox::User=root"),
    ]


def qemu() -> tuple[Path, Path]:
    """qemu-x86_64, and its cache plugin; both are kept in the cache."""
    folder = cache_dir("bench-caching")
    program, plugin = folder / "root/usr/bin/qemu-x86_64", folder / "cache.so"
    if plugin.exists():
        return program, plugin
    run(["apt-get", "download", "qemu-user", "libglib2.0-dev"], folder)
    for deb in folder.glob("*.deb"):
        run(["dpkg", "-x", deb, folder / "root"])
    with tempfile.TemporaryDirectory() as scratch:
        options = sources(Path(scratch))
        run(["apt-get", *options, "update"])
        run(["apt-get", *options, "source", "--download-only", "qemu"], folder)
    (archive,) = folder.glob("qemu_*.orig.tar.*")
    names = ["*/contrib/plugins/cache.c", "*/include/qemu/qemu-plugin.h"]
    words = ["--wildcards", "--strip-components=1", *names]
    run(["tar", "-C", folder, "-xf", archive, *words])
    (library,) = (folder / "root/usr/lib").glob("*/glib-2.0/include")
    headers = [folder / "include/qemu", folder / "root/usr/include/glib-2.0", library]
    glib = next(Path("/usr/lib").glob("*/libglib-2.0.so.0"))
    options = ["-O2", "-shared", "-fPIC", *(f"-I{one}" for one in headers)]
    run(["gcc", *options, folder / "contrib/plugins/cache.c", glib, "-o", plugin])
    return program, plugin


def of_qemu(program: Path, levels: Hierarchy) -> tuple[dict[str, int], float]:
    """The misses that QEMU's plugin counts, by level; and the seconds that it adds."""
    emulator, plugin = qemu()
    words = []
    for prefix, level in zip(("i", "d", "l2"), levels.levels, strict=True):
        words += [f"{prefix}cachesize={level.bytes}", f"{prefix}blksize={level.line}"]
        words += [f"{prefix}assoc={level.ways}"]
    log = program.with_suffix(".qemu")
    options = ",".join([str(plugin), *words, "l2=on", "evict=lru"])
    bare = run([emulator, program])
    seconds = run([emulator, "-plugin", options, "-d", "plugin", "-D", log, program]) - bare
    heads_line, row_line = _table(log)
    cells = [cell for cell in row_line.split() if not cell.endswith("%")]
    heads = [name.strip() for name in heads_line.split(",") if "rate" not in name]
    found = dict(zip(heads, cells, strict=True))
    misses = {"L1I": "insn misses", "L1D": "data misses", "L2": "l2 misses"}
    return {level: int(found[name]) for level, name in misses.items()}, seconds


def _table(log: Path) -> list[str]:
    """The line of headings, and that of the one core."""
    lines = log.read_text().splitlines()
    at = next(n for n, line in enumerate(lines) if line.startswith("core #"))
    return lines[at : at + 2]


def main() -> int:
    """Prints both tables; 1 where a count differs, or where kentry is slower than the bar."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    with tempfile.TemporaryDirectory() as folder:
        program = build(Path(folder), rounds)
        lines, sides = trace(program)
        Model(LEVELS).run(lines[:10], sides[:10])
        began = time.monotonic()
        ours = Model(LEVELS).run(lines, sides)
        seconds = time.monotonic() - began
        counted = cachegrind(program, LEVELS.levels)
        emulated, _ = of_qemu(program, LEVELS)
        # The peers execute a longer program: each is the difference of two runs.
        long = build(Path(folder), LONGER * rounds)
        bare = run(["valgrind", "--tool=none", long])
        began = time.monotonic()
        cachegrind(long, LEVELS.levels)
        valgrind = (time.monotonic() - began - bare) / LONGER
        plugin = of_qemu(long, LEVELS)[1] / LONGER
    theirs = {
        "L1I": counted["I1mr"],
        "L1D": counted["D1mr"] + counted["D1mw"],
        "L2": counted["ILmr"] + counted["DLmr"] + counted["DLmw"],
    }
    print(f"{'misses':<8} {'kentry':>9} {'cachegrind':>10} {'QEMU':>9}")
    rows = {level.name: count for level, count in zip(LEVELS.levels, ours, strict=True)}
    for name, count in rows.items():
        print(f"{name:<8} {count:>9} {theirs[name]:>10} {emulated[name]:>9}")
    million = len(lines) / 1e6
    print(f"{million:.1f} million accesses: kentry {million / seconds:.0f} million a second")
    for name, took in (("cachegrind", valgrind), ("QEMU's plugin", plugin)):
        print(f"  {took / seconds:.1f} x as fast as {name} (beside the emulation)")
    return int(rows != theirs or million / seconds < BAR)


if __name__ == "__main__":
    raise SystemExit(main())
