# SPDX-License-Identifier: GPL-2.0-or-later
"""Measures commits of a tree, each once, and builds and boots no more of them than it must.

A commit that touches nothing that the kernel of another was made of is that kernel.  One in which
all functions that were executed have the same object code takes the same path.  What was measured
is written down at once, so a run that was killed goes on where it was.
"""

import hashlib
import json
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

import msgspec
from msgspec.structs import replace

from kentry.arch import Arch
from kentry.boot.emulator import find_emulator
from kentry.boot.exact import ExactOptions
from kentry.count import cache
from kentry.errors import (
    EXIT_SKIP,
    BuildError,
    GuestError,
    KernelError,
    RecordingError,
    UserError,
)
from kentry.host import interrupt
from kentry.host.cache import cache_dir, sha256_of, write_atomically
from kentry.host.process import run
from kentry.kernels import build, history, made_of, tree
from kentry.kernels.config import Request
from kentry.kernels.history import Commit
from kentry.kernels.made_of import MadeOf
from kentry.kernels.repository import Revision
from kentry.progress import Update, say
from kentry.results.bisection import MEASURED, NOT_COMPILED, SAME_CODE, Step
from kentry.results.recording import Recording, read_recording, write_recording
from kentry.results.series import NO_BOOT, NO_BUILD
from kentry.study.distance import Difference, difference, value

_LAST_CHARACTERS = 400
_STEPS = "steps.jsonl"

# A commit's step and its recording, None where the step says why there is none.
Measured = tuple[Step, Recording | None]


class Measurer(Protocol):
    """What measures one commit, and checks one anew; KentryError ends the whole run."""

    def measure(
        self, commit: Commit, near: Mapping[str, Recording], boot: bool, update: Update
    ) -> Measured:
        """The commit's recording.

        With `boot` it is not taken from those of `near`, commits that were measured before.
        """

    def measure_anew(self, commit: Commit, own: Path, update: Update) -> Measured:
        """The commit's recording, from nothing but what this has left in the folder `own`."""

    def compiled(self, commit: Commit, update: Update) -> list[str] | None:
        """Which files that the commit changes its kernel is made of; None: not known."""


class Kernels:
    """Builds commits of a tree and boots them under emulation."""

    def __init__(self, folder: Path, arch: Arch, request: Request, options: ExactOptions) -> None:
        self._folder = folder
        self._arch = arch
        self._request = request
        self._options = options
        self._made: dict[str, MadeOf | None] = {}

    def measure(
        self, commit: Commit, near: Mapping[str, Recording], boot: bool, update: Update
    ) -> Measured:
        """See Measurer."""
        if not boot:
            for name, recording in near.items():
                made = self._made_of(name, update)
                if made and made_of.compiles_none_of(
                    made, history.changed_files(self._folder, name, commit.name)
                ):
                    self._made[commit.name] = made
                    return _step(commit, NOT_COMPILED, like=name), recording
        revision = tree.of_commit(self._folder, commit.name)
        try:
            folder = build.built(self._plan(revision, update), update)
        except BuildError as err:
            return _step(commit, NO_BUILD, problem=err.sentence, detail=err.detail), None
        self._made[commit.name] = made = made_of.read(folder)
        if not boot:
            for name, recording in near.items():
                other = self._made_of(name, update)
                if made and other and made_of.same_code(made, other, _executed(recording)):
                    return _step(commit, SAME_CODE, like=name), recording
        return self._boot(commit, revision, update, reuse=True)

    def measure_anew(self, commit: Commit, own: Path, update: Update) -> Measured:
        """See Measurer.

        A kernel that was once built in an empty folder and came out the same is not built again.
        """
        revision = tree.of_commit(self._folder, commit.name)
        plan = self._plan(revision, update)
        image = sha256_of(build.built(plan, update) / "image")
        proof = cache_dir("clean") / plan.key()
        if proof.exists() and proof.read_text(encoding="ascii").strip() == image:
            return self._boot(commit, revision, update, reuse=False)
        update(None, f"building {commit.short} from nothing")
        kernel = build.kernel(
            self._spec(commit), revision, self._arch, self._request, update, anew=own
        )
        if kernel.image_sha256 == image:
            write_atomically(proof, image + "\n")
        recording = cache.record(kernel, self._arch, self._options, update, reuse=False)
        return _step(commit, MEASURED), recording

    def compiled(self, commit: Commit, update: Update) -> list[str] | None:
        """See Measurer."""
        revision = tree.of_commit(self._folder, commit.name)
        made = made_of.read(cache_dir("built") / self._plan(revision, update).key())
        if made is None or not commit.parents:
            return None
        changed = history.changed_files(self._folder, commit.parents[0], commit.name)
        return [path for _, path in changed if path in made.files]

    def made_with(self, commit: Commit, update: Update) -> list[str]:
        """What a kernel and its recording are made with, besides the source."""
        plan = self._plan(tree.of_commit(self._folder, commit.name), update)
        config = hashlib.sha256(plan.config.text().encode()).hexdigest()
        emulator = find_emulator(self._arch, self._options.emulator).version
        return [config, *plan.toolchain.identity, plan.pahole, emulator]

    def _boot(self, commit: Commit, revision: Revision, update: Update, reuse: bool) -> Measured:
        try:
            kernel = build.kernel(self._spec(commit), revision, self._arch, self._request, update)
            recording = cache.record(kernel, self._arch, self._options, update, reuse=reuse)
        except (GuestError, KernelError) as err:
            return _step(commit, NO_BOOT, problem=err.sentence, detail=err.detail), None
        return _step(commit, MEASURED), recording

    def _plan(self, revision: Revision, update: Update) -> build.Build:
        return build.plan(revision, self._arch, self._request, update)

    def _spec(self, commit: Commit) -> str:
        return f"tree:{self._folder}@{commit.short}"

    def _made_of(self, name: str, update: Update) -> MadeOf | None:
        """What the kernel of a commit that was measured is made of, by an earlier run too."""
        if name not in self._made:
            plan = self._plan(tree.of_commit(self._folder, name), update)
            self._made[name] = made_of.read(cache_dir("built") / plan.key())
        return self._made[name]


