# SPDX-License-Identifier: GPL-2.0-or-later
"""What study/ makes of many kernels, each a file of its own schema.

A series (a row a patch), an ablation (what each config option adds), a bisection (the commits that
changed a value), a log (its history), a check (a recording held against budgets), and imports.
"""

import re
from typing import Annotated, Literal

from msgspec import Meta, Struct, field
from msgspec.structs import force_setattr

from kentry.errors import ContradictionError
from kentry.results.caveats import Caveat
from kentry.results.comparison import (
    CaseComparison,
    Cycles,
    EventDelta,
    FunctionDelta,
    Real,
    check_sum,
)
from kentry.results.document import OMITTED, UNWRITTEN, Count, Positive, about
from kentry.results.recording import Command, Measured, Pair

# What became of a patch, for every architecture it was tried on, or of a commit.
MEASURED, SAME_CODE, NOT_COMPILED = "measured", "same-code", "not-compiled"
NO_APPLY, NO_BUILD, NO_BOOT = "does-not-apply", "build-failed", "boot-failed"


class Problem(Struct, frozen=True):
    """Why a patch has no numbers: a status, one sentence, and the tool's own last lines."""

    status: Annotated[str, Meta(pattern=f"^({NO_APPLY}|{NO_BUILD}|{NO_BOOT})$")]
    sentence: str
    detail: str = ""


class MetricStep(Struct, frozen=True):
    """Another exact metric of a cell: its value, and the changes as those of the count."""

    value: Count
    step: Annotated[int, about("Against the last row that has a value")] = field(
        name="delta", default=0
    )
    total: Annotated[int, about("Against the baseline")] = field(name="cumulative", default=0)


class CellEstimate(Cycles, frozen=True, kw_only=True):
    """A row's cycles on one core, by the model of one version of LLVM."""

    core: str
    llvm: str


class Cell(Struct, frozen=True, kw_only=True):
    """One count: the step against the last row that has one, the sum against the baseline."""

    instructions: Count
    step: Annotated[int, about("Against the last row that has a count")] = field(
        name="delta", default=0
    )
    total: Annotated[int, about("Against the baseline")] = field(name="cumulative", default=0)
    identical_path: bool = False
    windows: Annotated[int, about("Clean windows", ge=1)]
    agreeing: Annotated[int, about("Clean windows that have the count", ge=1)]
    functions: Annotated[
        tuple[FunctionDelta, ...],
        about(
            "Those that changed; their deltas add up to the cell's",
            extra_json_schema={"not": {"contains": {"properties": {"delta": {"const": 0}}}}},
        ),
    ] = ()
    estimates: Annotated[
        tuple[CellEstimate, ...],
        about("Cycles of the modal path by a model, one a core; no measurement"),
        OMITTED,
    ] = ()
    events: Annotated[
        tuple[EventDelta, ...],
        about(
            "Vector events that changed in the step, in one window; null: that"
            " kernel has no marker of it"
        ),
        OMITTED,
    ] = ()
    metrics: Annotated[
        dict[str, MetricStep | None],
        about("What --metric asked for beside instructions; null: its windows do not agree"),
    ] = field(default_factory=dict)
    sum_of_contexts: Annotated[
        bool,
        about("No context has this count: it is the row before's with each function's change"),
        OMITTED,
    ] = False
    # Without it nothing is known of which instructions they were, here or in the row before.
    path_known: Annotated[bool, UNWRITTEN] = True

    def __post_init__(self) -> None:
        check_sum("a row's count", self.functions, self.step)


class SeriesColumn(Struct, frozen=True):
    """A column of the table; `name` is its key in rows and totals."""

    name: str
    case: str
    arch: Literal["x86_64", "arm64", "riscv64"]


class ProgramChange(Struct, frozen=True):
    """A change of what a whole program executes, at the calls of the baseline's first boot."""

    instructions: int
    of_kernel: Annotated[float, about("Per cent of what the baseline's kernel executed")]
    of_all: Annotated[float, about("Per cent of all that was executed")]


class ProgramStep(Struct, frozen=True):
    """What a patch gives a program."""

    entry: Annotated[ProgramChange, about("By entry and exit of all system calls")]
    whole: Annotated[
        ProgramChange,
        about("By all that is decided: entry and exit, and what else changed in kinds of entries"),
    ]


class ProgramBase(Struct, frozen=True, kw_only=True):
    """What ran on the baseline; the numbers are of the first boot."""

    program: Command
    seeds: tuple[int, ...]
    instructions: Count
    kernel_instructions: Count
    system_calls: Count


