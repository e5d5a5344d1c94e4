# SPDX-License-Identifier: GPL-2.0-or-later
"""Blocks that hold others, and those of functions, paths and charts."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from markupsafe import Markup

from kentry.results.annotation import PathDiff
from kentry.results.caveats import Caveat
from kentry.results.comparison import FunctionDelta, PurposeDelta
from kentry.show.blocks import SHOWN, Block, Element, Prose


@dataclass(frozen=True)
class Deltas(Element):
    """Functions that changed, in text as the kernel's scripts/bloat-o-meter prints them.

    Text sums up rows beyond `shown`.  With the counts `old` and `new` there are a row of what did
    not change and a total, whose new count is followed by `mark`.  `title` heads rows of something
    that is no function.
    """

    rows: Sequence[FunctionDelta | PurposeDelta]
    old: int | None = None
    new: int | None = None
    shown: int | None = SHOWN
    title: str = ""
    mark: str = ""


@dataclass(frozen=True)
class Paths(Element):
    """Two paths; the case's own `change` is another one where its count depends on the context.

    A page shows the `hunks` where they are given, which leave out what other paths show.
    """

    diff: PathDiff
    context: int = 3
    change: int | None = None
    hunks: Sequence[tuple[object, ...]] = ()


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
