# SPDX-License-Identifier: GPL-2.0-or-later
"""Two paths side by side: the instructions around each change, and how many others are the same."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from kentry.arch import find_arch
from kentry.results.path_diff import (
    ADDED,
    MOVED_FROM,
    MOVED_TO,
    REMOVED,
    SAME,
    PathComparison,
    PathDiff,
    Row,
)
from kentry.results.recording import Recording
from kentry.show.html.frames import first_modal
from kentry.show.html.page import Document, kernel_facts, name_of, side_facts
from kentry.show.source_lines import place_text

# Instructions that are the same before and after each change.
_CONTEXT = 3
# Lines of one case; more make a page that is slow to open, and nobody reads them.
_MOST = 1000
# Of functions that are the same, so many are named.
_NAMED = 3


def path_diff_document(found: PathComparison, document: Mapping[str, Any]) -> Document:
    """What kentry annotate OLD NEW --json wrote."""
    old, new = found.old, found.new
    counts = [f"{one.name}: {one.old} \u2192 {one.new} ({one.delta:+d})" for one in found.cases]
    caveats = list(found.caveats)
    caveats += [note for one in found.cases for note in one.caveats if note not in caveats]
    return Document(
        template="path_diff.html",
        title=f"Paths of {name_of(old.kernel)} and {name_of(new.kernel)}",
        summary=", ".join(counts),
        json=document,
        values={"cases": [(one, side_by_side(one)) for one in found.cases]},
        caveats=caveats,
        facts=side_facts(*(kernel_facts(side.kernel, side.target) for side in (old, new))),
    )


def recorded_side_by_side(name: str, sides: tuple[Recording, Recording]) -> dict[str, Any] | None:
    """The commonest paths of a case; None where one was not recorded."""
    # It loads numpy.
    from kentry.compare.path_diff import diff_paths

    paths = [first_modal(side, side.case(name)) for side in sides]
    if not all(paths):
        return None
    old, new = (side.instructions(path) for side, path in zip(sides, paths, strict=True) if path)
    rows, renamed = diff_paths(old, new, find_arch(sides[0].kernel["arch"]))
    return side_by_side(PathDiff.of(name, rows, renamed, ()))


def side_by_side(case: PathDiff) -> dict[str, Any]:
    """The counts, which add up, the functions with other names, and the lines of the table."""
    lines = list(_lines(case.rows))
    return {
        "counts": {
            "added": case.added,
            "removed": case.removed,
            "moved": case.moved,
            "the same": case.same,
        },
        "delta": case.delta,
        "renamed": [
            [" + ".join(f"{name} ({share})" for name, share in side) for side in (one.new, one.old)]
            for one in case.renamed
        ],
        "lines": lines[:_MOST],
        "cut": max(0, len(lines) - _MOST),
    }


def _lines(rows: Sequence[Row]) -> Iterator[dict[str, Any]]:
    """Heads of functions, rows, and in place of what is left out how much that is."""
    left: list[Row] = []
    for (function, part), same in groupby(rows, lambda row: (row.function, row.part)):
        stretch = list(same)
        near = {
            place
            for at, row in enumerate(stretch)
            if row.change != SAME
            for place in range(at - _CONTEXT, at + _CONTEXT + 1)
        }
        headed = False
        for at, row in enumerate(stretch):
            if at not in near:
                left.append(row)
                continue
            yield from _left_out(left)
            left = []
            if not headed:
                added, removed = (
                    sum(one.times for one in stretch if one.change == change)
                    for change in (ADDED, REMOVED)
                )
                yield {
                    "kind": "head",
                    "function": function,
                    "part": part,
                    "added": added,
                    "removed": removed,
                }
                headed = True
            yield _line(row)
    yield from _left_out(left)


def _left_out(rows: Sequence[Row]) -> Iterator[dict[str, Any]]:
    if rows:
        functions = list(dict.fromkeys(row.function for row in rows))
        more = len(functions) - _NAMED
        named = ", ".join(functions[:_NAMED]) + (f" and {more} more" if more > 0 else "")
        yield {"kind": "left", "size": sum(row.times for row in rows), "functions": named}


def _line(row: Row) -> dict[str, Any]:
    old, new = row.old, row.new
    note = row.reason if row.change != SAME else ""
    if row.change == MOVED_FROM and row.new:
        new, note = None, f"moved to {row.new.function}+{row.new.offset:#x}"
    elif row.change == MOVED_TO and row.old:
        old, note = None, f"moved from {row.old.function}+{row.old.offset:#x}"
    own = new or old
    return {
        "kind": row.change,
        "old": old,
        "new": new,
        "times": row.times,
        "note": note,
        "source": row.source if note and note == row.reason else "",
        "place": place_text(own.source_lines or ()) if own and row.change != SAME else "",
        "constants": row.constants_differ and row.change == SAME,
    }
