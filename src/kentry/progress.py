# SPDX-License-Identifier: GPL-2.0-or-later
"""Says what is being done: a bar on a terminal, plain lines into a pipe, on stderr."""

import contextlib
import re
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator

# update(fraction done, or None where that is not known; what is being done just now)
Update = Callable[[float | None, str], None]

# In a pipe: seconds between two lines of the same state, and of different ones, at least.
_PLAIN_LINE_SECONDS = 10.0
_STATE_SECONDS = 1.5
# A stage says how long the rest takes after this many seconds, once this share of it is done.
_LEFT_AFTER_SECONDS, _LEFT_AFTER = 2.0, 0.02

# A command that took this long says what took how long; of a stage that took at least this share.
_LONG_SECONDS, _LONG_SHARE = 2.0, 0.05

_quiet = _colourless = False


def set_quiet(quiet: bool, *, colourless: bool = False) -> None:
    """Silences progress for the whole process (kentry --quiet), or takes its colours away."""
    global _quiet, _colourless
    _quiet, _colourless = quiet, colourless


def say(text: str, *, is_error: bool = False) -> None:
    """A line that stays, such as what one of many steps came to; also above a bar.

    An error after which the command goes on is not silenced.
    """
    if is_error or not _quiet:
        print(f"kentry: {printable(text)}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def progress(what: str) -> Iterator[Update]:
    """Shows that `what` is going on while the block runs."""
    with _shown(printable(what)) as shown:

        def update(fraction: float | None, now: str) -> None:
            _stages(now, what)
            shown(fraction, now)

        try:
            _stages(what)
            yield update
        finally:
            _stages()


def restart() -> None:
    """A command begins: took() is about what comes now."""
    global _stages
    _stages = _Stages()


def took() -> str:
    """Says what took how long since the command began; "" if that was short."""
    total = time.monotonic() - _stages.began
    rows = sorted(_stages.seconds.items(), key=lambda row: -row[1])
    of = [f"{name} {_length(own)}" for name, own in rows if own >= _LONG_SHARE * total]
    return f"took {_length(total)}: {', '.join(of)}" if of and total >= _LONG_SECONDS else ""


def _length(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"


class _Stages:
    """Seconds of what the process did: building, booting, reading; the first such word says it."""

    def __init__(self) -> None:
        self.began = self._since = time.monotonic()
        self.seconds = defaultdict[str, float](float)
        self._name = ""

    def __call__(self, *texts: str) -> None:
        """Takes note that something else begins now, by what progress says; nothing: it ends."""
        now = time.monotonic()
        if self._name:
            self.seconds[self._name] += now - self._since
        words = (re.search(r"\b[a-z]+ing\b", text) for text in texts)
        self._name = next((word[0] for word in words if word), "measuring" if texts else "")
        self._since = now


_stages = _Stages()


@contextlib.contextmanager
def _shown(what: str) -> Iterator[Update]:
    left = _Left()
    if _quiet:
        yield lambda fraction, now: None
    elif not sys.stderr.isatty():
        with contextlib.closing(_PlainLines(what)) as lines:
            yield lambda fraction, now: lines(_said(fraction, now, left(fraction)), now)
    else:
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
                text = _said(fraction, now, left(fraction))
                shown.update(task, total=total, completed=fraction or 0.0, now=text)

            yield update


def printable(text: str) -> str:
    """Without what would move a terminal's cursor: it may be a makefile's words."""
    return "".join(char if char.isprintable() else "?" for char in text)


def _said(fraction: float | None, now: str, left: str) -> str:
    done = "" if fraction is None else f"{fraction:.0%} "
    return f"{done}{printable(now)}{left}"


class _Left:
    """Says how long a stage takes yet: it goes on as it did since its first fraction."""

    def __init__(self) -> None:
        self._first = self._last = self._began = 0.0

    def __call__(self, fraction: float | None) -> str:
        if fraction is None or fraction < self._last or not self._began:
            self._first = self._last = fraction or 0.0
            self._began = 0.0 if fraction is None else time.monotonic()
            return ""
        self._last = fraction
        gone, done = time.monotonic() - self._began, fraction - self._first
        if gone < _LEFT_AFTER_SECONDS or done < _LEFT_AFTER or fraction >= 1:
            return ""
        seconds = gone * (1 - fraction) / done
        return f", {seconds / 60:.0f} min left" if seconds >= 90 else f", {seconds:.0f} s left"


class _PlainLines:
    """Prints a line for each state, the last of those at once, and now and then while one lasts.

    "building: a/b.o (7)" and "building: c.o (8)" are one state.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._lock = threading.Lock()
        self._state: list[str] = []
        self._text = ""
        self._timer: threading.Timer | None = None
        self._print()

    def __call__(self, text: str, now: str) -> None:
        """Takes what is to be printed; `now` is the part that says the state."""
        with self._lock:
            self._text = f": {text}"
            names = re.findall(r"(?<!\S)[A-Za-z]+:?(?!\S)", now)
            first = next((i for i, word in enumerate(names) if word.endswith(":")), len(names))
            state = names[: first + 1]
            is_new, self._state = state != self._state, state
            pause = _STATE_SECONDS if is_new else _PLAIN_LINE_SECONDS
            wait = self._last + pause - time.monotonic()
        if wait <= 0:
            self._print()
        elif is_new and self._timer is None:
            self._timer = threading.Timer(wait, self._print)
            self._timer.daemon = True
            self._timer.start()

    def close(self) -> None:
        if self._timer:
            self._timer.cancel()

    def _print(self) -> None:
        self.close()
        with self._lock:
            self._timer = None
            self._last = time.monotonic()
            print(f"kentry: {self._what}{self._text}".rstrip(), file=sys.stderr, flush=True)
