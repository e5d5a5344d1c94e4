# SPDX-License-Identifier: GPL-2.0-or-later
"""The one layout of text: tables and paragraphs of at most 75 columns, in ASCII.

75 columns are what checkpatch.pl and b4 ask of a commit message, so every report can be mailed.
No line has a tab or ends in a blank.  Cells and sentences may hold text from outside: accents and
control characters are replaced.  For a terminal, `terminal` lays out for its width instead.
"""

import textwrap
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import groupby, product

WIDTH = 75
# Narrower terminals get lines of this width, which they break themselves.
LEAST_WIDTH = 40

# A cell that wraps has at least this many columns beside the others, or goes below its row.
_LEAST_TEXT = 18
_INDENT = "    "

_ASCII = str.maketrans("\u2018\u2019\u201c\u201d\u2010\u2011\u2013\u2014\u00d7", "''\"\"----x")


@dataclass(frozen=True)
class Terminal:
    """What text is laid out for; `headings` are the lines above tables that were laid out.

    A `width` of None is none of a terminal: every report has its own.
    """

    width: int | None
    headings: set[str] = field(default_factory=set)


_terminal: ContextVar[Terminal | None] = ContextVar("terminal", default=None)


@contextmanager
def terminal(columns: int | None) -> Iterator[Terminal]:
    """Lays out what is made in the block for a terminal of this width, or for none."""
    found = Terminal(columns and max(columns, LEAST_WIDTH))
    token = _terminal.set(found)
    try:
        yield found
    finally:
        _terminal.reset(token)


def line_width(otherwise: int = WIDTH) -> int:
    """The columns of a line of a table: the terminal's, or `otherwise` where there is none."""
    found = _terminal.get()
    return (found and found.width) or otherwise


def heading(line: str) -> str:
    """`line`, which is above a table: a terminal shows it in bold."""
    if found := _terminal.get():
        found.headings.add(line.rstrip())
    return line


def plain(text: str) -> str:
    """`text` in ASCII on one line: accents removed, other characters replaced by "?"."""
    text = unicodedata.normalize("NFKD", text.translate(_ASCII))
    text = "".join(char for char in text if not unicodedata.combining(char))
    printable = "".join(char if char.isprintable() else " " for char in text)
    return " ".join(printable.encode("ascii", "replace").decode().split())


def ascii_lines(lines: Iterable[str]) -> str:
    """The lines as one text, in ASCII, with no blank at the end of a line."""
    text = "\n".join(line.rstrip() for line in lines) + "\n"
    return text.encode("ascii", "replace").decode()


def shortened(text: str, width: int) -> str:
    """`text`, its end replaced by "..." where it is longer than `width`."""
    return text if len(text) <= width else text[: width - 3].rstrip() + "..."


def wrapped(text: str, first: str = "", then: str = "  ", width: int | None = None) -> list[str]:
    """The lines of a sentence in ASCII.  A hyphen does not break a word, nor a blank "12 %".

    Without `width`, they are no longer than 75 columns on a wide terminal either.
    """
    lines = textwrap.wrap(
        plain(text).replace(" %", "\xa0%"),
        min(line_width(), WIDTH) if width is None else width,
        initial_indent=first,
        subsequent_indent=then,
        break_on_hyphens=False,
    )
    return [line.replace("\xa0", " ") for line in lines]


@dataclass(frozen=True)
class Column:
    """A column of a table.

    group: a second heading over neighbouring columns of the same group.  left: text is aligned
    left, numbers right.  most: in a table that is too wide, its cells are shortened to this width;
    on a terminal of less than 75 columns, text may be shortened to a third of its width.
    wraps: the last column may be a sentence, which continues on the next lines.
    """

    name: str = ""
    group: str = ""
    left: bool = False
    most: int | None = None
    wraps: bool = False


def text_column(name: str = "", *, most: int | None = None, wraps: bool = False) -> Column:
    """A column of words: aligned left."""
    return Column(name, left=True, most=most, wraps=wraps)


