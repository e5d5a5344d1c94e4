# SPDX-License-Identifier: GPL-2.0-or-later
"""Boots another kernel on a machine that has a shell, and waits until it answers.

It uses kexec, or a command of the user's, such as one that tells the boot loader and reboots.
"""

import re
import shlex
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from kentry.boot.console import tail
from kentry.errors import MachineError, UserError
from kentry.machines.machine import CommandResult
from kentry.progress import Update

KEXEC = "kexec"

_BOOT_ID = "/proc/sys/kernel/random/boot_id"
# Seconds for a command that takes a moment, and between two tries whether it answers.
_MOMENT = 60.0
_PAUSE = 2.0
# An account other than root's has no folders of root's programs on its PATH.
_ROOT_PATH = "PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin; "
_RELEASE = re.compile(r"\d+\.\d+[\w.+~-]*")


class Shell(Protocol):
    """What a machine must be able to do; a Machine is one."""

    name: str

    def run_command(self, argv: Sequence[str], timeout: float) -> CommandResult:
        """Runs a command; MachineError where that could not be done."""


class Leaving(Protocol):
    """Runs the command that ends the running kernel, without waiting for its end."""

    def leave(self, argv: Sequence[str]) -> None:
        """Starts it."""

    def left(self) -> CommandResult | None:
        """Its result, asked for while the machine still answers; None while it runs."""


def boot(
    machine: Shell,
    kernel: str,
    how: str,
    update: Update,
    timeout: float = 300.0,
    reconnect: Callable[[], None] = lambda: None,
    leaving: Leaving | None = None,
) -> None:
    """Boots `kernel`, and returns when it runs; MachineError where it does not.

    `how` is "kexec", where `kernel` is a release that is installed there or an image's whole
    path; or a command for the machine's shell with {} where `kernel` goes.  The machine must
    answer again within `timeout` seconds.  `reconnect` is called when a connection to it may be
    dead.  `leaving` runs the command that ends the running kernel, None to wait for its end.
    """
    if not kernel or kernel.startswith("-") or not kernel.isprintable():
        raise UserError(
            f"'{kernel}' is no name of a kernel.", "Use a release (uname -r) or an image's path."
        )
    if how != KEXEC and "{}" not in how:
        raise UserError(
            f"The command '{how}' does not say which kernel to boot.",
            "Write {} where its name goes, as in: grub-reboot {} && reboot",
        )
    update(None, f"{machine.name}: looking")
    old_id, old_release = _identity(machine)
    update(None, f"{machine.name}: booting {kernel}")
    words = _load(machine, kernel) if how == KEXEC else []
    words = words or ["sh", "-c", how.replace("{}", shlex.quote(kernel))]
    result: CommandResult | None = None
    if leaving:
        leaving.leave(words)
    else:
        try:
            result = machine.run_command(words, timeout)
        except MachineError as err:
            # It may have gone down before it could answer: the next boot tells.
            result = CommandResult(0, "", err.sentence)
    last = _check_left(machine, words, result)
    reconnect()
    deadline = time.monotonic() + timeout
    answers = True
    while time.monotonic() < deadline:
        time.sleep(_PAUSE)
        try:
            boot_id, release = _identity(machine)
            if leaving and boot_id == old_id:
                result = leaving.left()
        except MachineError as err:
            answers, last = False, err.sentence
            update(None, f"{machine.name}: waiting until it answers again")
            reconnect()
            continue
        answers, last = True, _check_left(machine, words, result)
        if boot_id == old_id:
            update(None, f"{machine.name}: waiting until it goes down")
            continue
        if _RELEASE.fullmatch(kernel) and release != kernel:
            raise MachineError(
                f"{machine.name} came back with the kernel {release}, not {kernel}.",
                "See on its console why that one does not boot, or whether the command chose it.",
            )
        return
    if answers:
        raise MachineError(
            f"{machine.name} was told to boot {kernel} and still runs the same boot of"
            f" {old_release} after {timeout:g} s.",
            "Give a command that does reboot it, or see there what holds it up.",
            tail(last),
        )
    raise MachineError(
        f"{machine.name} did not come back within {timeout:g} s of being told to boot {kernel}.",
        "See its console, or switch it off and on; then give it more time if it only was slow.",
        tail(last),
    )


