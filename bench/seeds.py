# SPDX-License-Identifier: GPL-2.0-or-later
"""Bisections of simulated kernels by workers and on disks that fail, each decided by a seed.

What runs is kentry's own: git, the search, its plans and threads, what it writes down and reads
again, and the store.  Simulated are the kernels (a count a commit, or none), the workers (one dies
with its unit, or fails it for a while), kills of the command, and the disk, which damages a file
between two runs.  However it went, the same question must come to the commits that the seed put
there, and the store must have every recording once.
Usage: python -m bench.seeds [HISTORIES [FIRST-SEED]]
"""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import random
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.builders import recording
from tests.histories import git

from bench import tried
from kentry.errors import (
    BuildError,
    GuestError,
    KentryError,
    KernelError,
    RecordingError,
    UserError,
)
from kentry.kernels.tree import Commit, find_range
from kentry.progress import Update
from kentry.results.recording import INSTRUCTIONS, read_recording
from kentry.results.studies import MEASURED, NO_BOOT, NO_BUILD, Bisection
from kentry.store.store import Store
from kentry.study.bisection import Question, bisect
from kentry.study.commits import Commits, Meter
from kentry.study.plan import Outcome

CASE = "getppid"
# Runs until the answer must be there; what fails for a while fails less often than that.
RUNS = 40


@dataclass
class World:
    """What a seed decides: a count of each commit, None where it does not build; and the faults."""

    seed: int
    rng: random.Random = field(init=False)
    counts: list[int | None] = field(init=False)
    told: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.rng = rng = random.Random(self.seed)
        count, self.counts = 100, [100]
        for _ in range(rng.randint(2, 60)):
            if rng.random() < 0.1:
                count += rng.randint(1, 9)
            broken = rng.random() < (0.6 if self.counts[-1] is None else 0.06)
            self.counts.append(None if broken else count)
        # Both ends have a value, and there is something to find.
        self.counts.append(count + 3)
        # How likely each fault is, a unit or a run.
        self.kill, self.dies, self.damage = (rng.choice([0, 0.02, 0.1]) for _ in range(3))
        self.at_once = rng.choice([1, 1, 2, 4])
        self.verify = rng.random() < 0.5

    def tree(self, folder: Path) -> list[str]:
        """A repository with a commit for each count; their names."""
        git(folder.parent, "init", "--quiet", "--initial-branch=master", str(folder))
        stream = []
        for at in range(len(self.counts)):
            text = f"commit {at}"
            stream += ["commit refs/heads/master", f"mark :{at + 1}"]
            stream += [f"committer K <k@k> {1700000000 + at} +0000", f"data {len(text)}", text]
            stream += ["M 100644 inline file", f"data {len(text)}", text]
        git(folder, "fast-import", "--quiet", feed="\n".join([*stream, ""]).encode())
        return git(folder, "rev-list", "--reverse", "master").split()

    def wanted(self, names: Sequence[str]) -> list[tuple[str, ...]]:
        """The commits of each change, all that may have made it."""
        known = [at for at, count in enumerate(self.counts) if count is not None]
        return [
            tuple(names[old + 1 : new + 1])
            for old, new in itertools.pairwise(known)
            if self.counts[old] != self.counts[new]
        ]


class Workers(Meter):
    """Stands in for what builds and boots a commit."""

    def __init__(self, world: World, names: Sequence[str], folder: Path) -> None:
        super().__init__(["simulated workers"], folder)
        self._world, self._counts = world, dict(zip(names, world.counts, strict=True))
        self._lock = threading.Lock()

    def function(self, commit: Commit, update: Update) -> Outcome:
        """Measures a commit (see Kernels), unless the seed kills the command, or the worker."""
        world, count = self._world, self._counts[commit.name]
        with self._lock:
            chance = world.rng.random()
        if chance < world.kill:
            world.told["kills"] += 1
            raise KeyboardInterrupt
        if chance < world.kill + world.dies:
            world.told["units whose worker died"] += 1
            return Outcome(status=NO_BOOT, error=GuestError("its worker died.", ""))
        if count is None:
            return Outcome(status=NO_BUILD, error=BuildError("does not build.", ""))
        kernel = {"origin": {"kind": "tree", "commit": commit.name}}
        own = recording({CASE: [("a", 90), ("b", count - 90)]}, kernel=kernel)
        return Outcome(status=MEASURED, recording=own, seconds=1.0)


