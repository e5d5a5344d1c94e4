# SPDX-License-Identifier: GPL-2.0-or-later
"""Text that a mail leaves as it is: ASCII, no tabs, nothing at the end of a line."""

from __future__ import annotations

import textwrap
import unicodedata
from collections.abc import Iterable

_PLAIN = str.maketrans("\u2018\u2019\u201c\u201d\u2010\u2011\u2013\u2014\u00d7", "''\"\"----x")


def ascii_lines(lines: Iterable[str]) -> str:
    """The lines as one text without anything that a mail would change."""
    text = "\n".join(line.rstrip() for line in lines) + "\n"
    return text.encode("ascii", "replace").decode()


def plain(text: str) -> str:
    """`text` in ASCII on one line: accents left off, what has no ASCII for it as "?"."""
    text = unicodedata.normalize("NFKD", text.translate(_PLAIN))
    text = "".join(char for char in text if not unicodedata.combining(char))
    printable = "".join(char if char.isprintable() else " " for char in text)
    return " ".join(printable.encode("ascii", "replace").decode().split())


def shortened(text: str, width: int) -> str:
    """`text`, its end replaced by "..." where it has no room."""
    return text if len(text) <= width else text[: width - 3].rstrip() + "..."


def wrapped(text: str, width: int, first: str = "", then: str = "  ") -> list[str]:
    """The lines of a sentence; hyphens are part of words."""
    return textwrap.wrap(
        text, width, initial_indent=first, subsequent_indent=then, break_on_hyphens=False
    )


def percent(delta: int, old: int, digits: int = 1) -> str:
    """`delta` in per cent of `old`, with as many digits as it takes not to be a zero."""
    while True:
        text = f"{100 * delta / old:+.{digits}f}"
        if not delta or float(text):
            return text
        digits += 1


def signed(value: int) -> str:
    """A step as it is printed: with its sign, unless it is none."""
    return f"{value:+d}" if value else "0"
