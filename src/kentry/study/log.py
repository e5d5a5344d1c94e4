# SPDX-License-Identifier: GPL-2.0-or-later
"""The history of counts over commits, packages or any kernels in order, and its changes."""

import hashlib
import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from kentry.count import cache
from kentry.errors import KernelError
from kentry.host.cache import cache_dir, held
from kentry.kernels.tree import Range
from kentry.progress import Update, say
from kentry.results import caveats
from kentry.results.caveats import Caveat, some
from kentry.results.comparison import Real
from kentry.results.recording import INSTRUCTIONS, Measured, Recording
from kentry.results.studies import CaseLog, ChangePoint, Log, Point
from kentry.study.bisection import MisledError, Question, Search, measure_ends
from kentry.study.commits import Commits, Difference, Measurer, Pair, sums, value
from kentry.study.plan import Unit, outcomes, perform


def log_tree(
    span: Range,
    question: Question,
    measurer: Measurer,
    origin: Mapping[str, str],
    update: Update,
    *,
    every: int | None,
    at_once: int,
    fresh: bool,
) -> Log:
    """Returns the history of a range: its ends, each `every`th commit, and where those differ."""
    # The kernels and recordings are in the cache; this folder says how they hang together.
    made_with = measurer.made_with(span.bad, update)
    key = " ".join([str(span.folder), *question.cases, cache.code_digest(), *made_with])
    folder = cache_dir("logs", hashlib.sha256(key.encode()).hexdigest()[:16])
    with held(folder / "lock", update, "another kentry log of the tree"):
        if fresh:
            for file in folder.glob("*.json*"):
                file.unlink()
        commits = Commits(folder, measurer, question.cases, question.metric, update, at_once)
        try:
            changes = _changes_of_commits(span, question, commits, every)
        except MisledError:
            question = replace(question, boot=True)
            changes = _changes_of_commits(span, question, commits, every)
    line = span.line()
    tried = {index: commit for index, commit in enumerate(line) if commit.name in commits.steps}
    points = [
        Point(
            place=index,
            name=commit.name,
            title=commit.subject,
            date=commit.date,
            value=commits.steps[commit.name].value,
            problem=commits.steps[commit.name].problem,
        )
        for index, commit in tried.items()
    ]
    values = {
        case: tuple(commits.value(c, case) for c in tried.values()) for case in question.cases
    }
    notes = [note for case in question.cases for note in commits.sums(case)]
    notes += [] if every == 1 else [caveats.between_equal_ends()]
    if span.start != span.good:
        notes.append(caveats.good_is_aside(span.good.short, span.bad.short, span.start.short))
    ends = [commits.recording(commit) for commit in dict.fromkeys([line[0], line[-1]])]
    tool, arch = ends[0].tool, ends[0].kernel["arch"]
    return log_of(tool, arch, len(line), points, values, changes, notes, origin, ends)


def _changes_of_commits(
    span: Range, question: Question, commits: Commits, every: int | None
) -> dict[str, list[ChangePoint]]:
    """The changes of each case; MisledError where a commit is not the kernel that it seemed."""
    line = span.line()
    measure_ends(commits, line[0], line[-1])
    say(f"commits to search: {len(line) - 1}")
    searches = [Search(span, question, commits, case) for case in question.cases]
    indexes = list(range(0, len(line), every)) if every else []
    for start in range(0, len(indexes), commits.at_once):
        searches[0].measure(line, indexes[start : start + commits.at_once])
    changes: dict[str, list[ChangePoint]] = {}
    numbers = {commit.name: index for index, commit in enumerate(line)}
    for search in searches:
        stops = {0, len(line) - 1, *(at for at in indexes if commits.has(line[at], search.case))}
        changes[search.case] = found_changes = []
        for low, high in itertools.pairwise(sorted(stops)):
            for jump in search.jumps(line[low : high + 1], set()):
                change = search.booted(jump)
                found_changes.append(
                    ChangePoint(
                        place=numbers.get(jump.culprit.name, high),
                        before=jump.before.name,
                        names=tuple(commit.name for commit in jump.suspects),
                        title=jump.culprit.subject,
                        old=search.value(jump.before),
                        new=search.value(jump.culprit),
                        delta=change.delta,
                        functions=change.changed,
                    )
                )
    return changes


class Neighbours(NamedTuple):
    """Two kernels by their place, between which none has a value, and how they differ."""

    old: int
    new: int
    difference: Difference