class PatchRow(Struct, frozen=True, kw_only=True):
    """One patch, or the baseline (patch 0): its cells, or why it has none."""

    patch: Count
    subject: str
    commit: Annotated[str, Meta(pattern="^([0-9a-f]{40,64})?$")]
    status: Annotated[str, Meta(pattern=f"^({MEASURED}|{NO_APPLY}|{NO_BUILD}|{NO_BOOT})$")]
    identical_path: Annotated[
        bool, about("Every case ran the same instructions as in the row before")
    ]
    cases: dict[str, Cell]
    problems: Annotated[dict[str, Problem], about("Why there are no numbers, by architecture")]
    not_compiled: Annotated[
        tuple[str, ...],
        about("The architectures whose kernel is provably made of nothing that the patch changes"),
        OMITTED,
    ] = ()
    warnings: Annotated[
        dict[str, tuple[str, ...]],
        about("By architecture: what compilers warn of since this patch, by file and line"),
        OMITTED,
    ] = field(default_factory=dict)
    program: Annotated[
        dict[str, ProgramStep],
        about("With --run, by architecture: what the patch gives the program"),
        OMITTED,
    ] = field(default_factory=dict)
    # Those that the baseline does not have, and what else differs from the last row measured.
    caveats: tuple[Caveat, ...]

    @property
    def changes(self) -> list[tuple[list[str], Cell]]:
        """What the patch changes, once for the columns in which it is the same."""
        alike: dict[tuple[object, ...], tuple[list[str], Cell]] = {}
        for name, cell in self.cases.items() if self.patch else ():
            metrics = {key: step.step for key, step in cell.metrics.items() if step and step.step}
            if cell.step or cell.functions or cell.events or metrics:
                key = (cell.step, cell.functions, cell.events or (), tuple(metrics.items()))
                alike.setdefault(key, ([], cell))[0].append(name)
        return list(alike.values())


class Series(Struct, frozen=True, kw_only=True, tag_field="schema", tag="kentry/series/1"):
    """A kentry series: a row per patch, the baseline first."""

    tool: dict[str, str]
    origin: Annotated[
        dict[str, str], about("The base, and base-commit and change-id where the patches name them")
    ]
    base: Annotated[
        dict[str, Measured],
        about("The baseline's kernel and target, by architecture", min_length=1),
    ]
    columns: tuple[SeriesColumn, ...]
    rows: Annotated[tuple[PatchRow, ...], Meta(min_length=1)]
    totals: Annotated[dict[str, int], about("Each column's steps, added up")]
    programs: Annotated[
        dict[str, ProgramBase], about("With --run, by architecture: what ran"), OMITTED
    ] = field(default_factory=dict)
    caveats: tuple[Caveat, ...]
    base_caveats: Annotated[
        dict[str, tuple[Caveat, ...]], about("Those of the baseline, by architecture"), OMITTED
    ] = field(default_factory=dict)
    # By column.
    changes: Annotated[dict[str, CaseComparison], UNWRITTEN] = field(default_factory=dict)
    differences: Annotated[
        tuple[Caveat, ...],
        about("What else differs from the first kernel to the last, and in no row"),
        OMITTED,
    ] = ()

    def __post_init__(self) -> None:
        for name, total in self.totals.items():
            steps = sum(row.cases[name].step for row in self.rows if name in row.cases)
            if steps != total:
                raise ContradictionError(f"the steps of {name} add up to {steps}, not {total}")


# The row of all mitigations together.
TOGETHER = "all"
# A config option, or a flaw of processors as the kernel names it in sysfs.
Option = Annotated[str, Meta(pattern="^[A-Za-z][A-Za-z0-9_]*$")]


class Added(Struct, frozen=True):
    """One case without and with an option; `delta` is what the option adds."""

    off: Count
    on: Count
    delta: int = 0
    identical_path: bool = False
    functions: Annotated[
        tuple[FunctionDelta, ...], about("Those that differ; their deltas add up to the case's")
    ] = ()

    def __post_init__(self) -> None:
        force_setattr(self, "delta", self.on - self.off)
        check_sum("what an option adds", self.functions, self.delta)


