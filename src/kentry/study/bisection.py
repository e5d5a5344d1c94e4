# SPDX-License-Identifier: GPL-2.0-or-later
"""The commits between two that changed a value: searched along the main line, then measured again.

git bisect asks one question, good or bad, and gives one answer.  Counts say more: a commit that
is halfway, a second commit, one that took away what another added.  So the search is kentry's own,
on the line that git rev-list --first-parent prints, and goes into a merge where its branch has the
change.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from msgspec import structs

from kentry.arch import Arch, find_arch
from kentry.errors import KernelError, UserError
from kentry.host.cache import scratch_folder
from kentry.kernels import history
from kentry.kernels.history import Commit, Range, touching
from kentry.progress import Update, say
from kentry.results import caveats
from kentry.results.bisection import Bisection, CommitValue, Culprit, Suspects
from kentry.results.caveats import Caveat
from kentry.results.comparison import Real
from kentry.results.recording import Recording
from kentry.study.commits import Commits, Measurer
from kentry.study.distance import Difference, value
from kentry.study.steps import all_steps, first_step


@dataclass(frozen=True)
class Found:
    """A step of the value: the commit before it, and the commit itself or all that may be it.

    `suspects` are in the tree's order; those before the last could not be measured.
    """

    before: Commit
    suspects: tuple[Commit, ...]

    @property
    def culprit(self) -> Commit:
        """The last suspect: the only one, where it is known which."""
        return self.suspects[-1]

    @property
    def is_one(self) -> bool:
        """Whether it is known which commit it is."""
        return len(self.suspects) == 1


@dataclass(frozen=True, kw_only=True)
class Question:
    """What to look for: `least` is the smallest change that counts, in the metric's unit.

    With `everything` all steps of at least that, else one that crosses the middle between the
    ends.  With `first_parent` a merge is blamed as one commit.  `boot`: every commit, also those
    that seem to be another's kernel.
    """

    case: str
    metric: str
    everything: bool = False
    least: Real = 0
    first_parent: bool = False
    at_once: int = 1
    boot: bool = False


class MisledError(Exception):
    """A commit that was taken for another's kernel is not that: all have to be booted."""


