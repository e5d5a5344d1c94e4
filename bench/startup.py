# SPDX-License-Identifier: GPL-2.0-or-later
"""How long a command of one version takes beside that of another, interleaved.

    python bench/startup.py OLD NEW

OLD and NEW are checkouts with a .venv.  Runs `kentry --help`, and `kentry diff` of the two
recordings in tests/golden, alternately; prints the median of each in ms and the ratio.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROUNDS = 21
GOLDEN = Path(__file__).resolve().parents[1] / "tests" / "golden"
COMMANDS = {
    "kentry --help": ["--help"],
    "kentry diff of two recordings": [
        "diff",
        str(GOLDEN / "arm64-6.1.json"),
        str(GOLDEN / "arm64-6.12.json"),
    ],
}


def milliseconds(version: Path, words: list[str]) -> float:
    argv = [str(version / ".venv" / "bin" / "python"), "-m", "kentry", *words]
    env = {**os.environ, "PYTHONPATH": str(version / "src"), "PYTHONDONTWRITEBYTECODE": ""}
    start = time.perf_counter()
    subprocess.run(argv, env=env, stdout=subprocess.DEVNULL, check=True)
    return (time.perf_counter() - start) * 1000


def main(old: Path, new: Path) -> None:
    print(f"{'command':<32} {'old ms':>8} {'new ms':>8} {'new/old':>8}")
    for name, words in COMMANDS.items():
        times: dict[Path, list[float]] = {old: [], new: []}
        for number in range(ROUNDS + 1):
            for version in (old, new) if number % 2 else (new, old):
                taken = milliseconds(version, words)
                if number:  # the first round is the warm-up: it writes the compiled modules
                    times[version].append(taken)
        before, after = (statistics.median(times[version]) for version in (old, new))
        print(f"{name:<32} {before:>8.0f} {after:>8.0f} {after / before:>8.2f}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve())
