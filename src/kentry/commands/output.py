# SPDX-License-Identifier: GPL-2.0-or-later
"""Where every command writes its text: the one place that knows of terminals.

Reports are plain text.  Into a pipe or a file they go as they are.  For a terminal they are laid
out in its width, coloured by what their lines look like, and given to a pager if they are longer
than the screen.
"""

import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator
from typing import ParamSpec, Protocol

from kentry.progress import printable
from kentry.report.table import terminal

AUTO, ALWAYS, NEVER = COLORS = ("auto", "always", "never")

_PAGER = "less -FRX"
# What less does where neither PAGER nor LESS says more: as git has it.
_LESS = "FRX"

_BOLD, _DIM, _RED, _GREEN, _YELLOW, _MAGENTA, _CYAN = "1", "2", "31", "32", "33", "35", "36"
# By the first character of a line of a path's differences: added, removed, moved.
_MARKS = {"+": _GREEN, "-": _RED, ">": _MAGENTA, "<": _MAGENTA}
# "getppid (+2)", "entry (85)": what stands above a table or a list.
_TITLE = re.compile(r"\S.* \([+-]?\d+\)")
_NOTE, _NOTE_GOES_ON = "note: ", " " * 6
# A verdict ends its line, or a reason, an estimate or the other path follows.
_VERDICT = re.compile(
    r"(?<=[ )])(worse|better|same|undecided|over by [^ ]+|within)(?=$|, |: )|^(missing|ok)(?=  )"
)
_VERDICTS = {
    "worse": _RED,
    "over": _RED,
    "missing": _RED,
    "better": _GREEN,
    "within": _GREEN,
    "ok": _GREEN,
    "undecided": _YELLOW,
    "same": _DIM,
}

_P = ParamSpec("_P")


class _Options(Protocol):
    """What is asked for of a command's text; `output`, if there is one, is the file it writes."""

    @property
    def color(self) -> str: ...


def show(options: _Options, report: Callable[_P, str], *args: _P.args, **words: _P.kwargs) -> None:
    """Writes what `report` returns of its arguments, as wide as the terminal.

    A command that writes a file beside it waits for no pager.
    """
    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    with terminal(columns) as found:
        text = report(*args, **words)
    paged = not getattr(options, "output", None)
    write(text, options.color, found.headings, paged=paged)


def write(
    text: str, color: str = AUTO, headings: Collection[str] = (), *, paged: bool = True
) -> None:
    """Writes finished text: in colour if asked to, by a pager if it is longer than the screen.

    `headings` are the lines that are bold.  No character of `text` moves the cursor.
    """
    lines = [one if one.isprintable() else printable(one) for one in text.split("\n")]
    shown = "\n".join(_coloured(lines, headings) if _has_colour(color) else lines)
    if not (paged and _is_long(lines) and _page(shown)):
        sys.stdout.write(shown)


def _has_colour(color: str) -> bool:
    if color != AUTO:
        return color == ALWAYS
    return _is_able() and not os.environ.get("NO_COLOR")


def _is_able() -> bool:
    """Whether output goes to a terminal that can do more than print lines."""
    return sys.stdout.isatty() and os.environ.get("TERM", "dumb") not in ("", "dumb", "unknown")


def _coloured(lines: list[str], headings: Collection[str]) -> Iterator[str]:
    """The lines with colours; each line ends without one."""
    in_note, mark_at = False, None
    for line in lines:
        in_note = line.startswith(_NOTE) or (in_note and line.startswith(_NOTE_GOES_ON))
        if line.startswith("@@"):
            mark_at = 0
        elif line == "  ...":
            mark_at = 2
        elif not line:
            mark_at = None
        if in_note:
            yield _paint(_DIM, line)
        elif line.startswith("@@"):
            yield _paint(_CYAN, line)
        elif mark_at is not None:
            style = _MARKS.get(line[mark_at : mark_at + 1])
            yield _paint(style, line) if style else line
        elif line in headings or _TITLE.fullmatch(line):
            yield _paint(_BOLD, line)
        else:
            yield _VERDICT.sub(lambda found: _paint(_VERDICTS[found[0].split()[0]], found[0]), line)


def _paint(style: str, text: str) -> str:
    return f"\x1b[{style}m{text}\x1b[m" if text else ""


def _is_long(lines: list[str]) -> bool:
    """Whether the lines and the prompt below them take more than the terminal's screen."""
    if not _is_able():
        return False
    size = shutil.get_terminal_size()
    # The last line is what follows the last newline: nothing, where the prompt stands.
    return sum(max(1, -(-len(line) // size.columns)) for line in lines) > size.lines


def _page(text: str) -> bool:
    """Gives the text to the pager and waits for its end; whether there is one."""
    try:
        command = shlex.split(os.environ.get("PAGER", _PAGER))
        if command in ([], ["cat"]):
            return False
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
        with contextlib.suppress(OSError):
            pager.terminate()
        signal.signal(signal.SIGINT, before)
    return True