class Search:
    """The search for steps between the commits of a range."""

    def __init__(
        self,
        span: Range,
        paths: Sequence[str],
        question: Question,
        commits: Commits,
        update: Update,
    ) -> None:
        self.line = span.line()
        self.span = span
        self._paths = paths
        self._ask = question
        self._commits = commits
        self._update = update

    def ends(self, *commits: Commit) -> list[Recording]:
        """The recordings of commits that must have one; KernelError says why one has not."""
        recordings = []
        for commit in commits:
            [recording] = self._commits.measure([commit], (), self._update, boot=True)
            if recording is None:
                step = self._commits.steps[commit.name]
                raise KernelError(
                    f"{commit.short} ({commit.subject}) has no value: {step.problem}",
                    "Name another commit near it that builds and boots.",
                    step.detail,
                )
            recordings.append(recording)
        return recordings

    def measure(self, line: Sequence[Commit], places: Sequence[int]) -> list[bool]:
        """Measures commits beside those nearest in the line; whether each has a value."""
        known = [at for at, one in enumerate(line) if self._commits.has(one)]
        near = sorted(known, key=lambda at: min(abs(at - place) for place in places))
        recordings = self._commits.measure(
            [line[place] for place in places],
            [line[at] for at in near[: 2 * len(places)]],
            self._update,
            boot=self._ask.boot,
        )
        return [one is not None for one in recordings]

    def find(self) -> list[Found]:
        """The steps from the range's start to bad, both of which were measured and differ."""
        if self._ask.everything:
            return self.steps(self.line, set(), self._paths)
        line = [self.line[place] for place in touching(self.span.folder, self.line, self._paths)]
        span = first_step(
            len(line) - 1,
            lambda places: self.measure(line, places),
            self._like_last(line),
            self._ask.at_once,
        )
        found = self._resolved(line[span.low], line[span.high], self.line, set(), self._paths)
        # Of a branch, the commit that did most.
        return sorted(found, key=lambda one: -abs(self.delta(one)))[:1]

    def steps(
        self, whole: Sequence[Commit], known: set[str], paths: Sequence[str] = ()
    ) -> list[Found]:
        """Every step of a line whose ends were measured, but for what commits of `known` did."""
        line = [whole[place] for place in touching(self.span.folder, whole, paths)]
        spans = all_steps(
            len(line) - 1,
            lambda places: self.measure(line, places),
            lambda old, new: self.differ(line[old], line[new], self._ask.least),
            self._ask.at_once,
        )
        return [
            one
            for low, high in spans
            for one in self._resolved(line[low], line[high], whole, known, paths)
        ]

    def delta(self, found: Found) -> Real:
        """How far a step's ends are apart."""
        return self._commits.apart(found.before, found.culprit).delta

    def value(self, commit: Commit) -> Real:
        """That of a measured commit, in the context of the first measured."""
        found = self._commits.steps[commit.name].value
        assert found is not None
        return found

    def again(self, found: Found, measurer: Measurer, own: Path) -> tuple[Difference, Real]:
        """How far a step's two commits are apart, measured anew, and the value of the first.

        KernelError where one has no value now.
        """
        sides = []
        for commit in (found.before, found.culprit):
            step, recording = measurer.measure_anew(commit, own, self._update)
            if recording is None:
                raise KernelError(
                    f"{commit.short} was measured, but not a second time: {step.problem}",
                    "Try again with --continue.",
                    step.detail,
                )
            sides.append(recording)
        first = value(sides[0], self._ask.case, self._ask.metric)
        return self._commits.difference(*sides), first

    def agrees(self, found: Found, again: Difference) -> bool:
        """Whether a step is the same when it is measured again: to the unit where it is exact."""
        if again.low == again.high and again.is_sure:
            return again.delta == self.delta(found)
        return again.is_sure and (again.delta > 0) == (self.delta(found) > 0)

    def check_misled(self) -> None:
        """MisledError where commits were taken for others' kernels, which may have been wrong."""
        if self._commits.has_stand_ins and not self._ask.boot:
            raise MisledError

    def booted(self, found: Found) -> Difference:
        """How far a step's two ends are apart, booted both; MisledError where that is new."""
        before = self._commits.apart(found.before, found.culprit)
        self.ends(found.before, found.culprit)
        after = self._commits.apart(found.before, found.culprit)
        if before.delta != after.delta:
            self.check_misled()
        return after

    def differ(self, old: Commit, new: Commit, least: Real = 0) -> bool:
        """Whether two measured commits surely differ, and by at least so much."""
        found = self._commits.apart(old, new)
        return found.is_sure and abs(found.delta) >= least

    def _like_last(self, line: Sequence[Commit]) -> Callable[[int], bool | None]:
        """Whether a place is past the middle of the change; None where noise hides it."""
        whole = self._commits.apart(line[0], line[-1]).delta
        sign = 1 if whole > 0 else -1

        def like_last(place: int) -> bool | None:
            found = self._commits.apart(line[0], line[place])
            if found.low is None or found.high is None:
                return None
            low, high = sorted((sign * found.low, sign * found.high))
            if 2 * low > abs(whole):
                return True
            return False if 2 * high <= abs(whole) else None

        return like_last

    def _resolved(
        self,
        before: Commit,
        commit: Commit,
        line: Sequence[Commit],
        known: set[str],
        paths: Sequence[str],
    ) -> list[Found]:
        """The commits of a step of `line`: those of a branch where a merge brought it in."""
        between = line[line.index(before) + 1 : line.index(commit) + 1]
        if len(between) > 1 and paths:
            # Others that do not touch the paths may lie between; they may have no value either.
            parent = between[-2]
            self._commits.measure([parent], [before, commit], self._update, boot=self._ask.boot)
            if self._commits.has(parent):
                if not self.differ(parent, commit):
                    raise UserError(
                        f"A commit that does not touch {' '.join(paths)} made the change, between"
                        f" {before.short} and {parent.short}.",
                        "Leave the paths out.",
                    )
                if not self.differ(before, parent):
                    before, between = parent, between[-1:]
        if len(between) > 1 or not commit.is_merge or self._ask.first_parent:
            return [Found(before, tuple(between))]
        inside = known | self.span.reachable(before.name)
        branches = self.span.branches(commit, before, inside)
        if known and not branches:
            # What a topic merged from where it goes to is not its own.
            return []
        return self._of_branches(branches, before, commit, inside) or [Found(before, (commit,))]

    def _of_branches(
        self, branches: list[list[Commit]], before: Commit, merge: Commit, known: set[str]
    ) -> list[Found]:
        """The steps of what a merge brought in, where they add up to the merge's; else none."""
        found: list[Found] = []
        for branch in branches:
            if not all(self.measure(branch, [0, len(branch) - 1])):
                return []
            found += self.steps(branch, known)
        apart = self._commits.apart(before, merge)
        total = sum(self.delta(one) for one in found)
        if apart.low is None or apart.high is None or not apart.low <= total <= apart.high:
            return []
        return found


