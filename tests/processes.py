# SPDX-License-Identifier: GPL-2.0-or-later
"""Programs that play others, and waits for processes that should end."""

import time
from collections.abc import Callable
from pathlib import Path

# Seconds that a test waits for what must come by itself: a busy machine may take as long.
PATIENCE = 1200


def script(file: Path, text: str) -> Path:
    """A program for sh with that text, in a folder that is made if it is not there."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    file.chmod(0o755)
    return file


def awaited(true: Callable[[], object], seconds: float = PATIENCE) -> bool:
    """Whether it is true, or becomes true in time."""
    deadline = time.monotonic() + seconds
    while not (now := bool(true())) and time.monotonic() < deadline:
        time.sleep(0.002)
    return now


def pid_in(file: Path) -> int:
    """The process id that a program writes to `file`."""
    assert awaited(lambda: file.exists() and file.read_text().strip())
    return int(file.read_text())


def gone(pid: int, seconds: float = PATIENCE) -> bool:
    """Whether the process is dead, or dies in time."""

    def dead() -> bool:
        try:
            return Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z"
        except OSError:
            return True

    return awaited(dead, seconds)
