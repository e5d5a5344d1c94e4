# SPDX-License-Identifier: GPL-2.0-or-later
"""What a result is laid out of: blocks, which three writers print.

text.py prints them for a terminal or a pipe, changelog.py for a mail, page.py as HTML.  A block is
a string, which is a line as it is (text leaves an empty line for "", a page nothing), or one of the
classes below.  Texts in blocks may come from anyone: each writer makes them harmless for its form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from markupsafe import Markup

from kentry.results.annotation import PathDiff
from kentry.results.caveats import Caveat
from kentry.results.comparison import FunctionDelta, PurposeDelta

# Rows of a table of functions; text adds up further ones in one row.
SHOWN = 10


class Element:
    """A block that is no string."""


Block = str | Element


@dataclass(frozen=True)
class Prose(Element):
    """A sentence.  Text indents its first line by `first` and the others by `then`."""

    text: str
    first: str = ""
    then: str = "  "


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
    """Returns a column of words: aligned left."""
    return Column(name, left=True, most=most, wraps=wraps)


@dataclass(frozen=True)
class Cell:
    """A cell that is more than a text on a page.

    `kind` is a class of page.css that colours it, a verdict for instance; `link` is the id of the
    block that it opens.
    """

    text: str
    kind: str = ""
    link: str = ""

    def __str__(self) -> str:
        return self.text


@dataclass
class Table(Element):
    """Rows of cells below headings.

    Text makes columns as wide as their longest cell, in lines of at most `width` columns where
    there is no terminal.  If the table is too wide, columns with a `most` are shortened, in their
    order.  Columns that still do not fit follow in a second table below, which begins with the
    first `keys` columns again; columns of one group stay together.  Between columns are `gap`
    blanks, or one if that avoids a second table.  Only a page prints the `caption`, and headings
    where text has none.
    """

    columns: Sequence[Column]
    keys: int = 1
    headings: bool = True
    indent: str = ""
    gap: int = 2
    width: int | None = None
    caption: str = ""
    rows: list[Sequence[object]] = field(default_factory=list)
    notes: dict[int, list[str]] = field(default_factory=dict)

    def row(self, *cells: object) -> None:
        """Adds a row; None is printed as "-", and cells that are not given are empty."""
        self.rows.append(cells)

    def note(self, text: str) -> None:
        """Adds a sentence below the last row."""
        self.notes.setdefault(len(self.rows) - 1, []).append(text)


# A function, a part of a path or a reason: its instructions on both sides.
Delta = FunctionDelta | PurposeDelta


@dataclass(frozen=True)
class Deltas(Element):
    """Functions that changed, in text exactly as the kernel's scripts/bloat-o-meter prints them.

    Text prints `shown` rows, None for all, and sums the others up in one.  With `old` and `new`,
    the counts of both sides, the functions that did not change are one row more, and there is a
    total.  `title` heads the rows of something that is no function: those have no first line.
    """

    rows: Sequence[Delta]
    old: int | None = None
    new: int | None = None
    shown: int | None = SHOWN
    title: str = ""


@dataclass(frozen=True)
class Paths(Element):
    """Two paths of a case, with `context` instructions that are the same around each change.

    `change` is the case's own, which is another one where the count depends on the context.
    """

    diff: PathDiff
    context: int = 3
    change: int | None = None


@dataclass(frozen=True)
class Chart(Element):
    """A drawing, which only a page shows; `kinds` explain its colours, each a class and a word."""

    drawing: Markup
    caption: str = ""
    kinds: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Drawn(Element):
    """A line that only text draws, in characters that are not turned into ASCII."""

    draw: Callable[[], str]


@dataclass(frozen=True)
class Detail(Element):
    """Lines that a program printed."""

    text: str


@dataclass(frozen=True)
class Section(Element):
    """Blocks below a heading that only a page has."""

    title: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Fold(Element):
    """Blocks below a title, which a page can close; others link to its `id`."""

    title: str | Prose
    blocks: Sequence[Block]
    id: str = ""
    open: bool = False
    tags: Sequence[str] = ()


@dataclass(frozen=True)
class InText(Element):
    """Blocks that only text has, because a page says it in another place."""

    blocks: Sequence[Block]


@dataclass(frozen=True)
class OnPage(Element):
    """Blocks that only a page has room for."""

    blocks: Sequence[Block]


@dataclass(frozen=True)
class Notes(Element):
    """Caveats in the middle of a result: those of a commit, for instance."""

    caveats: Sequence[Caveat]


@dataclass(frozen=True)
class Layout:
    """A whole result.

    Only a page prints the title, the summary and the facts about how it was measured.  Every writer
    prints the caveats, text behind the blocks.
    """

    kind: str
    title: str
    summary: str
    blocks: Sequence[Block]
    caveats: Iterable[Caveat] = ()
    facts: Sequence[tuple[str, str]] = ()
    json: Mapping[str, Any] = field(default_factory=dict)
