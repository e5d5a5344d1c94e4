# SPDX-License-Identifier: GPL-2.0-or-later
"""Measures commits of a tree, each once, and builds and boots no more of them than it must.

A commit that touches nothing that another's kernel was made of is that kernel.  One in which all
executed functions have the same object code takes the same path.  A killed run goes on.
"""

import contextlib
import hashlib
import json
import math
import os
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from kentry.arch import Arch
from kentry.boot.exact import ExactOptions, emulator_of
from kentry.compare.counted import compare
from kentry.compare.workload import whole_boots
from kentry.count import cache
from kentry.count.workload_cache import Program
from kentry.errors import EXIT_SKIP, GuestError, KernelError, RecordingError, UserError
from kentry.host import interrupt
from kentry.host.cache import cache_dir, held, read_json, sha256_of, write_json
from kentry.host.process import run
from kentry.kernels import build, made_of, tree
from kentry.kernels.config import Request
from kentry.kernels.tree import Commit
from kentry.progress import Update, say
from kentry.results import caveats, studies
from kentry.results.caveats import Caveat, amount
from kentry.results.comparison import Comparison, FunctionDelta, Real
from kentry.results.recording import (
    ABOUT_PATHS,
    INSTRUCTIONS,
    Recording,
    read_recording,
    write_recording,
)
from kentry.stats.exact import UNDECIDED
from kentry.study.plan import Outcome, StandIn, Unit, outcomes, perform, proof_of

_LAST_CHARACTERS = 400
_ASKED, _STEPS, _PROVISIONAL = "bisection.json", "steps.json", "provisional.json"


class Difference(msgspec.Struct, frozen=True):
    """New less old in the metric's unit; `functions` are those of an exact one of instructions.

    `low` and `high` are the ends of its interval; an exact difference is all three.  None where it
    cannot be told: a case that never settles, a metric with too few samples.
    """

    delta: Real
    low: Real | None
    high: Real | None
    functions: tuple[FunctionDelta, ...] = ()

    @property
    def is_sure(self) -> bool:
        """Whether there surely is one."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)

    @property
    def changed(self) -> tuple[FunctionDelta, ...]:
        """The functions that differ."""
        return tuple(row for row in self.functions if row.delta)


def value(recording: Recording, case: str, metric: str) -> Real:
    """Returns the metric's value; UserError where the recording has none."""
    result = recording.case(case)
    if not result:
        names = ", ".join(case.name for case in recording.cases)
        raise UserError(f"The recording has no case {case}.", f"It has {names}.")
    measured = result.metrics.get(metric) or result.noisy.get(metric)
    if measured is None:
        names = ", ".join([*result.metrics, *result.noisy])
        raise UserError(f"{case} has no metric '{metric}'.", f"It has {names}.")
    return measured.value


def sums(case: str, values: Iterable[tuple[Collection[int], Real]]) -> list[Caveat]:
    """Says which of a case's values no context has; each is beside its kernel's counts in all."""
    counts = {str(count): None for own, count in values if own and count not in own}
    which = f"{caveats.some(list(counts))} {INSTRUCTIONS}"
    return [caveats.sum_of_contexts(which, case)] if counts else []


