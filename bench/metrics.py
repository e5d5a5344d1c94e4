# SPDX-License-Identifier: GPL-2.0-or-later
"""What the exact metrics cost: kentry record by this tree, and by an older one without them.

    git worktree add --detach OLDER 2e52e664df27~1; make -C OLDER setup
    python -m bench.metrics OLDER

Both measure Debian's 6.12 on each architecture, from boot to recording; the runs alternate.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

from kentry.arch import ARCHES

BAR, ROUNDS = 1.3, 3
ROOT = Path(__file__).parents[1]


def seconds(tree: Path, arch: str) -> float:
    """Of a whole kentry record; a seed that was never used keeps it from the cache."""
    seed = str(time.time_ns() % (1 << 31))
    words = ("record", "debian:6.12", "--arch", arch, "--seed", seed, "-q")
    began = time.monotonic()
    subprocess.run(
        [sys.executable, "-m", "kentry", *words],
        env={**os.environ, "PYTHONPATH": str(tree / "src")},
        check=True,
        stdout=subprocess.DEVNULL,
        cwd="/",
    )
    return time.monotonic() - began


def main() -> int:
    """Prints a row an architecture; 1 where a ratio is over the bar."""
    older, worst = Path(sys.argv[1]).resolve(), 0.0
    for arch in ARCHES:
        with_metrics, without = [], []
        for _ in range(ROUNDS):
            with_metrics.append(seconds(ROOT, arch))
            without.append(seconds(older, arch))
        ratio = median(with_metrics) / median(without)
        worst = max(worst, ratio)
        print(
            f"{arch:<8} {median(with_metrics):6.1f} s with metrics, {median(without):6.1f} s"
            f" without  {ratio:5.2f} x",
            flush=True,
        )
    return int(worst > BAR)


if __name__ == "__main__":
    raise SystemExit(main())
