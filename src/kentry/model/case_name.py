# SPDX-License-Identifier: GPL-2.0-or-later
"""The vector state in a case's name: CASE+UNIT=USE[+vl=BITS].

`vec=` names the architecture's vector unit, `ssve=` and `za=` those of arm64's SME.  A use is

    none    the task never used the unit
    once    it used the unit once, just before the windows
    each    before each call, inside the window: a trap of it is counted
    after   once; then it slept for a second and went on without
    1/K     once every K calls; a window is one use and K calls
"""

from __future__ import annotations

import re
from dataclasses import dataclass

NONE, ONCE, EACH, AFTER = "none", "once", "each", "after"
USES = (NONE, ONCE, EACH, AFTER)

# A window of more calls than that would be interrupted by the timer.
MOST_CALLS = 1000

# What only time knows follows the state: timing/names.py.
_ADDITIONS = re.compile(r"(?:\+cache=[^+]*)?(?:\+extra=[^+]*)?$")
_STATE = re.compile(r"\+([a-z]+[0-9]*)=([^+]*)(?:\+vl=([^+]{0,9}))?$")
_EVERY = re.compile(r"1/([1-9][0-9]{0,3})")


@dataclass(frozen=True)
class State:
    """The vector state of a case; `length` in bits, None for the cpu model's own."""

    unit: str
    use: str
    length: int | None = None

    @property
    def calls(self) -> int:
        """How many calls one window is."""
        every = _EVERY.fullmatch(self.use)
        return int(every[1]) if every else 1

    def __str__(self) -> str:
        length = f"+vl={self.length}" if self.length else ""
        return f"+{self.unit}={self.use}{length}"


def split(name: str) -> tuple[str, str, str, str | None] | None:
    """A name as (case, unit, use, length), each as it is written; None without a state."""
    name = _ADDITIONS.sub("", name, count=1)
    match = _STATE.search(name)
    return (name[: match.start()], match[1], match[2], match[3]) if match else None


def state_of(name: str) -> State | None:
    """The state in the name of a case that was measured; None without one."""
    parts = split(name)
    if parts is None:
        return None
    _, unit, use, length = parts
    return State(unit, use, int(length) if length and length.isdecimal() else None)


def base_of(name: str) -> str:
    """The case's name without its state."""
    parts = split(name)
    return parts[0] if parts else name


def calls_of(name: str) -> int:
    """How many calls one window of the case is."""
    state = state_of(name)
    return state.calls if state else 1


def calls_note(name: str) -> str:
    """What is to be said beside a count of more than one call."""
    calls = calls_of(name)
    return f" ({calls} calls)" if calls > 1 else ""


def is_use(text: str) -> bool:
    """Whether `text` is a use: one of USES, or 1/K with K from 2 to MOST_CALLS."""
    every = _EVERY.fullmatch(text)
    return text in USES or bool(every and 2 <= int(every[1]) <= MOST_CALLS)