@dataclass(frozen=True)
class Pair:
    """Two recordings and the cases and the metric in question, which are compared once."""

    old: Recording
    new: Recording
    cases: Sequence[str]
    metric: str = INSTRUCTIONS

    @cached_property
    def comparison(self) -> Comparison:
        """The comparison of all cases."""
        metrics = [self.metric] if self.metric.startswith(ABOUT_PATHS) else []
        return compare(self.old, self.new, list(self.cases), metrics, brief=True)

    def differing(self) -> list[str]:
        """What differs beside the kernel: the emulator, the config, and so on."""
        notes = [note for note in self.comparison.caveats if note["kind"] in caveats.DIFFERENCES]
        return [note["text"].partition(" differs")[0] for note in notes]

    def difference(self, case: str) -> Difference:
        """Returns the difference of one case; UserError where a side does not have the metric."""
        metric = self.metric
        delta = value(self.new, case, metric) - value(self.old, case, metric)
        sides = [side.case(case) for side in (self.old, self.new)]
        old, new = sides
        if self.new.program and old and new and (ends := whole_boots(old, new, metric)):
            return Difference(delta, *ends)
        if row := self.comparison.counted(case, metric):
            known = None if row.verdict == UNDECIDED else row.delta
            functions = row.functions if metric == INSTRUCTIONS else ()
            return Difference(row.delta, known, known, functions)
        counts = [side.metrics[metric] for side in sides if side and metric in side.metrics]
        if len(counts) == 2:
            surely = delta if all(count.is_decided for count in counts) else None
            return Difference(delta, surely, surely)
        # The interval of a noisy change, which recordings made apart have, too.
        for timed in self.comparison.timed:
            if (timed.name, timed.metric) == (case, metric):
                low, high = timed.interval or (None, None)
                if low is None or high is None:
                    return Difference(timed.delta, None, None)
                return Difference(timed.delta, timed.old * low / 100, timed.old * high / 100)
        raise UserError(
            f"The two recordings have no {metric} of {case} in one unit.", "Use one unit."
        )


class Kernels:
    """Builds commits of a tree and boots them under emulation."""

    # Performs the units.
    function = staticmethod(perform)

    def __init__(
        self,
        folder: Path,
        arch: Arch,
        request: Request,
        options: ExactOptions,
        program: Program | None = None,
    ) -> None:
        self._folder = folder
        self._arch = arch
        self._request = request
        self._options = options
        self._program = program
        # The key of the build that is a commit's kernel, by the commit's name.
        self._built: dict[str, str] = {}

    def unit(
        self,
        commit: Commit,
        near: Mapping[str, Recording],
        update: Update,
        anew: Path | None = None,
    ) -> Unit:
        """The unit of a commit, which may have one of the recordings `near`; for `anew`: Unit."""
        stand_ins = []
        for name, recording in near.items():
            if name not in self._built:
                self._built[name] = self._plan(name, update).key()
            changed = tuple(tree.changed_files(self._folder, name, commit.name))
            executed = frozenset(insn.function for insn in recording.code)
            stand_ins.append(
                StandIn(name=name, built=self._built[name], changed=changed, executed=executed)
            )
        return Unit(
            spec=f"tree:{self._folder}@{commit.short}",
            arch=self._arch.name,
            measurement=self._options,
            program=self._program,
            source=tree.of_commit(self._folder, commit.name),
            request=self._request,
            stand_ins=tuple(stand_ins),
            anew=anew,
        )

    def is_same_kernel(self, commit: Commit, like: str) -> None:
        """Takes note that the commit's kernel is the one of the commit `like`."""
        if like in self._built:
            self._built[commit.name] = self._built[like]

    def compiled(self, commit: Commit, update: Update) -> tuple[str, ...] | None:
        """Returns which files that the commit changes its kernel is made of; None: not known."""
        made = made_of.read(cache_dir("built") / self._plan(commit.name, update).key())
        if made is None or not commit.parents:
            return None
        changed = tree.changed_files(self._folder, commit.parents[0], commit.name)
        return tuple(path for _, path in changed if path in made.files)

    def cost_anew(self, commits: Sequence[Commit], update: Update) -> str:
        """Returns what it costs to measure the commits anew, a clause."""
        plans = [self._plan(commit.name, update) for commit in commits]
        builds = sum(not proof_of(plan).exists() for plan in plans)
        whole = f"{amount(builds, 'whole build')}, from nothing, and " if builds else ""
        return f"{whole}{amount(len(plans), 'boot')}"

    def cost(self, commit: Commit, steps: int, update: Update) -> str:
        """Returns what a number of steps costs at most, known before any is made; a clause."""
        typical = build.typical_seconds(self._plan(commit.name, update))
        builds = f"at most {amount(steps, 'build')} and {amount(steps, 'boot')}"
        if not typical:
            return f"{builds}; how long one takes here is not known yet"
        seconds, count = typical
        whole = f"about {math.ceil(steps * seconds / 60)} min of building"
        return f"{builds}, {whole}: {seconds:.0f} s each, the median of {count} here"

    def made_with(self, commit: Commit, update: Update) -> list[str]:
        """Returns what a kernel and its recording are made with, besides the source."""
        plan = self._plan(commit.name, update)
        config = hashlib.sha256(plan.config.text().encode()).hexdigest()
        if self._program:
            emulator = self._program.emulator(self._arch, update)
        else:
            emulator = emulator_of(self._arch, self._options).version
        return [config, *plan.toolchain.identity, plan.pahole, emulator]

    def _plan(self, name: str, update: Update) -> build.Build:
        revision = tree.of_commit(self._folder, name)
        return build.plan(revision, self._arch, self._request, update)


