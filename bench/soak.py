# SPDX-License-Identifier: GPL-2.0-or-later
"""make soak: mixed commands, four at a time, on one cache; what grows while they run.

Four processes each run the commands of `make faults` again and again, as a worker of a fleet does,
which never ends.  Each answer is compared with the first.  Each half a minute the processes' memory
and descriptors, the files and bytes of the cache, and the processes that are left are looked at:
none may grow from the second quarter of the time to the last.
Usage: python -m bench.soak [--seconds N]
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import gc
import io
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench import tried
from bench.faults.trials import below, files_of
from bench.faults.works import Works, difference
from kentry.cli import main as kentry_main

WORKERS = 4
EACH = 30.0
# By what is looked at: what may be more in the end than after a quarter of the time.
MAY_GROW = {"memory MiB": 16, "descriptors": 2, "cache MB": 4, "files": 40, "processes": 1}


def work(folder: Path, seed: int, seconds: float) -> int:
    """One of the four: runs commands until the time is over; prints a line for each."""
    (folder / str(seed)).mkdir()
    works = Works(folder / str(seed), cache=folder / "cache")
    rng, first = random.Random(seed), dict[str, Any]()
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        one = rng.choice(works.all)
        works.forget(one)
        printed, said = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(said):
            code = kentry_main(list(one.words))
        answer = works.answer(one, code, printed.getvalue())
        wrong = difference(answer, first.setdefault(one.name, answer))
        wrong += f" {said.getvalue()[-200:]}" * bool(code)
        # What is free is given back: what stays is in use.
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
        print(one.name, wrong.replace("\n", " ")[:300], sep="\t", flush=True)
    return 0


def resident(pid: int) -> float:
    """The memory of a process, in MiB; 0 where it has ended."""
    with contextlib.suppress(OSError):
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)
    return 0.0


def descriptors(pid: int) -> int:
    """How many files a process has open."""
    with contextlib.suppress(OSError):
        return len(os.listdir(f"/proc/{pid}/fd"))
    return 0


def look(pids: Sequence[int], cache: Path) -> dict[str, float]:
    """What is looked at, now."""
    sizes = []
    for file in files_of(cache):
        with contextlib.suppress(OSError):
            sizes.append(file.stat().st_size)
    running = [pid for parent in pids for pid in below(parent)]
    return {
        "memory MiB": statistics.mean(map(resident, pids)),
        "descriptors": statistics.mean(map(descriptors, pids)),
        "cache MB": sum(sizes) / 1e6,
        "files": len(sizes),
        "processes": len(running) / len(pids),
    }


def quarter(rows: Sequence[dict[str, float]], which: int, name: str) -> float:
    """The median in that quarter of the rows, from 0 on."""
    part = rows[which * len(rows) // 4 : (which + 1) * len(rows) // 4] or rows
    return statistics.median(row[name] for row in part)


def soak(seconds: float) -> list[str]:
    """Runs the four; prints the table; returns what is wrong, a line each."""
    with tempfile.TemporaryDirectory(prefix="kentry-soak-") as name:
        cache = Path(name, "cache")
        environment = {**os.environ, "KENTRY_CACHE": str(cache)}
        workers = []
        for seed in range(WORKERS):
            words = ("--worker", name, str(seed), str(seconds))
            with Path(name, f"said{seed}").open("w") as said:
                argv = [sys.executable, "-m", "bench.soak", *words]
                workers.append(subprocess.Popen(argv, env=environment, stdout=said))
        rows, began = list[dict[str, float]](), time.monotonic()
        while time.monotonic() - began < seconds:
            time.sleep(min(EACH, seconds / 16))
            rows.append(look([worker.pid for worker in workers], cache))
        codes = [worker.wait() for worker in workers]
        texts = [Path(name, f"said{seed}").read_text() for seed in range(WORKERS)]
    lines = [line.split("\t") for text in texts for line in text.splitlines()]
    wrong = [f"{one}: {what}" for one, what in lines if what]
    wrong += [f"a worker ended with {code}" for code in codes if code]
    counts = Counter(one for one, _ in lines)
    print(tried())
    print(f"{sum(counts.values())} commands in {seconds:.0f} s, {WORKERS} at a time")
    print(", ".join(f"{number} {one}" for one, number in sorted(counts.items())))
    print(f"{'':<12} {'2nd quarter':>12} {'4th quarter':>12}")
    for what, more in MAY_GROW.items():
        then, now = quarter(rows, 1, what), quarter(rows, 3, what)
        print(f"{what:<12} {then:>12,.1f} {now:>12,.1f}")
        if now > then + more:
            wrong.append(f"{what} grew from {then:.1f} to {now:.1f}")
    print(f"{len(wrong)} wrong")
    return wrong


def main() -> int:
    """Prints the figures; 1 where something grows or is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=7200.0)
    parser.add_argument("--worker", nargs=3, metavar=("FOLDER", "SEED", "SECONDS"))
    options = parser.parse_args()
    if options.worker:
        folder, seed, seconds = options.worker
        return work(Path(folder), int(seed), float(seconds))
    wrong = soak(options.seconds)
    print(*wrong[:20], sep="\n")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
