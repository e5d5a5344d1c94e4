# SPDX-License-Identifier: GPL-2.0-or-later
"""Boots a guest under QEMU, and says what went wrong from what its console printed.

The guest is untrusted: it may hang, print without end or crash.
"""

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kentry.arch.processors import all_names
from kentry.boot.emulator import Emulator
from kentry.boot.probe_protocol import CONTROL, PREFIX
from kentry.errors import (
    GuestError,
    KentryError,
    MissingToolError,
    UserError,
    did_you_mean,
)
from kentry.host.cache import write_atomically
from kentry.host.process import Exit, status_clause, supervise
from kentry.progress import Update

# A quiet boot prints a few KiB.
_CONSOLE_LIMIT_BYTES = 4 << 20
_TAIL_LINES = 12
_LINE_LIMIT = 200  # characters of a console line that are shown

# kernel/panic.c prints the first; a crash of init ends in it too.  The second is what die() of each
# architecture counts oopses with: "Internal error: Oops: 96000004 [#1] SMP".
_PANIC = re.compile(r"Kernel panic - not syncing: (.*)")
_OOPS = re.compile(r"^(?:\[ *[0-9.]+\] )?(.*\[#[1-9][0-9]*\].*)", re.MULTILINE)
# What QEMU says of -cpu: of the model, of a property, of the extensions that properties add up to.
_REFUSED = re.compile(
    r"^\S+: ((?!warning)(?:.*CPU model|.*Property|.*-cpu\.|.*extension|Expected key=).*)",
    re.MULTILINE,
)
# plugins/loader.c; of glib's g_module_open() the last part says why.
_NO_PLUGIN = re.compile(r"Could not load plugin \S+: (?:/\S+: )?(.*)")
# Seconds in which a kernel that died prints its registers and its stack.
_LAST_WORDS_SECONDS = 1.0


@dataclass(frozen=True)
class GuestExit:
    """How a guest ended: its whole console, a clause ("it was stopped after 60 s"), and the end of
    QEMU's own standard error."""

    console: str
    clause: str
    stderr: str


class Console:
    """The lines of a guest so far; check() ends a guest whose kernel died before it got to init."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._started = False
        self._died = 0.0

    def __str__(self) -> str:
        return "".join(f"{line}\n" for line in self.lines)

    def take(self, line: str) -> None:
        """Takes one line."""
        self.lines.append(line)
        self._started = self._started or "kentry-" in line
        if not (self._started or self._died) and (_PANIC.search(line) or _OOPS.search(line)):
            self._died = time.monotonic()

    def check(self) -> None:
        """Raises GuestError where the kernel died some time ago."""
        if self._died and time.monotonic() > self._died + _LAST_WORDS_SECONDS:
            raise explain(str(self), False, "its kernel died")


def boot(
    argv: Sequence[str],
    emulator: Emulator,
    timeout: float,
    update: Update,
    console_file: Path | None = None,
    doing: Callable[[list[str]], str] | None = None,
    progress: Callable[[], int] | None = None,
    grace: float = 0.0,
    fraction: Callable[[], float | None] | None = None,
) -> GuestExit:
    """Runs QEMU for at most `timeout` seconds; the console is kept in `console_file`.

    `doing` says what the guest does from the console's lines so far, by default if the probe has
    started; `progress` and `grace` are supervise()'s, `fraction` is how far the probe has come.
    GuestError where the kernel dies at boot, or QEMU complained and the guest printed nothing.
    """
    console = Console()

    def check(stderr: str) -> None:
        started = any(f"{PREFIX}start" in line for line in console.lines)
        probe = "cases are running" if started else "booting"
        done = fraction() if fraction and started else None
        update(done, doing(console.lines) if doing else probe)
        console.check()

    rest = ""
    try:
        end = supervise(
            argv,
            timeout,
            console.take,
            env=emulator.env,
            check=check,
            limit=_CONSOLE_LIMIT_BYTES,
            progress=progress,
            grace=grace,
        )
        rest = end.rest
    finally:
        if console_file:
            write_atomically(console_file, f"{console}{rest}")
    guest = GuestExit(f"{console}{rest}", exit_clause(end), end.stderr)
    if guest.stderr and not guest.console.strip():
        raise explain(guest.console, False, guest.clause, guest.stderr)
    return guest


def exit_clause(end: Exit) -> str:
    """How a guest's QEMU ended, as a clause."""
    if end.stopped:
        return f"it was stopped {end.stopped}"
    if end.status:
        return status_clause("QEMU", end.status)
    return "the machine rebooted or was switched off"


def tail(console: str) -> str:
    """Returns the console's last lines, fit to be printed on a terminal."""
    return "\n".join(_printable(console)[-_TAIL_LINES:])


def _printable(console: str) -> list[str]:
    lines = [CONTROL.sub("", line)[:_LINE_LIMIT].rstrip() for line in console.splitlines()]
    return [f"  | {line}" for line in lines if line]


def explain(console: str, started: bool, clause: str, stderr: str = "") -> KentryError:
    """The error for a guest whose console has no end mark; `clause` says how it ended.

    `stderr` is what QEMU complained of.
    """
    if stderr and not console.strip():
        if unloaded := _NO_PLUGIN.search(stderr):
            return MissingToolError(
                f"QEMU cannot load kentry's plugin: {unloaded[1].rstrip('.')}.",
                "The plugin must be built for this machine and lie on a file system that is not"
                " mounted noexec: install kentry anew, in another folder or by make setup.",
            )
        if refused := _REFUSED.search(stderr):
            meant = did_you_mean(refused[1].rpartition("CPU model")[2].strip(" '"), all_names())
            return UserError(
                f"QEMU has no such processor: {refused[1].rstrip('.')}.{meant}",
                "Name another with --cpu: docs/reference/processors.md has kentry's,"
                " qemu-system-ARCH -cpu help QEMU's own, and -cpu MODEL,help its properties.",
            )
        return GuestError(
            f"QEMU ended before the guest said anything: {clause}.",
            "If you gave --cpu, the firmware may need what it lacks: try --cpu max. kentry doctor"
            " shows what is missing, and -v the command line.",
            stderr,
        )
    panic = _PANIC.search(console)
    died = panic or _OOPS.search(console)
    where = "while the cases ran" if started else "before the probe started"
    if died:
        said = CONTROL.sub("", died[1]).strip()
        sentence = f"The kernel {'panicked' if panic else 'oopsed'} {where}: {said}."
        shown = _printable(console[died.start() :])[:_TAIL_LINES]
    else:
        sentence = f"The guest never reached the probe's end mark: {clause}, {where}."
        shown = _printable(console)[-_TAIL_LINES:]
    return GuestError(
        sentence,
        "Nothing was measured; -v shows the command line, and under emulation kentry record SPEC"
        " --console FILE keeps the whole console.",
        "\n".join(shown) or "  | (the console stayed empty)",
    )
