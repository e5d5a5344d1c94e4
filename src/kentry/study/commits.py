# SPDX-License-Identifier: GPL-2.0-or-later
"""Measures commits of a tree, each once, and builds and boots no more of them than it must.

A commit that touches nothing that the kernel of another was made of is that kernel.  One in which
all functions that were executed have the same object code takes the same path.  What was measured
is written down at once, so a run that was killed goes on where it was.
"""

import hashlib
import json
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from kentry.arch import Arch
from kentry.boot.emulator import find_emulator
from kentry.boot.exact import ExactOptions
from kentry.errors import EXIT_SKIP, GuestError, KernelError, RecordingError, UserError
from kentry.host.cache import cache_dir, write_atomically
from kentry.host.process import run
from kentry.kernels import build, history, made_of, tree
from kentry.kernels.config import Request
from kentry.kernels.history import Commit
from kentry.progress import Update, say
from kentry.results.bisection import MEASURED, NOT_COMPILED, SAME_CODE, Provisional, Step
from kentry.results.comparison import Real
from kentry.results.recording import Recording, read_recording, write_recording
from kentry.results.series import NO_BOOT, NO_BUILD, Problem
from kentry.study.distance import Difference, Pair, value
from kentry.study.plan import Local, Outcome, StandIn, Unit, outcomes, perform, proof_of

_LAST_CHARACTERS = 400
_STEPS, _PROVISIONAL = "steps.jsonl", "provisional.json"


class Measurer(ABC):
    """What measures commits: it makes units, which its `function` performs."""

    function: Callable[..., Outcome]

    @abstractmethod
    def unit(self, commit: Commit, near: Mapping[str, Recording], update: Update) -> Any:
        """The unit of a commit; its recording may be one of `near`, of commits measured before."""

    @abstractmethod
    def unit_anew(self, commit: Commit, own: Path) -> Any:
        """The unit that measures from nothing but what earlier ones have left in `own`."""

    @abstractmethod
    def made_with(self, commit: Commit, update: Update) -> list[str]:
        """What a kernel and its recording are made with, besides the source."""

    @abstractmethod
    def cost_anew(self, commits: Sequence[Commit], update: Update) -> str:
        """What it costs to measure the commits anew, a clause."""

    def is_same_kernel(self, commit: Commit, like: str) -> None:
        """Takes note that the commit's kernel is the one of the commit `like`."""
        del commit, like

    def compiled(self, commit: Commit, update: Update) -> list[str] | None:
        """Which files that the commit changes its kernel is made of; None: not known."""
        del commit, update
        return None


class Kernels(Measurer):
    """Builds commits of a tree and boots them under emulation."""

    function = staticmethod(perform)

    def __init__(self, folder: Path, arch: Arch, request: Request, options: ExactOptions) -> None:
        self._folder = folder
        self._arch = arch
        self._request = request
        self._options = options
        # The key of the build that is a commit's kernel, by the commit's name.
        self._built: dict[str, str] = {}

    def unit(self, commit: Commit, near: Mapping[str, Recording], update: Update) -> Unit:
        """See Measurer."""
        stand_ins = tuple(
            StandIn(
                name=name,
                built=self._key(name, update),
                changed=tuple(history.changed_files(self._folder, name, commit.name)),
                executed=frozenset(insn.function for insn in recording.code),
            )
            for name, recording in near.items()
        )
        return self._unit(commit, stand_ins=stand_ins)

    def unit_anew(self, commit: Commit, own: Path) -> Unit:
        """See Measurer."""
        return self._unit(commit, anew=own)

    def is_same_kernel(self, commit: Commit, like: str) -> None:
        """See Measurer."""
        if like in self._built:
            self._built[commit.name] = self._built[like]

    def compiled(self, commit: Commit, update: Update) -> list[str] | None:
        """See Measurer."""
        made = made_of.read(cache_dir("built") / self._plan(commit.name, update).key())
        if made is None or not commit.parents:
            return None
        changed = history.changed_files(self._folder, commit.parents[0], commit.name)
        return [path for _, path in changed if path in made.files]

    def cost_anew(self, commits: Sequence[Commit], update: Update) -> str:
        """See Measurer."""
        plans = [self._plan(commit.name, update) for commit in commits]
        builds = sum(not proof_of(plan).exists() for plan in plans)
        whole = f"{builds} whole builds, from nothing, and " if builds else ""
        return f"{whole}{len(plans)} boots"

    def made_with(self, commit: Commit, update: Update) -> list[str]:
        """See Measurer."""
        plan = self._plan(commit.name, update)
        config = hashlib.sha256(plan.config.text().encode()).hexdigest()
        emulator = find_emulator(self._arch, self._options.emulator).version
        return [config, *plan.toolchain.identity, plan.pahole, emulator]

    def _unit(self, commit: Commit, **words: Any) -> Unit:
        return Unit(
            spec=f"tree:{self._folder}@{commit.short}",
            arch=self._arch.name,
            measurement=self._options,
            source=tree.of_commit(self._folder, commit.name),
            request=self._request,
            **words,
        )

    def _plan(self, name: str, update: Update) -> build.Build:
        revision = tree.of_commit(self._folder, name)
        return build.plan(revision, self._arch, self._request, update)

    def _key(self, name: str, update: Update) -> str:
        if name not in self._built:
            self._built[name] = self._plan(name, update).key()
        return self._built[name]


