# SPDX-License-Identifier: GPL-2.0-or-later
"""The catalogue of cases, read from the probe that will run them.

A case is one file in guest/cases/; its CASE() leaves a line "name|entries|summary" in the
probe's .kentry.catalogue section, so the catalogue and the program cannot disagree.
"""

from __future__ import annotations

import difflib
import fnmatch
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kentry.arch import Arch
from kentry.errors import UserError
from kentry.native import probe_file

_SECTION = ".kentry.catalogue"


@dataclass(frozen=True)
class Case:
    """One kernel entry, repeated: `name` is the syscall, with @entry where it is not native."""

    name: str
    summary: str


def catalogue(arch: Arch) -> list[Case]:
    """Every case of an architecture's probe, each entry instruction its own."""
    from elftools.elf.elffile import ELFFile

    with probe_file(arch).open("rb") as file:
        section = ELFFile(file).get_section_by_name(_SECTION)
        assert section is not None, "the probe has no catalogue"
        lines = section.data().decode().strip("\0").split("\0")
    rows = [line.split("|") for line in lines if line]
    native = [Case(name, summary) for name, _, summary in rows]
    others = [
        Case(f"{name}@{entry}", f"{summary}, entered by {entry}")
        for entry in arch.entries[1:]
        for name, entries, summary in rows
        if entry in entries.split(",")
    ]
    return native + others


def choose(arch: Arch, wanted: Iterable[str]) -> list[str]:
    """The cases of an architecture's catalogue that `wanted` stands for; see match()."""
    return match([case.name for case in catalogue(arch)], arch, wanted)


def match(known: Sequence[str], arch: Arch, wanted: Iterable[str]) -> list[str]:
    """Those of `known` that `wanted` (names, or patterns with * and ?) stands for, in order.

    Nothing wanted means every one.  "getppid@svc" is "getppid" where svc is the native
    instruction.  UserError for a word that stands for nothing.
    """
    chosen: set[str] = set()
    for word in wanted:
        name = word.removesuffix(f"@{arch.entries[0]}")
        matches = [one for one in known if fnmatch.fnmatchcase(one, name)]
        if not matches:
            raise _unknown(word, arch, known)
        chosen.update(matches)
    return [name for name in known if not chosen or name in chosen]


def _unknown(word: str, arch: Arch, names: Sequence[str]) -> UserError:
    close = difflib.get_close_matches(word, names, n=1)
    meant = f" Did you mean {close[0]}?" if close else ""
    return UserError(f"Unknown case '{word}' on {arch.name}.{meant}", f"Cases: {', '.join(names)}.")
