# SPDX-License-Identifier: GPL-2.0-or-later
"""A tree of 10,000 commits, three architectures, four processors and 200 workers, by simulation.

What is simulated is the clock: one scheduler, workers with one cache, and one store, each with what
a unit costs it, which is measured here first.  What runs is kentry's own: the search of
kentry.study.bisection and the plans of kentry.study.plan.  It says how long it takes to measure
every commit and to search for the changes alone, and what is busy when more workers no longer
help: the scheduler, the workers, the store, or the one work tree that all build in unless each has
its own (KENTRY_WORK).
Usage: python -m bench.simulate [COMMITS [WORKERS]]
"""

from __future__ import annotations

import heapq
import itertools
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from distributed import Client, LocalCluster
from tests import ROOT

from kentry.arch import ARCHES
from kentry.host.cache import cache_dir, read_json, read_manifest
from kentry.results.recording import read_recording, write_recording
from kentry.results.studies import MEASURED
from kentry.store.store import Store
from kentry.study.bisection import all_steps
from kentry.study.plan import Outcome, outcomes

PROCESSORS = 4
SEED = 20261127
# Of a commit, that it changes a count on an architecture: one in 500 does.
CHANGES = 1 / 500
RECORDING = ROOT / "tests" / "golden" / "arm64-6.12.json"


class Costs(NamedTuple):
    """Seconds of a unit: of the scheduler, of a whole build and one in a used folder, and so on."""

    scheduler: float
    whole: float
    build: float
    fetch: float
    boot: float
    store: float


class Task(NamedTuple):
    """One unit: a commit on an architecture and a processor."""

    arch: str
    cpu: int
    commit: int


@dataclass
class Resource:
    """What serves one after another in `places` places, and how long it was busy."""

    places: int
    waiting: deque[Callable[[int], float]] = field(default_factory=deque)
    idle: list[int] = field(default_factory=list)
    busy: float = 0.0

    def __post_init__(self) -> None:
        self.idle = list(range(self.places))


class World:
    """The machines, whose clock goes from event to event, and the clients, which wait for it."""

    def __init__(self, costs: Costs, workers: int, *, own_trees: bool) -> None:
        self.now = 0.0
        self.costs, self.own_trees = costs, own_trees
        self.scheduler, self.store, self.tree = Resource(1), Resource(1), Resource(1)
        self.workers = Resource(workers)
        self.counts: Counter[str] = Counter()
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        # When a kernel is built, and when the one tree is free; who built for an architecture.
        self._built: dict[tuple[str, int], float] = {}
        self._free = 0.0
        self._used: set[tuple[int, str]] = set()

    def at(self, delay: float, what: Callable[[], None]) -> None:
        """Does that so much later."""
        heapq.heappush(self._events, (self.now + delay, next(self._order), what))

    def serve(self, by: Resource, takes: Callable[[int], float], then: Callable[[], None]) -> None:
        """Queues for a place of a resource; `takes` says how long, by the place."""

        def begin(place: int) -> float:
            seconds = takes(place)
            by.busy += seconds
            self.at(seconds, lambda: end(place))
            return seconds

        def end(place: int) -> None:
            if by.waiting:
                by.waiting.popleft()(place)
            else:
                by.idle.append(place)
            then()

        if by.idle:
            begin(by.idle.pop())
        else:
            by.waiting.append(begin)

    def unit(self, task: Task, done: Callable[[], None]) -> None:
        """The way of a unit: scheduler, worker (a kernel, a boot), store, client."""
        costs = self.costs
        to_store = lambda: self.serve(self.store, lambda place: costs.store, done)  # noqa: E731
        to_worker = lambda: self.serve(  # noqa: E731
            self.workers, lambda place: self._kernel(place, task) + costs.boot, to_store
        )
        self.serve(self.scheduler, lambda place: costs.scheduler, to_worker)

    def _kernel(self, worker: int, task: Task) -> float:
        """What it takes this worker to have the kernel, and to wait for it."""
        kernel = (task.arch, task.commit)
        if kernel in self._built:
            return max(0.0, self._built[kernel] - self.now) + self.costs.fetch
        tree = (worker if self.own_trees else 0, task.arch)
        seconds = self.costs.build if tree in self._used else self.costs.whole
        self._used.add(tree)
        begins = self.now if self.own_trees else max(self.now, self._free)
        self._free = self._built[kernel] = begins + seconds
        self.tree.busy += seconds
        self.counts["builds"] += 1
        return begins + seconds - self.now

    def run(self, clients: Sequence[Callable[[Executor], None]]) -> None:
        """Runs the clients until all have ended; only one thread goes on at a time."""
        turns = [_Turn(self, client) for client in clients]
        for turn in turns:
            turn.go_on()
        while self._events:
            self.now, _, what = heapq.heappop(self._events)
            what()
        assert all(turn.ended for turn in turns)


