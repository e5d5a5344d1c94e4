# SPDX-License-Identifier: GPL-2.0-or-later
"""What every machine can do on which the probe is timed; see open.py for how one is named.

On a machine with a shell another kernel is booted by kexec, or by a command of the user's.
"""

import re
import secrets
import shlex
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from kentry.arch import ARCHES, Arch, find_arch
from kentry.boot.console import tail
from kentry.boot.probe_protocol import OnLine, ProbeLines
from kentry.errors import MachineError, UserError
from kentry.host.native import probe_file
from kentry.host.process import log, status_clause
from kentry.kernels.kernel import Kernel
from kentry.progress import Update

KEXEC = "kexec"

_BOOT_ID = "/proc/sys/kernel/random/boot_id"
# Seconds for a command that takes a moment, and between two tries whether it answers.
MOMENT = 60.0
_PAUSE = 2.0
# An account other than root's has no folders of root's programs on its PATH.
_ROOT_PATH = "PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin; "
_RELEASE = re.compile(r"\d+\.\d+[\w.+~-]*")

# Makes the folder $1 below the first that lets programs run.
_MAKE_FOLDER = (
    'umask 077; for b in "$TMPDIR" /tmp "$XDG_RUNTIME_DIR" /run /dev/shm /var/tmp "$HOME/.cache"'
    ' "$HOME"; do [ -d "$b" ] || continue; d="$b/$1"; mkdir "$d" 2>/dev/null || continue;'
    ' (echo "#!/bin/sh" >"$d/t" && chmod 700 "$d/t" && "$d/t") 2>/dev/null'
    ' && rm "$d/t" && echo "in $d" && break; rm -rf "$d"; done'
)


@dataclass(frozen=True)
class CommandResult:
    """A command's status (128 + a signal's number if one ended it) and its outputs."""

    status: int
    stdout: str
    stderr: str


@dataclass(frozen=True)
class MachineOptions:
    """How a machine is reached; each kind reads what it needs.

    ssh and board: `switch` is "kexec" (of a release installed there or an image's whole path) or a
    command for the machine's shell with {} for the kernel.  `boot_timeout`: seconds from a boot to
    an answer, or a guest's probe.  kvm: `emulator` is as for find_emulator(), `accelerator` one of
    emulator.ACCELERATORS, `arch` "" for this machine's, `pin` the guest's only cpu here.
    """

    boot_timeout: float = 300.0
    switch: str = "kexec"
    emulator: str = "installed"
    accelerator: str = "kvm"
    arch: str = ""
    pin: int | None = None


class Machine(Protocol):
    """A machine: `name` as the user wrote it; `kernel` is what we boot, None for its own."""

    kind: str
    name: str
    arch: Arch
    kernel: Kernel | None = None

    def connect(self) -> None:
        """Finds out what the machine is; MachineError if it cannot be measured on."""
        return

    def run_probe(self, arguments: Sequence[str], timeout: float, on_line: OnLine) -> None:
        """Runs the probe; `on_line` gets whole lines as they come; MachineError if it fails."""

    def run_command(self, argv: Sequence[str], timeout: float) -> CommandResult:
        """Runs a program without a shell; MachineError if that could not be done."""

    def boot(self, kernel: str, update: Update) -> None:
        """Boots another kernel, and returns when the probe can be run on it."""

    def describe(self) -> dict[str, Any]:
        """Returns what a recording's "target" says of the machine besides what preflight sees."""
        return {}

    def close(self) -> None:
        """Removes what was put there."""
        return

    def check_ended(self, lines: ProbeLines, status: int, stderr: str) -> None:
        """Raises MachineError unless the probe printed its end mark and ended with status 0."""
        if status == 0 and lines.ended:
            return
        where = f"after {lines.count} lines" if lines.started else "before it said anything"
        ended = f"{status_clause('it', status)}, {where}"
        raise MachineError(
            f"The probe on {self.name} did not come to its end: {ended}.",
            "Run again with -v for the command line; what it had printed is kept.",
            tail(stderr),
        )

    def stopped(self, what: str, why: str, name: str = "") -> MachineError:
        """Returns the error for something that had to be stopped; `why` is Exit.stopped."""
        return MachineError(
            f"{what} on {name or self.name} was stopped {why}.",
            "Find out what holds it up there; -v shows the command line.",
        )


