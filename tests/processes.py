# SPDX-License-Identifier: GPL-2.0-or-later
"""Programs that play others, and waits for processes that should end."""

import time
from pathlib import Path


def script(file: Path, text: str) -> Path:
    """A program for sh with that text, in a folder that is made if it is not there."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    file.chmod(0o755)
    return file


def pid_in(file: Path) -> int:
    """The process id that a program writes to `file` within some seconds."""
    deadline = time.monotonic() + 20
    while not file.exists() or not file.read_text().strip():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return int(file.read_text())


def gone(pid: int, seconds: float = 10) -> bool:
    """Whether the process is dead, or is within some seconds."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            if Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z":
                return True
        except OSError:
            return True
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.02)
