# SPDX-License-Identifier: GPL-2.0-or-later
"""Boots another kernel on a machine that has a shell, and waits until it is there.

By kexec, or by a command of the user's own, such as one that tells the boot loader and reboots.
"""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from kentry.errors import MachineError, UserError
from kentry.progress import Update
from kentry.runners.console import tail
from kentry.runners.machine import CommandResult

KEXEC = "kexec"

_BOOT_ID = "/proc/sys/kernel/random/boot_id"
# Seconds for a command that takes a moment, and between two looks whether it is back.
_MOMENT = 60.0
_PAUSE = 2.0
# An account other than root's has no folders of root's programs on its PATH.
_ROOT_PATH = "PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin; "
_RELEASE = re.compile(r"\d+\.\d+[\w.+~-]*")


class Shell(Protocol):
    """What a machine must be able to do; a Machine is one."""

    @property
    def name(self) -> str:
        """As the user wrote it."""

    def run_command(self, argv: Sequence[str], timeout: float) -> CommandResult:
        """Runs a command; MachineError where that could not be done."""


class Leaving(Protocol):
    """Runs the command that ends the running kernel."""

    def leave(self, argv: Sequence[str]) -> CommandResult | None:
        """Runs it; its result where that is known at once."""

    def left(self) -> CommandResult | None:
        """Its result, asked for while the machine still answers; None while it runs."""


class Waiting:
    """For a shell whose connection ends when the machine goes: the command is waited for."""

    def __init__(self, place: Shell, timeout: float) -> None:
        self._place = place
        self._timeout = timeout
        self._said = CommandResult(0, "", "")

    def leave(self, argv: Sequence[str]) -> CommandResult:
        """Runs it for at most `timeout` seconds; see Leaving."""
        try:
            self._said = self._place.run_command(argv, self._timeout)
        except MachineError as err:
            # It may have gone before it could answer: the next boot says it.
            self._said = CommandResult(0, "", err.sentence)
        return self._said

    def left(self) -> CommandResult:
        """What leave() found."""
        return self._said


def boot(
    place: Shell,
    kernel: str,
    how: str,
    update: Update,
    timeout: float = 300.0,
    reconnect: Callable[[], None] = lambda: None,
    leaving: Leaving | None = None,
) -> None:
    """Boots `kernel`, and comes back when it runs; MachineError where it does not.

    `how` is "kexec", where `kernel` is a release that is installed there or an image's whole
    path; or a command for the place's shell with {} where `kernel` goes.  `timeout` is seconds
    until the place answers again.  `reconnect` is called when a connection to it may be dead.
    `leaving` runs what ends the running kernel, None for Waiting.
    """
    _check(kernel, how)
    update(None, f"{place.name}: looking")
    before = _identity(place)
    update(None, f"{place.name}: booting {kernel}")
    if how == KEXEC:
        words = _load(place, kernel)
    else:
        words = ["sh", "-c", how.replace("{}", shlex.quote(kernel))]
    leaving = leaving or Waiting(place, timeout)
    _check_left(place, words, leaving.leave(words))
    reconnect()

    def still_there() -> str:
        return _check_left(place, words, leaving.left())

    _await(place, kernel, before, update, timeout, reconnect, still_there)


def _check(kernel: str, how: str) -> None:
    if not kernel or kernel.startswith("-") or not kernel.isprintable():
        raise UserError(
            f"'{kernel}' is no name of a kernel.", "Use a release (uname -r) or an image's path."
        )
    if how != KEXEC and "{}" not in how:
        raise UserError(
            f"The command '{how}' does not say which kernel to boot.",
            "Write {} where its name goes, as in: grub-reboot {} && reboot",
        )


def _identity(place: Shell) -> tuple[str, str]:
    """The running boot's id and the kernel's release."""
    result = place.run_command(["sh", "-c", f"cat {_BOOT_ID} && uname -r"], _MOMENT)
    words = result.stdout.split()
    if result.status or len(words) != 2:
        raise MachineError(
            f"{place.name} does not say which boot it is in.",
            f"{_BOOT_ID} must be readable there.",
            tail(result.stdout + result.stderr),
        )
    return words[0], words[1]


def _load(place: Shell, kernel: str) -> list[str]:
    """Loads a kernel for kexec; the command that starts it."""
    root = _become_root(place)
    if _sh(place, [], "command -v kexec").status:
        raise MachineError(
            f"kexec is not installed on {place.name}.",
            "Run there: apt-get install kexec-tools  (or give a command that boots a kernel).",
        )
    image, initrd = _find_kernel(place, root, kernel)
    words = [image, *([f"--initrd={initrd}"] if initrd else []), "--reuse-cmdline"]
    loaded = _sh(place, root, 'kexec "$@"', "-l", *words)
    # -s has the running kernel read the image and check its signature: all that lockdown allows.
    if loaded.status and _sh(place, root, 'kexec "$@"', "-s", "-l", *words).status:
        raise _not_loaded(place, kernel, loaded.stdout + loaded.stderr)
    systemd = _sh(place, [], "test -d /run/systemd/system").status == 0
    # kexec -e starts it at once, with nothing written out first.
    return _words(root, "systemctl kexec" if systemd else "sync; kexec -e")


