# SPDX-License-Identifier: GPL-2.0-or-later
"""A bisection: the commits that changed a value, and its file kentry/bisection/1."""

from typing import Annotated

from msgspec import Meta, Struct

from kentry.results.caveats import Caveat
from kentry.results.comparison import FunctionDelta, Real
from kentry.results.document import OMITTED, about
from kentry.results.series import NO_BOOT, NO_BUILD

# What became of a commit; beside them series.NO_BUILD and NO_BOOT.
MEASURED, SAME_CODE, NOT_COMPILED = "measured", "same-code", "not-compiled"

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
        """The commit, what it changes, and the functions that change most."""
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

    @property
    def is_decided(self) -> bool:
        """Whether each change has its commit."""
        answers: list[Bisection | Answer] = [self, *self.others]
        return not any(
            one.suspects or any(caveat["kind"] == "undecided" for caveat in one.caveats)
            for one in answers
        )
