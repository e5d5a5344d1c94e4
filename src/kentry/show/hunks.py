# SPDX-License-Identifier: GPL-2.0-or-later
"""Two paths beside each other, cut down to what changed and the instructions around it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from kentry.results.annotation import ADDED, MOVED_FROM, REMOVED, SAME, PlacedInstruction, Row
from kentry.show.source_lines import place_text


@dataclass(frozen=True)
class Head:
    """Where a stretch of one function begins, and how much of the stretch changed."""

    function: str
    part: str
    added: int
    removed: int


@dataclass(frozen=True)
class LeftOut:
    """Instructions that are the same: how many, how many with other constants, of what."""

    times: int
    other_constants: int
    functions: Sequence[str]


@dataclass(frozen=True)
class Line:
    """An instruction; `reason` and `place` are "" where they are those of the line before."""

    row: Row
    reason: str
    place: str

    @property
    def own(self) -> PlacedInstruction:
        """The instruction that the row is about."""
        own = self.row.old if self.row.change in (REMOVED, MOVED_FROM) else self.row.new
        assert own
        return own


def hunks(rows: Sequence[Row], context: int) -> Iterator[Head | LeftOut | Line]:
    """Yields the changes with `context` instructions around each, and what stands between them."""
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
            yield _left_out(rows[at:end])
            at, last_reason, last_place = end, "", (False, "")
            continue
        start, own_head = heads[at]
        if start != head:
            yield own_head
            head, last_reason, last_place = start, "", (False, "")
        row = rows[at]
        line = Line(row, "" if row.reason == last_reason else row.reason, "")
        # Each side has lines of its own.
        place = row.change in (REMOVED, MOVED_FROM), place_text(line.own.source_lines or ())
        yield Line(row, line.reason, "" if place == last_place else place[1])
        last_place = place if row.change != SAME else (False, "")
        last_reason = row.reason if row.change != SAME else ""
        at += 1


def _heads(rows: Sequence[Row]) -> list[tuple[int, Head]]:
    """Returns for each row where its function's stretch begins, and the stretch's head."""
    heads: list[tuple[int, Head]] = []
    for (function, part), same in groupby(rows, lambda row: (row.function, row.part)):
        stretch = list(same)
        added, removed = (
            sum(row.times for row in stretch if row.change == change) for change in (ADDED, REMOVED)
        )
        heads += [(len(heads), Head(function, part, added, removed))] * len(stretch)
    return heads


def _left_out(rows: Sequence[Row]) -> LeftOut:
    return LeftOut(
        sum(row.times for row in rows),
        sum(row.times for row in rows if row.constants_differ),
        list(dict.fromkeys(row.new.function for row in rows if row.new)),
    )
