# SPDX-License-Identifier: GPL-2.0-or-later
"""What every machine can do on which the probe is timed; see open.py for how one is named."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from kentry.arch import ARCHES, Arch, find_arch
from kentry.boot.console import tail
from kentry.boot.probe_protocol import OnLine, ProbeLines
from kentry.errors import MachineError, UserError
from kentry.host.process import status_clause
from kentry.kernels.kernel import Kernel
from kentry.progress import Update


@dataclass(frozen=True)
class CommandResult:
    """A command's status (128 + a signal's number if one ended it) and its outputs."""

    status: int
    stdout: str
    stderr: str


@dataclass(frozen=True)
class MachineOptions:
    """How a machine is reached; each kind reads what it needs.

    ssh and board: `switch` says how another kernel is booted, "kexec" or a command for the
    machine's shell with {} for the kernel's name.  `boot_timeout` is how many seconds a machine
    may take to answer after it was told to boot, or a guest until the probe starts.
    kvm: `emulator` is as for find_emulator(), `accelerator` one of qemu_argv.ACCELERATORS, `arch`
    "" for this machine's.  The guest runs only on cpu `pin` of this machine.
    """

    boot_timeout: float = 300.0
    switch: str = "kexec"
    emulator: str = "installed"
    accelerator: str = "kvm"
    arch: str = ""
    pin: int | None = None


class Machine(Protocol):
    """A machine on which the probe runs.

    `kind` is local, ssh, board or kvm, `name` what the user wrote, `kernel` the kernel that we
    boot there, None where the machine runs its own.
    """

    kind: str
    name: str
    arch: Arch
    kernel: Kernel | None = None

    def run_probe(self, words: Sequence[str], timeout: float, on_line: OnLine) -> None:
        """Runs the probe with these arguments, for at most `timeout` seconds.

        `on_line` gets each whole line of its output as it comes.  MachineError if it could not be
        started or did not come to its end.
        """

    def run_command(self, argv: Sequence[str], timeout: float) -> CommandResult:
        """Runs a program without a shell; MachineError if that could not be done."""

    def boot(self, kernel: str, update: Update) -> None:
        """Boots another kernel, and returns when the probe can be run on it."""

    def describe(self) -> dict[str, Any]:
        """What a recording's "target" says of the machine besides what preflight sees."""
        return {}

    def close(self) -> None:
        """Removes what was put there."""
        return


def arch_of(name: str, machine: str) -> Arch:
    """The architecture that `uname -m` calls `machine` on the machine `name`."""
    try:
        return find_arch(machine)
    except UserError as err:
        raise MachineError(
            f"{name} is '{machine}', an architecture that kentry does not know.",
            f"It knows {', '.join(ARCHES)}.",
        ) from err


def check_ended(name: str, lines: ProbeLines, status: int, stderr: str) -> None:
    """MachineError unless the probe printed its end mark and ended with status 0."""
    if status == 0 and lines.ended:
        return
    where = f"after {lines.count} lines" if lines.started else "before it said anything"
    raise MachineError(
        f"The probe on {name} did not come to its end: {status_clause('it', status)}, {where}.",
        "Run again with -v for the command line; what it had printed is kept.",
        tail(stderr),
    )


def stopped(what: str, name: str, why: str) -> MachineError:
    """The error for something that had to be stopped; `why` is Exit.stopped."""
    return MachineError(
        f"{what} on {name} was stopped {why}.",
        "Give it more time, or find out what holds it up there.",
    )