@dataclass(frozen=True)
class ProgramUnit:
    """A commit that a program of the user's measures; it writes the recording to `file`."""

    argv: tuple[str, ...]
    commit: Commit
    file: Path


def perform_by_program(unit: ProgramUnit, update: Update) -> Outcome:
    """Runs the program with the commit and the file; UserError where it fails."""
    unit.file.unlink(missing_ok=True)
    began = time.monotonic()
    program = unit.argv[0]
    update(None, f"{program} measures {unit.commit.short}")
    done = run([*unit.argv, unit.commit.name, str(unit.file)], check=False)
    said = done.stderr.strip()[-_LAST_CHARACTERS:]
    if done.returncode == EXIT_SKIP:
        error = GuestError(f"{program} cannot measure it", "", said)
        return Outcome(status=NO_BOOT, error=error)
    if done.returncode or not unit.file.exists():
        status = f"ended with status {done.returncode}"
        raise UserError(
            f"{program} {status if done.returncode else 'wrote no recording'} for"
            f" {unit.commit.short}.",
            f"It gets a commit and a file to write, and ends with {EXIT_SKIP} where it cannot.",
            said,
        )
    try:
        recording = read_recording(unit.file)
        seconds = round(time.monotonic() - began, 1)
        return Outcome(status=MEASURED, recording=recording, seconds=seconds)
    finally:
        unit.file.unlink()


class Program(Measurer):
    """Lets a program of the user's measure: it gets a commit and the file to write."""

    function = staticmethod(perform_by_program)

    def __init__(self, argv: Sequence[str], folder: Path) -> None:
        self._argv = tuple(argv)
        self._folder = folder

    def unit(self, commit: Commit, near: Mapping[str, Recording], update: Update) -> ProgramUnit:
        """See Measurer."""
        return ProgramUnit(self._argv, commit, self._folder / f"{commit.name}.program.json")

    def unit_anew(self, commit: Commit, own: Path) -> ProgramUnit:
        """See Measurer."""
        return ProgramUnit(self._argv, commit, self._folder / f"{commit.name}.program.json")

    def made_with(self, commit: Commit, update: Update) -> list[str]:
        """See Measurer."""
        return list(self._argv)

    def cost_anew(self, commits: Sequence[Commit], update: Update) -> str:
        """See Measurer."""
        return f"{len(commits)} runs of {self._argv[0]}"


