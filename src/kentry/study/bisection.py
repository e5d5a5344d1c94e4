# SPDX-License-Identifier: GPL-2.0-or-later
"""The commits between two that changed a value: searched along the main line, then measured again.

Counts say more than git bisect's good or bad: halfway, a second commit, one that took away what
another added.  So kentry searches git's first-parent line, and a merge's branch with the change.
"""

import itertools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from msgspec import structs

from kentry.arch import Arch, find_arch
from kentry.errors import KernelError, UserError
from kentry.host.cache import scratch_folder
from kentry.kernels import tree
from kentry.kernels.tree import Commit, Range, touching
from kentry.progress import say
from kentry.results import caveats, studies
from kentry.results.caveats import Caveat, Template, amount
from kentry.results.comparison import Real
from kentry.results.recording import Measured, Recording
from kentry.study.commits import Commits, Difference, Pair, value

# Measures the places, perhaps at once; whether each has a value.
Measure = Callable[[Sequence[int]], Sequence[bool]]


def first_step(
    last: int, measure: Measure, like_last: Callable[[int], bool | None], at_once: int = 1
) -> tuple[int, int]:
    """Returns two positions across the middle; `like_last` is None where noise hides it."""
    low, high = 0, last
    without: set[int] = set()
    while indexes := _next(low, high, without, at_once):
        for index, has_value in zip(indexes, measure(indexes), strict=True):
            alike = like_last(index) if has_value else None
            if alike is None:
                without.add(index)
            elif alike:
                high = min(high, index)
            elif index < high:
                low = max(low, index)
    return low, high


def all_steps(
    last: int, measure: Measure, differ: Callable[[int, int], bool], at_once: int = 1
) -> list[tuple[int, int]]:
    """Finds the steps from position 0 to `last` that do not cancel each other out, in order."""
    steps = []
    without: set[int] = set()
    spans = [(0, last)]
    while spans:
        low, high = span = spans.pop()
        if not differ(low, high):
            continue
        indexes = _next(low, high, without, at_once)
        if not indexes:
            steps.append(span)
            continue
        has_value = measure(indexes)
        without |= {index for index, has in zip(indexes, has_value, strict=True) if not has}
        ends = [low, *(index for index in indexes if index not in without), high]
        spans += itertools.pairwise(ends)
    return sorted(steps)