def _words(root: Sequence[str], script: str, *args: str) -> list[str]:
    return [*root, "sh", "-c", _ROOT_PATH + script, "sh", *args]


def _sh(place: Shell, root: Sequence[str], script: str, *args: str) -> CommandResult:
    return place.run_command(_words(root, script, *args), _MOMENT)


def _become_root(place: Shell) -> list[str]:
    """The words before a command that root must run."""
    if place.run_command(["id", "-u"], _MOMENT).stdout.strip() == "0":
        return []
    if place.run_command(["sh", "-c", "sudo -n true"], _MOMENT).status == 0:
        return ["sudo", "-n"]
    raise MachineError(
        f"The account on {place.name} may not boot another kernel: it is not root, and sudo"
        " would ask for a password.",
        "Log in as root, or let sudo run kexec and systemctl there without a password.",
    )


def _find_kernel(place: Shell, root: Sequence[str], kernel: str) -> tuple[str, str]:
    """The image and the initrd ("" without one) there."""
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
    initrds = [f"{folder}/{name}" for name in names]
    script = 'for f in "$@"; do test -f "$f" && echo "$f"; done'
    there = _sh(place, root, script, *images, *initrds).stdout.splitlines()
    image = next((file for file in images if file in there), None)
    if not image:
        raise MachineError(
            f"{place.name} has no kernel {kernel}.",
            f"Install it there first; looked for: {', '.join(images)}.",
        )
    return image, next((file for file in initrds if file in there), "")


def _not_loaded(place: Shell, kernel: str, said: str) -> MachineError:
    if re.search(r"Operation not permitted|Permission denied|lockdown|locked down", said, re.I):
        return MachineError(
            f"{place.name} does not permit kexec.",
            "Its kernel is locked down (secure boot), or kernel.kexec_load_disabled is 1:"
            " allow it there, or give a command that boots a kernel.",
            tail(said),
        )
    if re.search(r"Function not implemented", said):
        return MachineError(
            f"The kernel that {place.name} runs has no kexec.",
            "It takes CONFIG_KEXEC; or give a command that boots a kernel.",
            tail(said),
        )
    return MachineError(
        f"kexec on {place.name} does not load {kernel}.", "See what it says below.", tail(said)
    )


class _LeavingError(MachineError):
    """The command that ends the running kernel has failed: there is nothing to wait for."""


def _check_left(place: Shell, words: Sequence[str], result: CommandResult | None) -> str:
    """What the command that ends the running kernel said, for an error that may follow."""
    if result is None:
        return ""
    said = result.stdout + result.stderr
    # Above 128: the shutdown has killed the command as everything else.
    if 0 < result.status <= 128:
        raise _LeavingError(
            f"{place.name} does not boot another kernel: the command ended with status"
            f" {result.status}.",
            f"Try it there by hand: {shlex.join(words)}",
            tail(said),
        )
    return said


def _await(
    place: Shell,
    kernel: str,
    before: tuple[str, str],
    update: Update,
    timeout: float,
    reconnect: Callable[[], None],
    still_there: Callable[[], str],
) -> None:
    """Waits for another boot than `before`, and checks that it is of the kernel wanted.

    `still_there` is called while it runs the old one; it brings what was said on leaving that.
    """
    deadline = time.monotonic() + timeout
    answered, last = True, ""
    while time.monotonic() < deadline:
        time.sleep(_PAUSE)
        try:
            boot_id, release = _identity(place)
            if boot_id == before[0]:
                last = still_there()
        except _LeavingError:
            raise
        except MachineError as err:
            answered, last = False, err.sentence
            update(None, f"{place.name}: waiting until it answers again")
            reconnect()
            continue
        answered = True
        if boot_id == before[0]:
            update(None, f"{place.name}: waiting until it goes down")
            continue
        if _RELEASE.fullmatch(kernel) and release != kernel:
            raise MachineError(
                f"{place.name} came back with the kernel {release}, not {kernel}.",
                "See on its console why that one does not boot, or whether the command chose it.",
            )
        return
    if answered:
        raise MachineError(
            f"{place.name} was told to boot {kernel} and still runs the same boot of"
            f" {before[1]} after {timeout:g} s.",
            "Give a command that does reboot it, or see there what holds it up.",
            tail(last),
        )
    raise MachineError(
        f"{place.name} did not come back within {timeout:g} s of being told to boot {kernel}.",
        "See its console, or switch it off and on; then give it more time if it only was slow.",
        tail(last),
    )