@dataclass(frozen=True)
class Blamed:
    """A commit that changed the value, as it was measured again beside the commit before it.

    `before` is that one's value, `change` how far the commit's is from it.
    """

    found: Found
    before: Real
    change: Difference
    compiled: list[str] | None
    doubts: list[Caveat]


@dataclass(frozen=True)
class Findings:
    """What a search came to.

    `old` and `new` are the recordings of good and bad, `whole` is how far these are apart; where
    that cannot be told, nothing was searched.  `suspects` are steps of which one commit of several
    is the culprit, or whose commit had another value when it was measured again, as `notes` say.
    """

    old: Recording
    new: Recording
    whole: Difference
    blamed: list[Blamed] = field(default_factory=list)
    suspects: list[Found] = field(default_factory=list)
    notes: list[Caveat] = field(default_factory=list)


def to_file(
    found: Findings, span: Range, question: Question, commits: Commits, origin: Mapping[str, str]
) -> Bisection:
    """The bisection as kentry/bisection/1; `origin` has the tree and what shapes its kernels."""
    unit = question.metric
    if noisy := found.old.case(question.case):
        unit = noisy.noisy[unit].unit if unit in noisy.noisy else unit

    def shown(commit: Commit) -> CommitValue:
        step = commits.steps.get(commit.name)
        return CommitValue(
            commit=commit.name,
            subject=commit.subject,
            author=commit.author,
            date=commit.date,
            value=step.value if step else None,
        )

    culprits = []
    for one in found.blamed:
        parent, commit = shown(one.found.before), shown(one.found.culprit)
        functions = tuple(row for row in one.change.functions if row.delta)
        culprits.append(
            Culprit(
                commit=commit.commit,
                subject=commit.subject,
                author=commit.author,
                date=commit.date,
                value=one.before + one.change.delta,
                parent=structs.replace(parent, value=one.before),
                delta=one.change.delta,
                share=100 * one.change.delta / found.whole.delta if found.whole.delta else None,
                functions=functions,
                compiled=None if one.compiled is None else tuple(one.compiled),
                doubts=tuple(one.doubts),
            )
        )
    suspects = tuple(
        Suspects(
            commits=tuple(shown(commit) for commit in one.suspects),
            delta=commits.apart(one.before, one.culprit).delta,
        )
        for one in found.suspects
    )
    explained = sum(one.delta for one in culprits)
    notes = list(found.notes)
    if span.start != span.good:
        notes.append(caveats.good_is_aside(span.good.short, span.bad.short, span.start.short))
    if not found.whole.is_sure:
        notes.append(caveats.ends_undecided(question.case))
    elif not culprits and not suspects:
        notes.append(caveats.no_step_so_large(f"{question.least:g}"))
    elif found.whole.low != found.whole.high:
        notes.append(caveats.noise())
    elif explained != found.whole.delta and not suspects:
        say_so = caveats.others_remain if question.everything else caveats.more_remains
        notes.append(say_so(f"{explained:+g}", f"{found.whole.delta:+g}"))
    largest = max(culprits, key=lambda one: abs(one.delta), default=None)
    return Bisection(
        tool=found.old.tool,
        origin=dict(origin),
        arch=found.old.kernel["arch"],
        case=question.case,
        metric=question.metric,
        unit=unit,
        good=shown(span.good),
        bad=shown(span.bad),
        delta=found.whole.delta,
        commits=len(span.line()) - 1,
        culprit=largest,
        culprits=tuple(culprits),
        suspects=suspects,
        explained=explained,
        functions=largest.functions if largest else (),
        steps=tuple(commits.steps.values()),
        caveats=tuple(notes),
    )


