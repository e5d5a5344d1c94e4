# SPDX-License-Identifier: GPL-2.0-or-later
"""A path as calls within calls: which function ran from where to where, and who called it."""

from collections.abc import Sequence
from typing import NamedTuple

from kentry.arch import Arch
from kentry.path.phases import call_depths, split_calls
from kentry.results.recording import Instruction


class Span(NamedTuple):
    """A function from its first instruction to its last, with all that it calls.

    `start` and `end` are positions in the path, `end` behind the last.  `caller` is the index of
    the span that called it and `site` the position of the instruction that did; None for the
    entry's own.  A function that is jumped to takes the place of the one that jumps, so its
    caller is that one's caller.
    """

    function: str
    start: int
    end: int
    caller: int | None
    site: int | None


class Spans(NamedTuple):
    """The spans of a path, each behind its caller; `inner` is the innermost at each position."""

    spans: tuple[Span, ...]
    inner: tuple[int, ...]


def spans(path: Sequence[Instruction], arch: Arch) -> Spans:
    """The spans of a window's path; each of its system calls begins outside of any call."""
    found: list[Span] = []
    inner: list[int] = []
    for call in split_calls(path):
        running: list[int] = []
        for insn, depth in zip(call, call_depths(call, arch), strict=True):
            position = len(inner)
            here = found[running[depth]] if depth < len(running) else None
            goes_on = here is not None and here.function == insn.function
            _close(found, running, depth + goes_on, position)
            if not goes_on:
                caller = running[-1] if running else None
                called = position - 1 if running else None
                site = here.site if here else called
                running.append(len(found))
                found.append(Span(insn.function, position, position, caller, site))
            inner.append(running[-1])
        _close(found, running, 0, len(inner))
    return Spans(tuple(found), tuple(inner))


def _close(found: list[Span], running: list[int], left: int, position: int) -> None:
    """Ends all but the outermost `left` of the running spans before a position."""
    for index in running[left:]:
        found[index] = found[index]._replace(end=position)
    del running[left:]