def followed(
    values: dict[int, Real],
    steps: Iterable[Neighbours],
    names: Sequence[str],
    titles: Mapping[int, str],
) -> tuple[list[ChangePoint], list[Caveat]]:
    """Adds each step's value to `values`, which has the first; the changes, and what none knows."""
    # A value is the first one and all differences, each in the context that both sides have.
    changes: list[ChangePoint] = []
    notes: list[Caveat] = []
    for last, index, apart in steps:
        values[index] = values[last] + apart.delta
        if apart.low is None:
            notes.append(caveats.undecided_between(names[last], names[index]))
        if apart.is_sure:
            changes.append(
                ChangePoint(
                    place=index,
                    before=names[last],
                    names=tuple(names[last + 1 : index + 1]),
                    title=titles[index],
                    old=values[last],
                    new=values[index],
                    delta=apart.delta,
                    functions=apart.changed,
                )
            )
    return changes, notes


def differences_noted(differing: Iterable[tuple[str, Iterable[str]]]) -> list[Caveat]:
    """Says at which kernels what differs from the one before; `differing` has both by kernel."""
    places: dict[str, list[str]] = {}
    for name, own in differing:
        for what in own:
            places.setdefault(what, []).append(name)
    return [caveats.differs_from_before(what, some(names)) for what, names in places.items()]


def log_kernels(units: Sequence[Unit], origin: Mapping[str, str]) -> Log:
    """The history of kernels in order, or of recordings; KernelError where none has a value."""
    cases = units[0].measurement.cases
    recordings: dict[int, Recording] = {}
    problems: dict[int, str] = {}
    for index, outcome in outcomes(perform, units):
        if outcome.recording:
            recordings[index] = outcome.recording
        elif outcome.error:
            problems[index] = outcome.error.sentence
            say(f"{units[index].spec}: {problems[index]}")
    if not recordings:
        raise KernelError("No kernel of the list could be measured.", "Look at the reasons above.")
    measured = sorted(recordings)
    titles = {index: f"Linux {kernel.kernel['release']}" for index, kernel in recordings.items()}
    names = [unit.spec for unit in units]
    steps: dict[str, list[Neighbours]] = {case: [] for case in cases}
    differing: list[tuple[str, list[str]]] = []
    for last, index in itertools.pairwise(measured):
        pair = Pair(recordings[last], recordings[index], cases)
        for case in cases:
            steps[case].append(Neighbours(last, index, pair.difference(case)))
        differing.append((names[index], pair.differing()))
    values: dict[str, dict[int, Real]] = {}
    changes: dict[str, list[ChangePoint]] = {}
    notes: list[Caveat] = []
    for case in cases:
        values[case] = {measured[0]: value(recordings[measured[0]], case, INSTRUCTIONS)}
        changes[case], undecided = followed(values[case], steps[case], names, titles)
        notes += undecided
    for case, own in values.items():
        beside = ((recordings[index].case(case), count) for index, count in own.items())
        notes += sums(case, ((result.values, count) for result, count in beside if result))
    notes += differences_noted(differing)
    points = [
        Point(
            place=index,
            name=unit.spec,
            title=titles.get(index, ""),
            value=values[cases[0]].get(index),
            problem=problems.get(index, ""),
        )
        for index, unit in enumerate(units)
    ]
    rows = {case: tuple(map(values[case].get, range(len(units)))) for case in cases}
    ends = [recordings[index] for index in dict.fromkeys([measured[0], measured[-1]])]
    tool, arch = ends[-1].tool, ends[-1].kernel["arch"]
    of_all = {**origin, **dict(_shared(recordings.values()))}
    return log_of(tool, arch, len(units), points, rows, changes, notes, of_all, ends)


def _shared(recordings: Collection[Recording]) -> Iterator[tuple[str, str]]:
    """Yields the processor, if all were measured on one, and the config, if all built have one."""
    cpus = {str(recording.target.get("processor", "")) for recording in recordings}
    configs = {str(recording.kernel["origin"].get("config", "")) for recording in recordings}
    for name, values in (("cpu", cpus), ("config", configs - {""})):
        if len(values) == 1 and values != {""}:
            yield name, values.pop()


def log_of(
    tool: Mapping[str, str],
    arch: str,
    kernels: int,
    points: Sequence[Point],
    values: Mapping[str, tuple[Real | None, ...]],
    changes: Mapping[str, Sequence[ChangePoint]],
    notes: Sequence[Caveat],
    origin: Mapping[str, str],
    measured: Sequence[Recording] = (),
) -> Log:
    """The log of the first case of `values`, beside the others."""
    first, *others = values
    return Log(
        tool=dict(tool),
        origin=dict(origin),
        arch=arch,
        case=first,
        metric=INSTRUCTIONS,
        unit=INSTRUCTIONS,
        kernels=kernels,
        points=tuple(points),
        changes=tuple(changes[first]),
        caveats=(caveats.not_time(), *notes),
        others=tuple(
            CaseLog(case=case, unit=INSTRUCTIONS, values=values[case], changes=tuple(changes[case]))
            for case in others
        ),
        measured=tuple(map(Measured.of, measured)),
    )
