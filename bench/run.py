#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Every benchmark, one after the other, on Debian's kernels: make bench."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from kentry.arch import ARCHES
from kentry.kernels.resolve import resolve

HERE = Path(__file__).parent
SPEC = "debian:6.12"


def main() -> int:
    worst = 0
    for name in ("whole.py", "replay.py", "tracing.py"):
        worst = max(
            worst, subprocess.run([sys.executable, str(HERE / name)], check=False).returncode
        )
    for arch in ARCHES.values():
        image = resolve(SPEC, arch, lambda fraction, now: None).image
        words = [sys.executable, str(HERE / "counting.py"), arch.name, str(image)]
        worst = max(worst, subprocess.run(words, check=False).returncode)
    return worst


if __name__ == "__main__":
    raise SystemExit(main())
