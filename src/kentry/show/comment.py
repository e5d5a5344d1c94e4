# SPDX-License-Identifier: GPL-2.0-or-later
"""The first screen of a page as a comment that a bot posts: a mail, and Markdown that is literal.

Every line is indented, so that Markdown shows names from outside as they are: none of them is a
link, calls a person or ends the comment.
"""

from collections.abc import Iterator, Sequence

from kentry.show.blocks import Layout, Prose
from kentry.show.table import WIDTH, plain, shortened, wrapped

_LINES, _INDENT = 15, "    "
# A sentence that names many functions is cut where the second line ends.
_SENTENCE = 2 * (WIDTH - len(_INDENT))


def comment(layout: Layout) -> str:
    """Returns title and verdict, how it was measured, the largest changes and the command."""
    lead = [
        line for block in layout.lead if isinstance(block, Prose) for line in _lines(block.text)
    ]
    head = [
        *_lines(f"{layout.title}: {layout.summary}".replace("\u2192", "->")),
        *_lines(", ".join(layout.badges)),
    ]
    # A command that is broken cannot be copied.
    end = ["", f"{_INDENT}{plain(layout.command)}"] if layout.command else []
    room = _LINES - len(head) - len(end) - 1
    if len(lead) > room:
        lead = [*lead[: room - 1], f"{_INDENT}..."]
    return "".join(f"{line}\n" for line in [*head, *([""] if lead else []), *lead, *end])


def short(layout: Layout) -> str:
    """Returns at most four lines for a commit message: the result, its sentence, how measured."""
    sentences = [block.text for block in layout.lead if isinstance(block, Prose)]
    head = plain(f"{layout.title}: {layout.summary}".replace("\u2192", "->"))
    measured = wrapped(", ".join(layout.badges))[:2]
    lines = wrapped(shortened(head, 2 * WIDTH))[: 4 - len(measured)]
    if sentences and (room := 4 - len(measured) - len(lines)):
        lines += wrapped(shortened(sentences[0], room * (WIDTH - 2)))[:room]
    return "".join(f"{line}\n" for line in [*lines, *measured])


def comments(layouts: Sequence[Layout], notes: Sequence[str]) -> str:
    """Returns a comment for each result, then sentences about all of them."""
    paragraphs = ["".join(f"{line}\n" for line in _lines(note)) for note in notes]
    return "\n".join([*map(comment, layouts), *paragraphs])


def _lines(text: str) -> Iterator[str]:
    yield from wrapped(shortened(plain(text), _SENTENCE), _INDENT, _INDENT)
