# SPDX-License-Identifier: GPL-2.0-or-later
"""make bench-bisect: ten histories of real kernels, bisected; a row for each, right or wrong.

Each begins without kernels, recordings and compiled files; Debian's source is fetched once, into a
cache of the bench's own.  "again" is the same bisection a second time.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tests.histories import History, make

from kentry.host.cache import cache_dir

ARCH = "riscv64"
HISTORIES = 10
# What a bisection leaves in the cache; the sources, packages and ccache's results stay.
RESULTS = ("bisections", "built", "clean", "recordings", "ccache")


def bisect(history: History) -> tuple[dict[str, Any], float]:
    """The bisection's document, and its seconds."""
    words = ("--good", history.first, "--bad", "master", "--tree", str(history.folder))
    argv = [sys.executable, "-m", "kentry", "bisect", *words, "--arch", ARCH, "--all", "--json"]
    began = time.monotonic()
    done = subprocess.run([*argv, "-q"], capture_output=True, text=True, check=False)
    seconds = time.monotonic() - began
    if done.returncode:
        sys.exit(f"{history.folder}: {done.stderr}")
    document: dict[str, Any] = json.loads(done.stdout)
    return document, seconds


def main() -> None:
    """Prints the table; a wrong answer ends with status 1."""
    numbers = [int(word) for word in sys.argv[1:]] or range(1, HISTORIES + 1)
    print(
        f"{'seed':>4} {'commits':>7} {'steps':>5} {'builds':>6} {'boots':>5} {'failed':>6}"
        f" {'first':>7} {'again':>7}  answer"
    )
    wrong = 0
    for seed in numbers:
        with tempfile.TemporaryDirectory(prefix="kentry-bench.") as folder:
            history = make(seed, Path(folder) / "linux")
            for name in RESULTS:
                shutil.rmtree(cache_dir(name))
            for objects in cache_dir("trees").glob(f"*/{ARCH}-tiny-*"):
                shutil.rmtree(objects) if objects.is_dir() else objects.unlink()
            found, first = bisect(history)
            again = bisect(history)[1]
        named = {one["commit"]: one["delta"] for one in found["culprits"]}
        right = named == history.steps and not found["suspects"]
        wrong += not right
        status = Counter(step["status"] for step in found["steps"])
        confirmed = 2 * len(found["culprits"])
        built = status["measured"] + status["same-code"] + confirmed
        failed = status["build-failed"] + status["boot-failed"]
        print(
            f"{seed:>4} {len(history.kinds):>7} {len(found['steps']):>5} {built:>6}"
            f" {status['measured'] + confirmed:>5} {failed:>6} {first:>5.0f} s {again:>5.0f} s "
            f" {'right' if right else f'WRONG: {named} for {history.steps}'}",
            flush=True,
        )
    sys.exit(bool(wrong))


if __name__ == "__main__":
    os.environ.setdefault("KENTRY_CACHE", str(cache_dir("bench-bisect")))
    main()
