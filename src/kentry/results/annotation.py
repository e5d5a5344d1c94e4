# SPDX-License-Identifier: GPL-2.0-or-later
"""What kentry annotate prints, kentry/annotation/1, and two kernels' paths, kentry/path-diff/1."""

from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal, NamedTuple

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import force_setattr

from kentry.results.caveats import Caveat
from kentry.results.comparison import LayoutChange, Renamed
from kentry.results.document import OMITTED, Count, Positive, about
from kentry.results.estimate import Estimate, Misses
from kentry.results.recording import Instruction, Measured, OnTarget, SourceLine

SAME: Final = "same"
ADDED: Final = "added"
REMOVED: Final = "removed"
MOVED_FROM: Final = "moved-from"
MOVED_TO: Final = "moved-to"
Change = Literal["same", "added", "removed", "moved-from", "moved-to"]


class PlacedInstruction(Struct, frozen=True):
    """An instruction of one side, as kentry annotate prints it."""

    address: Annotated[str, Meta(pattern="^[0-9a-f]{16}$", description="Without KASLR")]
    code: Annotated[str, about("Its bytes in memory order")]
    text: str
    function: str
    offset: Annotated[Count, about("In the function, in bytes")]
    source_lines: Annotated[
        tuple[SourceLine, ...] | UnsetType,
        about(
            "Where the kernel has debug info, [file, line, function]: its own, then where that was"
            " inlined"
        ),
    ] = UNSET


class Row(Struct, frozen=True, kw_only=True):
    """An instruction of one side or of both.

    `times` is how often it ran in a loop that is folded here.  An instruction that moved has two
    rows, one where it was and one where it is; each has both sides.
    """

    change: Change
    times: Positive
    function: Annotated[str, about("Of the new path, or of the old one; of a rename, both")]
    part: Annotated[str, about("Of the path: entry, dispatch, handler, exit or return")]
    reason: Annotated[
        str, about("What the kernel's tables say of it: static key (__jump_table); or empty")
    ] = ""
    source: Annotated[str, about("The sections with those tables")] = ""
    constants_differ: Annotated[
        bool, about("Whether two that are the same have other constants, such as offsets")
    ] = False
    old: PlacedInstruction | None
    new: PlacedInstruction | None


class PathDiff(Struct, frozen=True, kw_only=True):
    """One case: `added` less `removed` instructions are exactly `delta`."""

    name: str
    old: Count = 0
    new: Count = 0
    delta: int = 0
    same: Count = 0
    added: Count = 0
    removed: Count = 0
    moved: Count = 0
    renamed: Annotated[
        tuple[Renamed, ...],
        about("Functions with other names, inlined or split: recognised by name or instructions"),
    ]
    rows: tuple[Row, ...]
    layout: Annotated[
        LayoutChange | UnsetType,
        about("Where both sides execute the same instructions at other addresses"),
    ] = UNSET
    caveats: tuple[Caveat, ...] = ()

    def __post_init__(self) -> None:
        counts: Counter[str] = Counter()
        for row in self.rows:
            counts[row.change] += row.times
        same, added, removed, moved = (counts[kind] for kind in (SAME, ADDED, REMOVED, MOVED_TO))
        numbers = (same + moved + removed, same + moved + added, added - removed)
        names = ("old", "new", "delta", "same", "added", "removed", "moved")
        for name, count in zip(names, (*numbers, same, added, removed, moved), strict=True):
            force_setattr(self, name, count)


class PathPair(NamedTuple):
    """Both modal paths of a case, and how they differ."""

    old: Sequence[Instruction]
    new: Sequence[Instruction]
    diff: PathDiff


class PathComparison(Struct, frozen=True, tag_field="schema", tag="kentry/path-diff/1"):
    """Where two kernels' paths differ, instruction by instruction."""

    tool: dict[str, str]
    old: Measured
    new: Measured
    cases: Annotated[tuple[PathDiff, ...], Meta(min_length=1)]
    caveats: tuple[Caveat, ...]


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


class Annotation(Struct, OnTarget, kw_only=True, tag="kentry/annotation/1", tag_field="schema"):
    """What kentry annotate prints of one kernel."""

    tool: Annotated[dict[str, str], OMITTED] = {}
    kernel: Annotated[dict[str, Any], about("Without its config")]
    target: dict[str, Any]
    cases: tuple[AnnotatedCase, ...]
