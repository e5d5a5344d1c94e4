# SPDX-License-Identifier: GPL-2.0-or-later
"""This machine as a place: the probe is an ordinary process, and nothing needs root."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from kentry.arch import Arch, host_arch
from kentry.errors import MachineError
from kentry.kernels.kernel import Kernel
from kentry.progress import Update
from kentry.runners.machine import (
    CommandResult,
    Machine,
    MachineOptions,
    OnLine,
    ProbeLines,
    choose_probe,
    closing,
    stopped,
)
from kentry.runners.streaming import stream


class LocalMachine:
    """This machine."""

    kind = "local"
    kernel: Kernel | None = None

    def __init__(self, name: str, arch: Arch, probe: Path) -> None:
        self.name = name
        self.arch = arch
        self._probe = probe

    def run_probe(self, words: Sequence[str], timeout: float, on_line: OnLine) -> None:
        """Runs the probe; see Machine."""
        lines = ProbeLines(on_line)
        ran = stream([str(self._probe), *words], timeout, lines)
        if ran.stopped:
            raise stopped("The probe", self.name, ran.stopped)
        lines.check(self.name, ran.status, ran.stderr)

    def run_command(self, argv: Sequence[str], timeout: float) -> CommandResult:
        """Runs a command; see Machine."""
        return run_here(self.name, argv, timeout)

    def boot(self, kernel: str, update: Update) -> None:
        """Refuses: the kernel under kentry cannot be replaced."""
        raise MachineError(
            f"Booting {kernel} on this machine would end kentry itself.",
            "Run kentry on another machine and reach this one by ssh:HOST.",
        )

    def describe(self) -> dict[str, Any]:
        """Nothing that preflight would not see."""
        return {}

    def close(self) -> None:
        """Nothing was put anywhere."""


def open_local(text: str, options: MachineOptions) -> AbstractContextManager[Machine]:
    """This machine, for a `with`."""
    arch = host_arch()
    return closing(LocalMachine(text, arch, choose_probe(text, arch, options)))


def run_here(name: str, argv: Sequence[str], timeout: float) -> CommandResult:
    """Runs `argv` on this machine for at most `timeout` seconds."""
    if not argv or not shutil.which(argv[0]):
        raise MachineError(
            f"There is no program '{argv[0] if argv else ''}' on {name}.",
            "Name one that is on the PATH, or its whole path; no shell reads the command.",
        )
    said: list[str] = []
    ran = stream(argv, timeout, said.append)
    if ran.stopped:
        raise stopped(f"'{argv[0]}'", name, ran.stopped)
    return CommandResult(ran.status, "\n".join([*said, ran.rest]), ran.stderr)
