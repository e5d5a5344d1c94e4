# SPDX-License-Identifier: GPL-2.0-or-later
"""Measures every kernel that Debian's archive has, and writes their history as a site.

All suites and flavours, for three architectures on two processors each; then, built as `tiny`,
every version of the linux-source packages.  What has its recording is not measured again: an
interrupted run goes on, and one with nothing new ends soon.  As many are measured at once as the
machine has cores.
Usage: python scripts/history.py FOLDER [--arch A] [--flavour F] [--no-sources]
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
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
    """Yields a spec, an architecture and a processor for each recording, the newest last."""
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
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        done = list(pool.map(partial(measure, recordings), missing))
    failures = list(filter(None, done))
    measured = len(done) - len(failures)
    seconds = time.monotonic() - began
    each = f", {seconds / measured:.1f} s each with its download" if measured else ""
    print(f"{measured} measured in {seconds:.0f} s{each}")
    for words in (["store", "add", store, str(recordings)], history(options.folder, store)):
        began = time.monotonic()
        subprocess.run([KENTRY, *words, "-q"], check=True)
        print(f"kentry {words[0]}: {time.monotonic() - began:.1f} s")
    print("\n".join(failures))


def file_of(recordings: Path, spec: str, arch: str, cpu: str) -> Path:
    """The recording of a kernel on a processor."""
    name = re.sub(r"[^\w.+~-]", "_", f"{spec}-{arch}-{cpu}")
    return recordings / f"{name}.json"


def measure(recordings: Path, row: tuple[str, str, str]) -> str:
    """Measures a kernel on a processor; returns why it could not, or nothing."""
    spec, arch, cpu = row
    command = [KENTRY, "record", spec, "--arch", arch, "--cpu", cpu, "-q"]
    command += ["-o", str(file_of(recordings, *row))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    print(f"{spec} {arch} {cpu}: {'failed' if done.returncode else 'measured'}", flush=True)
    return f"{spec} {arch} {cpu}: {done.stderr.strip()}" if done.returncode else ""


def history(folder: Path, store: str) -> list[str]:
    """The command that writes the site."""
    return ["history", store, "-o", str(folder / "site")]


if __name__ == "__main__":
    main()
