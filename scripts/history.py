# SPDX-License-Identifier: GPL-2.0-or-later
"""Measures every kernel that Debian's archive has, and writes their history as a site.

All suites and flavours, for three architectures on two processors each; then, built as `tiny`,
every version of the linux-source packages.  What has its recording is not measured again: an
interrupted run goes on, and one with nothing new ends soon.  As many are measured at once as the
machine has cores.  A source is built for all architectures and then removed: it takes 2 GB.
Usage: python scripts/history.py FOLDER [--arch A] [--flavour F] [--no-sources]
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain, groupby
from operator import itemgetter
from pathlib import Path

from kentry.arch import ARCHES
from kentry.kernels.debian import every_version, flavours
from kentry.kernels.spec import NEWEST, parse
from kentry.progress import progress

KENTRY = str(Path(sys.executable).with_name("kentry"))
# All that QEMU emulates, and a core that is not much newer or older than the kernels.
PROCESSORS = {
    "x86_64": ("max", "skylake"),
    "arm64": ("max", "cortex-a76"),
    "riscv64": ("max", "sifive-u74"),
}


def wanted(options: argparse.Namespace) -> Iterator[tuple[str, str, str]]:
    """Yields a spec, an architecture and a processor for each recording."""
    for arch in ARCHES.values():
        if options.arch not in (None, arch.name):
            continue
        with progress(f"{arch.name}: what the archive has") as update:
            specs = [
                spec
                for flavour in options.flavour or flavours(arch, update)
                for spec in every_version(parse(f"debian:{NEWEST},flavour={flavour}"), arch, update)
            ]
            if not options.no_sources:
                specs += every_version(parse(f"source:{NEWEST}"), arch, update)
        for spec in specs:
            for cpu in PROCESSORS[arch.name]:
                yield spec, arch.name, cpu


def main() -> None:
    """Measures, adds to the store, writes the site; prints what it took and what failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--arch", choices=list(ARCHES))
    parser.add_argument("--flavour", action="append")
    parser.add_argument("--no-sources", action="store_true")
    options = parser.parse_args()
    recordings, store = options.folder / "recordings", str(options.folder / "store")
    recordings.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    missing = [row for row in wanted(options) if not file_of(recordings, *row).exists()]
    specs = [list(rows) for _, rows in groupby(sorted(missing), itemgetter(0))]
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        failures = list(chain.from_iterable(pool.map(partial(measure, options.folder), specs)))
    measured = len(missing) - len(failures)
    seconds = time.monotonic() - began
    each = f", {seconds / measured:.1f} s each with its download" if measured else ""
    print(f"{measured} measured in {seconds:.0f} s{each}")
    for words in (["store", "add", store, str(recordings)], history(options.folder, store)):
        began = time.monotonic()
        subprocess.run([KENTRY, *words, "-q"], check=True)
        print(f"kentry {words[0]}: {time.monotonic() - began:.1f} s")
    print("\n".join(failures))


def name_of(*words: str) -> str:
    """The words as the name of a file or folder."""
    return re.sub(r"[^\w.+~-]", "_", "-".join(words))


def file_of(recordings: Path, spec: str, arch: str, cpu: str) -> Path:
    """The recording of a kernel on a processor."""
    return recordings / f"{name_of(spec, arch, cpu)}.json"


def measure(folder: Path, rows: list[tuple[str, str, str]]) -> list[str]:
    """Measures one kernel on each processor; returns why some could not be."""
    work = folder / "work" / name_of(rows[0][0])
    env = {**os.environ, "KENTRY_WORK": str(work)}
    failures = []
    for spec, arch, cpu in rows:
        command = [KENTRY, "record", spec, "--arch", arch, "--cpu", cpu, "-q"]
        command += ["-o", str(file_of(folder / "recordings", spec, arch, cpu))]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        print(f"{spec} {arch} {cpu}: {'failed' if done.returncode else 'measured'}", flush=True)
        if done.returncode:
            failures.append(f"{spec} {arch} {cpu}: {done.stderr.strip()}")
    shutil.rmtree(work, ignore_errors=True)
    return failures


def history(folder: Path, store: str) -> list[str]:
    """The command that writes the site."""
    return ["history", store, "-o", str(folder / "site")]


if __name__ == "__main__":
    main()
