# SPDX-License-Identifier: GPL-2.0-or-later
"""kentry log: the history of a count over commits, packages or any kernels, and its changes."""

import hashlib
import itertools
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from kentry.arch import Arch
from kentry.commands import measuring, output, values
from kentry.commands.options import Need, operand, option, path_option
from kentry.count import cache
from kentry.errors import EXIT_DONE, BuildError, GuestError, KernelError
from kentry.host.cache import cache_dir, held
from kentry.kernels import debian, history
from kentry.kernels.history import Range
from kentry.kernels.spec import parse
from kentry.progress import Update, progress, say
from kentry.results import caveats
from kentry.results.caveats import Caveat
from kentry.results.comparison import Real
from kentry.results.document import dump
from kentry.results.log import ChangePoint, Log, Point
from kentry.results.recording import INSTRUCTIONS, Recording
from kentry.show.log import log_text
from kentry.study.bisection import MisledError, Question, Search
from kentry.study.commits import Commits, Kernels
from kentry.study.distance import difference, value

EXAMPLES = (
    "kentry log v6.11..v6.12 --arch riscv64",
    "kentry log debian:6.1.* --case read --arch arm64 --picture read.svg",
    "kentry log debian:6.1 source:6.12 tree:~/linux --json",
)
RETIRED = {name: measuring.RETIRED[name] for name in ("--set", "--functions")}

# Characters of a title.
_MOST_NAMED = 60
_RANGE = re.compile(r"([^:]+?)\.\.([^:./][^:]*)?")
_EVERY_VERSION = re.compile(r"(debian:[^,]*)\.\*(,.*)?")
_COMMITS = Need(lambda options: options.range(), "without a range of commits, A..B")


@dataclass(frozen=True, kw_only=True)
class Options(measuring.TreeOptions, measuring.CachedOptions):
    """What `kentry log` takes."""

    kernels: tuple[str, ...] = operand(
        nargs="+",
        metavar="KERNELS",
        help="commits, A..B; or kernels in order, debian:6.1.* being all versions that Debian has",
    )
    every: int | None = option(
        "--every",
        type=values.whole(1, values.MAX_COUNT),
        metavar="N",
        needs=(_COMMITS,),
        help="measure every Nth commit too; without it only the two ends, and what lies between"
        " where these differ",
    )
    picture: Path | None = path_option("--picture", **measuring.PICTURE)

    def range(self) -> tuple[str, str] | None:
        """The two commits of A..B, where that is what was named."""
        found = _RANGE.fullmatch(self.kernels[0]) if len(self.kernels) == 1 else None
        return (found[1], found[2] or "HEAD") if found else None

    def has_commits(self) -> bool:
        """Whether a range was named."""
        return self.range() is not None

    def inputs(self) -> list[str]:
        """The kernels' specs, or that of the tree."""
        return [f"tree:{self.tree}"] if self.range() else list(self.kernels)


def run(options: Options) -> int:
    """Measures, looks for changes, prints."""
    if options.picture:
        measuring.check_writable(options.picture)
    arch = options.find_arch()
    [case] = options.measurement(arch).cases
    ends = options.range()
    log = _of_commits(options, ends, arch, case) if ends else _of_specs(options, arch, case)
    if options.picture:
        from kentry.show.picture import history_picture

        history_picture(options.picture, log)
    if options.json:
        sys.stdout.write(dump(msgspec.to_builtins(log)))
    else:
        # What is not for a terminal can be mailed: it is ASCII.
        blocks = sys.stdout.isatty() and sys.stdout.encoding.lower().startswith("utf")
        output.show(options, log_text, log, options.rows_shown, blocks=blocks)
    return EXIT_DONE


def _of_commits(options: Options, ends: tuple[str, str], arch: Arch, case: str) -> Log:
    from filelock import FileLock

    folder = options.tree.expanduser().resolve()
    span = history.find_range(folder, *ends)
    kernels = Kernels(folder, arch, options.request(), options.measurement(arch))
    with progress(f"{options.kernels[0]} ({arch.name})") as update:
        made_with = kernels.made_with(span.bad, update)
        # The kernels and recordings are in the cache; this folder says how they hang together.
        key = " ".join([str(folder), arch.name, case, cache.own_digest(), *made_with])
        state = cache_dir("logs", hashlib.sha256(key.encode()).hexdigest()[:16])
        lock = FileLock(state / "lock")
        with held(lock, update, "another kentry log of the tree"):
            if options.fresh:
                for file in state.glob("*.json*"):
                    file.unlink()
            return _of_range(options, span, kernels, state, case, update)


