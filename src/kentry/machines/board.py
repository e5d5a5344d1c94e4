# SPDX-License-Identifier: GPL-2.0-or-later
"""A board that labgrid lends as a place: its power, console and shell, all through labgrid.

labgrid is imported when a board is opened: it takes half a second.  The probe's output goes into a
file, fetched at the end: a serial console is slow and may lose what is printed.  So files go over
it packed, to the board in pieces of a line, and gzip says whether they are whole.  labgrid's
ShellDriver would use XMODEM, for which a board needs lrzsz; few have it.
"""

import base64
import binascii
import contextlib
import enum
import gzip
import os
import re
import shlex
import socket
import tempfile
import time
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from kentry.boot.probe_protocol import OnLine, ProbeLines
from kentry.errors import KentryError, MachineError
from kentry.host.process import log
from kentry.machines.machine import MOMENT, CommandResult, MachineOptions, ShellMachine
from kentry.machines.place import acquired
from kentry.progress import Update

_GRACE = 30.0  # seconds that labgrid waits longer than timeout(1) does
# What timeout(1) leaves with: coreutils, and a shell that saw SIGKILL or SIGTERM.
_TIMED_OUT = (124, 137, 143)
_ENV_VARIABLE = "LG_ENV"
# The first of these that can be activated runs commands; CommandProtocol is any other driver.
_COMMANDS = ("SSHDriver", "ShellDriver", "CommandProtocol")
_LOOK = "See its console, and what labgrid-client does with that place."
_SPACE = "See that there is space."
_COMMAND_SHOWN = 60  # characters of a command in an error
_WORDS_SHOWN = 300  # characters of what labgrid says of an error, and of a command in the log

# A shell that edits its line takes 1024 characters (busybox), and labgrid's words go with ours.
LINE_CHARACTERS = 512
# Seconds for a file fetched: enough for 100 KB at 9600 baud; and how often it is tried.
_FETCH_SECONDS = 180.0
_TRIES = 3