@dataclass
class Table:
    """Rows of cells below headings; columns are as wide as their longest cell.

    If the table is too wide, columns with a `most` are shortened, in their order.  Columns that
    still do not fit follow in a second table below, which begins with the first `keys` columns
    again; columns of one group stay together.  Between columns are `gap` blanks, or one if that
    avoids a second table.
    """

    columns: Sequence[Column]
    keys: int = 1
    headings: bool = True
    indent: str = ""
    gap: int = 2
    _rows: list[list[str]] = field(default_factory=list)
    _notes: dict[int, list[str]] = field(default_factory=dict)

    def row(self, *cells: object) -> None:
        """Add a row; None is printed as "-", and cells that are not given are empty."""
        texts = ["-" if cell is None else plain(str(cell)) for cell in cells]
        self._rows.append(texts + [""] * (len(self.columns) - len(texts)))

    def note(self, text: str) -> None:
        """Add a sentence below the last row."""
        self._notes.setdefault(len(self._rows) - 1, []).append(text)

    def lines(self, width: int = WIDTH) -> list[str]:
        """The table's lines: as wide as the terminal, or at most `width` columns."""
        room = line_width(width) - len(self.indent)
        blocks, gap, most = self._layout(room)
        natural = self._natural(gap)
        lines: list[str] = []
        for number, places in enumerate(blocks):
            widths = [natural[place] for place in places]
            for i, place in enumerate(places):
                least, over = most[place], _total(widths, gap) - room
                if least is not None and over > 0:
                    widths[i] = max(min(least, widths[i]), widths[i] - over)
            lines += [""] if number else []
            lines += self._block_lines(places, widths, " " * gap, room, notes=not number)
        return [f"{self.indent}{line}".rstrip() for line in lines]

    def _layout(self, room: int) -> tuple[list[list[int]], int, list[int | None]]:
        """Which columns stand beside each other, the gap, and the `most` of each column."""
        most = [column.most for column in self.columns]
        wide, narrow = (self._blocks(most, self.keys, room, gap) for gap in (self.gap, 1))
        if len(narrow) == 1 < len(wide):
            wide, gap = narrow, 1
        else:
            gap = self.gap
        if line_width() >= WIDTH or self._fits(wide, most, room, gap):
            return wide, gap, most
        # Less of the words, then fewer keys.
        for keys, parts in product(range(self.keys, 0, -1), (2, 3)):
            most = [
                min(column.most or room, room // parts) if column.left else column.most
                for column in self.columns
            ]
            blocks = self._blocks(most, keys, room, 1)
            if self._fits(blocks, most, room, 1):
                break
        return blocks, 1, most

    def _fits(
        self, blocks: Sequence[Sequence[int]], most: Sequence[int | None], room: int, gap: int
    ) -> bool:
        """Whether no line is too wide, where what wraps may go below its row."""
        least = [
            len(column.name) if column.wraps else min(width, limit or width)
            for column, width, limit in zip(self.columns, self._natural(gap), most, strict=True)
        ]
        return all(_total((least[place] for place in places), gap) <= room for places in blocks)

    def _heading(self, line: str) -> str:
        return heading(f"{self.indent}{line}")[len(self.indent) :]

    def _natural(self, gap: int) -> list[int]:
        """What each column's longest cell needs; of a column that wraps, what it needs at least."""
        widths = []
        for place, column in enumerate(self.columns):
            longest = max((len(row[place]) for row in self._rows), default=0)
            heading = len(column.name) if self.headings else 0
            longest = min(_LEAST_TEXT, longest) if column.wraps else longest
            widths.append(max(longest, heading))
        for name, same in groupby(range(len(widths)), lambda place: self.columns[place].group):
            group = list(same)
            missing = len(name) - _total((widths[place] for place in group), gap)
            widths[group[0]] += max(0, missing)
        return widths

    def _blocks(
        self, most: Sequence[int | None], keys: int, room: int, gap: int
    ) -> list[list[int]]:
        """Which columns stand beside each other: the keys and as many others as fit."""
        natural = self._natural(gap)
        first = list(range(keys))
        blocks = [first]
        others = range(keys, len(self.columns))
        for _, same in groupby(others, lambda place: self.columns[place].group or place):
            beside = [*blocks[-1], *same]
            least = (min(natural[p], most[p] or natural[p]) for p in beside)
            fits = _total(least, gap) <= room or self.columns[beside[-1]].wraps
            if fits or blocks[-1] == first:
                blocks[-1] = beside
            else:
                blocks.append([*first, *beside[len(blocks[-1]) :]])
        return blocks

    def _block_lines(
        self, places: Sequence[int], widths: Sequence[int], between: str, room: int, *, notes: bool
    ) -> Iterator[str]:
        columns = [self.columns[place] for place in places]
        if any(column.group for column in columns):
            groups = []
            for name, same in groupby(zip(columns, widths, strict=True), lambda one: one[0].group):
                width = _total((width for _, width in same), len(between))
                groups.append(f"{shortened(name, width):>{width}}")
            yield self._heading(between.join(groups))
        if self.headings:
            names = (one.name for one in columns)
            yield self._heading(between.join(map(_cell, columns, widths, names)))
        for number, row in enumerate(self._rows):
            cells = list(map(_cell, columns, widths, (row[place] for place in places)))
            last = row[places[-1]]
            if columns[-1].wraps and last:
                start = "".join(cell + between for cell in cells[:-1])
                beside = room - len(start) >= min(_LEAST_TEXT, len(last))
                yield from [] if beside else [start]
                first, then = (start, " " * len(start)) if beside else (_INDENT, _INDENT)
                yield from wrapped(last, first, then, room)
            else:
                yield between.join(cells)
            for text in self._notes.get(number, ()) if notes else ():
                yield from wrapped(text, _INDENT, _INDENT + "  ", room)


def _total(widths: Iterable[int], gap: int) -> int:
    """How wide columns are beside each other."""
    return sum(width + gap for width in widths) - gap


def _cell(column: Column, width: int, text: str) -> str:
    text = text if column.wraps else shortened(text, width)
    return f"{text:<{width}}" if column.left else f"{text:>{width}}"
