# SPDX-License-Identifier: GPL-2.0-or-later
"""A board of a lab as a place: labgrid switches it on and has a shell there.

The probe's output goes into a file on the board and is fetched when the probe has ended: a
serial console is too slow to print on while time is measured, and may lose what is printed.
"""

import shlex
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from kentry.boot.probe_protocol import OnLine, ProbeLines
from kentry.errors import MachineError
from kentry.host.native import probe_file
from kentry.host.process import log
from kentry.kernels.resolve import resolve
from kentry.kernels.spec import KINDS
from kentry.machines.lab import LINE_CHARACTERS, Lab
from kentry.machines.machine import (
    CommandResult,
    Machine,
    MachineOptions,
    arch_of,
    check_ended,
    stopped,
)
from kentry.machines.shell_machine import KEXEC, MOMENT, ShellMachine
from kentry.progress import Update

# Seconds that labgrid waits longer than timeout(1) does.
_GRACE = 30.0
# What timeout(1) leaves with: coreutils, and a shell that saw SIGKILL or SIGTERM.
_TIMED_OUT = (124, 137, 143)


class BoardMachine(ShellMachine):
    """One board, booted, with a folder of ours on it."""

    kind = "board"

    def __init__(self, name: str, lab: Lab, options: MachineOptions) -> None:
        self.name = name
        self._lab = lab
        self.options = options
        self._printk = ""
        lab.bring_up()
        lines, _ = lab.run("uname -m", MOMENT)
        self.arch = arch_of(name, lines[-1].strip() if lines else "")
        self.probe = probe_file(self.arch)

    def run_probe(self, words: Sequence[str], timeout: float, on_line: OnLine) -> None:
        """Runs the probe; its lines come when it has ended.  See Machine."""
        probe = self.ready_probe()
        lines = ProbeLines(on_line)
        status, late = self._run([probe, *words], timeout)
        # A line without its end may be cut short.
        for line in self._fetch("out").splitlines(keepends=True):
            if line.endswith("\n"):
                lines(line.rstrip("\r\n"))
        if late:
            raise stopped("The probe", self.name, f"after {timeout:g} s")
        check_ended(self.name, lines, status, self._fetch("err"))

    def run_command(self, argv: Sequence[str], timeout: float) -> CommandResult:
        """Runs a command; see Machine."""
        self.make_folder()
        status, late = self._run(argv, timeout)
        if late:
            raise stopped(f"'{argv[0]}'", self.name, f"after {timeout:g} s")
        return CommandResult(status, self._fetch("out"), self._fetch("err"))

    def boot(self, kernel: str, update: Update) -> None:
        """Boots a state of the place's strategy; a QEMU's image; else as ShellMachine does."""
        update(None, f"{self.name}: booting {kernel}")
        if kernel in self._lab.states:
            self._lab.reconnect()
            self._lab.bring_up(kernel)
        elif image := self._image(kernel, update):
            self._lab.boot_image(image)
        else:
            super().boot(kernel, update)
        self._silence()

    def reconnect(self) -> None:
        """Forgets the shell of a boot that is over."""
        self._lab.reconnect()

    def leave(self, argv: Sequence[str]) -> None:
        """Runs a command in a second: labgrid would wait for its end until its time is over."""
        self.make_folder()
        command = self._on_a_line(shlex.join(argv))
        there = f"{self._folder}/left"
        run = f"sleep 1; {command} >{there}.out 2>{there}.err; echo $? >{there}"
        self._lab.run(f"rm -f {there}; ({run}) </dev/null >/dev/null 2>&1 &", MOMENT)

    def left(self) -> CommandResult | None:
        """What became of it, if it has ended; see ShellMachine."""
        lines, _ = self._lab.run(f"cat {self._folder}/left 2>/dev/null", MOMENT)
        ended = lines[-1].strip() if lines else ""
        result = None
        if ended.isdecimal():
            result = CommandResult(int(ended), self._fetch("left.out"), self._fetch("left.err"))
        # A boot loader may be the next that listens on a console: labgrid looks before it writes.
        self._lab.reconnect()
        return result

    def close(self) -> None:
        """Removes the folder, and lets labgrid have the board back."""
        try:
            if self._printk:
                self._lab.run(f"echo {self._printk} >/proc/sys/kernel/printk", MOMENT)
        except MachineError as err:
            log.warning("kentry: %s stays silent: %s", self.name, err.sentence)
        self.remove_folder()

    def _image(self, kernel: str, update: Update) -> Path | None:
        """The image of a QEMU: the environment's, a file or a spec's; None for the board's own."""
        if self.options.switch != KEXEC or self._lab.machine() is None:
            return None
        images = self._lab.images()
        if kernel in images:
            return images[kernel]
        file = Path(kernel).expanduser()
        if file.is_file():
            return file.absolute()
        is_spec = kernel.partition(":")[0].partition(",")[0] in KINDS
        return resolve(kernel, self.arch, update).image if is_spec else None

    def sh(self, script: str, *words: str) -> tuple[list[str], int]:
        """Runs a script; see ShellMachine."""
        return self._lab.run(shlex.join(["sh", "-c", script, "sh", *words]), MOMENT)

    def put(self, path: str) -> None:
        """Copies the probe; see ShellMachine."""
        self._lab.put(self.probe, path)

    def make_folder(self) -> None:
        """Makes the folder; see ShellMachine."""
        if not self._folder:
            self._lab.check_tools()
        self._silence()
        super().make_folder()

    def _silence(self) -> None:
        """Keeps the kernel's messages off the console, where labgrid waits for its own words."""
        if not self._lab.has_console_shell:
            return
        lines, status = self._lab.run("cat /proc/sys/kernel/printk", MOMENT)
        words = lines[-1].split() if lines else []
        # "1": this boot's console is silent already.
        if status == 0 and words and words[0] != "1" and all(map(str.isdecimal, words)):
            self._printk = f'"{" ".join(words)}"'
            self._lab.run("dmesg -n 1 2>/dev/null", MOMENT)

    def _run(self, argv: Sequence[str], timeout: float) -> tuple[int, bool]:
        """Runs `argv` with its output in files; its status, and whether it took too long."""
        limit = f"timeout -s KILL {max(int(timeout), 1)}"
        command = self._on_a_line(f"{limit} {shlex.join(argv)}")
        files = f">{self._folder}/out 2>{self._folder}/err </dev/null"
        begun = time.monotonic()
        _, status = self._lab.run(f"{command} {files}", timeout + _GRACE)
        late = status in _TIMED_OUT and time.monotonic() - begun >= int(timeout)
        return status, late

    def _on_a_line(self, command: str) -> str:
        """The command, or one that runs a script with it where a line takes no more."""
        if not self._lab.has_console_shell or len(command) <= LINE_CHARACTERS:
            return command
        self._lab.write(f"exec {command}\n".encode(), f"{self._folder}/run")
        return f"sh {self._folder}/run"

    def _fetch(self, file: str) -> str:
        """The text of a file in the folder."""
        return self._lab.get(f"{self._folder}/{file}").decode(errors="replace")


@contextmanager
def open_board(text: str, options: MachineOptions) -> Iterator[Machine]:
    """The board that "board:PLACE" names, for a `with`."""
    lab = Lab(text)
    try:
        with closing(BoardMachine(text, lab, options)) as place:
            yield place
    finally:
        lab.close()
