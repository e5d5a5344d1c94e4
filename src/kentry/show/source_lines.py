# SPDX-License-Identifier: GPL-2.0-or-later
"""Lines of source beside instructions."""

from collections.abc import Iterator, Sequence

from kentry.results.recording import SourceLine
from kentry.show.table import plain

_SHOWN = 2


def place_text(lines: Sequence[SourceLine]) -> str:
    """The line, and after "<" the line of the function that it was inlined into; "" if not known.

    Lines between the two are left out.  Of a file it has the name alone: with its folder it would
    be longer than most instructions.
    """
    names = [f"{one.file.rpartition('/')[2]}:{one.line}" for one in lines]
    if len(names) > _SHOWN:
        names[1:-1] = ["..."]
    return plain(" < ".join(names))


def changed_places(found: Sequence[Sequence[SourceLine]]) -> Iterator[str]:
    """The line of each instruction, "" where it is that of the one before."""
    before = ""
    for lines in found:
        place = place_text(lines)
        yield "" if place == before else place
        before = place