class BoardMachine(ShellMachine):
    """One target of a labgrid environment, with a folder of ours on it."""

    kind = "board"

    def __init__(self, name: str, options: MachineOptions) -> None:
        self.name = name
        self.options = options
        self._command: Any = None
        self._printk = ""
        target, named = name.partition(":")[2], os.environ.get(_ENV_VARIABLE, "")
        file = Path(os.path.expanduser(named))
        if not file.is_file():
            raise MachineError(
                f"There is no labgrid environment {file}."
                if named
                else "No labgrid environment says what board there is.",
                f"Name its file in {_ENV_VARIABLE}: {_ENV_VARIABLE}=env.yaml kentry stat ...",
            )
        from labgrid import Environment
        from labgrid.factory import target_factory

        with _explained(f"make {name} of {file}", "See that labgrid-client takes that file."):
            self.env = Environment(str(file), interact=self._refuse)
            targets = self.env.config.get_targets()
            if target not in targets:
                raise MachineError(
                    f"{file} has no target '{target}'.",
                    f"It has: {', '.join(map(str, targets)) or 'none'}.",
                )
            # As labgrid-client(1) has it.
            usual = os.environ.get("LG_COORDINATOR", "127.0.0.1:20408")
            coordinator = str(self.env.config.get_option("coordinator_address", usual))
            resources, _ = target_factory.normalize_config(targets[target] or {})
            with contextlib.ExitStack() as places:
                for place in resources.get("RemotePlace", {}):
                    places.enter_context(acquired(place, coordinator))
                self.target = self.env.get_target(target)
                self._places = places.pop_all()

    def _refuse(self, message: str) -> str:
        raise MachineError(
            f"labgrid asks for something to be done on {self.name} by hand: {message.strip()}",
            "Do it and run again, or use a place whose power labgrid can switch.",
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
                    f"{self.name} has more than one strategy in its environment.",
                    "Keep one of them.",
                ) from err
            return None

    def bring_up(self, state: str = "shell") -> None:
        """Boots the board as far as `state` of its strategy, and finds its shell."""
        with _explained(f"boot {self.name}", _LOOK), contextlib.ExitStack() as stack:
            # QEMUDriver.on() waits for a connection from a QEMU that may have ended at once.
            stack.callback(socket.setdefaulttimeout, socket.getdefaulttimeout())
            socket.setdefaulttimeout(30.0)
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

    def _driver(self, name: str) -> Any:
        """Returns a driver by its class or protocol, None where the target has none."""
        from labgrid.exceptions import NoDriverFoundError

        try:
            driver = self.target.get_driver(name, activate=False)
        except NoDriverFoundError as err:
            if "multiple" in str(err):
                raise
            return None
        self.target.activate(driver)
        return driver

    def _find_command(self) -> Any:
        """Returns the driver that runs commands; the first error where none can be activated."""
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

    @property
    def _files(self) -> Any:
        """A driver that transfers files, None where there is only the console."""
        return None if self.has_console_shell else self._driver("FileTransferProtocol")

    def put(self, path: str) -> None:
        """Copies the probe to `path`, whose name has no character that a shell reads."""
        if driver := self._files:
            with _explained(f"put {self.probe} ({self.name})", _SPACE):
                driver.put(str(self.probe), path)
        else:
            self.write(self.probe.read_bytes(), path)

    def write(self, data: bytes, path: str) -> None:
        """Writes `data` to the file `path` over the console; gzip says if it is whole."""
        text = base64.b64encode(gzip.compress(data, mtime=0)).decode()
        for _ in range(_TRIES):
            self.run(f"rm -f {path}.in", MOMENT)
            for at in range(0, len(text), LINE_CHARACTERS):
                piece = text[at : at + LINE_CHARACTERS]
                self.run(f"echo {piece} >>{path}.in", MOMENT)
            unpack = f"base64 -d <{path}.in 2>/dev/null | gzip -dc >{path} && rm {path}.in"
            if self.run(unpack, MOMENT)[1] == 0:
                return
        raise self._not_whole(path, "to")

    def get(self, path: str) -> bytes:
        """Returns what is in the file `path`; over a console b"" where there is none."""
        if driver := self._files:
            with tempfile.TemporaryDirectory(prefix="kentry-") as folder:
                here = Path(folder, "file")
                with _explained(f"get {path} ({self.name})", _SPACE):
                    driver.get(path, str(here))
                return here.read_bytes()
        for _ in range(_TRIES):
            lines, _ = self.run(f"cat {path} 2>/dev/null | gzip -c | base64", _FETCH_SECONDS)
            with contextlib.suppress(binascii.Error, OSError, EOFError, zlib.error):
                packed = base64.b64decode("".join(map(str.strip, lines)), validate=True)
                return gzip.decompress(packed)
        raise self._not_whole(path, "from")

    def _not_whole(self, path: str, direction: str) -> MachineError:
        return MachineError(
            f"{path} did not get {direction} {self.name} whole in {_TRIES} tries.",
            "Give the place an SSHDriver, or look at its space, base64, gzip and console.",
        )

    # --- what a machine can do ---------------------------------------------------------

    def connect(self) -> None:
        """Boots the board, and finds out what it is."""
        self.bring_up()
        lines, _ = self.run("uname -m", MOMENT)
        self.has_arch(lines[-1].strip() if lines else "")

    def run_probe(self, arguments: Sequence[str], timeout: float, on_line: OnLine) -> None:
        """Runs the probe; its lines come when it has ended.  See Machine."""
        probe = self.ready_probe()
        lines = ProbeLines(on_line)
        status, late = self._run([probe, *arguments], timeout)
        # A line without its end may be cut short.
        for line in self._fetch("out").splitlines(keepends=True):
            if line.endswith("\n"):
                lines(line.rstrip("\r\n"))
        if late:
            raise self.stopped("The probe", f"after {timeout:g} s")
        self.check_ended(lines, status, self._fetch("err"))

    def run_command(self, argv: Sequence[str], timeout: float) -> CommandResult:
        """Runs a command; see Machine."""
        self.make_folder()
        status, late = self._run(argv, timeout)
        if late:
            raise self.stopped(f"'{argv[0]}'", f"after {timeout:g} s")
        return CommandResult(status, self._fetch("out"), self._fetch("err"))

    def boot(self, kernel: str, update: Update) -> None:
        """Boots a state of the place's strategy; else as ShellMachine does."""
        update(None, f"{self.name}: booting {kernel}")
        if kernel in self.states:
            self.reconnect()
            self.bring_up(kernel)
        else:
            super().boot(kernel, update)
        self._silence()

    def leave(self, argv: Sequence[str]) -> None:
        """Runs a command in a second: labgrid would wait for its end until its time is over."""
        self.make_folder()
        command = self._on_a_line(shlex.join(argv))
        there = f"{self._folder}/left"
        run = f"sleep 1; {command} >{there}.out 2>{there}.err; echo $? >{there}"
        self.run(f"rm -f {there}; ({run}) </dev/null >/dev/null 2>&1 &", MOMENT)

    def left(self) -> CommandResult | None:
        """Returns what became of it, if it has ended; see ShellMachine."""
        lines, _ = self.run(f"cat {self._folder}/left 2>/dev/null", MOMENT)
        ended = lines[-1].strip() if lines else ""
        result = None
        if re.fullmatch("[0-9]{1,3}", ended):
            result = CommandResult(int(ended), self._fetch("left.out"), self._fetch("left.err"))
        # A boot loader may be the next that listens on a console: labgrid looks before it writes.
        self.reconnect()
        return result

    def close(self) -> None:
        """Removes the folder, lets the kernel print again, and lets go of the board.

        A QEMU ends, a board stays as it is.
        """
        with self._places as leaving:
            leaving.callback(self._let_go)
            try:
                if self._printk:
                    self.run(f"echo {self._printk} >/proc/sys/kernel/printk", MOMENT)
            except MachineError as err:
                log.warning("kentry: %s stays silent: %s", self.name, err.sentence)
            self.remove_folder()

    def _let_go(self) -> None:
        try:
            self.target.cleanup()
        except Exception as err:
            log.warning("kentry: labgrid did not let go of %s: %s", self.name, _said(err))

    def sh(self, script: str, *arguments: str) -> tuple[list[str], int]:
        """Runs a script; see ShellMachine."""
        return self.run(shlex.join(["sh", "-c", script, "sh", *arguments]), MOMENT)

    def make_folder(self) -> None:
        """Makes the folder; keeps the kernel from printing into what goes over the console."""
        self._silence()
        super().make_folder()

    def _silence(self) -> None:
        """Keeps the kernel's messages off the console, where labgrid waits for its own words."""
        if not self.has_console_shell:
            return
        lines, status = self.run("cat /proc/sys/kernel/printk", MOMENT)
        levels = lines[-1].split() if lines else []
        # "1": this boot's console is silent already.
        if status == 0 and levels and levels[0] != "1" and all(map(str.isdecimal, levels)):
            self._printk = f'"{" ".join(levels)}"'
            self.run("dmesg -n 1 2>/dev/null", MOMENT)

    def _run(self, argv: Sequence[str], timeout: float) -> tuple[int, bool]:
        """Runs `argv` with its output in files; its status, and whether it took too long."""
        limit = f"timeout -s KILL {max(int(timeout), 1)}"
        command = self._on_a_line(f"{limit} {shlex.join(argv)}")
        files = f">{self._folder}/out 2>{self._folder}/err </dev/null"
        begun = time.monotonic()
        _, status = self.run(f"{command} {files}", timeout + _GRACE)
        late = status in _TIMED_OUT and time.monotonic() - begun >= int(timeout)
        return status, late

    def _on_a_line(self, command: str) -> str:
        """Returns the command, or one that runs a script with it where a line takes no more."""
        if not self.has_console_shell or len(command) <= LINE_CHARACTERS:
            return command
        self.write(f"exec {command}\n".encode(), f"{self._folder}/run")
        return f"sh {self._folder}/run"

    def _fetch(self, file: str) -> str:
        """Returns the text of a file in the folder."""
        return self.get(f"{self._folder}/{file}").decode(errors="replace")


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
    """Returns the message of an error, or of the one that caused it, on one line."""
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
