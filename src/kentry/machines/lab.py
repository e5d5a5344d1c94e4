# SPDX-License-Identifier: GPL-2.0-or-later
"""A machine that labgrid lends: its power, console and shell, all through labgrid.

labgrid is imported when a board is opened, not before: it takes half a second.
"""

import contextlib
import enum
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kentry.errors import KentryError, MachineError
from kentry.host.process import log
from kentry.machines.machine import MachineOptions

_ENV_VARIABLE = "LG_ENV"

# What brings a place to a shell; a strategy's state, by labgrid's own custom.
SHELL, OFF = "shell", "off"

# The first of these that can be activated runs commands; CommandProtocol is any other driver.
_COMMANDS = ("SSHDriver", "ShellDriver", "CommandProtocol")

_LOOK = "See its console, and what labgrid-client does with that place."

_COMMAND_SHOWN = 60  # characters of a command in an error
_WORDS_SHOWN = 300  # characters of what labgrid says of an error, and of a command in the log


class Lab:
    """One target of an environment; `name` is what the user wrote for it."""

    def __init__(self, name: str, place: str, options: MachineOptions) -> None:
        self.name = name
        self._command: Any = None
        file = environment_file()
        with _explained(f"make {name} of {file}", "See that labgrid-client takes that file."):
            from labgrid import Environment

            self.env = Environment(str(file), interact=self._refuse)
            targets = self.env.config.get_targets()
            if place not in targets:
                raise MachineError(
                    f"{file} has no target '{place}'.",
                    f"It has: {', '.join(map(str, targets)) or 'none'}.",
                )
            self.target = self.env.get_target(place)

    def _refuse(self, message: str) -> str:
        raise MachineError(
            f"labgrid would have somebody do something for {self.name} by hand: {message.strip()}",
            "Use a place whose power labgrid can switch, or do it before.",
        )

    @property
    def states(self) -> tuple[str, ...]:
        """The states of the target's strategy; none without one."""
        strategy = self._strategy()
        if strategy is None:
            return ()
        if isinstance(getattr(strategy, "status", None), enum.Enum):
            return tuple(type(strategy.status).__members__)
        return tuple(map(str, getattr(strategy, "states", ())))  # a GraphStrategy's

    def _strategy(self) -> Any:
        from labgrid.exceptions import NoStrategyFoundError

        try:
            return self.target.get_strategy()
        except NoStrategyFoundError as err:
            if "multiple" in str(err):
                raise MachineError(
                    f"{self.name} has more than one strategy in its environment.", "Leave one."
                ) from err
            return None

    def bring_up(self, state: str = SHELL) -> None:
        """Boots the board as far as `state` of its strategy, and finds its shell."""
        with _explained(f"boot {self.name}", _LOOK), _no_endless_accept():
            strategy = self._strategy()
            if strategy is None:
                if power := self._driver("PowerProtocol"):
                    power.on()
            elif state in self.states or not self.states:
                strategy.transition(state)
            else:
                raise MachineError(
                    f"The strategy of {self.name} has no state '{state}'.",
                    f"It has: {', '.join(self.states)}.",
                )
            self._command = self._find_command()

    def _driver(self, name: str, activate: bool = True) -> Any:
        """A driver by its class or protocol, None where the target has none."""
        from labgrid.exceptions import NoDriverFoundError

        try:
            driver = self.target.get_driver(name, activate=False)
        except NoDriverFoundError as err:
            if "multiple" in str(err):
                raise
            return None
        if activate:
            self.target.activate(driver)
        return driver

    def _find_command(self) -> Any:
        """The driver that runs commands; the first error where none can be activated."""
        first: Exception | None = None
        for name in _COMMANDS:
            try:
                if driver := self._driver(name):
                    return driver
            except Exception as err:
                first = first or err
        raise first or MachineError(
            f"{self.name} has no driver that runs commands.",
            "Give the target a ShellDriver or an SSHDriver in its environment.",
        )

    def reconnect(self) -> None:
        """Forgets the shell of a boot that is over; the next command looks for a new one."""
        with contextlib.suppress(Exception):
            self.target.deactivate(self._command)
        self._command = None

    def boot_image(self, kernel: Path) -> None:
        """Starts a QEMU of labgrid's anew, with another kernel; see machine()."""
        emulator = self.machine()
        with _explained(f"boot {self.name}", _LOOK):
            if strategy := self._strategy():
                # Which otherwise would believe that it still runs.
                strategy.transition(OFF)
            # Its command line is made when it is activated.
            self.target.deactivate(emulator)
            self.env.config.data.setdefault("images", {})[str(kernel)] = str(kernel)
            emulator.kernel = str(kernel)
        self._command = None
        self.bring_up()

    def machine(self) -> Any:
        """The QEMUDriver of the target, None where it is no QEMU."""
        return self._driver("QEMUDriver", activate=False)

    def images(self) -> dict[str, Path]:
        """The images that the environment names."""
        return {name: Path(file) for name, file in self.env.config.get_images().items()}

    def close(self) -> None:
        """Lets go of the board; a QEMU ends, a board stays as it is."""
        try:
            self.target.cleanup()
        except Exception as err:
            log.warning("kentry: labgrid did not let go of %s: %s", self.name, _said(err))

    @property
    def has_console_shell(self) -> bool:
        """Whether commands go over a console, on which the kernel may print."""
        from labgrid.driver import ShellDriver

        return isinstance(self._command, ShellDriver)

    def run(self, command: str, timeout: float) -> tuple[list[str], int]:
        """Runs one line of shell for at most `timeout` seconds; what it printed, its status."""
        log.info("%s$ %s", self.name, command[:_WORDS_SHOWN])
        with _explained(f"run '{command[:_COMMAND_SHOWN]}' on {self.name}", _LOOK):
            if self._command is None:
                self._command = self._find_command()
            lines, _, status = self._command.run(
                command, timeout=timeout, codec="utf-8", decodeerrors="replace"
            )
        return [line.rstrip("\r") for line in lines], int(status)

    def files(self) -> Any:
        """A driver that transfers files, None where there is only the console.

        A ShellDriver has one too (XMODEM), for which boards rarely have both programs.
        """
        return None if self.has_console_shell else self._driver("FileTransferProtocol")

    def transfer(self, way: str, source: str, destination: str) -> None:
        """Has files() "put" or "get" one."""
        with _explained(f"{way} {source} ({self.name})", "See that there is space."):
            getattr(self.files(), way)(source, destination)


