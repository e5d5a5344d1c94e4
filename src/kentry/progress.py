# SPDX-License-Identifier: GPL-2.0-or-later
"""Says what is being done: a bar on a terminal, plain lines into a pipe, on stderr."""

import contextlib
import sys
import time
from collections.abc import Callable, Iterator

# update(fraction done, or None where that is not known; what is being done just now)
Update = Callable[[float | None, str], None]

# In a pipe: at most one line in so many seconds for the same step.
_PLAIN_LINE_SECONDS = 10.0

_quiet = _colourless = False


def set_quiet(quiet: bool, *, colourless: bool = False) -> None:
    """Silences progress for the whole process (kentry --quiet), or takes its colours away."""
    global _quiet, _colourless
    _quiet, _colourless = quiet, colourless


def say(text: str) -> None:
    """A line that stays, such as what one of many steps came to; also above a bar."""
    if not _quiet:
        print(f"kentry: {printable(text)}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def progress(what: str) -> Iterator[Update]:
    """Shows that `what` is going on while the block runs."""
    what = printable(what)
    if _quiet:
        yield lambda fraction, now: None
    elif sys.stderr.isatty():
        with _bar(what) as update:
            yield update
    else:
        yield _plain_lines(what)


def printable(text: str) -> str:
    """Without what would move a terminal's cursor: it may be a makefile's words."""
    return "".join(char if char.isprintable() else "?" for char in text)


def _plain_lines(what: str) -> Update:
    print(f"kentry: {what}", file=sys.stderr, flush=True)
    last = time.monotonic()

    def update(fraction: float | None, now: str) -> None:
        nonlocal last
        if time.monotonic() - last < _PLAIN_LINE_SECONDS:
            return
        last = time.monotonic()
        done = "" if fraction is None else f" {fraction:.0%}"
        print(f"kentry: {what}:{done} {printable(now)}".rstrip(), file=sys.stderr, flush=True)

    return update


@contextlib.contextmanager
def _bar(what: str) -> Iterator[Update]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=20),
        TimeElapsedColumn(),
        TextColumn("{task.fields[now]}", markup=False),
    )
    # None: as NO_COLOR says.
    console = Console(stderr=True, no_color=_colourless or None)
    with Progress(*columns, console=console, transient=True) as shown:
        task = shown.add_task(what, total=None, now="")

        def update(fraction: float | None, now: str) -> None:
            total = None if fraction is None else 1.0
            shown.update(task, total=total, completed=fraction or 0.0, now=printable(now))

        yield update