class OptionRow(Struct, frozen=True):
    """One option, or mitigation: what it adds to each case, or why that is not known."""

    option: Option
    on_in_base: bool
    needs: Annotated[
        tuple[Annotated[str, Meta(pattern="^CONFIG_[A-Za-z0-9_]+=.")], ...],
        about("Options that are on in both kernels, as CONFIG_X=y"),
    ]
    problem: Annotated[str, about("Why there are no numbers; empty where there are some")]
    cases: Annotated[dict[str, Added], about("By the case's name; empty without numbers")]
    mitigation: Annotated[str, about("What the kernel does; empty for a config option")] = ""
    words: Annotated[
        str, about("The words of the kernel's command line that switch the mitigation off")
    ] = ""


class Ablation(Struct, frozen=True, kw_only=True, tag_field="schema", tag="kentry/ablation/1"):
    """What kentry ablate printed: what each config option adds to each case."""

    tool: dict[str, str]
    base: Annotated[Measured, about("The kernel in which the options were turned on and off")]
    rows: Annotated[
        tuple[OptionRow, ...],
        about(
            "One per option, the largest addition to the first case first, those"
            " without numbers last"
        ),
    ]
    passed_over: Annotated[tuple[Option, ...], about("Options that the source does not have")]
    caveats: tuple[Caveat, ...]
    cases: Annotated[tuple[str, ...], UNWRITTEN] = ()


# Functions that a sentence names.
_NAMED = 4

Name = Annotated[str, Meta(pattern="^[0-9a-f]{40,64}$")]


class Step(Struct, frozen=True, kw_only=True):
    """What became of a commit that was tried."""

    commit: Name
    subject: str
    status: Annotated[
        str,
        Meta(pattern=f"^({MEASURED}|{SAME_CODE}|{NOT_COMPILED}|{NO_BUILD}|{NO_BOOT})$"),
        about(
            "same-code: built, and the executed functions are those of `like`; not-compiled: what"
            " it changes is in neither kernel; a program that cannot measure it: boot-failed"
        ),
    ]
    value: Annotated[Real | None, about("Of the metric; null where there is none")] = None
    like: Annotated[str, about("The commit whose recording is this one's, or empty")] = ""
    problem: Annotated[str, about("Why there is no value, a clause")] = ""
    detail: str = ""
    seconds: float = 0.0


class Provisional(Struct, frozen=True, kw_only=True):
    """A commit that the search has named, and that is not measured again yet."""

    case: str
    commit: Name
    subject: str
    delta: Real
    functions: tuple[FunctionDelta, ...] = ()

    def __str__(self) -> str:
        """Returns the commit, what it changes, and the functions that change most."""
        functions = sorted(self.functions, key=lambda function: -abs(function.delta))[:_NAMED]
        names = ", ".join(f"{function.name} {function.delta:+d}" for function in functions)
        return (
            f'{self.commit[:12]} ("{self.subject}") changes {self.case} by {self.delta:+g}'
            f"{names and f': {names}'}"
        )


class CommitValue(Struct, frozen=True, kw_only=True):
    """A commit, as git log shows it, and its value."""

    commit: Name
    subject: str
    author: str
    date: Annotated[str, about("The author's date, ISO 8601")]
    value: Annotated[Real | None, about("Of the metric; null: not measured")] = None


class Culprit(Struct, frozen=True, kw_only=True):
    """A commit that changed the value, measured again beside its parent.

    `value` is the culprit's, `parent` has the other.
    """

    commit: Name
    subject: str
    author: str
    date: str
    value: Real
    parent: CommitValue
    delta: Real
    share: Annotated[
        float | None, about("Of the whole change between good and bad; null: no such change")
    ]
    functions: Annotated[
        tuple[FunctionDelta, ...], about("Those that changed; the deltas add up to the commit's")
    ]
    compiled: Annotated[
        tuple[str, ...] | None,
        about("The files it changes that its kernel is made of; null: not known"),
    ]
    doubts: tuple[Caveat, ...] = ()

    def __post_init__(self) -> None:
        check_sum(f"commit {self.commit[:12]}", self.functions, self.delta)


class Suspects(Struct, frozen=True, kw_only=True):
    """Commits one of which changed the value: those before the last have none.

    One alone had another value when it was measured again.
    """

    commits: Annotated[tuple[CommitValue, ...], Meta(min_length=1)]
    delta: Real


class Answer(Struct, frozen=True, kw_only=True):
    """What the search came to for another case of the same boots."""

    case: str
    unit: str
    good: Annotated[Real | None, about("The value of the good commit")]
    bad: Real | None
    delta: Annotated[Real, about("bad less good")]
    culprits: tuple[Culprit, ...] = ()
    suspects: tuple[Suspects, ...] = ()
    explained: Real = 0
    caveats: tuple[Caveat, ...] = ()