class Meter:
    """Does as Kernels by a program of the user's: it gets a commit and the file to write."""

    def __init__(self, argv: Sequence[str], folder: Path) -> None:
        self._argv = list(argv)
        self._folder = folder

    def unit(
        self,
        commit: Commit,
        near: Mapping[str, Recording],
        update: Update,
        anew: Path | None = None,
    ) -> Commit:
        """See Kernels."""
        return commit

    def made_with(self, commit: Commit, update: Update) -> list[str]:
        """See Kernels."""
        return self._argv

    def cost(self, commit: Commit, steps: int, update: Update) -> str:
        """See Kernels."""
        return f"at most {amount(steps, 'run')} of {self._argv[0]}"

    def cost_anew(self, commits: Sequence[Commit], update: Update) -> str:
        """See Kernels."""
        return f"{amount(len(commits), 'run')} of {self._argv[0]}"

    def is_same_kernel(self, commit: Commit, like: str) -> None:
        """See Kernels."""

    def compiled(self, commit: Commit, update: Update) -> None:
        """See Kernels."""

    def function(self, commit: Commit, update: Update) -> Outcome:
        """Runs the program with the commit and the file; UserError where it fails."""
        program, file = self._argv[0], self._folder / f"{commit.name}.meter.json"
        file.unlink(missing_ok=True)
        began = time.monotonic()
        update(None, f"{program} measures {commit.short}")
        done = run([*self._argv, commit.name, str(file)], check=False)
        printed = done.stderr.strip()[-_LAST_CHARACTERS:]
        if done.returncode == EXIT_SKIP:
            error = GuestError(f"{program} cannot measure it", "", printed)
            return Outcome(status=studies.NO_BOOT, error=error)
        if done.returncode or not file.exists():
            status = f"ended with status {done.returncode}"
            raise UserError(
                f"{program} {status if done.returncode else 'wrote no recording'} for"
                f" {commit.short}.",
                f"It must write a recording to its last argument, or exit with {EXIT_SKIP}.",
                printed,
            )
        try:
            recording = read_recording(file)
        finally:
            file.unlink()
        seconds = round(time.monotonic() - began, 1)
        return Outcome(status=studies.MEASURED, recording=recording, seconds=seconds)


Measurer = Kernels | Meter


