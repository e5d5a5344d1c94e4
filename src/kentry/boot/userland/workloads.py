# SPDX-License-Identifier: GPL-2.0-or-later
"""The workloads: which packages they need, and what runs between the marks.

workloads.toml has those with a name.
"""

import os
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kentry.errors import UserError

# kentry's own files in the guest; guest/runner.c has the same names.
FOLDER = "/kentry"
RUNNER, WORKLOAD, PREPARE = f"{FOLDER}/runner", f"{FOLDER}/workload", f"{FOLDER}/prepare"

_FILES = Path(__file__).parent / "files"

# Debian policy 5.6.1.
PACKAGE_NAME = re.compile(r"[a-z0-9][a-z0-9+.-]*[a-z0-9+.]")


@dataclass(frozen=True)
class Copy:
    """A file or folder of this machine, and its path in the guest."""

    source: Path
    guest: str


@dataclass(frozen=True)
class Workload:
    """What runs in a guest, and what that needs.

    `argv` is run between the marks, its first word a path; with `is_init` it takes the place of
    the runner as PID 1, and `units` are systemd units that are enabled.  `prepare` is a shell
    script that runs before the first mark, with the console as its output.  `room` is the
    memory in MiB that it takes beside the root file system.  `programs` are words that a command
    line begins with to be prepared as this workload is; `program` is that of a command line.
    """

    name: str
    summary: str
    argv: tuple[str, ...]
    packages: tuple[str, ...] = ()
    prepare: tuple[str, ...] = ()
    is_init: bool = False
    units: tuple[str, ...] = ()
    copies: tuple[Copy, ...] = ()
    room: int = 192
    programs: tuple[str, ...] = ()
    program: str = ""


def _workload(name: str, row: dict[str, Any]) -> Workload:
    parts = [file.partition(":") for file in row.pop("files", ())]
    copies = tuple(Copy(_FILES / file, to or f"{FOLDER}/{file}") for file, _, to in parts)
    lists = {key: tuple(value) for key, value in row.items() if isinstance(value, list)}
    return Workload(name, copies=copies, **{**row, **lists})


_TABLE = Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
WORKLOADS = {name: _workload(name, row) for name, row in tomllib.loads(_TABLE).items()}
_BY_PROGRAM = {program: one for one in WORKLOADS.values() for program in one.programs}
_BARE = Workload("command", "", ())

# dash's own words that no package has as a program.
_SHELL_WORDS = """. : alias bg break case cd command continue do eval exec exit export fg for
getopts hash if jobs local read readonly return set shift times trap type ulimit umask unset until
wait while"""


def find_workload(
    words: Sequence[str], copies: Sequence[Copy] = (), packages: Sequence[str] = ()
) -> Workload:
    """The workload with that name, or the command line as a workload; a single word is a script.

    A shell finds the command's program on the PATH.  `copies` and `packages` are added to its
    own.  UserError where there is no word, or a package has no package's name.
    """
    if not words or not words[0]:
        raise UserError(
            "There is no workload.", f"Name one of {', '.join(WORKLOADS)}, or a command."
        )
    workload = WORKLOADS.get(words[0]) if len(words) == 1 else None
    if not workload:
        program, script = words[0], ('exec "$@"', "sh", *words)
        if len(words) == 1:
            program, script = words[0].split(" ")[0], tuple(words)
            # All but a simple command is the shell's.
            if not re.fullmatch(r"[\w./+-]+", program) or program in _SHELL_WORDS.split():
                program = ""
        workload = replace(
            _BY_PROGRAM.get(program, _BARE),
            name="command",
            summary=" ".join(words),
            argv=("/bin/sh", "-c", *script),
            program=program,
        )
    for name in packages:
        if not PACKAGE_NAME.fullmatch(name):
            raise UserError(f"'{name}' is not the name of a package.", "Correct --packages.")
    return replace(
        workload, copies=(*workload.copies, *copies), packages=(*workload.packages, *packages)
    )


def parse_copy(text: str) -> Copy:
    """HOST or HOST:GUEST; without the latter it goes into the guest's /root.  UserError."""
    host, _, guest = text.partition(":")
    source = Path(os.path.expanduser(host))
    guest = guest or f"/root/{source.absolute().name}"
    if not guest.startswith("/") or ".." in guest.split("/"):
        raise UserError(
            f"{guest} is no whole path in the guest.", "Give it as HOST:/PATH/IN/GUEST."
        )
    if not source.is_file() and not source.is_dir():
        raise UserError(
            f"{source}, which is to be copied into the guest, is not there.", "Name a file."
        )
    return Copy(source, guest)
