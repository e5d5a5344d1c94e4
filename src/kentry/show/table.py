# SPDX-License-Identifier: GPL-2.0-or-later
"""Tables and paragraphs of printable ASCII, in 75 columns or those of a terminal.

75 columns are what checkpatch.pl and b4 ask of a commit message, so every report can be mailed.
"""

import textwrap
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import groupby

from kentry.show.blocks import Column, Table

# A narrower terminal gets them too, and breaks the lines itself.
WIDTH = 75

# A cell that wraps has at least this many columns beside the others, or goes below its row.
_LEAST_TEXT = 18
_INDENT = "    "

# The longest bar of a table, columns, and the shortest that tells sizes apart.
_BAR, _LEAST_BAR = 8, 4

_ASCII = str.maketrans("\u2018\u2019\u201c\u201d\u2010\u2011\u2013\u2014\u00d7", "''\"\"----x")


@dataclass(frozen=True)
class Terminal:
    """A width, None where it is no terminal, and the lines above tables, which are bold."""

    width: int | None
    headings: set[str] = field(default_factory=set)


_terminal: ContextVar[Terminal | None] = ContextVar("terminal", default=None)


@contextmanager
def terminal(columns: int | None) -> Iterator[Terminal]:
    """Lays out what is made in the block for a terminal of this width, or for none."""
    screen = Terminal(columns and max(columns, WIDTH))
    token = _terminal.set(screen)
    try:
        yield screen
    finally:
        _terminal.reset(token)


def line_width(otherwise: int = WIDTH) -> int:
    """Returns the columns of a table's line: the terminal's, or `otherwise` where there is none."""
    screen = _terminal.get()
    return (screen and screen.width) or otherwise


def bars(sizes: Sequence[float], beside: int) -> list[str]:
    """A bar a size, with its sign as git's --stat has it, if a screen has room `beside` columns."""
    screen, most = _terminal.get(), max(map(abs, sizes), default=0)
    room = min(_BAR, screen.width - beside - 2) if screen and screen.width else 0
    if room < _LEAST_BAR or not most:
        return [""] * len(sizes)
    lengths = (max(1, round(room * abs(size) / most)) if size else 0 for size in sizes)
    signs = ("+" if size > 0 else "-" for size in sizes)
    return ["|" * (length > 0) + sign * length for length, sign in zip(lengths, signs, strict=True)]


def heading(line: str) -> str:
    """Returns `line`, which is above a table: a terminal shows it in bold."""
    if screen := _terminal.get():
        screen.headings.add(line.rstrip())
    return line


def plain(text: str) -> str:
    """Returns `text` in ASCII on one line: accents removed, other characters replaced by "?"."""
    text = unicodedata.normalize("NFKD", text.translate(_ASCII))
    text = "".join(char for char in text if not unicodedata.combining(char))
    printable = "".join(char if char.isprintable() else " " for char in text)
    return " ".join(printable.encode("ascii", "replace").decode().split())


def shortened(text: str, width: int) -> str:
    """Returns `text`, its end replaced by "..." where it is longer than `width`."""
    return text if len(text) <= width else text[: width - 3].rstrip() + "..."


def wrapped(text: str, first: str = "", then: str = "  ", width: int = WIDTH) -> list[str]:
    """Returns the lines of a sentence, of 75 columns at most; no hyphen is broken, nor "12 %"."""
    lines = textwrap.wrap(
        plain(text).replace(" %", "\xa0%"),
        width,
        initial_indent=first,
        subsequent_indent=then,
        break_on_hyphens=False,
    )
    return [line.replace("\xa0", " ") for line in lines]


def table_lines(table: Table) -> list[str]:
    """Returns the table's lines: as wide as the terminal, or at most its own width."""
    return list(_TableText(table).lines())


