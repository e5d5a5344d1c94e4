# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs the commands in the documentation and writes their output below them.

A block that begins with ```console holds commands, each on a line "$ COMMAND", and the
output of each.  Commands are run by bash, in an empty folder, with this tree's kentry first
on the PATH.  Usage: python scripts/docs.py [FILE...]
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
OPENING, CLOSING = "```console", "```"


@dataclass(frozen=True)
class Command:
    """One command of a page, with the output the page shows; `line` counts from 1."""

    page: Path
    line: int
    text: str
    output: str


def pages() -> list[Path]:
    """README.md and everything in docs/."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def commands(page: Path) -> list[Command]:
    """Every command of a page, in order."""
    found: list[Command] = []
    inside = False
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
        if line == OPENING:
            inside = True
        elif line == CLOSING:
            inside = False
        elif inside and line.startswith("$ "):
            found.append(Command(page, number, line[2:], ""))
        elif inside and found:
            last = found.pop()
            found.append(Command(page, last.line, last.text, f"{last.output}{line}\n"))
    return found


def run(command: Command) -> subprocess.CompletedProcess[str]:
    """Runs one command; its output is what the page should show."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    with tempfile.TemporaryDirectory() as folder:
        return subprocess.run(
            ["/bin/bash", "-o", "pipefail", "-c", command.text],
            cwd=folder,
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
            check=False,
        )


def renew(page: Path) -> None:
    """Writes the page anew, with each command's output as it is now."""
    outputs = {}
    for command in commands(page):
        print(f"{page.relative_to(ROOT)}:{command.line}: {command.text}", flush=True)
        done = run(command)
        if done.returncode:
            sys.exit(f"it ended with status {done.returncode}:\n{done.stderr}")
        outputs[command.line] = done.stdout
    lines: list[str] = []
    inside = False
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
        if line in (OPENING, CLOSING):
            inside = line == OPENING
        elif inside and not line.startswith("$ "):
            continue
        lines.append(line)
        if number in outputs:
            lines += outputs[number].splitlines()
    page.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    for name in sys.argv[1:] or pages():
        renew(Path(name).resolve())
