# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs the commands in the documentation and writes their output below them.

A block that begins with ```console holds commands, each on a line "$ COMMAND", and the
output of each; one that begins with ```console slow holds those that build kernels for many
minutes, which the tests leave to `make docs`.  Commands are run by bash, those of a page in one
folder, with this tree's kentry first on the PATH.  The folder has links to examples/ and docs/ and,
where KENTRY_SEEDS names a folder, to the documents in it.  Usage: python scripts/docs.py [FILE...]
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).parents[1]
OPENING, SLOW, CLOSING = "```console", "```console slow", "```"
SEEDS = "KENTRY_SEEDS"


@dataclass(frozen=True)
class Command:
    """One command of a page, with the output the page shows; `line` counts from 1."""

    page: Path
    line: int
    text: str
    output: str
    slow: bool = False

    @property
    def document(self) -> str | None:
        """The name of the document that it reads and that is not in this repository."""
        return next((word for word in self.text.split() if word.endswith(".txt")), None)


def pages() -> list[Path]:
    """README.md and everything in docs/ and examples/."""
    below = [page for name in ("docs", "examples") for page in (ROOT / name).rglob("*.md")]
    return [ROOT / "README.md", *sorted(below)]


def has_document(command: Command) -> bool:
    """Whether the document that it reads, if any, is there."""
    return (
        command.document is None or (Path(os.environ.get(SEEDS, "")) / command.document).is_file()
    )


def commands(page: Path) -> list[Command]:
    """Every command of a page, in order."""
    found: list[Command] = []
    inside = slow = False
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
        if line in (OPENING, SLOW):
            inside, slow = True, line == SLOW
        elif line == CLOSING:
            inside = False
        elif inside and line.startswith("$ "):
            found.append(Command(page, number, line[2:], "", slow))
        elif inside and found:
            found[-1] = replace(found[-1], output=f"{found[-1].output}{line}\n")
    return found


_folders: dict[Path, tempfile.TemporaryDirectory[str]] = {}


def folder_of(page: Path) -> Path:
    """Where the page's commands run: one folder, so that each finds what those before it wrote."""
    if page not in _folders:
        _folders[page] = tempfile.TemporaryDirectory()
        seeds = Path(os.environ[SEEDS]).iterdir() if os.environ.get(SEEDS) else ()
        for target in (ROOT / "examples", ROOT / "docs", *seeds):
            (Path(_folders[page].name) / target.name).symlink_to(target)
    return Path(_folders[page].name)


def run(command: Command) -> subprocess.CompletedProcess[str]:
    """Runs one command; its output is what the page should show."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(
        ["/bin/bash", "-o", "pipefail", "-c", command.text],
        cwd=folder_of(command.page),
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


def renew(page: Path) -> None:
    """Writes the page anew, with each command's output as it is now."""
    outputs = {}
    for command in commands(page):
        if not has_document(command):
            print(f"{page.relative_to(ROOT)}:{command.line}: left, without {command.document}")
            outputs[command.line] = command.output
            continue
        print(f"{page.relative_to(ROOT)}:{command.line}: {command.text}", flush=True)
        done = run(command)
        if done.returncode:
            sys.exit(f"it ended with status {done.returncode}:\n{done.stderr}")
        outputs[command.line] = done.stdout
    lines: list[str] = []
    inside = False
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
        if line in (OPENING, SLOW, CLOSING):
            inside = line != CLOSING
        elif inside and not line.startswith("$ "):
            continue
        lines.append(line)
        if number in outputs:
            lines += outputs[number].splitlines()
    page.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    for name in sys.argv[1:] or pages():
        renew(Path(name).resolve())
