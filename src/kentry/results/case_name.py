# SPDX-License-Identifier: GPL-2.0-or-later
"""The name of a case: CALL[@ENTRY][+UNIT=USE[+vl=BITS]][+cache=WALK][+extra=1/N].

`vec=` names the architecture's vector unit, `ssve=` and `za=` those of arm64's SME.  A use is

    none    the task never used the unit
    once    the task used the unit once, before the windows
    each    the task uses the unit before each call, inside the window
    after   the task used the unit once, slept for a second and then went on without it
    1/K     the task uses the unit once every K calls; a window is one use and K calls

The rest changes only how time is measured.  `+cache=` times each call by itself: `warm` directly
after the previous one, `cold` or a size (256K, 4M) after a walk over that much memory, which with
`:code` behind the size also runs through as much code.
`+extra=1/N` adds a call after every N: a slowdown of known size, to test kentry itself.
The probe reads the same names (guest/state.c, guest/slots.c).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from kentry.errors import UserError

NONE, ONCE, EACH, AFTER = "none", "once", "each", "after"
USES = (NONE, ONCE, EACH, AFTER)

# A window of more calls would be interrupted by the timer.
MOST_CALLS = 1000

WARM, COLD = "warm", "cold"
# Behind the size of a walk: it runs through as much code, too.
WITH_CODE = ":code"
# The guest kernel would swap, or kill a program that walks over more; bytes.
MOST_BYTES = 1 << 30

_NAME = re.compile(
    r"(?P<call>.*?)"
    r"(?:\+(?P<unit>(?!vl=|cache=|extra=)[a-z]+[0-9]*)=(?P<use>[^+]*)(?:\+vl=(?P<vl>[0-9]{1,9}))?)?"
    r"(?:\+cache=(?P<cache>[^+]*))?(?:\+extra=(?P<extra>[^+]*))?",
    re.DOTALL,
)
_EVERY = re.compile(r"1/([1-9][0-9]{0,3})")
_SIZE = re.compile(r"([1-9][0-9]{0,9})([KMG]?)(?:i?B)?")
_SHIFTS = {"": 0, "K": 10, "M": 20, "G": 30}


@dataclass(frozen=True)
class State:
    """The vector state of a case; `length` in bits, None for the cpu model's default."""

    unit: str
    use: str
    length: int | None = None

    @property
    def calls(self) -> int:
        """How many calls one window has."""
        every = _EVERY.fullmatch(self.use)
        return int(every[1]) if every else 1

    def __str__(self) -> str:
        length = f"+vl={self.length}" if self.length else ""
        return f"+{self.unit}={self.use}{length}"


@dataclass(frozen=True)
class CaseName:
    """A name in its parts: `call` may have @ENTRY; without `cache` calls are timed in blocks."""

    call: str
    state: State | None = None
    cache: str | None = None
    extra: str | None = None

    @classmethod
    def parse(cls, text: str) -> CaseName:
        """Returns the parts of any text; what fits no part stays in `call`."""
        match = _NAME.fullmatch(text)
        assert match
        state = None
        if match["unit"]:
            state = State(match["unit"], match["use"], int(match["vl"]) if match["vl"] else None)
        return cls(match["call"], state, match["cache"], match["extra"])

    def __str__(self) -> str:
        cache = "" if self.cache is None else f"+cache={self.cache}"
        extra = "" if self.extra is None else f"+extra={self.extra}"
        return f"{self.call}{self.state or ''}{cache}{extra}"

    @property
    def calls(self) -> int:
        """How many calls one window has."""
        return self.state.calls if self.state else 1

    @property
    def calls_note(self) -> str:
        """A note to print beside a count of more than one call."""
        return f" ({self.calls} calls)" if self.calls > 1 else ""

    @property
    def counted(self) -> CaseName:
        """The name without +cache= and +extra=: the case as `kentry record` counts it."""
        return replace(self, cache=None, extra=None)


def is_use(text: str) -> bool:
    """Returns whether `text` is a use: one of USES, or 1/K with K from 2 to MOST_CALLS."""
    every = _EVERY.fullmatch(text)
    return text in USES or bool(every and 2 <= int(every[1]) <= MOST_CALLS)


def parse_size(text: str) -> int:
    """Returns the bytes of "256K" or "4M"; UserError for anything but 64 bytes to MOST_BYTES."""
    match = _SIZE.fullmatch(text)
    size = int(match[1]) << _SHIFTS[match[2]] if match else 0
    if not 64 <= size <= MOST_BYTES:
        raise UserError(
            f"'{text}' is no size of a working set (64 bytes to 1G).",
            "Write it like 256K or 4M, or warm, or cold.",
        )
    return size


def size_name(size: int) -> str:
    """Returns the shortest text that the probe reads as `size` bytes."""
    for unit, power in (("M", 20), ("K", 10)):
        if size % (1 << power) == 0:
            return f"{size >> power}{unit}"
    return str(size)
