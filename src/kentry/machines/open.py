# SPDX-License-Identifier: GPL-2.0-or-later
"""Opens the machine that a user names.

"local" is this machine, "ssh:HOST" one that ssh reaches, "board:PLACE" one that labgrid lends,
"kvm" a guest of this machine.
"""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager

from kentry.arch import host_arch
from kentry.boot.probe_protocol import OnLine, ProbeLines
from kentry.errors import MachineError, UserError
from kentry.host.native import probe_file
from kentry.host.process import supervise
from kentry.machines.machine import CommandResult, Machine, MachineOptions
from kentry.progress import Update


def open_machine(text: str, options: MachineOptions) -> AbstractContextManager[Machine]:
    """Returns the machine that `text` names, for a `with`; UserError where it names none."""
    kind, colon, rest = text.partition(":")
    machine: Machine
    if text == "local":
        machine = LocalMachine(text)
    elif kind == "ssh" and rest:
        from kentry.machines.ssh import SshMachine

        machine = SshMachine(text, options)
    elif kind == "board" and rest:
        from kentry.machines.board import BoardMachine

        machine = BoardMachine(text, options)
    elif kind == "kvm" and (rest or not colon):
        from kentry.machines.kvm import KvmMachine

        machine = KvmMachine(text, options)
    else:
        raise UserError(
            f"'{text}' is no place to measure on.",
            "Use local, ssh:HOST (or ssh://USER@HOST:PORT), board:PLACE or kvm.",
        )
    return _connected(machine)


@contextmanager
def _connected(machine: Machine) -> Iterator[Machine]:
    with closing(machine):
        machine.connect()
        yield machine


class LocalMachine(Machine):
    """This machine: the probe is an ordinary process, and nothing needs root."""

    kind = "local"

    def __init__(self, name: str) -> None:
        self.name = name
        self.arch = host_arch()
        self.probe = probe_file(self.arch)

    def run_probe(self, arguments: Sequence[str], timeout: float, on_line: OnLine) -> None:
        """Runs the probe; see Machine."""
        lines = ProbeLines(on_line)
        end = supervise([str(self.probe), *arguments], timeout, lines)
        if end.stopped:
            raise self.stopped("The probe", end.stopped)
        self.check_ended(lines, end.status, end.stderr)

    def run_command(self, argv: Sequence[str], timeout: float) -> CommandResult:
        """Runs a command; see Machine."""
        if not shutil.which(argv[0]):
            raise MachineError(
                f"There is no program '{argv[0]}' on {self.name}.",
                "Name one that is on the PATH, or its whole path; no shell reads the command.",
            )
        lines: list[str] = []
        end = supervise(argv, timeout, lines.append)
        if end.stopped:
            raise self.stopped(f"'{argv[0]}'", end.stopped)
        return CommandResult(end.status, "\n".join([*lines, end.rest]), end.stderr)

    def boot(self, kernel: str, update: Update) -> None:
        """Refuses: the kernel under kentry cannot be replaced."""
        raise MachineError(
            f"Booting {kernel} on this machine would end kentry itself.",
            "Run kentry on another machine and reach this one by ssh:HOST.",
        )
