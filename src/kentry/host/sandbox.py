# SPDX-License-Identifier: GPL-2.0-or-later
"""Confines programs that run or read what others wrote: builds, compilers, llvm-symbolizer.

A patch may change a Makefile, and so run anything.  Under bubblewrap (bwrap(1)) a program is in
user, PID, network, IPC and UTS namespaces of its own, without any capability, also where kentry is
root.  It sees the system's programs, its own few folders and an environment made for it, and
sandbox_init.py ends it beyond its limits.  It ends with kentry, however that ends.  Where
bubblewrap does not work, as in many containers, nothing runs unless --no-sandbox or
KENTRY_UNCONFINED_BUILDS=1 says that the user trusts the source.
"""

import contextlib
import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import kentry
from kentry.errors import MissingToolError
from kentry.host.packages import missing
from kentry.host.process import log, run

ALLOW_VARIABLE = "KENTRY_UNCONFINED_BUILDS"
# What begins the line that says which limit ended a program, on its standard error.
STOPPED = "kentry sandbox: "

_PROGRAM = "bwrap"
_INIT = Path(__file__).with_name("sandbox_init.py")
# Programs, libraries and the settings that these need; in the rest of /etc are passwords.
_SYSTEM = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix", "/gnu"),
    *("/etc/alternatives", "/etc/ld.so.cache", "/etc/passwd", "/etc/group"),
    *("/etc/localtime", "/etc/ssl/openssl.cnf"),
)
_TMPFS = ("--size", str(256 << 20), "--tmpfs")
_NAMESPACES = (
    *("--unshare-user", "--disable-userns", "--unshare-pid", "--unshare-net", "--unshare-ipc"),
    *("--unshare-uts", "--cap-drop", "ALL", "--new-session", "--die-with-parent", "--as-pid-1"),
)


@dataclass(frozen=True)
class Limits:
    """The most that a program and all it starts may take: bytes, threads, seconds (0: any).

    `room` is what they must leave of each disk that they write to.
    """

    memory: int = field(default_factory=lambda: max(available_memory(), 1 << 30))
    processes: int = 4096
    file: int = 8 << 30
    seconds: int = 0
    room: int = 256 << 20


# Of a program that reads a part of a kernel and writes no file.
READS = Limits(2 << 30, processes=64, file=0, seconds=300)


def confined(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    writable: Iterable[Path] = (),
    readable: Iterable[Path] = (),
    limits: Limits | None = None,
) -> list[str]:
    """`argv` run so that it writes below `writable` only, in `env` alone; MissingToolError."""
    # It reads those, the system's programs, kentry's files and `readable`, but no other folder of
    # PATH: scripts there may need the rest of a home folder, as pyenv's do.
    check()
    folders = list(map(str, writable))
    if not works():
        # tuxmake goes on when kentry is killed, or make would outlive it; the next build waits.
        setpriv = shutil.which("setpriv")
        apart = [setpriv, "--pdeathsig", "clear", "--"] if setpriv else []
        return [*apart, "env", "-i", *(f"{name}={value}" for name, value in env.items()), *argv]
    return [
        *_base(readable, folders),
        *(word for pair in env.items() for word in ("--setenv", *pair)),
        *_first_process(limits or Limits(), folders),
        *argv,
    ]


def is_plain(path: Path) -> bool:
    """Whether a confined program left there a file, or nothing: outside a link leads anywhere.

    The folder that it was to write is named without links.
    """
    is_file = path.is_file() or not os.path.lexists(path)
    return is_file and os.path.realpath(path) == str(path)


def available_memory() -> int:
    """Return the bytes that programs can take before the system runs short."""
    text = Path("/proc/meminfo").read_text(encoding="ascii")
    return int(text.partition("MemAvailable:")[2].split()[0]) << 10


# Settings of the kernel that forbid what bubblewrap does: the file, the value that does, the
# sentence, what to do.
_POLICIES = (
    (
        "kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "AppArmor allows no user namespace to a program without a profile (Ubuntu 23.10 and newer)",
        "Give bwrap a profile, as docs/howto/troubleshooting.md shows",
    ),
    (
        "kernel/unprivileged_userns_clone",
        "0",
        "this system allows user namespaces to root alone",
        "Run as root: sysctl kernel.unprivileged_userns_clone=1",
    ),
    (
        "user/max_user_namespaces",
        "0",
        "this system allows no user namespaces",
        "Run as root: sysctl user.max_user_namespaces=10000",
    ),
)
_SETTINGS = Path("/proc/sys")


def check() -> None:
    """Raise MissingToolError where a program can neither be confined nor may run unconfined."""
    if works() or os.environ.get(ALLOW_VARIABLE) == "1":
        return
    what = "bubblewrap, which confines builds and other programs that read what others wrote,"
    trust = f"; or give --no-sandbox, or set {ALLOW_VARIABLE}=1, if you trust the source"
    if not shutil.which(_PROGRAM):
        raise missing(f"{what} is not installed.", _PROGRAM, otherwise=trust)
    for name, value, why, remedy in _POLICIES:
        with contextlib.suppress(OSError):
            if (_SETTINGS / name).read_text(encoding="ascii").strip() == value:
                raise MissingToolError(f"{what} is not allowed here: {why}.", f"{remedy}{trust}.")
    said = _try().stderr.strip().partition("\n")[0].removeprefix("bwrap: ")
    raise MissingToolError(
        f"{what} does not work here: {said or 'it gave no reason'}.",
        "A container has to allow user namespaces: docs/howto/troubleshooting.md"
        f" shows how{trust}.",
    )


@functools.cache
def works() -> bool:
    """Return whether bubblewrap is installed and the system allows what it does."""
    return bool(shutil.which(_PROGRAM)) and not _try().returncode


def _try() -> subprocess.CompletedProcess[str]:
    done = run([*_base((), ()), *_first_process(Limits(), ()), "true"], check=False)
    if done.returncode:
        log.info("bubblewrap does not work: %s", done.stderr.strip())
    return done


def _base(readable: Iterable[str | Path], writable: Iterable[str]) -> list[str]:
    own = [sys.prefix, sys.base_prefix, str(Path(kentry.__file__).parents[1])]
    # /proc is read-only, or root could change the system's settings in /proc/sys.
    arguments = [_PROGRAM, "--proc", "/proc", "--remount-ro", "/proc"]
    arguments += ["--dev", "/dev", *_TMPFS, "/dev/shm", "--remount-ro", "/dev"]  # noqa: S108
    arguments += [*_TMPFS, "/tmp"]  # noqa: S108
    for path in map(str, (*_SYSTEM, *own, *readable)):
        arguments += ["--ro-bind-try", path, path]
    for path in writable:
        arguments += ["--bind", path, path]
    return [*arguments, "--remount-ro", "/", *_NAMESPACES, "--clearenv"]


def _first_process(limits: Limits, folders: Sequence[str]) -> list[str]:
    most = (limits.processes, limits.memory, limits.file, limits.seconds, limits.room)
    numbers = map(str, (*most, len(folders)))
    return ["--", sys.executable, "-I", "-S", str(_INIT), *numbers, *folders]