def _identity(machine: Shell) -> tuple[str, str]:
    """The running boot's id and the kernel's release."""
    result = machine.run_command(["sh", "-c", f"cat {_BOOT_ID} && uname -r"], _MOMENT)
    words = result.stdout.split()
    if result.status or len(words) != 2:
        raise MachineError(
            f"{machine.name} does not say which boot it is in.",
            f"{_BOOT_ID} must be readable there.",
            tail(result.stdout + result.stderr),
        )
    return words[0], words[1]


def _check_left(machine: Shell, words: Sequence[str], result: CommandResult | None) -> str:
    """The output of the command that ends the running kernel; an error if it failed."""
    if result is None:
        return ""
    output = result.stdout + result.stderr
    # Above 128: the shutdown has killed the command as everything else.
    if 0 < result.status <= 128:
        raise MachineError(
            f"{machine.name} does not boot another kernel: the command ended with status"
            f" {result.status}.",
            f"Try it there by hand: {shlex.join(words)}",
            tail(output),
        )
    return output


# --- kexec -----------------------------------------------------------------------------------


def _load(machine: Shell, kernel: str) -> list[str]:
    """Loads a kernel for kexec; the command that starts it."""
    root: list[str] = []
    if machine.run_command(["id", "-u"], _MOMENT).stdout.strip() != "0":
        root = ["sudo", "-n"]
        if machine.run_command(["sh", "-c", "sudo -n true"], _MOMENT).status:
            raise MachineError(
                f"The account on {machine.name} may not boot another kernel: it is not root, and"
                " sudo would ask for a password.",
                "Log in as root, or let sudo run any command there without a password.",
            )

    def words(script: str, *args: str) -> list[str]:
        return ["sh", "-c", _ROOT_PATH + script, "sh", *args]

    def sh(script: str, *args: str) -> CommandResult:
        return machine.run_command([*root, *words(script, *args)], _MOMENT)

    if machine.run_command(words("command -v kexec"), _MOMENT).status:
        raise MachineError(
            f"kexec is not installed on {machine.name}.",
            "Run there: apt-get install kexec-tools  (or give a command that boots a kernel).",
        )
    images, initrds = _files_of(kernel)
    there = sh('for f in "$@"; do test -f "$f" && echo "$f"; done', *images, *initrds)
    files = there.stdout.splitlines()
    image = next((file for file in images if file in files), None)
    initrd = next((f"--initrd={file}" for file in initrds if file in files), None)
    if not image:
        raise MachineError(
            f"{machine.name} has no kernel {kernel}.",
            f"Install it there first; looked for: {', '.join(images)}.",
        )
    options = [image, *([initrd] if initrd else []), "--reuse-cmdline"]
    loaded = sh('kexec "$@"', "-l", *options)
    # -s has the running kernel read the image and check its signature: all that lockdown allows.
    if loaded.status and sh('kexec "$@"', "-s", "-l", *options).status:
        raise MachineError(
            f"kexec on {machine.name} does not load {kernel}.",
            "A locked-down kernel (secure boot), kernel.kexec_load_disabled=1 and one without"
            " CONFIG_KEXEC do not permit it; or give a command that boots a kernel.",
            tail(loaded.stdout + loaded.stderr),
        )
    systemd = machine.run_command(words("test -d /run/systemd/system"), _MOMENT).status == 0
    # kexec -e starts it at once, with nothing written out first.
    return [*root, *words("systemctl kexec" if systemd else "sync; kexec -e")]


def _files_of(kernel: str) -> tuple[list[str], list[str]]:
    """Where a kernel's image may be, and its initrd."""
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