def _of_range(
    options: Options, span: Range, kernels: Kernels, state: Path, case: str, update: Update
) -> Log:
    commits = Commits(state, kernels, case, INSTRUCTIONS, options.jobs)
    question = Question(
        case=case,
        metric=INSTRUCTIONS,
        everything=True,
        first_parent=options.first_parent,
        at_once=options.jobs,
    )
    try:
        return _searched(options, span, question, commits, update)
    except MisledError:
        return _searched(options, span, replace(question, boot=True), commits, update)


def _searched(
    options: Options, span: Range, question: Question, commits: Commits, update: Update
) -> Log:
    """The log of a range; MisledError where a commit is not the kernel that it seemed to be."""
    search = Search(span, (), question, commits, update)
    line = search.line
    search.ends(line[0], line[-1])
    say(f"commits to search: {len(line) - 1}")
    every = list(range(0, len(line), options.every)) if options.every else []
    for start in range(0, len(every), options.jobs):
        search.measure(line, every[start : start + options.jobs])
    stops = sorted({0, len(line) - 1, *(at for at in every if commits.has(line[at]))})
    places = {one.name: at for at, one in enumerate(line)}
    changes = []
    for low, high in itertools.pairwise(stops):
        for found in search.steps(line[low : high + 1], set()):
            change = search.booted(found)
            place = places.get(found.culprit.name, places[line[high].name])
            old = commits.steps[found.before.name].value
            new = commits.steps[found.culprit.name].value
            assert old is not None and new is not None
            changes.append(
                ChangePoint(
                    place=place,
                    before=found.before.name,
                    names=tuple(one.name for one in found.suspects),
                    title=found.culprit.subject,
                    old=old,
                    new=new,
                    delta=change.delta,
                    functions=tuple(row for row in change.functions if row.delta),
                )
            )
    points = []
    for place, one in enumerate(line):
        if step := commits.steps.get(one.name):
            points.append(
                Point(
                    place=place,
                    name=one.name,
                    title=one.subject,
                    date=one.date,
                    value=step.value,
                    problem=step.problem,
                )
            )
    notes = [] if options.every == 1 else [caveats.between_equal_ends()]
    if span.start != span.good:
        notes.append(caveats.good_is_aside(span.good.short, span.bad.short, span.start.short))
    first = commits.recording(line[0])
    return _log(options, first, len(line), points, changes, notes, question.case)


def _of_specs(options: Options, arch: Arch, case: str) -> Log:
    with progress("looking for the kernels") as update:
        specs = [one for text in options.kernels for one in _expanded(text, arch, update)]
    points: list[Point] = []
    changes: list[ChangePoint] = []
    notes = []
    last: Recording | None = None
    # Since the last that has a value, and that one first.
    names: list[str] = []
    base: Real = 0
    for place, spec in enumerate(specs):
        names.append(spec)
        try:
            recording = measuring.obtain(spec, options, fresh=options.fresh)
        except (BuildError, GuestError, KernelError) as err:
            points.append(Point(place=place, name=spec, problem=err.sentence))
            say(f"{spec}: {err.sentence}")
            continue
        title = f"Linux {recording.kernel['release']}"
        found = value(recording, case, INSTRUCTIONS)
        if last:
            apart = difference(last, recording, case, INSTRUCTIONS)
            found = base + apart.delta
            if apart.low is None:
                notes.append(caveats.undecided_between(names[0], spec))
            if apart.is_sure:
                changes.append(
                    ChangePoint(
                        place=place,
                        before=names[0],
                        names=tuple(names[1:]),
                        title=title,
                        old=base,
                        new=found,
                        delta=apart.delta,
                        functions=tuple(row for row in apart.functions if row.delta),
                    )
                )
        points.append(Point(place=place, name=spec, title=title, value=found))
        last, base, names = recording, found, [spec]
    if last is None:
        raise KernelError("No kernel of the list could be measured.", "Look at the reasons above.")
    return _log(options, last, len(specs), points, changes, notes, case)


def _expanded(text: str, arch: Arch, update: Update) -> list[str]:
    if found := _EVERY_VERSION.fullmatch(text):
        return debian.every_version(parse(f"{found[1]}{found[2] or ''}"), arch, update)
    return [text]


def _log(
    options: Options,
    recording: Recording,
    kernels: int,
    points: Sequence[Point],
    changes: Sequence[ChangePoint],
    notes: Sequence[Caveat],
    case: str,
) -> Log:
    what = " ".join(options.kernels)
    return Log(
        tool=recording.tool,
        origin={
            # Many names would hide the numbers.
            "what": what if len(what) <= _MOST_NAMED else f"{kernels} kernels",
            "config": options.request().config,
        },
        arch=recording.kernel["arch"],
        case=case,
        metric=INSTRUCTIONS,
        unit=INSTRUCTIONS,
        kernels=kernels,
        points=tuple(points),
        changes=tuple(changes),
        caveats=(caveats.not_time(), *notes),
    )
