# SPDX-License-Identifier: GPL-2.0-or-later
"""Blocks as text: for a terminal, a pipe or a mail."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kentry.results.annotation import ADDED, MOVED_FROM, MOVED_TO, REMOVED, SAME, PlacedInstruction
from kentry.results.caveats import CONFIG, OF_ENTRY, Caveat
from kentry.results.comparison import FunctionDelta
from kentry.show.blocks import Block, Layout, Prose, Table
from kentry.show.paths import Head, LeftOut, Line, hunks
from kentry.show.sections import Deltas, Detail, Drawn, Fold, InText, Notes, Paths, Section
from kentry.show.table import WIDTH, bars, heading, plain, shortened, table_lines, wrapped

UNKNOWN = "no path was recorded on one side, so the functions are not known"

# Columns of a name, and of each number with the blank before it.
_NAME, _NUMBER = 40, 8
_NOTES_COLUMN = 40
# As in git's diffs, a line's first character says what it is; "<" is where an instruction moved
# from, ">" is where it is now.
_SIGNS = {SAME: " ", ADDED: "+", REMOVED: "-", MOVED_FROM: "<", MOVED_TO: ">"}


def to_text(layout: Layout, *, verbose: bool = False) -> str:
    """Returns the whole result, its caveats below it; only `verbose` ones name config options."""
    notes = list(layout.caveats)
    if not verbose:
        notes = [
            {**n, "text": n["text"].partition(OF_ENTRY)[0]} if n["kind"] == CONFIG else n
            for n in notes
        ]
    return written([*layout.blocks, *_note_blocks(notes)])


def written(blocks: Iterable[Block]) -> str:
    """Returns blocks as lines in ASCII, as wide as the terminal, with no blank at a line's end."""
    return "".join(f"{line.rstrip()}\n" for line in _lines(blocks))


def _lines(blocks: Iterable[Block]) -> Iterator[str]:
    for block in blocks:
        match block:
            case Drawn():
                yield block.draw()
            case Section() | InText():
                yield from _lines(block.blocks)
            case Fold():
                yield from _lines([block.title, *block.blocks])
            case Notes():
                yield from _lines(_note_blocks(block.caveats))
            case _:
                for line in _block_lines(block):
                    yield line.encode("ascii", "replace").decode()


def _note_blocks(caveats: Iterable[Caveat]) -> list[Block]:
    notes = [Prose(f"note: {caveat['text']}", then="      ") for caveat in caveats]
    return ["", *notes] if notes else []


def _block_lines(block: Block) -> Iterator[str]:
    match block:
        case str():
            yield block
        case Prose():
            yield from wrapped(block.text, block.first, block.then)
        case Table():
            yield from table_lines(block)
        case Deltas():
            yield from _delta_lines(block)
        case Paths():
            yield from _path_lines(block)
        case Detail():
            for line in block.text.expandtabs().splitlines():
                visible = (char if char.isprintable() else "?" for char in line)
                yield f"    {''.join(visible)}"


def _delta_lines(block: Deltas) -> Iterator[str]:
    if not block.rows and block.old is not None:
        yield f"  {UNKNOWN}"
        return
    changed = [row for row in block.rows if row.new != row.old or block.title]
    if not block.title:
        ups = [row.new - row.old for row in changed if row.new > row.old]
        downs = [row.new - row.old for row in changed if row.new < row.old]
        added, removed = (sum(not row.old for row in changed), sum(not row.new for row in changed))
        yield (
            f"add/remove: {added}/{removed} grow/shrink: {len(ups) - added}"
            f"/{len(downs) - removed} up/down: {sum(ups)}/{sum(downs)} ({sum(ups) + sum(downs)})"
        )
    yield heading(_cells(block.title or "Function", "old", "new", "delta"))
    most = block.shown
    cut = len(changed) if block.title or most is None or len(changed) <= most + 1 else most
    bars_of_rows = bars([row.new - row.old for row in changed[:cut]], _NAME + 3 * _NUMBER)
    for row, bar in zip(changed[:cut], bars_of_rows, strict=True):
        # Of several functions as much as fits, since the path diff has all of it.
        is_several = isinstance(row, FunctionDelta) and row.renamed
        line = _delta_line(shortened(row.name, _NAME) if is_several else row.name, row.old, row.new)
        yield f"{line} {bar}"
    if rest := changed[cut:]:
        label = f"{len(rest)} other functions"
        yield _delta_line(label, sum(row.old for row in rest), sum(row.new for row in rest))
    if block.old is None or block.new is None:
        return
    if same := block.old - sum(row.old for row in changed):
        count = len(block.rows) - len(changed)
        yield _delta_line(f"{count} unchanged" if count else "unchanged", same, same)
    yield _delta_line("Total", block.old, block.new, block.mark)


def _delta_line(name: str, old: int, new: int, mark: str = "") -> str:
    change = f"{new - old:+d}" if new != old else "-"
    return _cells(name, old or "-", f"{new or '-'}{mark}", change)


def _cells(name: str, *cells: object) -> str:
    # A name that is too long moves its numbers to the right.
    return f"{name:<{_NAME}}{''.join(f'{cell:>{_NUMBER}}' for cell in cells)}"


def _path_lines(block: Paths) -> Iterator[str]:
    for hunk in hunks(block.diff.rows, block.context):
        match hunk:
            case Head():
                delta = f" ({hunk.added - hunk.removed:+d})"
                changed = hunk.added or hunk.removed
                counts = f" -{hunk.removed} +{hunk.added}{delta}" if changed else ""
                yield from ("", f"@@ {plain(hunk.function)}{counts} @@ {hunk.part}")
            case LeftOut():
                constants = f", {hunk.other_constants} with other constants"
                constants = constants if hunk.other_constants else ""
                line = f" ... {hunk.times} the same{constants}: {hunk.functions[0]}"
                more = len(hunk.functions) - 1
                for name in hunk.functions[1:]:
                    if len(f"{line}, {name} and {more - 1} more") > WIDTH:
                        line += f" and {more} more"
                        break
                    line, more = f"{line}, {name}", more - 1
                yield f" {plain(line)}"
            case Line():
                yield _instruction_line(hunk)


def _instruction_line(line: Line) -> str:
    row = line.row
    notes = [line.source] if row.change != SAME and line.source else []
    notes += [f"x{row.times}"] * (row.times > 1)
    if row.change == MOVED_FROM and row.new:
        notes.append(f"to {row.new.function}+{row.new.offset:#x}")
    elif row.change == MOVED_TO and row.old:
        notes.append(f"from {row.old.function}+{row.old.offset:#x}")
    elif row.change == SAME and row.constants_differ and row.old:
        notes.append(f"was {_shown(row.old)}")
    elif row.change != SAME and row.reason:
        notes.append(row.reason)
    start = f"{_SIGNS[row.change]} {line.own.offset:>#6x}  {_shown(line.own)}"
    note = "; ".join(notes)
    # Notes stand below each other where they fit into the width.
    column = max(len(start) + 2, min(_NOTES_COLUMN, WIDTH - len(note)))
    return f"{start:<{column}}{note}" if note else start


def _shown(insn: PlacedInstruction) -> str:
    """Returns the text, without the function's name where it names its own."""
    return plain(insn.text.replace(f"<{insn.function}+", "<+"))
