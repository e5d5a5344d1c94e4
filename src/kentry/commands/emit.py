# SPDX-License-Identifier: GPL-2.0-or-later
"""Where every command writes its result: the one place that knows of terminals.

There text has the screen's width, colours by what its lines look like, and a pager.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Protocol

from kentry.progress import printable

if TYPE_CHECKING:
    from msgspec import Struct

    from kentry.show.blocks import Layout

AUTO, ALWAYS, NEVER = COLORS = ("auto", "always", "never")

_PAGER = "less -FRX"
# What less does where neither PAGER nor LESS says more: as git has it.
_LESS = "FRX"

_BOLD, _DIM, _RED, _GREEN, _YELLOW, _MAGENTA, _CYAN = "1", "2", "31", "32", "33", "35", "36"
# By the first character of a line of a path's differences: added, removed, moved.
_MARKS = {"+": _GREEN, "-": _RED, ">": _MAGENTA, "<": _MAGENTA}
# "getppid (+2)", "entry (85)": what stands above a table or a list.
_TITLE = re.compile(r"(?!add/remove: |Total)\S.* \([+-]?\d+\)")
_NOTE, _NOTE_GOES_ON = ("note: ", "warning: "), " " * 6
# A verdict ends its cell, or a reason or what else is known follows.  "2 undecided" is none, nor is
# "the same" of a sentence.
_VERDICT = re.compile(
    r"(?:\([+-][^()]*\) )?(?<=[^\d,] )(?<!the )"
    r"(worse|better|same|undecided|over by [^ ]+|within)(?=$|, |: |  )"
    r"|^(missing|ok)(?=  )"
)
# A change and its bar, in a direction.
_CHANGE = re.compile(r"(?<= )(?:[+-]\d+ )?\|(\++|-+)(?=\s|$)")
_VERDICTS = {
    "+": _RED,
    "-": _GREEN,
    "worse": _RED,
    "over": _RED,
    "missing": _RED,
    "better": _GREEN,
    "within": _GREEN,
    "ok": _GREEN,
    "undecided": _YELLOW,
    "same": _DIM,
}


class _Options(Protocol):
    """What is asked for; what is not `color`, where a command has it."""

    @property
    def color(self) -> str: ...


def emit(
    options: _Options,
    layout: Callable[[], Layout],
    json: Callable[[], Struct | dict[str, Any]] | None = None,
    changelog: Callable[[], Layout] | None = None,
) -> None:
    """Writes a result as JSON, a changelog, or text.

    A command that writes a file, too, waits for no pager, nor does one that git runs.
    """
    # The parser of the command line needs none of them.
    from kentry.results.document import dump
    from kentry.show.comment import short
    from kentry.show.table import terminal
    from kentry.show.text import to_text

    if json and getattr(options, "json", False):
        sys.stdout.write(dump(json()))
        return
    paged = not any(getattr(options, name, None) for name in ("output", "bisect"))
    headings: Collection[str] = ()
    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    if length := getattr(options, "changelog", ""):
        # It loads the layouts of every result.
        from kentry.show.changelog import with_method

        whole = changelog or (lambda: with_method(layout()))
        columns, lines = None, short(layout()) if length == "short" else to_text(whole())
    else:
        with terminal(columns) as laid_out:
            lines = to_text(layout(), verbose=getattr(options, "verbose", False))
        headings = laid_out.headings
    write(lines, options.color, headings, paged=paged, columns=columns)


def write(
    lines: str,
    color: str = AUTO,
    headings: Collection[str] = (),
    *,
    paged: bool = True,
    columns: int | None = None,
) -> None:
    """Writes finished lines: in colour if asked to, by a pager if it is longer than the screen.

    `headings` are bold.  Lines of more than `columns` are broken at blanks; where it is None the
    terminal breaks them, and a command can be copied.  No character of `lines` moves the cursor.
    """
    harmless = [line if line.isprintable() else printable(line) for line in lines.split("\n")]
    wanted = color == ALWAYS or (color == AUTO and _is_able() and not os.environ.get("NO_COLOR"))
    styled = _styled(harmless, headings) if wanted else ((line, None) for line in harmless)
    rows: list[tuple[str, str | None]] = []
    for line, style in styled:
        parts = [line]
        if columns is not None and len(line) > columns:
            indent = " " * min(len(line) - len(line.lstrip()) + 4, columns // 2)
            parts = textwrap.wrap(line, columns, subsequent_indent=indent, break_on_hyphens=False)
        rows += [(part, style) for part in parts]
    shown = "\n".join(_painted(row, style) for row, style in rows)
    size = shutil.get_terminal_size()
    # The last line is what follows the last newline: nothing, where the prompt stands.
    height = sum(max(1, -(-len(row) // size.columns)) for row, _ in rows)
    if not (paged and _is_able() and height > size.lines and _page(shown)):
        sys.stdout.write(shown)


def _is_able() -> bool:
    """Returns whether output goes to a terminal that can do more than print lines."""
    return sys.stdout.isatty() and os.environ.get("TERM", "dumb") not in ("", "dumb", "unknown")


def _styled(lines: Iterable[str], headings: Collection[str]) -> Iterator[tuple[str, str | None]]:
    """Each line with its style; that of a line whose verdicts are to be found is ""."""
    in_note, is_warning, mark_at = False, False, None
    for line in lines:
        in_note = line.startswith(_NOTE) or (in_note and line.startswith(_NOTE_GOES_ON))
        if line.startswith("@@"):
            mark_at = 0
        elif line == "  ...":
            mark_at = 2
        elif not line:
            mark_at = None
        if in_note:
            is_warning = line.startswith(_NOTE[1]) if line.startswith(_NOTE) else is_warning
            yield line, _YELLOW if is_warning else _DIM
        elif line.startswith("@@"):
            yield line, _CYAN
        elif mark_at is not None:
            yield line, _MARKS.get(line[mark_at : mark_at + 1])
        else:
            yield line, _BOLD if line in headings or _TITLE.fullmatch(line) else ""


def _painted(text: str, style: str | None) -> str:
    if style == "":
        text = _CHANGE.sub(lambda match: _painted(match[0], _VERDICTS[match[1][0]]), text)
        return _VERDICT.sub(lambda match: _painted(match[0], _VERDICTS[match[1].split()[0]]), text)
    return f"\x1b[{style}m{text}\x1b[m" if style and text else text


def _page(text: str) -> bool:
    """Gives the text to the pager and waits for its end; whether there is one."""
    try:
        command = shlex.split(os.environ.get("PAGER", _PAGER))
        if command in ([], ["cat"]):
            return False
        sys.stdout.flush()
        pager = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            env={"LESS": _LESS, **os.environ},
            encoding=sys.stdout.encoding,
            errors="replace",
        )
    except (OSError, ValueError):
        return False
    # Ctrl-C is the pager's as long as it runs: it ends a search there.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        # A reader who leaves early has read enough: communicate() says nothing of the broken pipe.
        pager.communicate(text)
    finally:
        # It has the terminal until it has put it right.
        pager.terminate()
        pager.wait()
        signal.signal(signal.SIGINT, before)
    return True
