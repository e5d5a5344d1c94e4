# SPDX-License-Identifier: GPL-2.0-or-later
"""What compilers warn of, by the file that they compiled, so that two builds can be compared."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

from kentry.host.cache import read_json, write_json

# By what is compiled, without its suffix: "kernel/fork.c:12: unused variable 'x'".
Warnings = Mapping[str, Sequence[str]]

# GCC and Clang, with and without a column.
_WARNING = re.compile(r"(\S+?):(\d+):(?:\d+:)? warning: (.+)")
# "In file included from a.h:3," and below it "                 from b.c:7:".
_INCLUDED = re.compile(r"(?:In file included| {2,}) ?from (\S+?):\d+")


class Reader:
    """Reads what a build prints; `file` has the warnings of all objects in the build's folder."""

    def __init__(self, file: Path, tree: Path) -> None:
        self._file, self._tree = file, f"{tree}/"
        self.warnings: dict[str, list[str]] = read_json(self._file)
        self._included = ""

    def compiles(self, made: str) -> None:
        """A file is compiled now: what was said of it before no longer holds."""
        self.warnings.pop(_unit(made), None)

    def read(self, line: str) -> None:
        """Takes a line that no step of make's is."""
        line = line.replace(self._tree, "")
        if included := _INCLUDED.match(line):
            self._included = included[1]
        elif warning := _WARNING.match(line):
            file, number, text = warning.groups()
            # A header's warning is of what included it.
            of = self._included if file.endswith(".h") and self._included else file
            self.warnings.setdefault(_unit(of), []).append(f"{file}:{number}: {text}")

    def kept(self) -> Warnings:
        """Writes them to the file, for the next build, and returns them."""
        write_json(self._file, self.warnings)
        return self.warnings


def added(old: Warnings, new: Warnings) -> list[str]:
    """Return the warnings that `old` has not, in whatever line, with the lines of `new`."""
    texts = []
    for unit in sorted(new):
        known = Counter(map(_anywhere, old.get(unit, ())))
        for text in new[unit]:
            if not known[_anywhere(text)]:
                texts.append(text)
            known[_anywhere(text)] -= 1
    return texts


def _unit(file: str) -> str:
    return str(PurePosixPath(file).with_suffix(""))


def _anywhere(text: str) -> str:
    file, _, rest = text.partition(":")
    return f"{file}:{rest.partition(':')[2]}"
