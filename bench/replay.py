#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""How fast policies are replayed, beside peers in the same run on the same made-up trace.

one      one policy, one core, events a second; beside np.bincount over the same rows by task and
         kind, the least that any engine has to do, and beside the same engine not compiled
sweep    100 timeouts on two threads, in seconds of two free cores
optimum  the dynamic programming, events a second

Times are CPU time.  The rounds alternate, and the medians are compared.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np

from kentry.boot.task_hooks import Event
from kentry.vector.ranking import sweep
from kentry.vector.replay import Prepared, prepare, replay
from kentry.vector.trace import Task, VectorTrace

ROOT = Path(__file__).parents[1]
LEAST_PER_SECOND = 20e6
MOST_SWEEP_SECONDS = 15.0
INTERPRETED_EVENTS = 100_000
POLICIES = ("drop-on-load", "timeout-entry:10ms", "count:70")
COSTS = {"trap": 1000.0, "flush": 14.0, "drop": 10.0, "kept_load": 10.0} | dict.fromkeys(
    ("save", "restore", "small_save", "small_restore"), 50.0
)


def made_up(events: int, tasks: int = 300, seed: int = 1) -> VectorTrace:
    """Returns to user mode, some with a use; each is followed by a call or interrupt."""
    random = np.random.default_rng(seed)
    turns = events * 20 // 51  # 2.55 rows a turn
    used = random.random(turns) < 0.4
    switched = random.random(turns) < 0.15
    entry = random.choice([Event.SYSCALL, Event.INTERRUPT], turns, p=[0.75, 0.25])
    new = np.concatenate([[0], np.flatnonzero(switched[:-1]) + 1])
    slice_of = np.cumsum(np.concatenate([[0], switched[:-1]]))
    task = random.integers(1, tasks, turns)[new][slice_of]
    rows = 2 + used + switched
    at = np.cumsum(rows) - rows
    event = np.full(rows.sum(), Event.EXIT, np.uint8)
    arg = np.zeros(len(event), np.int32)
    event[at[used] + 1] = Event.USE
    arg[at[used] + 1] = 1
    event[at + 1 + used] = entry
    behind = (at + 2 + used)[switched]
    event[behind] = Event.SWITCH_BLOCKED
    arg[behind] = np.concatenate([task[1:], task[-1:]])[switched]
    ns = np.cumsum(random.integers(200, 3000, len(event))).astype(np.uint64)
    return VectorTrace(
        event=event,
        task=np.repeat(task, rows).astype(np.uint32),
        instructions=ns.copy(),
        ns=ns,
        arg=arg,
        tasks=tuple(Task(number, f"name{number % 40}") for number in range(tasks)),
        meta={"arch": "arm64", "kernel": {"release": "6.12.0"}, "hz": 250},
    )


def timed(work: Callable[[], object]) -> float:
    """CPU seconds: what else the machine does is not in them."""
    start = time.process_time()
    work()
    return time.process_time() - start


def bincount(prepared: Prepared) -> None:
    """The peer: how many rows of each kind each task has."""
    np.bincount(prepared.task * 16 + prepared.code, minlength=16 * len(prepared.bits))


def interpreted_seconds() -> float:
    """Seconds an event of the same engine, not compiled: in a process of its own."""
    words = [sys.executable, "-m", "bench.replay", "--interpreted"]
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    result = subprocess.run(
        words, cwd=ROOT, env=environment, check=True, capture_output=True, text=True
    )
    return float(result.stdout)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--interpreted", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.interpreted:
        prepared = prepare(made_up(INTERPRETED_EVENTS))
        print(timed(lambda: replay(prepared, POLICIES[0])) / INTERPRETED_EVENTS)
        return 0
    trace = made_up(args.events)
    first = timed(lambda: replay(prepare(made_up(1000)), "drop-on-load"))
    print(f"{len(trace)} events; compiled or read from the cache in {first:.2f} s")
    prepared = prepare(trace)
    print(f"  prepare   {len(trace) / timed(lambda: prepare(trace)) / 1e6:6.1f} M events/s")
    seconds: dict[str, list[float]] = {name: [] for name in ("bincount", *POLICIES)}
    for _ in range(args.rounds):
        seconds["bincount"].append(timed(lambda: bincount(prepared)))
        for policy in POLICIES:
            seconds[policy].append(timed(lambda: replay(prepared, policy)))  # noqa: B023
    peer = median(seconds["bincount"])
    interpreted = interpreted_seconds()
    good = True
    for policy in POLICIES:
        one = median(seconds[policy])
        speed, ratio = len(trace) / one, one / peer
        within = speed >= LEAST_PER_SECOND
        good &= within
        print(
            f"  {policy:20} {speed / 1e6:6.1f} M events/s  ({'at least' if within else 'below'}"
            f" {LEAST_PER_SECOND / 1e6:.0f})  {ratio:4.2f} x bincount"
            f"  1/{interpreted * len(trace) / one:.0f} of interpreted"
        )
    replay(prepare(made_up(1000)), "optimal", COSTS)
    values = [int(1000 * 10 ** (place / 14.0)) for place in range(100)]
    start = time.perf_counter()
    best = timed(lambda: replay(prepared, "optimal", COSTS))
    # A sweep includes the optimum once.
    swept = (timed(lambda: sweep(prepared, "timeout-entry", COSTS, values)) - best) / 2
    elapsed = time.perf_counter() - start
    good &= swept <= MOST_SWEEP_SECONDS
    print(
        f"  sweep of {len(values)}        {swept:5.1f} s"
        f"  ({'within' if swept <= MOST_SWEEP_SECONDS else 'over'} {MOST_SWEEP_SECONDS:.0f})"
        f"  {2 * swept / (len(values) * median(seconds[POLICIES[1]])):4.2f} x alone, a core"
        f"  (here in {elapsed:.1f} s)"
    )
    print(f"  optimum   {len(trace) / best / 1e6:6.1f} M events/s")
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
