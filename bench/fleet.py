# SPDX-License-Identifier: GPL-2.0-or-later
"""make bench-fleet: kentry --on a real dask scheduler with workers on this machine.

First 64 units of 5 s each, which sleep, on one worker and on four: the speedup, and what a unit
costs beside its own seconds.  Then 24 units that boot the floor, in an empty cache, while a
worker, the scheduler or the client is killed twenty times: the same command is started again until
it ends, and the boots that ended are counted.  The short form, which the tests run, has fewer.
Usage: python -m bench.fleet [--short]
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.processes import awaited
from tests.qemu.test_executors import dask

from kentry.boot.exact import ExactOptions
from kentry.count import cache, recorder
from kentry.errors import UserError
from kentry.host.cache import cache_dir
from kentry.results.studies import MEASURED
from kentry.study.executors import _Cluster
from kentry.study.plan import Outcome, Unit, outcomes, perform

UNIT = Unit(spec="floor:", arch="arm64", measurement=ExactOptions(("getppid",), windows=16))
LOG = "FLEET_LOG"
AGAIN = 75  # the client ends so where the scheduler is gone, and is started again
SEED = 20261127


@dataclass(frozen=True)
class Size:
    """How much of it."""

    units: int
    seconds: float
    boots: int
    kills: int


LONG, SHORT = Size(64, 5.0, 24, 20), Size(16, 1.0, 8, 3)


def sleeps(unit: Unit, update: object = None) -> Outcome:
    """A unit that takes its label's seconds and no processor."""
    time.sleep(float(unit.label))
    return Outcome(status=MEASURED)


def boots(unit: Unit, update: object = None) -> Outcome:
    """perform(), which writes down each boot that ended."""
    setattr(cache, "measure", _counted)  # noqa: B010 - it is the cache's own name for it
    return perform(unit)


def _counted(*args: Any) -> Any:
    recording = recorder.measure(*args)
    with open(os.environ[LOG], "a", encoding="ascii") as log:
        log.write(f"{recording.target['seed']}\n")
    return recording


def client(place: str, kind: str, number: int, seconds: float) -> int:
    """Performs the units on the scheduler; prints what it took from the first to the last."""
    from distributed import Client

    seeds = range(1, number + 1)
    units = [
        replace(UNIT, label=str(seconds), measurement=replace(UNIT.measurement, seed=seed))
        for seed in seeds
    ]
    function = sleeps if kind == "sleeps" else boots
    try:
        with Client(place, timeout=10, set_as_default=False) as connection:
            cluster, began = _Cluster(connection), time.monotonic()
            made = [own for _, own in outcomes(function, units, executor=cluster)]
            print(time.monotonic() - began, sum(own.status == MEASURED for own in made))
    except (UserError, OSError, TimeoutError) as err:
        print(err, file=sys.stderr)
        return AGAIN
    return 0


class Fleet:
    """A scheduler and workers, each of which is started again when it is gone."""

    def __init__(self, folder: Path, workers: int) -> None:
        scheduler, worker, place = dask(folder)
        self.place = place.replace("dask:", "tcp://")
        self._argv = {"scheduler": scheduler, **{f"worker-{n}": worker for n in range(workers)}}
        self._folder = folder
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def keep(self) -> None:
        """Starts what does not run."""
        for name, argv in self._argv.items():
            if name not in self.running or self.running[name].poll() is not None:
                log = (self._folder / name).open("ab")
                with log:
                    self.running[name] = subprocess.Popen(
                        argv, stdout=log, stderr=log, start_new_session=True
                    )
        assert awaited(lambda: b"Scheduler at" in (self._folder / "scheduler").read_bytes())

    def start_client(self, *words: object) -> subprocess.Popen[str]:
        argv = [sys.executable, "-m", "bench.fleet", "--client", self.place, *map(str, words)]
        pipe = subprocess.PIPE
        return subprocess.Popen(argv, stdout=pipe, stderr=pipe, text=True, start_new_session=True)


@contextmanager
def fleet(workers: int) -> Iterator[Fleet]:
    """A running fleet with an empty cache, until the block ends."""
    with tempfile.TemporaryDirectory(prefix="kentry-fleet-") as name:
        own = Fleet(Path(name), workers)
        os.environ["KENTRY_CACHE"] = str(Path(name, "cache"))
        os.environ[LOG] = str(Path(name, "boots"))
        try:
            own.keep()
            yield own
        finally:
            for process in own.running.values():
                kill(process)


def kill(process: subprocess.Popen[Any]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def speed(size: Size) -> None:
    """Prints the speedup of four workers, and the seconds of a unit beside its own."""
    took = {}
    for workers in (1, 4):
        # One worker would take as long as all units do; a quarter of them tells the same.
        number = size.units // 4 if workers == 1 else size.units
        with fleet(workers) as own:
            said, errors = own.start_client("sleeps", number, size.seconds).communicate()
            if not said:
                sys.exit(errors)
            seconds, measured = said.split()
            assert int(measured) == number
            took[workers] = float(seconds) / number
    ratio = took[1] / took[4]
    beside = 1000 * (took[1] - size.seconds)
    print(f"{size.units} units of {size.seconds:g} s: 4 workers {ratio:.2f} x one (bar: 3.6 x)")
    print(f"  beside its own seconds a unit takes {beside:.0f} ms (bar: 50 ms)")


def faults(size: Size) -> int:
    """Prints how many units were lost or done twice; returns that."""
    dice, killed, starts = random.Random(SEED), Counter[str](), 0
    with fleet(3) as own:
        process = own.start_client("boots", size.boots, 0)
        log = Path(os.environ[LOG])
        while True:
            if sum(killed.values()) < size.kills:
                time.sleep(dice.uniform(0.5, 4))
                name = dice.choice(["client", "scheduler", *list(own.running)[1:]])
                kill(process if name == "client" else own.running[name])
                killed[name.partition("-")[0]] += 1
            own.keep()
            try:
                said, _ = process.communicate(
                    timeout=1 if sum(killed.values()) < size.kills else 300
                )
            except subprocess.TimeoutExpired:
                continue
            # What ended early is measured anew, to have something to kill.
            if process.returncode == 0 and sum(killed.values()) >= size.kills:
                break
            starts += 1
            process = own.start_client("boots", size.boots, 0)
        measured = int(said.split()[1])
        done = Counter(log.read_text(encoding="ascii").split())
        kept = len(list(cache_dir("recordings").rglob("*.json")))
    lost, twice = size.boots - min(measured, kept), sum(done.values()) - len(done)
    what = ", ".join(f"{number} of the {name}" for name, number in sorted(killed.items()))
    print(f"{size.boots} units in {sum(killed.values())} kills ({what}; {starts} starts again):")
    print(f"  {lost} lost, {twice} done twice (bar: 0 and 0)")
    return lost + twice


def main(words: Sequence[str]) -> int:
    """Runs both parts."""
    if words[:1] == ["--client"]:
        return client(words[1], words[2], int(words[3]), float(words[4]))
    size = SHORT if "--short" in words else LONG
    speed(size)
    return min(faults(size), 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
