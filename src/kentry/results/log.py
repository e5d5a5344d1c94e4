# SPDX-License-Identifier: GPL-2.0-or-later
"""The history of a count: kernels in order, where it changed; and its file kentry/log/1."""

from typing import Annotated

from msgspec import Meta, Struct

from kentry.results.caveats import Caveat
from kentry.results.comparison import FunctionDelta, Real
from kentry.results.document import OMITTED, Count, about


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
