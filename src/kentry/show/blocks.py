# SPDX-License-Identifier: GPL-2.0-or-later
"""What a result is laid out of: blocks, which three writers print.

text.py prints them for a terminal or a pipe, changelog.py for a mail, page.py as HTML.  A block is
a string, which is a line as it is (text leaves an empty line for "", a page nothing), a sentence, a
table, or one of sections.py.  Texts in blocks may come from anyone: each writer makes them harmless
for its form.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kentry.results.caveats import Caveat

if TYPE_CHECKING:
    from kentry.results.recording import OnTarget

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
    """A column: `left` for text, with a second heading for neighbours of one `group`.

    A page sorts a column of changes by `size`, without their signs.  In a table that is too wide,
    its cells are shortened to `most`.  A last column that `wraps` goes on on the next lines.
    """

    name: str = ""
    group: str = ""
    left: bool = False
    most: int | None = None
    wraps: bool = False
    size: bool = False


def text_column(name: str = "", *, most: int | None = None, wraps: bool = False) -> Column:
    """Returns a column of words: aligned left."""
    return Column(name, left=True, most=most, wraps=wraps)


@dataclass(frozen=True)
class Cell:
    """A text that a page colours by the class `kind` of page.css; `link` is a block's id.

    A page draws `at`, from -1 to 1, as a dot on an axis that all cells of the column share.
    """

    text: str
    kind: str = ""
    link: str = ""
    at: float | None = None

    def __str__(self) -> str:
        return self.text


@dataclass
class Table(Element):
    """Rows of cells below headings.

    Lines have at most `width` columns where there is no terminal.  In a table that is too wide
    columns with a `most` are shortened, in their order.  Those that still do not fit follow in a
    second table, which begins with the first `keys` columns again; a group stays together.  Between
    columns are `gap` blanks, or one if that avoids a second table.  Only a page has the `caption`,
    and sorts by the heading that is clicked; of what `sorts`, the last row stays the last.  What
    `filters` sorts too, has no such row, and shows only rows with a text, or that changed.
    """

    columns: Sequence[Column]
    keys: int = 1
    headings: bool = True
    indent: str = ""
    gap: int = 2
    width: int | None = None
    caption: str = ""
    sorts: bool = False
    filters: bool = False
    rows: list[Sequence[object]] = field(default_factory=list)
    notes: dict[int, list[str]] = field(default_factory=dict)

    def row(self, *cells: object) -> None:
        """Adds a row; None is printed as "-", and cells that are not given are empty."""
        self.rows.append(cells)

    def note(self, text: str) -> None:
        """Adds a sentence below the last row."""
        self.notes.setdefault(len(self.rows) - 1, []).append(text)


@dataclass(frozen=True)
class Layout:
    """A whole result; only a page prints title, summary, lead, badges, facts and the command.

    The `lead` stands before caveats and blocks; `badges` say in a few words how it was measured,
    the `command` makes the result again.  `versions` are Linux's own, old and new: functions on a
    page lead to their source.  A changelog says how the `sides` were measured, in which `units`.
    """

    kind: str
    title: str
    summary: str
    blocks: Sequence[Block]
    caveats: Sequence[Caveat] = ()
    facts: Sequence[tuple[str, str]] = ()
    json: Mapping[str, Any] = field(default_factory=dict)
    lead: Sequence[Block] = ()
    badges: Sequence[str] = ()
    command: str = ""
    versions: Sequence[str] = ()
    sides: Mapping[str, OnTarget] = field(default_factory=dict)
    units: Collection[str] = ()