class Commits:
    """The commits of one run: their steps in the order they were made, and their recordings.

    `folder` keeps them.  What failed to boot is tried again by the next run on the folder.  A
    value is that of the first commit measured and the difference from it, so that all are in its
    context; a step has that of the first of `cases`.
    """

    def __init__(
        self,
        folder: Path,
        measurer: Measurer,
        cases: Sequence[str],
        metric: str,
        update: Update,
        at_once: int = 1,
    ) -> None:
        self.steps: dict[str, Step] = {}
        self.measurer = measurer
        self.cases = tuple(cases)
        self.metric = metric
        self.at_once = at_once
        # About how many steps this run will make, and how many it has made.
        self.expected = self.made = 0
        self.update = update
        self._folder = folder
        self._recordings: dict[str, Recording] = {}
        self._anew: dict[str, Recording] = {}
        self._pairs: dict[tuple[str, str], Pair] = {}
        self._read()

    def measure(
        self, commits: Sequence[Commit], near: Sequence[Commit] = (), boot: bool = False
    ) -> list[Recording | None]:
        """Each commit's recording, None where its step says why there is none.

        `near` are commits whose recordings may be theirs, the likeliest first; with `boot` they
        may not.
        """
        known = {
            commit.name: self._recordings[commit.name]
            for commit in near
            if not boot and commit.name in self._recordings
        }
        missing = [commit for commit in commits if not self._is_known(commit.name, boot)]
        units = [self.measurer.unit(commit, known, self._show) for commit in missing]
        with Local(self._show, self.at_once) as executor:
            for index, outcome in outcomes(self.measurer.function, units, executor):
                self._add(missing[index], outcome)
        return [self._recordings.get(commit.name) for commit in commits]

    def measure_anew(self, commit: Commit, own: Path) -> Recording:
        """A second recording, once a run; KernelError where the commit has none now."""
        if commit.name not in self._anew:
            unit = self.measurer.unit_anew(commit, own)
            with Local(self.update) as executor:
                [(_, outcome)] = outcomes(self.measurer.function, [unit], executor)
            if outcome.error:
                raise KernelError(
                    f"{commit.short} was measured, but not a second time: {outcome.error.sentence}",
                    "Try again with --continue.",
                    outcome.error.detail,
                )
            self._anew[commit.name] = outcome.measured()
        return self._anew[commit.name]

    def recording(self, commit: Commit) -> Recording:
        """That of a commit that was measured."""
        return self._recordings[commit.name]

    def has(self, commit: Commit, case: str) -> bool:
        """Whether the commit has a recording with the case."""
        recording = self._recordings.get(commit.name)
        return recording is not None and recording.case(case) is not None

    def value(self, commit: Commit, case: str) -> Real | None:
        """The value of a case of a commit, None where it was not measured."""
        if not self.has(commit, case):
            return None
        if case == self.cases[0]:
            return self.steps[commit.name].value
        first = next(name for name, one in self._recordings.items() if one.case(case))
        before = value(self._recordings[first], case, self.metric)
        return before + self._apart(first, commit.name, case).delta

    def apart(self, old: Commit, new: Commit, case: str) -> Difference:
        """How far two measured commits are apart; two recordings are compared once."""
        return self._apart(old.name, new.name, case)

    def apart_anew(self, old: Commit, new: Commit, case: str) -> Difference:
        """How far the second recordings of two commits are apart."""
        pair = Pair(self._anew[old.name], self._anew[new.name], self.cases)
        return pair.difference(case, self.metric)

    @property
    def has_stand_ins(self) -> bool:
        """Whether a commit's recording is another's."""
        return any(step.like for step in self.steps.values())

    def keep_provisional(self, rows: Sequence[Provisional]) -> None:
        """Writes down what the search has named before it is verified; nothing: all is."""
        write_atomically(self._folder / _PROVISIONAL, msgspec.json.encode(rows))

    def _show(self, fraction: float | None, now: str) -> None:
        step = self.made + 1
        self.update(fraction, f"step {step} of about {max(step, self.expected)}: {now}")

    def _apart(self, old: str, new: str, case: str) -> Difference:
        # The commits whose recordings these are.
        names = (self.steps[old].like or old, self.steps[new].like or new)
        if names not in self._pairs:
            sides = self._recordings[old], self._recordings[new]
            cases = [name for name in self.cases if all(side.case(name) for side in sides)]
            self._pairs[names] = Pair(*sides, cases)
        return self._pairs[names].difference(case, self.metric)

    def _is_known(self, name: str, boot: bool) -> bool:
        step = self.steps.get(name)
        return step is not None and (not boot or step.status not in (SAME_CODE, NOT_COMPILED))

    def _add(self, commit: Commit, outcome: Outcome) -> None:
        """Writes down what became of a commit."""
        like = outcome.like
        if outcome.status == NOT_COMPILED:
            self.measurer.is_same_kernel(commit, like)
        recording = self._recordings[like] if like else outcome.recording
        problem = outcome.problem or Problem("", "")
        # At the end, even if it was there: it was made now.
        self.steps.pop(commit.name, None)
        self.steps[commit.name] = step = Step(
            commit=commit.name,
            subject=commit.subject,
            status=outcome.status,
            # The one that was booted, whose recording is in a file.
            like=(self.steps[like].like or like) if like else "",
            problem=problem.sentence,
            detail=problem.detail,
            seconds=outcome.seconds,
        )
        if recording:
            self._recordings[commit.name] = recording
            case = self.cases[0]
            if recording.case(case):
                first = next(name for name, one in self._recordings.items() if one.case(case))
                before = value(self._recordings[first], case, self.metric)
                delta = self._apart(first, commit.name, case).delta
                self.steps[commit.name] = step = msgspec.structs.replace(step, value=before + delta)
        self._write(step)
        self.made += 1
        say(f"step {self.made} of about {max(self.made, self.expected)}: {step_line(step)}")

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


def provisional_in(folder: Path) -> list[Provisional]:
    """What a search named and did not verify yet."""
    try:
        return msgspec.json.decode((folder / _PROVISIONAL).read_bytes(), type=list[Provisional])
    except (OSError, msgspec.MsgspecError):
        return []
