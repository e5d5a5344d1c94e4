# SPDX-License-Identifier: GPL-2.0-or-later
"""How quick the site of many kernels is: from an empty cache, and again with nothing new.

The kernels are Debian's 6.1 and 6.12 for arm64, alternately and with other versions, so that each
has other counts than the one before.  The peer is reading as many files with Python's own json.
Usage: python -m bench.history [KERNELS]
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from msgspec.structs import replace

from kentry.results.recording import read_recording, write_recording
from kentry.store.store import Store

KERNELS = 300
KENTRY = str(Path(sys.executable).with_name("kentry"))


def fill(folder: Path, kernels: int) -> str:
    """Makes the store; returns its place."""
    recorded = []
    for version in ("6.1", "6.12"):
        file = folder / f"{version}.json"
        words = [f"debian:{version}", "--arch", "arm64", "--cpu", "max", "-q", "-o", str(file)]
        subprocess.run([KENTRY, "record", *words], check=True, stdout=subprocess.DEVNULL)
        recorded.append(read_recording(file))
    files, place = folder / "files", str(folder / "store")
    files.mkdir()
    for number in range(kernels):
        own = recorded[number % 2]
        version = f"6.12.{number}-1"
        origin = {**own.kernel["origin"], "version": version}
        kernel = {**own.kernel, "release": f"6.12.{number}-arm64", "origin": origin}
        compiler = {"compiler": "gcc-12 (Debian 12.2.0) 12.2.0"}
        write_recording(replace(own, kernel=kernel | compiler), files / f"{number}.json")
    assert all(one.new for one in Store(place, create=True).add([files]))
    return place


def main() -> None:
    """Prints the figures."""
    kernels = int(sys.argv[1]) if len(sys.argv) > 1 else KERNELS
    with tempfile.TemporaryDirectory(prefix="kentry-history-") as name:
        folder = Path(name)
        place = fill(folder, kernels)
        began = time.monotonic()
        for file in (folder / "files").iterdir():
            json.loads(file.read_bytes())
        peer = time.monotonic() - began
        took = []
        environment = {**os.environ, "KENTRY_CACHE": str(folder / "cache")}
        for _ in range(2):
            began = time.monotonic()
            command = [KENTRY, "history", place, "-o", str(folder / "site"), "-q"]
            subprocess.run(command, check=True, env=environment)
            took.append(time.monotonic() - began)
        size = sum(file.stat().st_size for file in (folder / "site").iterdir())
        print(f"site of {kernels} kernels: {took[0]:.1f} s (bar: 60 s), {size >> 20} MiB,")
        print(f"  {took[0] / peer:.1f} x reading their files with json, {peer:.1f} s")
        print(f"with nothing new: {took[1]:.1f} s (bar: 10 s)")


if __name__ == "__main__":
    main()
