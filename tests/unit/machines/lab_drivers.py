# SPDX-License-Identifier: GPL-2.0-or-later
"""Drivers for labgrid whose board is this machine's sh; for test_board.py."""

import enum
import subprocess
from typing import Any, ClassVar

import attr
from labgrid.driver import Driver, ExecutionError, ShellDriver
from labgrid.driver.commandmixin import CommandMixin
from labgrid.driver.fake import FakeConsoleDriver  # noqa: F401
from labgrid.factory import target_factory
from labgrid.protocol import CommandProtocol, ConsoleProtocol, FileTransferProtocol
from labgrid.strategy import Strategy


def run_here(command: str, timeout: float) -> tuple[list[str], list[str], int]:
    """As a driver's run(): on a console, standard error is among the rest."""
    done = subprocess.run(
        ["sh", "-c", command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=timeout,
        check=False,
    )
    return done.stdout.decode(errors="replace").splitlines(), [], done.returncode


@target_factory.reg_driver
@attr.s(eq=False)
class SerialShell(ShellDriver):  # type: ignore[misc]
    """A shell over a console; each `lossy` commands, one loses the end of its first line."""

    prompt: str = attr.ib(default="")
    login_prompt: str = attr.ib(default="")
    username: str = attr.ib(default="")
    lossy: int = attr.ib(default=0)
    commands: list[str]

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self.commands = []

    def on_activate(self) -> None:
        pass

    def run(self, cmd: str, timeout: float = 30.0, **_: Any) -> tuple[list[str], list[str], int]:
        self.commands.append(cmd)
        out, err, status = run_here(cmd, timeout)
        if self.lossy and len(self.commands) % self.lossy == 0 and out:
            out[0] = out[0][:-1]
        return out, err, status


@target_factory.reg_driver
@attr.s(eq=False)
class NetworkShell(CommandMixin, Driver, CommandProtocol, FileTransferProtocol):  # type: ignore[misc]
    """One that has a way of its own for files."""

    broken: bool = attr.ib(default=False)

    def run(self, cmd: str, timeout: float = 30.0, **_: Any) -> tuple[list[str], list[str], int]:
        return run_here(cmd, timeout)

    def put(self, source: str, destination: str) -> None:
        if self.broken:
            raise ExecutionError("no space left on device")
        subprocess.run(["cp", source, destination], check=True)

    def get(self, source: str, destination: str) -> None:
        subprocess.run(["cp", source, destination], check=True)

    def get_status(self) -> int:
        return 1


class Status(enum.Enum):
    unknown = 0
    off = 1
    shell = 2
    shell_next = 3


@target_factory.reg_driver
@attr.s(eq=False)
class TwoKernels(Strategy):  # type: ignore[misc]
    """A strategy with a state for another kernel."""

    bindings: ClassVar[dict[str, Any]] = {"console": ConsoleProtocol}
    status: Any = attr.ib(default=Status.unknown)
    seen: list[str]

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self.seen = []

    def transition(self, status: str) -> None:
        self.status = Status[status]
        self.seen.append(status)