def _next(low: int, high: int, without: set[int], at_once: int) -> list[int]:
    """Returns the next positions to try: in the middle, or farther off where that has no value."""
    failed = [index for index in without if low < index < high]
    if not failed:
        free = range(low + 1, high)
        places = (number / (at_once + 1) for number in range(1, at_once + 1))
        return sorted({free[int(place * len(free))] for place in places} if free else ())
    # Commits that do not build come in runs.  Halfway from those that failed to either end leaves
    # a run in as many steps as its length has bits; only then are the gaps between them tried.
    chosen: list[int] = []
    while len(chosen) < at_once:
        ends = [low, *sorted([*failed, *chosen]), high]
        gaps = [(first, last) for first, last in itertools.pairwise(ends) if last - first > 1]
        outer = [gap for gap in gaps if gap[0] == low or gap[1] == high]
        if not gaps:
            break
        first, last = max(outer or gaps, key=lambda gap: gap[1] - gap[0])
        chosen.append((first + last) // 2)
    return sorted(chosen)


@dataclass(frozen=True)
class Jump:
    """A change: the commit before, and in order all that may be it, the last measured."""

    before: Commit
    suspects: tuple[Commit, ...]
    unexplained: Template | None = None  # why a merge is named and no commit of it

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

    Only commits that touch one of `paths`, if any, are tried.  With `everything` all changes are
    found, else one that crosses the middle between the ends; `first_parent` blames a merge as one
    commit, `boot` boots those too that seem to be another's kernel, `verify` measures again.
    """

    cases: tuple[str, ...]
    metric: str
    paths: tuple[str, ...] = ()
    everything: bool = False
    least: Real = 0
    first_parent: bool = False
    boot: bool = False
    verify: bool = True


class MisledError(Exception):
    """A commit that was taken for another's kernel is not that: all have to be booted."""


class Search:
    """The search for changes of one case between the commits of a range."""

    def __init__(self, span: Range, question: Question, commits: Commits, case: str) -> None:
        self.line = span.line()
        self.span = span
        self.case = case
        self.commits = commits
        self.ask = question
        self.changes: list[Jump] = []
        # Why no change of the case can be searched.
        self.why_not: UserError | Caveat | None = None

    def measure(self, line: Sequence[Commit], indexes: Sequence[int]) -> list[bool]:
        """Measures commits beside those nearest in the line; whether each has a value."""
        known = [at for at, commit in enumerate(line) if self.commits.has(commit, self.case)]
        near = sorted(known, key=lambda at: min(abs(at - index) for index in indexes))
        self.commits.measure(
            [line[index] for index in indexes],
            [line[at] for at in near[: 2 * len(indexes)]],
            boot=self.ask.boot,
        )
        return [self.commits.has(line[index], self.case) for index in indexes]

    def find(self) -> list[Jump]:
        """The jumps from the range's start to bad, both of which were measured and differ."""
        if self.ask.everything:
            return self.jumps(self.line, set(), self.ask.paths)
        line = [self.line[index] for index in touching(self.span.folder, self.line, self.ask.paths)]
        low, high = first_step(
            len(line) - 1,
            lambda indexes: self.measure(line, indexes),
            lambda index: self.like_last(line, index),
            self.commits.at_once,
        )
        jumps = self._resolved(line[low], line[high], self.line, set(), self.ask.paths)
        # Of a branch, the commit that did most.
        return sorted(jumps, key=lambda jump: -abs(self.delta(jump)))[:1]

    def jumps(
        self, whole: Sequence[Commit], known: set[str], paths: Sequence[str] = ()
    ) -> list[Jump]:
        """Every jump of a line whose ends were measured, but for what commits of `known` did."""
        line = [whole[index] for index in touching(self.span.folder, whole, paths)]
        spans = all_steps(
            len(line) - 1,
            lambda indexes: self.measure(line, indexes),
            lambda old, new: self.differ(line[old], line[new], self.ask.least),
            self.commits.at_once,
        )
        return [
            jump
            for low, high in spans
            for jump in self._resolved(line[low], line[high], whole, known, paths)
        ]

    def apart(self, old: Commit, new: Commit) -> Difference:
        """Returns how far two measured commits are apart."""
        return self.commits.apart(old.name, new.name, self.case)

    def delta(self, jump: Jump) -> Real:
        """Returns how far a jump's ends are apart."""
        return self.apart(jump.before, jump.culprit).delta

    def value(self, commit: Commit) -> Real:
        """Returns the value of a measured commit, in the context of the first measured."""
        measured = self.commits.value(commit, self.case)
        assert measured is not None
        return measured

    def check_misled(self) -> None:
        """MisledError where commits were taken for others' kernels, which may have been wrong."""
        if any(step.like for step in self.commits.steps.values()) and not self.ask.boot:
            raise MisledError

    def booted(self, jump: Jump) -> Difference:
        """How far a jump's two ends are apart, booted both; MisledError where that is new."""
        before = self.apart(jump.before, jump.culprit)
        measure_ends(self.commits, jump.before, jump.culprit)
        after = self.apart(jump.before, jump.culprit)
        if before.delta != after.delta:
            self.check_misled()
        return after

    def differ(self, old: Commit, new: Commit, least: Real = 0) -> bool:
        """Returns whether two measured commits surely differ, and by at least so much."""
        apart = self.apart(old, new)
        return apart.is_sure and abs(apart.delta) >= least

    def like_last(self, line: Sequence[Commit], index: int) -> bool | None:
        """Whether a commit is past the middle of the change; None where noise hides it."""
        whole = self.apart(line[0], line[-1]).delta
        apart = self.apart(line[0], line[index])
        if apart.low is None or apart.high is None:
            return None
        sign = 1 if whole > 0 else -1
        low, high = sorted((sign * apart.low, sign * apart.high))
        if 2 * low > abs(whole):
            return True
        return False if 2 * high <= abs(whole) else None

    def _resolved(
        self,
        before: Commit,
        commit: Commit,
        line: Sequence[Commit],
        known: set[str],
        paths: Sequence[str],
    ) -> list[Jump]:
        """Finds the jumps between two of `line`: those of a branch that a merge brought in."""
        between = line[line.index(before) + 1 : line.index(commit) + 1]
        if len(between) > 1 and paths:
            # Others that do not touch the paths may lie between; they may have no value either.
            parent = between[-2]
            self.commits.measure([parent], [before, commit], boot=self.ask.boot)
            if self.commits.has(parent, self.case):
                if not self.differ(parent, commit):
                    raise UserError(
                        f"A commit that does not touch {' '.join(paths)} made the change, between"
                        f" {before.short} and {parent.short}.",
                        "Leave the paths out.",
                    )
                if not self.differ(before, parent):
                    before, between = parent, between[-1:]
        if len(between) > 1 or len(commit.parents) < 2:
            return [Jump(before, tuple(between))]
        if self.ask.first_parent:
            return [Jump(before, (commit,), caveats.doubt_first_parent)]
        inside = known | self.span.reachable(before.name)
        branches = self.span.branches(commit, before, inside)
        if known and not branches:
            # What a topic merged from where it goes to is not its own.
            return []
        jumps: list[Jump] = []
        for branch in branches:
            if not all(self.measure(branch, [0, len(branch) - 1])):
                return [Jump(before, (commit,), caveats.doubt_branch)]
            jumps += self.jumps(branch, inside)
        # The branches explain the merge where their changes add up to it.
        apart = self.apart(before, commit)
        total = sum(self.delta(jump) for jump in jumps)
        if apart.low is None or apart.high is None or not apart.low <= total <= apart.high:
            return [Jump(before, (commit,), caveats.doubt_merge)]
        return jumps or [Jump(before, (commit,), caveats.doubt_merge)]


def measure_ends(commits: Commits, *ends: Commit) -> list[Recording]:
    """Returns the recordings of commits that must have one; KernelError says why one has not."""
    recordings = []
    for commit in ends:
        [recording] = commits.measure([commit], boot=True)
        if recording is None:
            step = commits.steps[commit.name]
            raise KernelError(
                f"{commit.short} ({commit.subject}) has no value: {step.problem}",
                "Name another commit near it that builds and boots.",
                step.detail,
            )
        recordings.append(recording)
    return recordings


def bisect(
    span: Range, question: Question, commits: Commits, origin: Mapping[str, str]
) -> studies.Bisection:
    """Finds what changed each case between good and bad, measured again; KernelError, UserError."""
    count = len(touching(span.folder, span.line(), question.paths)) - 1
    steps = math.ceil(math.log2(count + 1))
    known = len(commits.steps)
    say(f"commits to search: {count}; steps: about {steps}; known already: {known}")
    # The two ends; each step; and the commit that is found and its parent, once more.
    say(commits.measurer.cost(span.bad, max(0, 2 + steps - known), commits.update))
    commits.expected = commits.made + 2 + steps
    old, *_, new = measure_ends(commits, *dict.fromkeys([span.good, span.start, span.bad]))
    searches = [Search(span, question, commits, case) for case in question.cases]
    for search in searches:
        search.why_not = _why_not_searched(search, old)
    errors = [search.why_not for search in searches if isinstance(search.why_not, UserError)]
    if len(errors) == len(searches):
        raise errors[0]
    longest = max(step.seconds for step in commits.steps.values())
    then = "; kentry then says what it takes to verify the answer" if question.verify else ""
    search_takes = f"the search takes about {amount(steps, 'step')}{then}"
    say(f"the longest step took {longest:.0f} s; {search_takes}")
    try:
        for search in searches:
            search.changes = [] if search.why_not else search.find()
        _announce(searches)
        with scratch_folder() as own:
            first, *others = [_answer(search, own) for search in searches]
    except MisledError:
        return bisect(span, replace(question, boot=True), commits, origin)
    commits.keep_provisional([])
    notes = [note for note in old.caveats if note == caveats.not_time()] + [*first.caveats]
    if span.start != span.good:
        notes.append(caveats.good_is_aside(span.good.short, span.bad.short, span.start.short))
    if not question.verify:
        notes.append(caveats.not_verified())
    largest = max(first.culprits, key=lambda culprit: abs(culprit.delta), default=None)
    ends = {name: _shown(getattr(span, name), searches[0]) for name in ("good", "bad")}
    return studies.Bisection(
        tool=old.tool,
        origin=dict(origin),
        arch=old.kernel["arch"],
        metric=commits.metric,
        commits=len(span.line()) - 1,
        culprit=largest,
        functions=largest.functions if largest else (),
        steps=tuple(commits.steps.values()),
        others=tuple(others),
        measured=(Measured.of(old), Measured.of(new)),
        **structs.asdict(first) | ends | {"caveats": tuple(notes)},
    )


def _why_not_searched(search: Search, old: Recording) -> UserError | Caveat | None:
    """Returns why no change of the case can be searched, if none can."""
    good, start, bad = search.span.good, search.span.start, search.span.bad
    whole = search.apart(good, bad)
    if whole.low == whole.high == 0:
        metric = search.commits.metric
        return UserError(
            f"{search.case} has {value(old, search.case, metric)} {metric} at {good.short} and at"
            f" {bad.short}: there is no difference.",
            "Name a good commit from before the change.",
        )
    if not whole.is_sure:
        return caveats.ends_undecided(search.case)
    if search.differ(start, bad):
        return None
    return UserError(
        f"At {start.short}, the merge base of {good.short} and {bad.short}, {search.case} already"
        f" has the count of {bad.short}.",
        f"Search between the merge base and {good.short}: --good {start.short} --bad {good.short}.",
    )


def _announce(searches: Sequence[Search]) -> None:
    """Says and keeps which commits the searches name, and what it costs to verify them."""
    commits = searches[0].commits
    named = [(search, jump) for search in searches for jump in search.changes if jump.is_one]
    if not named or not searches[0].ask.verify:
        return
    rows = [
        studies.Provisional(
            case=search.case,
            commit=jump.culprit.name,
            subject=jump.culprit.subject,
            delta=search.delta(jump),
            functions=search.apart(jump.before, jump.culprit).changed,
        )
        for search, jump in named
    ]
    commits.keep_provisional(rows)
    for row in rows:
        say(f"not verified yet: {row}")
    ends = {commit.name: commit for _, jump in named for commit in (jump.before, jump.culprit)}
    cost = commits.measurer.cost_anew(list(ends.values()), commits.update)
    say(
        f"verifying takes {cost}; --no-verify leaves it out, and after Ctrl-C"
        " kentry bisect --continue goes on with it"
    )


def _answer(search: Search, own: Path) -> studies.Answer:
    """What the search of one case came to, its jumps measured again; may raise MisledError."""
    commits, span, reason = search.commits, search.span, search.why_not
    whole = search.apart(span.good, span.bad)
    culprits, notes = [], []
    suspects = [jump for jump in search.changes if not jump.is_one]
    for jump in search.changes:
        if jump.is_one:
            culprit = _culprit(search, jump, whole, own)
            if isinstance(culprit, studies.Culprit):
                culprits.append(culprit)
            else:
                suspects.append(jump)
                notes.append(culprit)
    explained = sum(culprit.delta for culprit in culprits)
    if isinstance(reason, UserError):
        notes.append(caveats.no_difference(reason.sentence.rstrip(".")))
    elif reason:
        notes.append(reason)
    elif not culprits and not suspects:
        notes.append(caveats.no_step_so_large(f"{search.ask.least:g}"))
    elif whole.low != whole.high:
        notes.append(caveats.noise())
    elif explained != whole.delta and not suspects:
        remaining = caveats.others_remain if search.ask.everything else caveats.more_remains
        notes.append(remaining(f"{explained:+g}", f"{whole.delta:+g}"))
    notes += commits.sums(search.case)
    noisy = commits.recording(span.good).case(search.case)
    unit = commits.metric
    if noisy and unit in noisy.noisy:
        unit = noisy.noisy[unit].unit
    return studies.Answer(
        case=search.case,
        unit=unit,
        good=commits.value(span.good, search.case),
        bad=commits.value(span.bad, search.case),
        delta=whole.delta,
        culprits=tuple(culprits),
        suspects=tuple(
            studies.Suspects(
                commits=tuple(_shown(commit, search) for commit in jump.suspects),
                delta=search.delta(jump),
            )
            for jump in suspects
        ),
        explained=explained,
        caveats=tuple(notes),
    )


def _culprit(search: Search, jump: Jump, whole: Difference, own: Path) -> studies.Culprit | Caveat:
    """Returns the commit of a jump, measured again; or that it has another value then."""
    commits, commit = search.commits, jump.culprit
    before = search.value(jump.before)
    if search.ask.verify:
        expected, first = search.delta(jump), commits.measure_anew(jump.before, own)
        pair = Pair(first, commits.measure_anew(commit, own), commits.cases, commits.metric)
        change = pair.difference(search.case)
        is_exact = change.low == change.high
        agrees = change.delta == expected if is_exact else (change.delta > 0) == (expected > 0)
        if not (change.is_sure and agrees):
            search.check_misled()
            return caveats.unconfirmed(commit.short, f"{expected:+g}", f"{change.delta:+g}")
        if not is_exact:
            before = value(first, search.case, commits.metric)
    else:
        change = search.booted(jump)
    arch = find_arch(commits.recording(commit).kernel["arch"])
    return studies.Culprit(
        commit=commit.name,
        subject=commit.subject,
        author=commit.author,
        date=commit.date,
        value=before + change.delta,
        parent=structs.replace(_shown(jump.before, search), value=before),
        delta=change.delta,
        share=100 * change.delta / whole.delta if whole.delta else None,
        functions=change.changed,
        compiled=commits.measurer.compiled(commit, commits.update),
        doubts=tuple(_doubts(jump, search.span.folder, arch)),
    )


def _shown(commit: Commit, search: Search) -> studies.CommitValue:
    return studies.CommitValue(
        commit=commit.name,
        subject=commit.subject,
        author=commit.author,
        date=commit.date,
        value=search.commits.value(commit, search.case),
    )


def _doubts(jump: Jump, folder: Path, arch: Arch) -> list[Caveat]:
    """What of syzbot's list of wrong bisections (google/syzkaller#1051) fits the commit's files."""
    commit, parent = jump.culprit, jump.before.name
    if jump.unexplained:
        return [jump.unexplained(commit.short)]
    paths = [path for _, path in tree.changed_files(folder, parent, commit.name)]
    for what, pattern in (
        ("documentation", r"Documentation/|MAINTAINERS$|.*\.(rst|txt)$"),
        ("tests", r"tools/testing/|lib/(.*/)?test_|.*kunit"),
        ("other architectures", rf"arch/(?!{arch.source_folder}/)[^/]+/"),
    ):
        if paths and all(re.match(pattern, path) for path in paths):
            return [caveats.doubt_files(commit.short, what)]
    if _only_comments(tree.diff(folder, parent, commit.name)):
        return [caveats.doubt_comments(commit.short)]
    return []


def _only_comments(diff: str) -> bool:
    """Whether all lines that a diff of C or assembly adds or removes are comments or empty."""
    lines = re.findall(r"^[+-](?!\+\+ |-- )(.*)$", diff, re.MULTILINE)
    # The lines of a long comment begin with a star and a blank, and so may no statement here.
    comment = r"\s*(/\*((?!\*/).)*(\*/)?|//.*|\*( [^=;]*)?|\*/)?\s*"
    return bool(lines) and all(re.fullmatch(comment, line) for line in lines)