class Program:
    """Lets a program of the user's measure: it gets a commit and the file to write."""

    def __init__(self, argv: Sequence[str], folder: Path) -> None:
        self._argv = list(argv)
        self._folder = folder

    def measure(
        self, commit: Commit, near: Mapping[str, Recording], boot: bool, update: Update
    ) -> Measured:
        """See Measurer."""
        file = self._folder / f"{commit.name}.program.json"
        file.unlink(missing_ok=True)
        update(None, f"{self._argv[0]} measures {commit.short}")
        done = run([*self._argv, commit.name, str(file)], check=False)
        said = done.stderr.strip()[-_LAST_CHARACTERS:]
        if done.returncode == EXIT_SKIP:
            return _step(
                commit, NO_BOOT, problem=f"{self._argv[0]} cannot measure it", detail=said
            ), None
        if done.returncode or not file.exists():
            what = (
                f"ended with status {done.returncode}" if done.returncode else "wrote no recording"
            )
            raise UserError(
                f"{self._argv[0]} {what} for {commit.short}.",
                f"It gets a commit and a file to write, and ends with {EXIT_SKIP} where it cannot.",
                said,
            )
        try:
            return _step(commit, MEASURED), read_recording(file)
        finally:
            file.unlink()

    def measure_anew(self, commit: Commit, own: Path, update: Update) -> Measured:
        """See Measurer."""
        return self.measure(commit, {}, True, update)

    def compiled(self, commit: Commit, update: Update) -> list[str] | None:
        """See Measurer."""
        return None


