# SPDX-License-Identifier: GPL-2.0-or-later
"""LLVM's programs, of which Debian installs several versions beside each other."""

import contextlib
import os
import re
import subprocess
from functools import cache
from pathlib import Path

from kentry.errors import MissingToolError
from kentry.host.process import run

# What scripts/install-packages installs, of Debian 12.
PACKAGE = "llvm-22"
# Debian's folders, beside those in $PATH.
_FOLDERS = Path("/usr/lib")


def newest(name: str, beside: str = "") -> Path:
    """The newest NAME or NAME-NN that is installed, in $PATH or where Debian has it.

    `beside` is another program of LLVM that has to be there too, with the same ending.
    MissingToolError where there is none.
    """
    pattern = re.compile(rf"{re.escape(name)}(-[0-9]+)?")
    folders = [Path(folder) for folder in os.environ.get("PATH", "").split(":") if folder]
    folders += sorted(_FOLDERS.glob("llvm-*/bin"))
    found: dict[Path, Path] = {}
    for folder in folders:
        # Some that $PATH names may not be there, or not be for this user.
        with contextlib.suppress(OSError):
            for one in filter(pattern.fullmatch, os.listdir(folder)):
                own, other = folder / one, folder / one.replace(name, beside or name)
                if all(os.access(program, os.X_OK) for program in (own, other)):
                    found.setdefault(own.resolve(), own)
    if not found:
        raise MissingToolError(f"{name} is not installed.", f"Run: apt-get install {PACKAGE}.")
    return max(found.values(), key=lambda one: numbers(version(one)))


@cache
def version(program: Path) -> str:
    """The version of LLVM that the program is of, such as 22.1.8; "0" if it does not say so."""
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        said = run([str(program), "--version"]).stdout
        if found := re.search(r"LLVM version ([0-9.]*[0-9])", said):
            return found[1]
    return "0"


def numbers(version: str) -> tuple[int, ...]:
    """A version's parts, to compare it with another."""
    return tuple(map(int, version.split(".")))