class _Turn(Executor):
    """The executor of one client, which waits in its thread until its units are done."""

    def __init__(self, world: World, client: Callable[[Executor], None]) -> None:
        self._world, self.ended = world, False
        self._mine, self._others = threading.Semaphore(0), threading.Semaphore(0)
        self._left = 0
        self._failed: list[BaseException] = []

        def body() -> None:
            self._mine.acquire()
            try:
                client(self)
            except BaseException as err:  # it is raised where the world runs
                self._failed.append(err)
            self.ended = True
            self._others.release()

        threading.Thread(target=body, daemon=True).start()

    def go_on(self) -> None:
        """Lets the client go on until it waits again."""
        self._mine.release()
        self._others.acquire()
        if self._failed:
            raise self._failed[0]

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Takes a unit; its result is there at once, and the clock where it would be is not."""
        self._left += 1
        self._world.unit(args[0], self._done)
        future: Future[Any] = Future()
        future.set_result(Outcome(status=MEASURED))
        return future

    def _done(self) -> None:
        self._left -= 1
        if not self._left:
            self.go_on()

    def wait(self) -> None:
        """The client waits for all that it gave away."""
        if self._left:
            self._others.release()
            self._mine.acquire()


def perform(task: Task, update: object = None) -> Outcome:
    """Stands for kentry.study.plan.perform, whose seconds the world adds."""
    return Outcome(status=MEASURED)


def measure_all(executor: Executor, tasks: Sequence[Task], world: World) -> None:
    """A plan of these units by kentry's own code."""
    world.counts["units"] += len(tasks)
    silent = lambda fraction, now: None  # noqa: E731
    assert all(own.status == MEASURED for _, own in outcomes(perform, tasks, silent, executor))
    assert isinstance(executor, _Turn)
    executor.wait()


def histories(commits: int) -> dict[str, list[int]]:
    """A count of each commit by architecture, which changes at few of them."""
    rng = random.Random(SEED)
    made = {}
    for arch in ARCHES:
        # A change is never taken back exactly, which a search of the ends alone would not see.
        values, value = [0], 0
        for _ in range(commits - 1):
            value += rng.randint(1, 40) if rng.random() < CHANGES else 0
            values.append(value)
        made[arch] = values
    return made


def searches(commits: int, at_once: int, world: World) -> Iterator[Callable[[Executor], None]]:
    """A client for each architecture and processor, which finds all changes."""
    for arch, values in histories(commits).items():
        wanted = [(at - 1, at) for at in range(1, commits) if values[at] != values[at - 1]]
        for cpu in range(PROCESSORS):

            def search(
                executor: Executor,
                arch: str = arch,
                cpu: int = cpu,
                values: list[int] = values,
                wanted: list[Any] = wanted,
            ) -> None:
                def measure(places: Sequence[int]) -> list[bool]:
                    measure_all(executor, [Task(arch, cpu, place) for place in places], world)
                    return [True] * len(places)

                measure([0, commits - 1])
                found = all_steps(
                    commits - 1, measure, lambda a, b: values[a] != values[b], at_once
                )
                assert found == wanted

            yield search


