# SPDX-License-Identifier: GPL-2.0-or-later
"""Signals that ask kentry to stop become KeyboardInterrupt, and none is lost.

Python prints and drops an exception that a signal handler raises inside a destructor or another
callback.  It is remembered here, and loops that wait call check(); so do other threads, to which
Python brings no signal.
"""

from __future__ import annotations

import signal
import sys
import threading
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_dropped = False
_came = 0  # the number of the last signal


def install() -> None:
    """Handles SIGNALS from now on."""
    global _dropped, _came
    _dropped, _came = False, 0
    sys.unraisablehook = _note_dropped
    for number in SIGNALS:
        signal.signal(number, _interrupt)


def check() -> None:
    """Raises KeyboardInterrupt: in the main thread if Python dropped one, in others if one came."""
    global _dropped
    if threading.current_thread() is not threading.main_thread():
        if _came:
            raise KeyboardInterrupt
    elif _dropped:
        _dropped = False
        raise KeyboardInterrupt


def put_off() -> None:
    """Leaves a KeyboardInterrupt that was caught in the main thread to the next check()."""
    global _dropped
    # Another thread must not even read it: the main thread may set it in between.
    if threading.current_thread() is threading.main_thread():
        _dropped = True


def status() -> int:
    """Returns the exit status of an interrupted kentry: 128 and the signal's number."""
    return 128 + (_came or signal.SIGINT)


def came_late() -> bool:
    """Blocks SIGNALS for the rest of the process; whether one was dropped or is waiting."""
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    return _dropped or bool(signal.sigpending() & set(SIGNALS))


def _interrupt(number: int, frame: FrameType | None) -> None:
    global _came
    _came = number
    raise KeyboardInterrupt


def _note_dropped(args: UnraisableHookArgs) -> None:
    global _dropped
    if issubclass(args.exc_type, KeyboardInterrupt):
        _dropped = True
    else:
        sys.__unraisablehook__(args)
