# SPDX-License-Identifier: GPL-2.0-or-later
"""What every machine can do on which the probe is timed; see open.py for how one is named."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from kentry.arch import Arch
from kentry.errors import MachineError
from kentry.host.native import probe_file
from kentry.kernels.kernel import Kernel
from kentry.progress import Update
from kentry.runners.console import tail

OnLine = Callable[[str], None]

_PREFIX = "kentry-probe "


@dataclass(frozen=True)
class CommandResult:
    """What a command on a place said; a status above 128 is a signal's number plus 128."""

    status: int
    stdout: str
    stderr: str


@dataclass(frozen=True)
class MachineOptions:
    """How a place is reached; each kind of place reads what it needs.

    `ssh_options` are words put first on ssh's command line ("-F", FILE, "-o", OPTION).
    `connect_timeout` and `boot_timeout` are seconds: until a connection stands, and until a place
    answers again that was told to boot.  `switch` says how another kernel is booted: "kexec", or
    a command for the place's shell with {} where the kernel's name goes.  `probe` is the probe's
    file, None for the one that belongs to the place's architecture.

    Of a guest: `memory` in MiB, its `smp` cpus, `emulator` as for find_emulator(), `accelerator`
    (kvm.ACCELERATORS), `arch` ("" is this machine's), `pin`, the cpu of this machine it may only
    run on, and `kernel`, the spec of what it boots until it is told another.  `board_env` is
    labgrid's environment file, None for the one that LG_ENV names.  `console_file` keeps the
    last console of a guest, `console_folder` those of a board.
    """

    ssh_options: tuple[str, ...] = ()
    connect_timeout: int = 15
    boot_timeout: float = 300.0
    switch: str = "kexec"
    probe: Path | None = None
    memory: int = 512
    smp: int = 1
    emulator: str = "installed"
    accelerator: str = "kvm"
    arch: str = ""
    pin: int | None = None
    kernel: str = ""
    board_env: Path | None = None
    console_file: Path | None = None
    console_folder: Path | None = None


class Machine(Protocol):
    """A machine on which the probe runs."""

    @property
    def kind(self) -> str:
        """local, ssh, board or kvm."""

    @property
    def name(self) -> str:
        """As the user wrote it."""

    @property
    def arch(self) -> Arch:
        """Its architecture."""

    @property
    def kernel(self) -> Kernel | None:
        """What it boots, where that is a file of ours; None where it runs its own."""

    def run_probe(self, words: Sequence[str], timeout: float, on_line: OnLine) -> None:
        """Runs the probe with these arguments, for at most `timeout` seconds.

        Each whole line of its output goes to `on_line` as it comes.  MachineError where it could
        not be started or did not come to its end.
        """

    def run_command(self, argv: Sequence[str], timeout: float) -> CommandResult:
        """Runs a user's command, no shell between; MachineError where it could not be done."""

    def boot(self, kernel: str, update: Update) -> None:
        """Boots another kernel, and comes back when the probe can be run on it."""

    def describe(self) -> dict[str, Any]:
        """What a recording's "target" says of the place besides what preflight sees."""

    def close(self) -> None:
        """Removes what was put there."""


def choose_probe(name: str, arch: Arch, options: MachineOptions) -> Path:
    """The probe's file for the place called `name`; MachineError where it is another machine's.

    It is looked at here since a shell, and execvp(3), take a program that the kernel does not
    know for a script.
    """
    from elftools.elf.enums import ENUM_E_MACHINE

    file = options.probe or probe_file(arch)
    try:
        with file.open("rb") as stream:
            head = stream.read(20)
    except OSError as err:
        raise MachineError(f"The probe {file} cannot be read: {err.strerror}.") from err
    if head[:4] == b"\x7fELF" and int.from_bytes(head[18:20], "little") == int(
        ENUM_E_MACHINE[arch.elf_machine]
    ):
        return file
    raise wrong_architecture(name, file, arch.name)


def wrong_architecture(name: str, file: Path, arch: str) -> MachineError:
    """The error for a probe that is no program of the machine's."""
    return MachineError(
        f"{name} ({arch}) cannot run the probe {file.name}: it is another architecture's.",
        "Use the probe of the machine's own architecture: install kentry again (make setup).",
    )


@dataclass
class ProbeLines:
    """Hands lines on, and keeps whether the probe said that it came to its end."""

    on_line: OnLine
    count: int = 0
    ended: bool = False
    _started: bool = field(default=False, repr=False)

    def __call__(self, line: str) -> None:
        """One line of standard output, without its newline."""
        self.count += 1
        if line.startswith(_PREFIX + "start "):
            self._started = True
        if line.startswith(_PREFIX + "end "):
            self.ended = True
        self.on_line(line)

    def check(self, name: str, status: int, stderr: str) -> None:
        """MachineError unless a probe that left with this status came to its end."""
        if status == 0 and self.ended:
            return
        where = f"after {self.count} lines" if self._started else "before it said anything"
        raise MachineError(
            f"The probe on {name} did not come to its end: {_status_clause(status)}, {where}.",
            "Run again with -v for the command line; what it had printed is kept.",
            tail(stderr),
        )


def stopped(what: str, name: str, why: str) -> MachineError:
    """The error for something that had to be stopped; `why` is streaming's clause."""
    return MachineError(
        f"{what} on {name} was stopped {why}.",
        "Give it more time, or find out what holds it up there.",
    )


def _status_clause(status: int) -> str:
    if status > 128:
        with contextlib.suppress(ValueError):
            return f"it was killed by {signal.Signals(status - 128).name}"
    return f"it ended with status {status}"


@contextlib.contextmanager
def closing(place: Machine) -> Iterator[Machine]:
    """`place` for a `with`: closed at its end, whatever ends it."""
    try:
        yield place
    finally:
        place.close()
