# SPDX-License-Identifier: GPL-2.0-or-later
"""make faults: what happens to a machine happens while kentry works; what comes then.

A command runs in a cache that has kernels and no results.  At a random time kentry or one of its
programs is killed, its terminal closed, its guest stopped or the clock set; or its disk is full,
out of inodes or read only from the start.  Then no process may stay, and the same command must
give what an undisturbed run gave and leave no file that only a disturbed one leaves.  A damage: a
file of the cache or of a store is cut short, emptied, has a bit flipped, or is exchanged for
another of its kind; then the command must give what it gave, or end with an error.
Usage: python -m bench.faults [--seed N] [--KIND HOW-MANY...]
"""

from __future__ import annotations

import argparse
import contextlib
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.unit.store import postgres

from bench import tried
from bench.faults.trials import Trials
from bench.faults.works import Works

# By kind: how many `make faults` has, and its function.
KINDS: dict[str, tuple[int, Callable[[Trials, int], None]]] = {
    "kills": (300, Trials.kill),
    "builds": (12, Trials.kill_a_build),
    "terminals": (40, Trials.hang_up),
    "stalls": (20, Trials.stall),
    "clocks": (40, Trials.jump),
    "disks": (100, Trials.fill),
    "damages": (2000, Trials.damage),
    "built": (20, Trials.damage_a_build),
}


def run(
    amounts: Mapping[str, int],
    seed: int,
    say: Callable[[str], None] = print,
) -> list[str]:
    """Makes that number of trials of each kind; returns what was wrong, a line each."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kentry-faults-")))
        server = postgres.find()
        if server:
            stack.enter_context(postgres.serving(server, folder / "postgres"))
        building = any(amounts.get(kind) for kind in ("builds", "built"))
        trials = Trials(Works(folder, server, building=building), seed)
        for kind, number in amounts.items():
            trials.counts.clear()
            began = time.monotonic()
            for at in range(number):
                KINDS[kind][1](trials, at)
            counts = ", ".join(f"{many} {what}" for what, many in sorted(trials.counts.items()))
            say(f"{number} {kind} in {time.monotonic() - began:.0f} s: {counts}")
        say(f"{len(trials.wrong)} wrong")
        return trials.wrong


def main() -> int:
    """Prints the figures; 1 where something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    for kind, (number, _) in KINDS.items():
        parser.add_argument(f"--{kind}", type=int, default=number)
    options = parser.parse_args()
    amounts = {kind: getattr(options, kind) for kind in KINDS}
    print(tried(), flush=True)
    return bool(run(amounts, options.seed))