def damage(world: World, state: Path) -> None:
    """What a disk does to one file: a bit, or its end."""
    files = sorted(path for path in state.iterdir() if path.is_file())
    if not files:
        return
    file = world.rng.choice(files)
    content = bytearray(file.read_bytes())
    if not content:
        return
    at = world.rng.randrange(len(content))
    if world.rng.random() < 0.5:
        del content[at:]
    else:
        content[at] ^= 1 << world.rng.randrange(8)
    file.write_bytes(content)
    world.told["damaged files"] += 1


def answer(world: World, folder: Path) -> tuple[Bisection | None, list[str], int]:
    """Asks until there is an answer; the commits' names, and how many runs it took."""
    names = world.tree(folder / "linux")
    state, place = folder / "state", str(folder / "store")
    state.mkdir()
    workers = Workers(world, names, state)
    store = Store(place, create=True)
    span = find_range(folder / "linux", names[0], names[-1])
    question = Question(cases=(CASE,), metric=INSTRUCTIONS, everything=True, verify=world.verify)
    result = None
    for run in range(1, RUNS + 1):
        if world.rng.random() < world.damage:
            damage(world, state)
        try:
            commits = Commits(
                state,
                workers,
                (CASE,),
                INSTRUCTIONS,
                lambda done, now: None,
                world.at_once,
            )
            result = bisect(span, question, commits, {"tree": "linux", "config": "tiny"})
        except KeyboardInterrupt:
            continue
        except KernelError:
            # An end that a worker did not measure, or a second measurement.
            continue
        except UserError:
            # Its own steps are damaged, and it says so: the user begins anew.
            world.told["begun anew"] += 1
            shutil.rmtree(state)
            state.mkdir()
            continue
        for added in store.add(sorted(state.glob("*.json"))):
            if added.error is None and added.new:
                world.told["recordings stored"] += 1
        # A worker that died left a commit without a value: asked again, it is measured.
        tried = {step.commit: step.status for step in result.steps}
        if NO_BOOT not in tried.values():
            return result, names, run
    return result, names, RUNS


def check(seed: int, told: Counter[str]) -> str:
    """What is wrong with the history of a seed, a clause; empty where nothing is."""
    world = World(seed)
    with tempfile.TemporaryDirectory(prefix="kentry-seed-") as name:
        folder = Path(name)
        try:
            result, names, runs = answer(world, folder)
        except KentryError as err:
            return f"an error without need: {err.sentence}"
        finally:
            told.update(world.told)
        told["runs"] += runs
        if result is None:
            return f"no answer in {runs} runs"
        found: list[tuple[str, ...]] = [(one.commit,) for one in result.culprits]
        found += [tuple(one.commit for one in suspects.commits) for suspects in result.suspects]
        wanted = world.wanted(names)
        if sorted(found) != sorted(wanted):
            short = [[one[:8] for one in own] for own in sorted(set(wanted) ^ set(found))]
            return f"{len(found)} changes instead of {len(wanted)}: {short[:3]}"
        store = Store(str(folder / "store"))
        if bad := list(store.verify()):
            return f"the store is damaged: {bad[0]}"
        for file in (folder / "state").glob(f"{'[0-9a-f]' * 40}.json"):
            # Each recording that the search has is the commit's own, or is known to be damaged.
            try:
                own = read_recording(file)
            except RecordingError:
                continue
            at = names.index(file.stem)
            if own.cases[0].metrics[INSTRUCTIONS].value != world.counts[at]:
                return f"{file.stem[:12]} has another's recording"
    return ""


def run(histories: int, first: int) -> list[str]:
    """Checks the seeds from `first` on; returns what is wrong, a line a seed."""
    wrong, told, began = [], Counter[str](), time.monotonic()
    for seed in range(first, first + histories):
        with contextlib.redirect_stderr(io.StringIO()):
            reason = check(seed, told)
        if reason:
            wrong.append(f"seed {seed}: {reason}")
            print(wrong[-1], flush=True)
    seconds = time.monotonic() - began
    print(tried())
    print(
        f"{histories} histories from seed {first}: {len(wrong)} wrong,"
        f" {3600 * histories / seconds:.0f} an hour"
    )
    print(json.dumps(told))
    return wrong


if __name__ == "__main__":
    own_words = [int(word) for word in sys.argv[1:]]
    sys.exit(bool(run(*(own_words + [200, 1][len(own_words) :]))))