class ShellMachine(Machine):
    """A machine with a shell, on which the probe has a folder; MachineOptions say how one boots."""

    options: MachineOptions
    probe: Path
    _folder = ""

    def has_arch(self, machine: str) -> None:
        """Takes what `uname -m` says there; MachineError if kentry does not know it."""
        try:
            self.arch = find_arch(machine)
        except UserError as err:
            raise MachineError(
                f"{self.name} is '{machine}', an architecture that kentry does not know.",
                f"It knows {', '.join(ARCHES)}.",
            ) from err
        self.probe = probe_file(self.arch)

    def sh(self, script: str, *arguments: str) -> tuple[list[str], int]:
        """The lines that a script for sh(1), without ', prints, and its status; $1 is a word."""
        raise NotImplementedError

    def put(self, path: str) -> None:
        """Copies the probe to this file."""
        raise NotImplementedError

    def leave(self, argv: Sequence[str]) -> CommandResult | None:
        """Runs the command that ends the running kernel; None if its end is not waited for."""
        try:
            return self.run_command(argv, self.options.boot_timeout)
        except MachineError as err:
            # It may have gone down before it could answer: the next boot tells.
            return CommandResult(0, "", err.sentence)

    def left(self) -> CommandResult | None:
        """Returns that command's result where leave() had none; None while it runs."""
        return None

    def reconnect(self) -> None:
        """Forgets a connection that may be dead; the next command makes another."""

    def make_folder(self) -> None:
        """Makes the folder, unless it is there: the machine may have been booted since."""
        if self._folder and self.sh('test -d "$1"', self._folder)[1] == 0:
            return
        lines, _ = self.sh(_MAKE_FOLDER, f"kentry-{secrets.token_hex(6)}")
        folder = next((line[3:].strip() for line in lines if line.startswith("in /")), "")
        if not folder or shlex.quote(folder) != folder:
            raise MachineError(
                f"No folder on {self.name} takes a program and lets it run.",
                "Let one of /tmp, /run, /dev/shm, /var/tmp, ~/.cache be writable there and not"
                " noexec, or set TMPDIR there.",
            )
        self._folder = folder

    def ready_probe(self) -> str:
        """Where the probe is there; copies it if it is not."""
        if not self._folder or self.sh('test -x "$1"', f"{self._folder}/probe")[1]:
            self.make_folder()
            self.put(f"{self._folder}/probe")
            self.sh('chmod 700 "$1"', f"{self._folder}/probe")
        return f"{self._folder}/probe"

    def remove_folder(self) -> None:
        """Removes it; warns where that cannot be done."""
        try:
            if self._folder:
                self.sh('rm -rf "$1"', self._folder)
        except MachineError as err:
            log.warning("kentry: %s stays on %s: %s", self._folder, self.name, err.sentence)

    def boot(self, kernel: str, update: Update) -> None:
        """Boots `kernel`, and returns when it runs; MachineError where it does not."""
        how, timeout = self.options.switch, self.options.boot_timeout
        if not kernel or kernel.startswith("-") or not kernel.isprintable():
            raise UserError(
                f"'{kernel}' is no name of a kernel.",
                "Use a release (uname -r) or an image's path.",
            )
        if how != KEXEC and "{}" not in how:
            raise UserError(
                f"The command '{how}' does not say which kernel to boot.",
                "Write {} where its name goes, as in: grub-reboot {} && reboot",
            )
        update(None, f"{self.name}: looking")
        old_id, old_release = self._identity()
        update(None, f"{self.name}: booting {kernel}")
        command = ["sh", "-c", how.replace("{}", shlex.quote(kernel))]
        if how == KEXEC:
            command = self._load(kernel)
        result = self.leave(command)
        last = self._check_left(command, result)
        self.reconnect()
        deadline = time.monotonic() + timeout
        answers = True
        while time.monotonic() < deadline:
            time.sleep(_PAUSE)
            try:
                boot_id, release = self._identity()
                if boot_id == old_id:
                    result = self.left() or result
            except MachineError as err:
                answers, last = False, err.sentence
                update(None, f"{self.name}: waiting until it answers again")
                self.reconnect()
                continue
            answers, last = True, self._check_left(command, result)
            if boot_id == old_id:
                update(None, f"{self.name}: waiting until it goes down")
                continue
            if _RELEASE.fullmatch(kernel) and release != kernel:
                raise MachineError(
                    f"{self.name} came back with the kernel {release}, not {kernel}.",
                    "See on its console why that one does not boot, or whether the command chose"
                    " it.",
                )
            return
        if answers:
            raise MachineError(
                f"{self.name} was told to boot {kernel} and still runs the same boot of"
                f" {old_release} after {timeout:g} s.",
                "Give a command that does reboot it, or see there what holds it up.",
                tail(last),
            )
        raise MachineError(
            f"{self.name} did not come back within {timeout:g} s of being told to boot {kernel}.",
            "See its console, or switch it off and on, and run again.",
            tail(last),
        )

    def _identity(self) -> tuple[str, str]:
        """Returns the running boot's id and the kernel's release."""
        result = self.run_command(["sh", "-c", f"cat {_BOOT_ID} && uname -r"], MOMENT)
        answer = result.stdout.split()
        if result.status or len(answer) != 2:
            raise MachineError(
                f"{self.name} does not say which boot it is in.",
                f"{_BOOT_ID} must be readable there.",
                tail(result.stdout + result.stderr),
            )
        return answer[0], answer[1]

    def _check_left(self, command: Sequence[str], result: CommandResult | None) -> str:
        """Returns the output of the command that ends the running kernel; an error if it failed."""
        if result is None:
            return ""
        output = result.stdout + result.stderr
        # Above 128: the shutdown has killed the command as everything else.
        if 0 < result.status <= 128:
            raise MachineError(
                f"{self.name} does not boot another kernel: the command ended with status"
                f" {result.status}.",
                f"Try it there by hand: {shlex.join(command)}",
                tail(output),
            )
        return output

    def _load(self, kernel: str) -> list[str]:
        """Loads a kernel for kexec; the command that starts it."""
        root: list[str] = []
        if self.run_command(["id", "-u"], MOMENT).stdout.strip() != "0":
            root = ["sudo", "-n"]
            if self.run_command(["sh", "-c", "sudo -n true"], MOMENT).status:
                raise MachineError(
                    f"The account on {self.name} may not boot another kernel: it is not root, and"
                    " sudo would ask for a password.",
                    "Log in as root, or let sudo run any command there without a password.",
                )

        def shell(script: str, *args: str) -> list[str]:
            return ["sh", "-c", _ROOT_PATH + script, "sh", *args]

        def sh(script: str, *args: str) -> CommandResult:
            return self.run_command([*root, *shell(script, *args)], MOMENT)

        if self.run_command(shell("command -v kexec"), MOMENT).status:
            raise MachineError(
                f"kexec is not installed on {self.name}.",
                "Install kexec-tools there, or give a command that boots a kernel.",
            )
        images, initrds = _files_of(kernel)
        there = sh('for f in "$@"; do test -f "$f" && echo "$f"; done', *images, *initrds)
        files = there.stdout.splitlines()
        image = next((file for file in images if file in files), None)
        initrd = [f"--initrd={file}" for file in initrds if file in files][:1]
        if not image:
            raise MachineError(
                f"{self.name} has no kernel {kernel}.",
                f"Install it there first; looked for: {', '.join(images)}.",
            )
        options = [image, *initrd, "--reuse-cmdline"]
        loaded = sh('kexec "$@"', "-l", *options)
        # -s has the running kernel read the image and check its signature, as lockdown demands.
        if loaded.status and sh('kexec "$@"', "-s", "-l", *options).status:
            raise MachineError(
                f"kexec on {self.name} does not load {kernel}.",
                "A locked-down kernel (secure boot), kernel.kexec_load_disabled=1 and one without"
                " CONFIG_KEXEC do not permit it; or give a command that boots a kernel.",
                tail(loaded.stdout + loaded.stderr),
            )
        systemd = self.run_command(shell("test -d /run/systemd/system"), MOMENT).status == 0
        # kexec -e starts it at once, with nothing written out first.
        return [*root, *shell("systemctl kexec" if systemd else "sync; kexec -e")]


def _files_of(kernel: str) -> tuple[list[str], list[str]]:
    """Returns where a kernel's image may be, and its initrd."""
    if kernel.startswith("/"):
        images = [kernel]
        # /boot/vmlinuz-6.1.0 has /boot/initrd.img-6.1.0 beside it.
        folder, _, name = kernel.rpartition("/")
        release = re.sub(r"^(vmlinuz|vmlinux|Image|kernel)-", "", name)
    else:
        folder, release = "/boot", kernel
        images = [f"/boot/{name}-{kernel}" for name in ("vmlinuz", "vmlinux", "Image")]
        images.append(f"/lib/modules/{kernel}/vmlinuz")
    names = (f"initrd.img-{release}", f"initramfs-{release}.img", f"initrd-{release}")
    return images, [f"{folder}/{name}" for name in names]
