# SPDX-License-Identifier: GPL-2.0-or-later
"""The path of each case, instruction by instruction; and its file kentry/annotation/1."""

from typing import Annotated, Any

from msgspec import Struct

from kentry.results.caveats import Caveat
from kentry.results.document import OMITTED, Count, Positive, about
from kentry.results.estimate import Estimate, Misses
from kentry.results.path_diff import PlacedInstruction


class AnnotatedInstruction(PlacedInstruction, frozen=True, kw_only=True):
    """An instruction of the path, in the order of execution."""

    depth: Annotated[Count, about("How many calls deep it is in its part")]


class PathPart(Struct, frozen=True):
    """A part of one entry into the kernel."""

    part: Annotated[str, about("entry, dispatch, handler, exit or return")]
    instructions: tuple[AnnotatedInstruction, ...]


class OtherPath(Struct, frozen=True):
    """A path that the case takes in other contexts."""

    instructions: Count
    contexts: Annotated[Positive, about("How many contexts have it")]
    difference: Annotated[tuple[str, ...], about("Lines: what only one of the two paths has")]


class AnnotatedCase(Struct, frozen=True, kw_only=True):
    """One case: its modal path and what that costs."""

    name: str
    instructions: Count
    calls: Annotated[
        tuple[tuple[PathPart, ...], ...], about("Each entry into the kernel in its parts")
    ]
    metrics: Annotated[dict[str, dict[str, int]], about("Each metric, by part of the path")]
    other_paths: Annotated[tuple[OtherPath, ...], OMITTED] = ()
    estimates: Annotated[tuple[Estimate, ...], OMITTED] = ()
    misses: Annotated[tuple[Misses, ...], OMITTED] = ()
    windows: Annotated[Count, about("Recorded windows that have the path")]
    recorded: Annotated[Count, about("Recorded windows")]
    contexts: Annotated[Count, about("Contexts that were measured")]
    caveats: tuple[Caveat, ...] = ()


class Annotation(Struct, tag="kentry/annotation/1", tag_field="schema"):
    """What kentry annotate prints of one kernel."""

    kernel: Annotated[dict[str, Any], about("Without its config")]
    target: dict[str, Any]
    cases: tuple[AnnotatedCase, ...]
