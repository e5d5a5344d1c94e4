# SPDX-License-Identifier: GPL-2.0-or-later
"""Keeps a build in: a patch may change a Makefile, and so run anything.

Under bubblewrap (bwrap(1)) a build has no network, sees no other process, and can write
only the folders it is for.  Where bubblewrap does not work, as in many containers, nothing is
built unless KENTRY_UNCONFINED_BUILDS=1 says that the user trusts the source.
"""

import functools
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import kentry
from kentry.errors import MissingToolError
from kentry.host.process import log, run

ALLOW_VARIABLE = "KENTRY_UNCONFINED_BUILDS"

_PROGRAM = "bwrap"
_KEPT_IN = (
    *("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"),
    # Sockets there lead to what is outside: a session's bus, an agent, a container's daemon.
    *("--tmpfs", "/run", "--tmpfs", "/tmp"),  # noqa: S108
    *("--unshare-net", "--unshare-pid", "--unshare-ipc", "--die-with-parent", "--new-session"),
)


def confined(
    argv: Sequence[str], writable: Sequence[Path], readable: Sequence[Path] = ()
) -> list[str]:
    """`argv` run so that it can write below `writable` and nowhere else.

    `readable` folders and files and kentry's own are there also where they lie below a hidden one.
    MissingToolError where bubblewrap does not work, unless the user allowed that.
    """
    check()
    if not works():
        # make would outlive a killed tuxmake, and write where the next build begins anew: tuxmake
        # goes on when kentry is killed, and the next build waits for it.
        setpriv = shutil.which("setpriv")
        return [*([setpriv, "--pdeathsig", "clear", "--"] if setpriv else []), *argv]
    own = (Path(sys.prefix), Path(kentry.__file__).parents[1])
    folders = [("--ro-bind", path) for path in (*own, *readable)]
    folders += [("--bind", path) for path in writable]
    words = [word for how, path in folders for word in (how, str(path), str(path))]
    return [_PROGRAM, *_KEPT_IN, *words, "--", *argv]


def check() -> None:
    """MissingToolError where builds can neither be confined nor may run unconfined."""
    if not may_run():
        raise MissingToolError(
            "A build runs the source's own programs, and bubblewrap, which confines them, is not"
            " installed or not allowed here.",
            f"Run: apt-get install bubblewrap; or set {ALLOW_VARIABLE}=1 if you trust the source.",
        )


def may_run() -> bool:
    """Whether a program can be confined, or the user trusts what it reads."""
    return works() or os.environ.get(ALLOW_VARIABLE) == "1"


@functools.cache
def works() -> bool:
    """Whether bubblewrap is installed and the system allows what it does."""
    if not shutil.which(_PROGRAM):
        return False
    done = run([_PROGRAM, *_KEPT_IN, "--", "true"], check=False)
    if done.returncode:
        log.info("bubblewrap does not work: %s", done.stderr.strip())
    return not done.returncode