class Bisection(Struct, kw_only=True, tag_field="schema", tag="kentry/bisection/1"):
    """A kentry bisection: which commits changed a value between two."""

    tool: dict[str, str]
    origin: Annotated[dict[str, str], about("The tree, its config and the paths searched")]
    arch: str
    case: str
    metric: str
    unit: str
    good: CommitValue
    bad: CommitValue
    delta: Annotated[Real, about("bad less good")]
    commits: Annotated[int, about("On the main line, good left out")]
    culprit: Annotated[Culprit | None, about("The one with the largest change")]
    culprits: Annotated[tuple[Culprit, ...], about("All that were found, in the tree's order")]
    suspects: tuple[Suspects, ...]
    explained: Annotated[Real, about("The changes of all culprits, added up")]
    functions: Annotated[tuple[FunctionDelta, ...], about("The culprit's")]
    steps: Annotated[tuple[Step, ...], about("In the order they were made")]
    caveats: tuple[Caveat, ...]
    others: Annotated[
        tuple[Answer, ...], about("The answers for the cases that --case names beside"), OMITTED
    ] = ()
    measured: Annotated[tuple[Measured, ...], about("Good and bad"), OMITTED] = ()

    @property
    def is_decided(self) -> bool:
        """Whether each change has its commit."""
        answers: list[Bisection | Answer] = [self, *self.others]
        return not any(
            answer.suspects or any(caveat["kind"] == "undecided" for caveat in answer.caveats)
            for answer in answers
        )


# Linux's own: a package of 6.1.0-3 is of Linux 6.1.
_RELEASE = re.compile(r"(?:debian|source):(\d+\.\d+(?:\.[1-9]\d*)?)")


class Point(Struct, frozen=True, kw_only=True):
    """A kernel of the history; `place` counts from 0, those without a value too."""

    place: Count
    name: Annotated[str, about("A commit, or a spec")]
    title: Annotated[str, about("The commit's subject, or the kernel's release")] = ""
    date: Annotated[str, about("Of the commit's author, ISO 8601; or empty")] = ""
    value: Annotated[Real | None, about("Null where the kernel could not be measured")] = None
    problem: Annotated[str, about("Why it could not, a clause")] = ""


class ChangePoint(Struct, frozen=True, kw_only=True):
    """A place where the value changed: after `before`, at the last of `names`.

    Those before the last have no value: any of them may have made the change.
    """

    place: Count
    before: Annotated[str, about("A commit or a spec, as in points")]
    names: Annotated[tuple[str, ...], Meta(min_length=1)]
    title: str
    old: Real
    new: Real
    delta: Real
    functions: Annotated[
        tuple[FunctionDelta, ...], about("Those that changed; the deltas add up to the place's")
    ]
    found: Annotated[
        tuple[str, ...],
        about("Of a history: commits between the two kernels that a bisection named"),
        OMITTED,
    ] = ()

    def __post_init__(self) -> None:
        check_sum(self.names[-1], self.functions, self.delta)

    @property
    def releases(self) -> tuple[str, str] | None:
        """The releases of Linux before and after, where both are packages and these differ."""
        old, new = map(_RELEASE.match, (self.before, self.names[-1]))
        return (old[1], new[1]) if old and new and old[1] != new[1] else None


class CaseLog(Struct, frozen=True, kw_only=True):
    """The history of another case of the same boots."""

    case: str
    unit: str
    values: Annotated[tuple[Real | None, ...], about("Of `points`, in their order")]
    changes: tuple[ChangePoint, ...]


class Log(Struct, kw_only=True, tag_field="schema", tag="kentry/log/1"):
    """A kentry log: the values of a history's kernels, and where they change."""

    tool: dict[str, str]
    origin: dict[str, str]
    arch: str
    case: str
    metric: str
    unit: str
    kernels: Annotated[Count, about("Of the history, those that were not tried too")]
    points: Annotated[tuple[Point, ...], about("Those that were tried, oldest first")]
    changes: tuple[ChangePoint, ...]
    caveats: tuple[Caveat, ...]
    others: Annotated[
        tuple[CaseLog, ...], about("The cases that --case names beside the first"), OMITTED
    ] = ()
    measured: Annotated[
        tuple[Measured, ...], about("The first and the last of the kernels with a value"), OMITTED
    ] = ()


Verdict = Literal["within", "over", "undecided"]
WITHIN: Verdict = "within"
OVER: Verdict = "over"
UNDECIDED: Verdict = "undecided"


