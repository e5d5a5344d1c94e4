# SPDX-License-Identifier: GPL-2.0-or-later
"""The workloads: which packages they need, and what runs between the marks."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kentry.errors import UserError

# kentry's own files in the guest; guest/runner.c has the same names.
FOLDER = "/kentry"
RUNNER, WORKLOAD, PREPARE = f"{FOLDER}/runner", f"{FOLDER}/workload", f"{FOLDER}/prepare"

_FILES = Path(__file__).parent / "files"

# The C library's package runs it, so that programs find libraries.
_LDCONFIG = "ldconfig"


@dataclass(frozen=True)
class Copy:
    """A file or folder of this machine, and its path in the guest."""

    source: Path
    guest: str


@dataclass(frozen=True)
class Workload:
    """What runs in a guest, and what that needs.

    `argv` is run between the marks, its first word a path; with `is_init` it takes the place of
    the runner as PID 1, and `units` are systemd units that are enabled.  `prepare` is a shell
    script that runs before the first mark, with the console as its output.  `room` is the
    memory in MiB that it takes beside the root file system.
    """

    name: str
    summary: str
    packages: tuple[str, ...]
    argv: tuple[str, ...]
    prepare: tuple[str, ...] = (_LDCONFIG,)
    is_init: bool = False
    units: tuple[str, ...] = ()
    copies: tuple[Copy, ...] = ()
    room: int = 192


def _own(name: str) -> Copy:
    return Copy(_FILES / name, f"{FOLDER}/{name}")


def _script(name: str, summary: str, *packages: str) -> Workload:
    """A workload that is a shell script of kentry's own."""
    file = f"{name}.sh"
    return Workload(name, summary, packages, ("/bin/sh", f"{FOLDER}/{file}"), copies=(_own(file),))


_BOOT_PACKAGES = """systemd systemd-sysv dbus udev kmod mount procps iproute2 cron rsyslog
openssh-server openssh-client libpam-systemd ifupdown systemd-timesyncd"""
_BOOT_UNITS = """cron.service rsyslog.service ssh.service remote-fs.target systemd-pstore.service
networking.service systemd-timesyncd.service kentry-end.service"""
BOOT = Workload(
    name="boot",
    summary="systemd to multi-user.target, with what a small server runs",
    packages=tuple(_BOOT_PACKAGES.split()),
    argv=("/usr/lib/systemd/systemd",),
    prepare=(
        _LDCONFIG,
        # As the server's package does when it is installed; one key, because RSA's takes long.
        "ssh-keygen -q -t ed25519 -N '' -f /etc/ssh/ssh_host_ed25519_key",
    ),
    is_init=True,
    units=tuple(_BOOT_UNITS.split()),
    copies=(
        _own("end.sh"),
        Copy(_FILES / "kentry-end.service", "/usr/lib/systemd/system/kentry-end.service"),
        Copy(_FILES / "emergency.service", "/etc/systemd/system/emergency.service"),
    ),
)

_ALL = (
    BOOT,
    _script("shell", "a few hundred short commands: sh, sed, grep, awk, sort, find, tar, gzip"),
    Workload(
        name="python",
        summary="Python: start-up, JSON, regular expressions, SQLite, hashes, subprocesses",
        packages=("python3",),
        argv=("/usr/bin/python3", f"{FOLDER}/work.py"),
        # Run once before: its modules are compiled when they are installed.
        prepare=(_LDCONFIG, f"python3 {FOLDER}/work.py 1"),
        copies=(_own("work.py"),),
    ),
    Workload(
        name="compile",
        summary="make and gcc build a small C program, which runs",
        packages=("gcc", "libc6-dev", "make"),
        argv=("/bin/sh", f"{FOLDER}/compile.sh"),
        copies=(_own("compile.sh"), _own("compile")),
        room=384,
    ),
    _script(
        "server",
        "Redis, and a client with a few thousand requests over 127.0.0.1",
        *("redis-server", "redis-tools"),
    ),
    _script(
        "idle",
        "Redis, asked ten times a second for a minute of the guest's time",
        *("redis-server", "redis-tools"),
    ),
)
WORKLOADS = {one.name: one for one in _ALL}


def find_workload(
    words: Sequence[str], copies: Sequence[Copy] = (), packages: Sequence[str] = ()
) -> Workload:
    """The workload with that name, or the command line as a workload; a single word is a script.

    `copies` and `packages` are added to its own.  UserError where there is no word, or a package
    has no package's name.
    """
    if not words or not words[0]:
        raise UserError(
            "There is no workload.", f"Name one of {', '.join(WORKLOADS)}, or a command."
        )
    workload = WORKLOADS.get(words[0]) if len(words) == 1 else None
    if not workload:
        # A shell finds the program on the PATH, and says what is wrong where there is none.
        script = words[:1] if len(words) == 1 else ('exec "$@"', "sh", *words)
        argv = ("/bin/sh", "-c", *script)
        workload = Workload("command", " ".join(words), packages=(), argv=argv)
    for name in packages:
        # apt takes "~n..." as a pattern and "name-" as a package to remove.
        if not re.fullmatch(r"[a-z0-9][a-z0-9+.-]*[a-z0-9+.]", name):
            raise UserError(f"'{name}' is not the name of a package.", "Correct --packages.")
    return replace(
        workload, copies=(*workload.copies, *copies), packages=(*workload.packages, *packages)
    )


def parse_copy(text: str) -> Copy:
    """HOST or HOST:GUEST; without the latter it goes into the guest's /root.  UserError."""
    host, _, guest = text.partition(":")
    source = Path(host).expanduser()
    guest = guest or f"/root/{source.absolute().name}"
    if not guest.startswith("/") or ".." in guest.split("/"):
        raise UserError(
            f"{guest} is no whole path in the guest.", "Give it as HOST:/PATH/IN/GUEST."
        )
    if not source.is_file() and not source.is_dir():
        raise UserError(
            f"{source}, which is to be copied into the guest, is not there.", "Name a file."
        )
    return Copy(source, guest)
