#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Every benchmark, one after the other, on Debian's kernels: make bench."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from kentry.arch import ARCHES
from kentry.kernels.resolve import resolve

ROOT = Path(__file__).parents[1]
SPEC = "debian:6.12"


def main() -> int:
    worst = 0
    for name in ("whole", "replay", "tracing", "estimating", "caching", "path_diff", "report"):
        worst = max(worst, run(name))
    for arch in ARCHES.values():
        image = resolve(SPEC, arch, lambda fraction, now: None).image
        worst = max(worst, run("counting", arch.name, str(image)))
    return worst


def run(name: str, *words: str) -> int:
    """A benchmark's exit code."""
    argv = [sys.executable, "-m", f"bench.{name}", *words]
    return subprocess.run(argv, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main())