class Commits:
    """The commits of one run: their steps in the order they were made, and their recordings.

    `folder` keeps them; what failed to boot is tried again by the next run.  A value is that of
    the first commit and the difference from it, in its context; a step's is of the first case.
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
        self.steps: dict[str, studies.Step] = {}
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
        # By commit that was booted: the SHA-256 of its recording's file.
        self._hashes: dict[str, str] = read_json(folder / _STEPS).get("sha256", {})
        for step in steps_in(folder):
            if step.status == studies.NO_BOOT:
                continue
            if step.status != studies.NO_BUILD:
                try:
                    own = step.like or step.commit
                    if sha256_of(self._file(own)) != self._hashes.get(own):
                        continue
                    self._recordings[step.commit] = read_recording(self._file(own))
                except (OSError, RecordingError):
                    continue
            self.steps[step.commit] = step

    def measure(
        self, commits: Sequence[Commit], near: Sequence[Commit] = (), boot: bool = False
    ) -> list[Recording | None]:
        """Each commit's recording or None; unless `boot`, one of `near`, the likeliest first."""
        known = {
            commit.name: self._recordings[commit.name]
            for commit in near
            if not boot and commit.name in self._recordings
        }
        to_boot = (studies.SAME_CODE, studies.NOT_COMPILED) if boot else ()
        done = {name for name, step in self.steps.items() if step.status not in to_boot}
        missing = [commit for commit in commits if commit.name not in done]
        units = [self.measurer.unit(commit, known, self._show) for commit in missing]
        function = self.measurer.function
        threads = ThreadPoolExecutor(self.at_once) if self.at_once > 1 else None
        with threads or nullcontext():
            for index, outcome in outcomes(function, units, self._show, threads):
                self._add(missing[index], outcome)
        return [self._recordings.get(commit.name) for commit in commits]

    def measure_anew(self, commit: Commit, own: Path) -> Recording:
        """Returns a second recording, once a run; KernelError where the commit has none now."""
        if commit.name not in self._anew:
            unit = self.measurer.unit(commit, {}, self.update, own)
            [(_, outcome)] = outcomes(self.measurer.function, [unit], self.update)
            if outcome.error:
                raise KernelError(
                    f"{commit.short} was measured, but not a second time: {outcome.error.sentence}",
                    "Try again with --continue.",
                    outcome.error.detail,
                )
            assert outcome.recording
            self._anew[commit.name] = outcome.recording
        return self._anew[commit.name]

    def recording(self, commit: Commit) -> Recording:
        """That of a commit that was measured."""
        return self._recordings[commit.name]

    def has(self, commit: Commit, case: str) -> bool:
        """Returns whether the commit has a recording with the case."""
        recording = self._recordings.get(commit.name)
        return recording is not None and recording.case(case) is not None

    def value(self, commit: Commit, case: str) -> Real | None:
        """Returns the value of a case of a commit, None where it was not measured."""
        return self._from_first(commit.name, case) if self.has(commit, case) else None

    def sums(self, case: str) -> list[Caveat]:
        """Says which counts of a case no context of their commit has."""
        if self.metric != INSTRUCTIONS:
            return []
        own = {n: result for n, made in self._recordings.items() if (result := made.case(case))}
        return sums(
            case, ((made.values, self._from_first(name, case)) for name, made in own.items())
        )

    def keep_provisional(self, rows: Sequence[studies.Provisional]) -> None:
        """Writes down what the search has named before it is verified; nothing: all is."""
        write_json(self._folder / _PROVISIONAL, {"provisional": msgspec.to_builtins(rows)})

    def _show(self, fraction: float | None, now: str) -> None:
        # Python brings no Ctrl-C to threads.
        interrupt.check()
        step = self.made + 1
        self.update(fraction, f"step {step} of about {max(step, self.expected)}: {now}")

    def _from_first(self, name: str, case: str) -> Real:
        if case == self.cases[0] and (known := self.steps[name].value) is not None:
            return known
        first = next(name for name, recording in self._recordings.items() if recording.case(case))
        before = value(self._recordings[first], case, self.metric)
        return before + self.apart(first, name, case).delta

    def apart(self, old: str, new: str, case: str) -> Difference:
        """How far two measured commits are apart, by name; two recordings are compared once."""
        # The commits whose recordings these are.
        names = (self.steps[old].like or old, self.steps[new].like or new)
        if names not in self._pairs:
            sides = self._recordings[old], self._recordings[new]
            cases = [name for name in self.cases if all(side.case(name) for side in sides)]
            self._pairs[names] = Pair(*sides, cases, self.metric)
        return self._pairs[names].difference(case)

    def _add(self, commit: Commit, outcome: Outcome) -> None:
        """Writes down what became of a commit."""
        like = outcome.like
        if outcome.status == studies.NOT_COMPILED:
            self.measurer.is_same_kernel(commit, like)
        recording = self._recordings[like] if like else outcome.recording
        problem = outcome.problem or studies.Problem("", "")
        # At the end, even if it was there: it was made now.
        self.steps.pop(commit.name, None)
        self.steps[commit.name] = step = studies.Step(
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
            if recording.case(self.cases[0]):
                own = self._from_first(commit.name, self.cases[0])
                self.steps[commit.name] = step = msgspec.structs.replace(step, value=own)
        if step.status == studies.MEASURED:
            write_recording(self._recordings[step.commit], self._file(step.commit))
            self._hashes[step.commit] = sha256_of(self._file(step.commit))
        steps = msgspec.to_builtins([*self.steps.values()])
        write_json(self._folder / _STEPS, {"steps": steps, "sha256": self._hashes})
        self.made += 1
        say(f"step {self.made} of about {max(self.made, self.expected)}: {step_line(step)}")

    def _file(self, name: str) -> Path:
        return self._folder / f"{name}.json"


def step_line(step: studies.Step) -> str:
    """A step in one line: the commit, its value or why it has none, and how that is known."""
    how = {studies.SAME_CODE: "not booted: ", studies.NOT_COMPILED: "not built: "}.get(
        step.status, ""
    )
    how += f"as {step.like[:12]}" if step.like else step.problem
    value_text = "-" if step.value is None else f"{step.value:g}"
    return f"{step.commit[:12]} {value_text:>8} {step.subject[:40]}{how and f' ({how})'}"


def steps_in(folder: Path) -> list[studies.Step]:
    """Returns the steps that a run wrote down; none, and says so, where they are damaged."""
    file = folder / _STEPS
    with contextlib.suppress(KeyError, msgspec.ValidationError):
        return msgspec.convert(read_json(file)["steps"], list[studies.Step])
    if file.exists():
        say(f"{file} is damaged: its commits are measured again")
    return []


def provisional_in(folder: Path) -> list[studies.Provisional]:
    """Returns what a search named and did not verify yet."""
    with contextlib.suppress(KeyError, msgspec.ValidationError):
        kept = read_json(folder / _PROVISIONAL)["provisional"]
        return msgspec.convert(kept, list[studies.Provisional])
    return []


class State:
    """A bisection's folder, by the tree's."""

    def __init__(self, tree: Path) -> None:
        place = os.path.realpath(os.path.expanduser(tree))
        name = hashlib.sha256(place.encode()).hexdigest()[:16]
        self.folder = cache_dir("bisections", name)
        self._tree = tree

    @contextmanager
    def locked(self, update: Update) -> Iterator[None]:
        """Keeps other bisections of the tree out; says at Ctrl-C how to go on."""
        with held(self.folder / "lock", update, "another bisection of the tree"):
            try:
                yield
            except KeyboardInterrupt:
                tree = "" if self._tree == Path(".") else f" --tree {self._tree}"
                say(f"what was measured is kept; to go on: kentry bisect --continue{tree}")
                raise

    def asked(self, names: Sequence[str]) -> dict[str, Any]:
        """What was asked, by these names; UserError where there is no bisection of the tree."""
        kept = self._kept()
        if set(kept) != set(names):
            raise self.absent()
        return {name: tuple(own) if isinstance(own, list) else own for name, own in kept.items()}

    @property
    def by_meter(self) -> bool:
        """Whether a program of the user's measures."""
        return bool(self._kept().get("meter"))

    @property
    def no_verify(self) -> bool:
        """Whether the commits that it names are not to be verified."""
        return bool(read_json(self.folder / _ASKED).get("no_verify"))

    def _kept(self) -> dict[str, Any]:
        kept: dict[str, Any] = read_json(self.folder / _ASKED).get("asked", {})
        return kept

    def absent(self) -> UserError:
        """Returns the error that there is none."""
        return UserError(
            f"The tree '{self._tree}' has no bisection.", "Begin one: --good COMMIT --bad COMMIT."
        )

    def begin(
        self,
        asked: Mapping[str, Any],
        made_with: Sequence[str],
        *,
        resume: bool,
        keep: bool,
        no_verify: bool,
    ) -> None:
        """Writes down what is asked; `keep` keeps what is known; UserError if `resume` differs."""
        # As JSON has it: tuples are lists.
        new = json.loads(
            json.dumps({"asked": asked, "made_with": [cache.code_digest(), *made_with]})
        )
        before = read_json(self.folder / _ASKED)
        # It may change, as it shapes no step.
        is_same = before | {"no_verify": no_verify} == (new := new | {"no_verify": no_verify})
        if resume and not is_same:
            raise UserError(
                "The config, the compiler, the emulator or kentry has changed since it began.",
                "Begin anew, without --continue.",
            )
        if not (resume or (keep and is_same)):
            for file in self.folder.glob("*.json*"):
                file.unlink()
        write_json(self.folder / _ASKED, new)