def environment_file() -> Path:
    """The environment file that LG_ENV names; MachineError without one."""
    named = os.environ.get(_ENV_VARIABLE)
    file = Path(named).expanduser() if named else None
    if file is None or not file.is_file():
        raise MachineError(
            f"There is no labgrid environment {file}."
            if file
            else "No labgrid environment says what board there is.",
            f"Name its file in {_ENV_VARIABLE}: {_ENV_VARIABLE}=env.yaml kentry stat ...",
        )
    return file


@contextlib.contextmanager
def _explained(doing: str, remedy: str) -> Iterator[None]:
    """Makes one sentence of any error that labgrid, or a driver of it, raises while `doing`."""
    try:
        yield
    except KentryError:
        raise
    except Exception as err:
        raise MachineError(f"labgrid could not {doing}: {_said(err)}.", remedy) from err


def _said(err: BaseException) -> str:
    """The message of an error, or of the one that caused it, on one line."""
    import pexpect
    from labgrid.util.qmp import QMPError

    while err.__cause__ is not None:
        err = err.__cause__
    if isinstance(err, pexpect.TIMEOUT):
        return "it did not answer in time"
    if isinstance(err, TimeoutError | QMPError):
        return "QEMU did not start (what it said is above)"
    text = " ".join(str(getattr(err, "msg", "") or err).split())
    return (text or type(err).__name__)[:_WORDS_SHOWN].rstrip(".")


@contextlib.contextmanager
def _no_endless_accept() -> Iterator[None]:
    """QEMUDriver.on() waits for a connection from a QEMU that may have ended at once."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(30.0)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)
