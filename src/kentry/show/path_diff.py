# SPDX-License-Identifier: GPL-2.0-or-later
"""What `kentry annotate OLD NEW` and `kentry diff --path` print: two paths as one unified diff.

As in git's diffs, a line's first character says what it is: "+" added, "-" removed, " " the same,
"@" a function's head.  "<" is where an instruction moved from, ">" is where it is now.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby

from kentry.results.path_diff import (
    ADDED,
    MOVED_FROM,
    MOVED_TO,
    REMOVED,
    SAME,
    PathComparison,
    PathDiff,
    PlacedInstruction,
    Row,
)
from kentry.show.frame import caveat_lines, kernel_lines
from kentry.show.source_lines import place_text
from kentry.show.table import WIDTH, ascii_lines, plain, wrapped

_SIGNS = {SAME: " ", ADDED: "+", REMOVED: "-", MOVED_FROM: "<", MOVED_TO: ">"}
# The column of what is known of an instruction.
_NOTES = 40


def path_text(comparison: PathComparison, context: int) -> str:
    """The whole report, with `context` instructions that are the same around each change."""
    lines = [*kernel_lines(comparison.old, "old: "), *kernel_lines(comparison.new, "new: ")]
    for case in comparison.cases:
        lines += ["", *_summary(case), *_hunks(case.rows, context)]
    notes = [*comparison.caveats, *(note for case in comparison.cases for note in case.caveats)]
    notes = [note for at, note in enumerate(notes) if note not in notes[:at]]
    return ascii_lines([*lines, *caveat_lines(notes)])


def _summary(case: PathDiff) -> Iterator[str]:
    """The counts, which add up, and the functions that have other names."""
    counts = [f"{case.added} added", f"{case.removed} removed"]
    counts += [f"{case.moved} moved"] * bool(case.moved)
    change = f"{case.old} -> {case.new} kernel instructions ({case.delta:+d})"
    if not (case.added or case.removed or case.moved):
        other = sum(row.times for row in case.rows if row.constants_differ)
        constants = f", {other} with other constants" if other else ""
        yield from wrapped(f"{case.name}: {case.new} kernel instructions, all the same{constants}")
        return
    yield from wrapped(f"{case.name}: {change}: {', '.join(counts)}, {case.same} the same")
    for one in case.renamed:
        old, new = (
            " + ".join(f"{name} ({share})" for name, share in side) for side in (one.old, one.new)
        )
        yield from wrapped(f"{new} <- {old}", "  ", "    ")


def _hunks(rows: Sequence[Row], context: int) -> Iterator[str]:
    """The changes, with a head for each function and a line for what is left out."""
    changed = [at for at, row in enumerate(rows) if row.change != SAME]
    if not changed:
        return
    heads = _heads(rows)
    # What is the same in another function explains no change.
    shown = {
        near
        for at in changed
        for near in range(max(0, at - context), min(len(rows), at + context + 1))
        if heads[near][0] == heads[at][0]
    }
    # A line about one instruction would say less than the instruction.
    inside = range(1, len(rows) - 1)
    shown |= {at for at in inside if {at - 1, at + 1} <= shown and heads[at - 1] == heads[at + 1]}
    head, last_reason, last_place = -1, "", (False, "")
    at = 0
    while at < len(rows):
        if at not in shown:
            end = next((n for n in range(at, len(rows)) if n in shown), len(rows))
            yield from _left_out(rows[at:end])
            at, last_reason, last_place = end, "", (False, "")
            continue
        start, text = heads[at]
        if start != head:
            yield from ["", text]
            head, last_reason, last_place = start, "", (False, "")
        row = rows[at]
        # Each side has lines of its own.
        place = row.change in (REMOVED, MOVED_FROM), place_text(_own(row).source_lines or ())
        reason = "" if row.reason == last_reason else row.reason
        yield _line(row, reason, "" if place == last_place else place[1])
        last_place = place if row.change != SAME else (False, "")
        last_reason = row.reason if row.change != SAME else ""
        at += 1


def _heads(rows: Sequence[Row]) -> list[tuple[int, str]]:
    """For each row where its function's stretch begins, and the stretch's head."""
    heads: list[tuple[int, str]] = []
    for (function, part), same in groupby(rows, lambda row: (row.function, row.part)):
        stretch = list(same)
        added = sum(row.times for row in stretch if row.change == ADDED)
        removed = sum(row.times for row in stretch if row.change == REMOVED)
        counts = f" -{removed} +{added} ({added - removed:+d})" if added or removed else ""
        text = f"@@ {plain(function)}{counts} @@ {part}"
        heads += [(len(heads), text)] * len(stretch)
    return heads


def _left_out(rows: Sequence[Row]) -> Iterator[str]:
    count = sum(row.times for row in rows)
    other = sum(row.times for row in rows if row.constants_differ)
    functions = list(dict.fromkeys(row.new.function for row in rows if row.new))
    constants = f", {other} with other constants" if other else ""
    text = f" ... {count} the same{constants}: {functions[0]}"
    more = len(functions) - 1
    for name in functions[1:]:
        if len(f"{text}, {name} and {more - 1} more") > WIDTH:
            text += f" and {more} more"
            break
        text, more = f"{text}, {name}", more - 1
    yield plain(text).join([" ", ""])


def _line(row: Row, reason: str, place: str) -> str:
    """The instruction where it is, or where it was, and at the right what is known of it."""
    own = _own(row)
    notes = [f"x{row.times}"] * (row.times > 1)
    if row.change == MOVED_FROM and row.new:
        notes.append(f"to {_place(row.new)}")
    elif row.change == MOVED_TO and row.old:
        notes.append(f"from {_place(row.old)}")
    elif row.change == SAME and row.constants_differ and row.old:
        notes.append(f"was {_shown(row.old)}")
    elif row.change != SAME and reason:
        notes.append(reason)
    if row.change != SAME and place:
        notes.insert(0, place)
    start = f"{_SIGNS[row.change]} {own.offset:>#6x}  {_shown(own)}"
    note = "; ".join(notes)
    # Notes stand below each other where they fit into the width.
    column = max(len(start) + 2, min(_NOTES, WIDTH - len(note)))
    return f"{start:<{column}}{note}" if note else start


def _own(row: Row) -> PlacedInstruction:
    """The instruction that the row is about."""
    own = row.old if row.change in (REMOVED, MOVED_FROM) else row.new
    assert own
    return own


def _place(insn: PlacedInstruction) -> str:
    return f"{insn.function}+{insn.offset:#x}"


def _shown(insn: PlacedInstruction) -> str:
    """The text, without the function's name where it names its own."""
    return plain(insn.text.replace(f"<{insn.function}+", "<+"))