class _TableText:
    """A table's cells as text, in ASCII, and how they are laid out in lines."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._columns = table.columns
        self._room = line_width(table.width or WIDTH) - len(table.indent)
        self._rows = []
        for row in table.rows:
            texts = ["-" if cell is None else plain(str(cell)) for cell in row]
            self._rows.append(texts + [""] * (len(table.columns) - len(texts)))

    def lines(self) -> Iterator[str]:
        gap = self._table.gap
        blocks = self._blocks(gap)
        if len(blocks) > 1 == len(closer := self._blocks(1)):
            blocks, gap = closer, 1
        natural = self._natural(gap)
        for number, indexes in enumerate(blocks):
            widths = [natural[index] for index in indexes]
            for i, index in enumerate(indexes):
                least, over = self._columns[index].most, _total(widths, gap) - self._room
                if least is not None and over > 0:
                    widths[i] = max(min(least, widths[i]), widths[i] - over)
            yield from [""] if number else []
            for line in self._block_lines(indexes, widths, " " * gap, notes=not number):
                yield f"{self._table.indent}{line}".rstrip()

    def _heading(self, line: str) -> str:
        return heading(f"{self._table.indent}{line}")[len(self._table.indent) :]

    def _natural(self, gap: int) -> list[int]:
        """What each column's longest cell needs; of a column that wraps, what it needs at least."""
        widths = []
        for index, column in enumerate(self._columns):
            longest = max((len(row[index]) for row in self._rows), default=0)
            heading = len(column.name) if self._table.headings else 0
            longest = min(_LEAST_TEXT, longest) if column.wraps else longest
            widths.append(max(longest, heading))
        for name, same in groupby(range(len(widths)), lambda index: self._columns[index].group):
            group = list(same)
            missing = len(name) - _total((widths[index] for index in group), gap)
            widths[group[0]] += max(0, missing)
        return widths

    def _blocks(self, gap: int) -> list[list[int]]:
        """Returns which columns stand beside each other: the keys and as many others as fit."""
        natural = self._natural(gap)
        first = list(range(self._table.keys))
        blocks = [first]
        others = range(len(first), len(self._columns))
        for _, same in groupby(others, lambda index: self._columns[index].group or index):
            beside = [*blocks[-1], *same]
            least = (min(natural[p], self._columns[p].most or natural[p]) for p in beside)
            fits = _total(least, gap) <= self._room or self._columns[beside[-1]].wraps
            if fits or blocks[-1] == first:
                blocks[-1] = beside
            else:
                blocks.append([*first, *beside[len(blocks[-1]) :]])
        return blocks

    def _block_lines(
        self, indexes: Sequence[int], widths: Sequence[int], between: str, *, notes: bool
    ) -> Iterator[str]:
        columns = [self._columns[index] for index in indexes]
        if any(column.group for column in columns):
            groups = []
            for name, same in groupby(zip(columns, widths, strict=True), lambda p: p[0].group):
                width = _total((width for _, width in same), len(between))
                groups.append(f"{shortened(name, width):>{width}}")
            yield self._heading(between.join(groups))
        if self._table.headings:
            names = (column.name for column in columns)
            yield self._heading(between.join(map(_cell, columns, widths, names)))
        for number, row in enumerate(self._rows):
            cells = list(map(_cell, columns, widths, (row[index] for index in indexes)))
            last = row[indexes[-1]]
            if columns[-1].wraps and last:
                start = "".join(cell + between for cell in cells[:-1])
                beside = self._room - len(start) >= min(_LEAST_TEXT, len(last))
                yield from [] if beside else [start]
                first, then = (start, " " * len(start)) if beside else (_INDENT, _INDENT)
                yield from wrapped(last, first, then, self._room)
            else:
                yield between.join(cells)
            for text in self._table.notes.get(number, ()) if notes else ():
                yield from wrapped(text, _INDENT, _INDENT + "  ", self._room)


def _total(widths: Iterable[int], gap: int) -> int:
    return sum(width + gap for width in widths) - gap


def _cell(column: Column, width: int, text: str) -> str:
    text = text if column.wraps else shortened(text, width)
    return f"{text:<{width}}" if column.left else f"{text:>{width}}"
