# SPDX-License-Identifier: GPL-2.0-or-later
"""The names of cases in time: CASE[+UNIT=USE[+vl=BITS]][+cache=WALK | +extra=1/N].

`+cache=` times calls one by one: `warm` one after the other, `cold` or a size (256K, 4M) with a
walk over so many bytes before each.  `+extra=1/N` makes one call more every N, a slowdown of
known size: what it is for is to see whether kentry finds it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from kentry.arch import Arch
from kentry.errors import UserError
from kentry.measure.catalogue import choose
from kentry.model.case_name import calls_of

WARM, COLD = "warm", "cold"
# What the probe reads before each call of a cold cache: guest/timed.c.
COLD_BYTES = 16 << 20
# The kernel would kill what touches more, or swap.
MOST_BYTES = 1 << 30
# A block of so many calls takes a tenth of a millisecond; more would never come in one.
MOST_EXTRA = 10_000

_NAME = re.compile(r"(?P<case>.*?)(?:\+cache=(?P<cache>[^+]*))?(?:\+extra=(?P<extra>[^+]*))?")
_SIZE = re.compile(r"([1-9][0-9]{0,9})([KMG]?)(?:i?B)?")
_UNITS = {"": 0, "K": 10, "M": 20, "G": 30}


def choose_timed(arch: Arch, words: Iterable[str]) -> list[str]:
    """The cases that `words` stand for, in their order, as the probe is told them.

    UserError for a word that stands for nothing, or a cache or an extra that makes no sense.
    """
    words = list(words)
    if not words:
        return choose(arch, ())
    return list(dict.fromkeys(name for word in words for name in _names(arch, word)))


def _names(arch: Arch, word: str) -> Iterator[str]:
    match = _NAME.fullmatch(word)
    assert match
    addition = ""
    if match["cache"] is not None and match["extra"] is not None:
        raise UserError(
            f"'{word}' has both +cache= and +extra=, and calls one by one have no loop to extend.",
            "Leave one of them out.",
        )
    if match["cache"] is not None:
        addition = f"+cache={_walk(match['cache'])}"
    if match["extra"] is not None:
        addition += f"+extra=1/{_extra(match['extra'], word)}"
    for name in choose(arch, [match["case"]]):
        if match["cache"] is not None and calls_of(name) > 1:
            raise UserError(
                f"'{word}' times calls one by one, and the use is only in one of {calls_of(name)}.",
                "Take vec=each with +cache=, or leave +cache= out.",
            )
        yield name + addition


def _walk(text: str) -> str:
    if text in (WARM, COLD):
        return text
    return size_name(parse_size(text))


def parse_size(text: str) -> int:
    """Bytes of "256K" or "4M"; UserError for what is no size up to MOST_BYTES."""
    match = _SIZE.fullmatch(text)
    size = int(match[1]) << _UNITS[match[2]] if match else 0
    if not 64 <= size <= MOST_BYTES:
        raise UserError(
            f"'{text}' is no size of a working set (64 bytes to 1G).",
            "Write it like 256K or 4M, or warm, or cold.",
        )
    return size


def size_name(size: int) -> str:
    """The shortest way to write a size that the probe reads."""
    for unit, power in (("M", 20), ("K", 10)):
        if size % (1 << power) == 0:
            return f"{size >> power}{unit}"
    return str(size)


def _extra(text: str, word: str) -> int:
    every = text.removeprefix("1/")
    if not (text.startswith("1/") and every.isdecimal() and 1 <= int(every) <= MOST_EXTRA):
        raise UserError(
            f"'+extra={text}' in '{word}' is no share of extra calls.",
            "Write it like +extra=1/100: one call more every hundred, 1 %.",
        )
    return int(every)


def plain_name(name: str) -> str:
    """The name without what only time knows: as `kentry record` has it."""
    match = _NAME.fullmatch(name)
    assert match
    return match["case"]


def is_plain(name: str) -> bool:
    """Whether it has nothing that only time knows."""
    return plain_name(name) == name


def is_one_by_one(name: str) -> bool:
    """Whether its calls are timed one by one."""
    return "+cache=" in name


def walk_bytes(name: str) -> int:
    """How many bytes are read before each call; 0 for none."""
    match = _NAME.fullmatch(name)
    assert match
    cache = match["cache"]
    if cache in (None, WARM):
        return 0
    return COLD_BYTES if cache == COLD else parse_size(cache)