class CheckRow(Struct, frozen=True, kw_only=True):
    """One metric of one case, and its budget.

    What is held against the limit is not a number but all that it may be, from `low` to `high`.
    """

    name: Annotated[str, about("The case; a pattern that stands for no case is itself")]
    metric: str
    unit: Annotated[str, about("Empty where nothing was measured")] = ""
    table: Annotated[str, about("Of the file of budgets: an architecture, or all")]
    key: Annotated[str, about("The case's name in that table, or the pattern")]
    line: Annotated[Positive | None, about("Of the budget in its file; null: not known")] = None
    budget: Annotated[str, about("As the file has it: 312, +2, +1 %")]
    limit: Annotated[Real | None, about("The most that is within the budget; null: not known")] = (
        None
    )
    baseline: Annotated[
        Real | None, about("What the recording has that the budget adds to; null: no such budget")
    ] = None
    value: Annotated[
        Real | None, about("What was measured; of a count the commonest; null: nothing")
    ] = None
    low: Annotated[
        Real | None,
        about("The least that it may be: by context, or of the interval; null: not known"),
    ] = None
    high: Annotated[Real | None, about("The most that it may be; null: not known")] = None
    counts: Annotated[
        tuple[Pair, ...], about("Where a count depends on the context: [count, contexts]")
    ] = ()
    verdict: Verdict
    reason: Annotated[str, about("Why it is undecided, a clause")] = ""


class Renewed(Struct, frozen=True, kw_only=True):
    """What --update wrote: another limit, or another number of the baseline."""

    file: Annotated[str, about("The file of budgets, or the baseline's")]
    name: Annotated[str, about("The case; of a limit its key in the file of budgets")]
    metric: str
    old: Real | None
    new: Real


class Check(Struct, frozen=True, kw_only=True, tag_field="schema", tag="kentry/check/1"):
    """What kentry check printed: each budget, and whether a kernel is within it."""

    tool: dict[str, str]
    budgets: Annotated[str, about("The file of budgets")]
    measured: Annotated[Measured, about("The kernel that was held against them")]
    baseline: Annotated[
        Measured | None, about("The recording that budgets add to; null: no budget does")
    ]
    verdict: Annotated[Verdict, about("over if one row is, else undecided if one is")]
    rows: Annotated[
        tuple[CheckRow, ...], Meta(min_length=1, description="In the order of the file")
    ]
    changes: Annotated[tuple[Renewed, ...], about("What --update changed")] = ()
    written: Annotated[
        tuple[str, ...] | None, about("The files that --update wrote; null without --update")
    ] = None
    caveats: tuple[Caveat, ...]

    @property
    def not_renewed(self) -> list[CheckRow]:
        """The rows for which --update has no number, because it was not measured."""
        return [row for row in self.rows if (row.value if "+" in row.budget else row.high) is None]

    def of_verdict(self, verdict: Verdict) -> list[CheckRow]:
        """Returns the rows that have this verdict."""
        return [row for row in self.rows if row.verdict == verdict]


class ImportBase(Struct, frozen=True):
    """What a change is of."""

    side: str
    lines: list[Positive]
    value: Annotated[float, about("The median of those lines")]
    change_percent: Annotated[str, about("No digit beyond the published ones")]
    step_percent: Annotated[str | None, about("Change from the side above")]


class ImportedNumber(Struct, frozen=True):
    """One published number."""

    line: Positive
    side: Annotated[str, about("What the file calls the kernel or set-up; may be empty")]
    case: str
    metric: Annotated[str, about("Its name in a recording")]
    published: Annotated[str, about("As it was printed")]
    unit: Annotated[str, about("The published one")]
    value: Annotated[float, about("Per call, in the metric's unit")]
    about: Annotated[bool, about("It was published as about that")]
    spread: str
    percent_of: Annotated[str | None, about("What a published percentage is of")]
    base: Annotated[ImportBase | None, about("null for a base itself")]
    absent: Annotated[list[str], about("What the number lacks")]


class ImportedFile(Struct, frozen=True):
    """One file that was read."""

    file: str
    formats: list[str]
    arch: Annotated[str | None, about("null where the user named none")]
    numbers: list[ImportedNumber]


class ImportDocument(Struct, frozen=True, tag_field="schema", tag="kentry/import/1"):
    """What kentry import printed."""

    files: Annotated[list[ImportedFile], Meta(min_length=1)]
    caveats: list[Caveat]
