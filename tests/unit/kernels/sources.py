# SPDX-License-Identifier: GPL-2.0-or-later
"""Source trees for tests: small, make-able (tests/fakes/linux), in real git repositories."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from kentry.kernels import tree
from kentry.kernels.repository import Revision
from kentry.kernels.spec import parse
from tests import ROOT
from tests.processes import script

FAKE = ROOT / "tests" / "fakes/linux"

# Of what a build calls, all that the small tree has no use for.
_PRETENDED = {
    "aarch64-linux-gnu-gcc": "aarch64-linux-gnu-gcc (Test) 12.2.0",
    "aarch64-linux-gnu-ld": "GNU ld (Test) 2.40",
    "riscv64-linux-gnu-gcc": "riscv64-linux-gnu-gcc (Test) 12.2.0",
    "riscv64-linux-gnu-ld": "GNU ld (Test) 2.40",
    "gcc": "gcc (Test) 12.2.0",
    **dict.fromkeys(("bc", "bison", "ccache", "flex", "perl"), ""),
}

_ENV = {
    **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "A Test",
    "GIT_AUTHOR_EMAIL": "test@example.org",
    "GIT_COMMITTER_NAME": "A Test",
    "GIT_COMMITTER_EMAIL": "test@example.org",
}


def git(folder: Path, *words: str) -> str:
    """What git says in `folder`, whatever settings this machine has."""
    argv = ["git", "-c", "protocol.file.allow=always", "-C", str(folder), *words]
    done = subprocess.run(argv, env=_ENV, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def write(folder: Path, files: Mapping[str, str | bytes]) -> None:
    for name, content in files.items():
        put(folder / name, content)


def put(file: Path, content: str | bytes) -> Path:
    """A file with that content, and its folder."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return file


def unpacked(folder: Path, files: Mapping[str, str | bytes] | None = None) -> Path:
    """A tree as out of a tarball."""
    shutil.copytree(FAKE, folder)
    write(folder, files or {})
    return folder


def repository(folder: Path, files: Mapping[str, str | bytes] | None = None) -> Path:
    """A checkout with one commit, tagged v6.12."""
    if files:
        return _new_repository(unpacked(folder, files))
    shutil.copytree(_template(), folder)
    return folder


@functools.cache
def _template() -> Path:
    """The commonest repository, to be copied."""
    folder = TemporaryDirectory(prefix="kentry-test.")
    atexit.register(folder.cleanup)
    return _new_repository(unpacked(Path(folder.name) / "linux"))


def _new_repository(folder: Path) -> Path:
    git(folder, "init", "--quiet", "--initial-branch=master", "--template=")
    commit(folder, "Linux 6.12", {})
    git(folder, "tag", "v6.12")
    return folder


def commit(folder: Path, subject: str, files: Mapping[str, str | bytes]) -> str:
    """One commit more, with these files; its id."""
    write(folder, files)
    git(folder, "add", "--all")
    words = ("commit", "--allow-empty", "--message", subject)
    # [master 0123...] SUBJECT
    return git(folder, "-c", "core.abbrev=40", *words).partition("]")[0].rpartition(" ")[2]


def fork_c(**values: int) -> str:
    """kernel/fork.c where first(), second() or third() return something else."""
    text = (FAKE / "kernel/fork.c").read_text(encoding="utf-8")
    for before, name in enumerate(("first", "second", "third"), start=1):
        text = text.replace(f"return {before};", f"return {values.get(name, before)};")
    return text


def revision(spec: str | Path) -> Revision:
    """The source of tree:SPEC."""
    return tree.revision(parse(f"tree:{spec}"), lambda fraction, now: None)


def listing(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Every file and folder below, hidden ones too: mode, time of change, content."""
    found = {}
    for path in sorted([folder, *folder.rglob("*")]):
        status = path.lstat()
        content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
        found[str(path.relative_to(folder))] = (status.st_mode, status.st_mtime_ns, content)
    return found


def times(folder: Path) -> dict[str, int]:
    """When each file below was last written."""
    return {name: row[1] for name, row in listing(folder).items() if not (folder / name).is_dir()}


def program(folder: Path, name: str, says: str) -> Path:
    """A program that prints one line, whatever it is asked."""
    return script(folder / name, f"echo '{says}'" if says else "")


def pretend_tools(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Puts compilers and the like first in PATH that do nothing."""
    for name, says in _PRETENDED.items():
        program(folder, name, says)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