def bisect(
    span: Range,
    paths: Sequence[str],
    question: Question,
    measurer: Measurer,
    commits: Commits,
    update: Update,
) -> Findings:
    """The commits between good and bad that changed the value, each measured again.

    UserError where the two do not differ; KernelError where one has no value.
    """
    search = Search(span, paths, question, commits, update)
    ends = search.ends(*dict.fromkeys([span.good, span.start, span.bad]))
    old, new = ends[0], ends[-1]
    whole = commits.apart(span.good, span.bad)
    if whole.is_none:
        name = f"{question.case} has {value(old, question.case, question.metric)} {question.metric}"
        raise UserError(
            f"{name} at {span.good.short} and at {span.bad.short}: there is no difference.",
            "Name a good commit from before the change.",
        )
    if not whole.is_sure:
        return Findings(old, new, whole)
    if not search.differ(span.start, span.bad):
        raise UserError(
            f"Where {span.good.short} and {span.bad.short} part, at {span.start.short}, the count"
            f" is already that of {span.bad.short}.",
            f"Search the way to {span.good.short}: --good {span.start.short} --bad"
            f" {span.good.short}.",
        )
    steps, each = math.ceil(math.log2(len(search.line))), commits.steps[span.bad.name].seconds
    say(f"a step takes about {each:.0f} s, and {steps} steps {steps * each / 60:.0f} minutes")
    found = search.find()
    result = Findings(old, new, whole, suspects=[one for one in found if not one.is_one])
    try:
        with scratch_folder() as own:
            for one in found:
                if one.is_one:
                    _confirm(one, result, search, measurer, own, update)
    except MisledError:
        return bisect(span, paths, replace(question, boot=True), measurer, commits, update)
    return result


def _confirm(
    found: Found,
    result: Findings,
    search: Search,
    measurer: Measurer,
    own: Path,
    update: Update,
) -> None:
    """Measures the step's two commits anew: its commit is to blame, or only suspect.

    MisledError where it may be another's, because not all commits were booted.
    """
    change, first = search.again(found, measurer, own)
    if search.agrees(found, change):
        before = search.value(found.before) if change.low == change.high else first
        arch = find_arch(result.old.kernel["arch"])
        doubts = _doubts(found, search.span.folder, arch)
        files = measurer.compiled(found.culprit, update)
        result.blamed.append(Blamed(found, before, change, files, doubts))
        return
    search.check_misled()
    expected = search.delta(found)
    result.suspects.append(found)
    result.notes.append(
        caveats.unconfirmed(found.culprit.short, f"{expected:+g}", f"{change.delta:+g}")
    )


def _doubts(found: Found, folder: Path, arch: Arch) -> list[Caveat]:
    """What speaks against the commit by its files and its text; its executed path decides.

    The kinds of wrong bisections that syzbot's maintainers list: google/syzkaller#1051.
    """
    commit, parent = found.culprit, found.before.name
    if commit.is_merge:
        return [caveats.doubt_merge(commit.short)]
    paths = [path for _, path in history.changed_files(folder, parent, commit.name)]
    for what, pattern in (
        ("documentation", r"Documentation/|MAINTAINERS$|.*\.(rst|txt)$"),
        ("tests", r"tools/testing/|lib/(.*/)?test_|.*kunit"),
        ("other architectures", rf"arch/(?!{arch.source_folder}/)[^/]+/"),
    ):
        if paths and all(re.match(pattern, path) for path in paths):
            return [caveats.doubt_files(commit.short, what)]
    if _only_comments(history.diff(folder, parent, commit.name)):
        return [caveats.doubt_comments(commit.short)]
    return []


def _only_comments(diff: str) -> bool:
    """Whether all lines that a diff of C or assembly adds or removes are comments or empty."""
    lines = re.findall(r"^[+-](?!\+\+ |-- )(.*)$", diff, re.MULTILINE)
    # The lines of a long comment begin with a star and a blank, and so may no statement here.
    comment = re.compile(r"\s*(/\*((?!\*/).)*(\*/)?|//.*|\*( [^=;]*)?|\*/)?\s*")
    return bool(lines) and all(comment.fullmatch(line) for line in lines)