def every_commit(commits: int, world: World) -> Iterator[Callable[[Executor], None]]:
    """A client for each architecture, whose plan has all commits on all processors in order."""
    for arch in ARCHES:
        tasks = [Task(arch, cpu, at) for at in range(commits) for cpu in range(PROCESSORS)]
        yield partial(measure_all, tasks=tasks, world=world)


def measured() -> Costs:
    """What each part costs on this machine; of builds the median of those in the cache."""
    one = LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None)
    with one as cluster, Client(cluster) as client:
        began = time.monotonic()
        client.gather(client.map(abs, range(200)))
        scheduler = (time.monotonic() - began) / 200
    builds: dict[bool, list[float]] = {True: [], False: []}
    fetched: list[float] = []
    for file in list(cache_dir("built").glob("*/manifest.json"))[:200]:
        own = read_json(file)
        if own.get("seconds"):
            builds[own["whole"]].append(own["seconds"])
        if len(fetched) < 20:
            began = time.monotonic()
            read_manifest(file.parent)
            fetched.append(time.monotonic() - began)
    if not (builds[True] and builds[False]):
        sys.exit("The cache has no builds to know their time from: run kentry bisect or series.")
    with tempfile.TemporaryDirectory(prefix="kentry-simulate-") as name:
        own_recording, files = read_recording(RECORDING), []
        for number in range(20):
            kernel = {**own_recording.kernel, "release": str(number)}
            own_recording.kernel = kernel
            files.append(Path(name, f"{number}.json"))
            write_recording(own_recording, files[-1])
        store = Store(str(Path(name, "store")), create=True)
        began = time.monotonic()
        assert all(one.new for one in store.add(files))
        stored = (time.monotonic() - began) / len(files)
        boots = []
        words = ["debian:6.12", "--arch", "arm64", "-q", "-o", str(Path(name, "own"))]
        for _ in range(3):
            began = time.monotonic()
            command = [str(Path(sys.executable).with_name("kentry")), "record", *words]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            boots.append(time.monotonic() - began)
    whole, build = (median(builds[key]) for key in (True, False))
    return Costs(scheduler, whole, build, median(fetched), min(boots), stored)


def row(world: World, what: str) -> str:
    """A line of the table."""
    parts = {"scheduler": world.scheduler, "workers": world.workers, "store": world.store}
    parts |= {} if world.own_trees else {"work tree": world.tree}
    share = {name: own.busy / (world.now * own.places) for name, own in parts.items()}
    counts = world.counts
    busy = "  ".join(f"{name} {100 * own:3.0f} %" for name, own in share.items())
    return (
        f"{what:28} {counts['units']:7} units {counts['builds']:6} builds"
        f" {world.now / 3600:8.2f} h   {busy}"
    )


def main() -> None:
    """Prints the costs, then the table."""
    commits = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    most = int(sys.argv[2]) if len(sys.argv) > 2 else 200
    costs = measured()
    print(f"{commits} commits, {len(ARCHES)} architectures, {PROCESSORS} processors each")
    print(", ".join(f"{name} {own:.3g} s" for name, own in costs._asdict().items()))
    print("of whole builds and others: the medians of those in the cache")
    for own_trees in (False, True):
        trees = "own trees" if own_trees else "one tree"
        for workers in (most // 8, most, 8 * most):
            world = World(costs, workers, own_trees=own_trees)
            world.run(list(every_commit(commits, world)))
            print(row(world, f"{trees}, {workers} workers, every"))
            world = World(costs, workers, own_trees=own_trees)
            at_once = max(1, workers // (len(ARCHES) * PROCESSORS))
            world.run(list(searches(commits, at_once, world)))
            print(row(world, f"{trees}, {workers} workers, search"), flush=True)


if __name__ == "__main__":
    main()