class Commits:
    """The commits of one run: their steps in the order they were made, and their recordings.

    `folder` keeps them.  What failed to boot is tried again by the next run on the folder.  A
    value is that of the first commit measured and the difference from it, so that all are in its
    context.
    """

    def __init__(
        self, folder: Path, measurer: Measurer, case: str, metric: str, at_once: int = 1
    ) -> None:
        self.steps: dict[str, Step] = {}
        self._folder = folder
        self._case, self._metric = case, metric
        self._measurer = measurer
        self._at_once = at_once
        self._recordings: dict[str, Recording] = {}
        self._lock = threading.Lock()
        self._read()

    def measure(
        self, commits: Sequence[Commit], near: Sequence[Commit], update: Update, boot: bool = False
    ) -> list[Recording | None]:
        """Each commit's recording, None where its step says why there is none.

        `near` are commits whose recordings may be theirs, the likeliest first; with `boot` they
        may not.
        """
        known = {
            one.name: self._recordings[one.name] for one in near if one.name in self._recordings
        }
        missing = [one for one in commits if not self._is_known(one.name, boot)]
        if len(missing) > 1 and self._at_once > 1:
            with ThreadPoolExecutor(self._at_once) as pool:
                list(
                    pool.map(lambda one: self._measure(one, known, boot, _checked(update)), missing)
                )
        else:
            for one in missing:
                self._measure(one, known, boot, update)
        return [self._recordings.get(one.name) for one in commits]

    def recording(self, commit: Commit) -> Recording:
        """That of a commit that was measured."""
        return self._recordings[commit.name]

    def apart(self, old: Commit, new: Commit) -> Difference:
        """How far two measured commits are apart."""
        return self.difference(self._recordings[old.name], self._recordings[new.name])

    def difference(self, old: Recording, new: Recording) -> Difference:
        """How far two recordings are apart in the run's metric."""
        return difference(old, new, self._case, self._metric)

    def has(self, commit: Commit) -> bool:
        """Whether the commit has a recording."""
        return commit.name in self._recordings

    @property
    def has_stand_ins(self) -> bool:
        """Whether a commit's recording is another's."""
        return any(step.like for step in self.steps.values())

    def _is_known(self, name: str, boot: bool) -> bool:
        step = self.steps.get(name)
        return step is not None and (not boot or step.status not in (SAME_CODE, NOT_COMPILED))

    def _measure(
        self, commit: Commit, near: Mapping[str, Recording], boot: bool, update: Update
    ) -> None:
        began = time.monotonic()
        step, recording = self._measurer.measure(commit, near, boot, update)
        step = replace(step, seconds=round(time.monotonic() - began, 1))
        with self._lock:
            if step.like:
                # The one that was booted, whose recording is in a file.
                step = replace(step, like=self.steps[step.like].like or step.like)
            if recording:
                self._recordings[commit.name] = recording
                first = next(iter(self._recordings.values()))
                before = value(first, self._case, self._metric)
                step = replace(step, value=before + self.difference(first, recording).delta)
            # At the end, even if it was there: it was made now.
            self.steps.pop(commit.name, None)
            self.steps[commit.name] = step
            self._write(step)
        say(step_line(step))

    def _read(self) -> None:
        for step in steps_in(self._folder):
            if step.status == NO_BOOT:
                continue
            if step.status != NO_BUILD:
                try:
                    own = step.like or step.commit
                    self._recordings[step.commit] = read_recording(self._file(own))
                except RecordingError:
                    continue
            self.steps[step.commit] = step

    def _write(self, step: Step) -> None:
        if step.status == MEASURED:
            write_recording(self._recordings[step.commit], self._file(step.commit))
        rows = [json.dumps(msgspec.to_builtins(one)) + "\n" for one in self.steps.values()]
        write_atomically(self._folder / _STEPS, "".join(rows))

    def _file(self, name: str) -> Path:
        return self._folder / f"{name}.json"


def step_line(step: Step) -> str:
    """A step in one line: the commit, its value or why it has none, and how that is known."""
    how = {SAME_CODE: "not booted: ", NOT_COMPILED: "not built: "}.get(step.status, "")
    how += f"as {step.like[:12]}" if step.like else step.problem
    value_text = "-" if step.value is None else f"{step.value:g}"
    return f"{step.commit[:12]} {value_text:>8} {step.subject[:40]}{how and f' ({how})'}"


def _step(commit: Commit, status: str, **words: Any) -> Step:
    return Step(commit=commit.name, subject=commit.subject, status=status, **words)


def _executed(recording: Recording) -> set[str]:
    """The functions of every path of the recording."""
    return {one.function for one in recording.code}


def _checked(update: Update) -> Update:
    """For another thread, to which Python brings no Ctrl-C: what is done there is told often."""

    def checked(fraction: float | None, now: str) -> None:
        interrupt.check()
        update(fraction, now)

    return checked


def steps_in(folder: Path) -> Iterator[Step]:
    """The steps that a run wrote down; UserError where they are damaged."""
    try:
        lines = (folder / _STEPS).read_bytes().splitlines()
    except FileNotFoundError:
        return
    for line in lines:
        try:
            yield msgspec.json.decode(line, type=Step)
        except msgspec.MsgspecError as err:
            raise UserError(f"{folder / _STEPS} is damaged.", "Remove it, and begin anew.") from err
