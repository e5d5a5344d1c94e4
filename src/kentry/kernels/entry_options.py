# SPDX-License-Identifier: GPL-2.0-or-later
"""Lists of config options to turn on and off one at a time, as kentry ablate takes them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from kentry.errors import UserError
from kentry.kernels.config import parse_set

_BUILT_IN = Path(__file__).parent / "configs" / "entry-options"
_WRITTEN = "Write it like: CONFIG_AUDIT with CONFIG_NET."


@dataclass(frozen=True)
class Option:
    """One option, what it is set to where it is on, and what is on with and without it."""

    name: str
    value: str = "y"
    needs: tuple[str, ...] = ()

    def on(self) -> tuple[str, ...]:
        """--set words of the kernel that has it."""
        return (*self.needs, f"{self.name}={self.value}")

    def off(self) -> tuple[str, ...]:
        """--set words of the kernel that has it not."""
        return (*self.needs, f"{self.name}=n")


def built_in() -> list[Option]:
    """The options that shape kernel entry, of every architecture."""
    return _lines(_BUILT_IN.read_text(encoding="utf-8"), _BUILT_IN.name)


def parse_options(text: str) -> list[Option]:
    """CONFIG_A,CONFIG_B, or a file with an option a line; UserError shows how to write one."""
    if text.startswith("CONFIG_"):
        return [_option(word, text) for word in text.split(",")]
    file = Path(os.path.expanduser(text))
    try:
        found = _lines(file.read_text(encoding="utf-8"), str(file))
    except (OSError, UnicodeDecodeError) as err:
        raise UserError(
            f"The list of options {file} cannot be read.",
            "Name a file, or options as CONFIG_A,CONFIG_B.",
        ) from err
    if not found:
        raise UserError(f"{file} names no option.", _WRITTEN)
    return found


def _lines(text: str, where: str) -> list[Option]:
    options = []
    for line in text.splitlines():
        if words := line.partition("#")[0].strip():
            options.append(_option(words, f"{where}: {words}"))
    return options


def _option(text: str, where: str) -> Option:
    first, *rest = text.split() or [""]
    if not first or (rest and rest[0] != "with"):
        raise UserError(f"'{where}' is not understood.", _WRITTEN)
    # Without a value an option is on.
    words = [word if "=" in word else f"{word}=y" for word in (first, *rest[1:])]
    (name, value), *needs = map(parse_set, words)
    if value == "n":
        raise UserError(f"'{where}' is off with and without.", f"Leave =n out. {_WRITTEN}")
    return Option(name, value, tuple("=".join(pair) for pair in needs))
