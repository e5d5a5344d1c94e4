# SPDX-License-Identifier: GPL-2.0-or-later
"""Parsers of option values, for argparse's `type`: strict, and none takes an empty value."""

import argparse
import re
from collections.abc import Callable
from pathlib import Path

# Seconds; above any boot, build or measurement.
MAX_SECONDS = 1_000_000
MAX_COUNT = 1_000_000_000
# Windows of a case: a trace of more does not fit into memory.
MAX_WINDOWS = 1_000_000

_NUMBER = re.compile(r"[0-9]+(\.[0-9]+)?")


def text(word: str) -> str:
    """Reads any text but none."""
    if not word.strip():
        raise argparse.ArgumentTypeError("the value is empty")
    return word


def path(word: str) -> Path:
    """Reads a file or folder; "-" is neither, since no command reads or writes it as a stream."""
    if word == "-":
        raise argparse.ArgumentTypeError("- is no file: name one, such as /dev/stdout")
    return Path(text(word))


def words(word: str) -> tuple[str, ...]:
    """A list with commas: A,B."""
    parts = tuple(part for part in word.split(",") if part)
    if not parts:
        raise argparse.ArgumentTypeError("the value is empty")
    return parts


def whole(low: int, high: int) -> Callable[[str], int]:
    """Returns a parser of whole numbers from `low` to `high`, both included."""

    def parse(word: str) -> int:
        value = int(word) if word.isascii() and word.isdigit() and len(word) <= 20 else -1
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(f"{word} is not a whole number from {low} to {high}")
        return value

    return parse


def decimal(low: float, high: float, what: str) -> Callable[[str], float]:
    """Returns a parser of decimal numbers above `low` and up to `high`; `what` is their unit."""

    def parse(word: str) -> float:
        value = float(word) if _NUMBER.fullmatch(word) else -1.0
        if not low < value <= high:
            raise argparse.ArgumentTypeError(
                f"{word} is not a number of {what} above {low:g} and up to {high:g}"
            )
        return value

    return parse


def extent(word: str) -> int | float:
    """Returns seconds, a float, where an "s" follows the number; else how many of something."""
    return decimal(0, 86_400, "seconds")(word[:-1]) if word.endswith("s") else count(word)


count = whole(1, MAX_COUNT)
windows = whole(1, MAX_WINDOWS)
# QEMU's -seed has 64 bits.
seed = whole(0, 2**64 - 1)
# MiB.
memory = whole(64, 65536)
# A vector length.
bits = whole(1, 65536)
seconds = decimal(0, MAX_SECONDS, "seconds")


def lengths(word: str) -> tuple[int, ...]:
    """Reads vector lengths in bits, with commas; each once."""
    if not re.fullmatch(r"[0-9]{1,6}(,[0-9]{1,6})*", word):
        raise argparse.ArgumentTypeError(f"{word} is not a list of vector lengths in bits")
    return tuple(dict.fromkeys(map(int, word.split(","))))
