# SPDX-License-Identifier: GPL-2.0-or-later
"""Keeps a build in: a patch may change a Makefile, and so run anything.

Under bubblewrap (bwrap(1)) a build has no network, sees no other process, and can write
only the folders it is for.  Where the system does not let bubblewrap work, as in many
containers, builds run without it.
"""

from __future__ import annotations

import functools
import shutil
from collections.abc import Sequence
from pathlib import Path

from kentry.run import log, run

_PROGRAM = "bwrap"
_KEPT_IN = (
    *("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"),
    *("--unshare-net", "--unshare-pid", "--unshare-ipc", "--die-with-parent", "--new-session"),
)


def confined(argv: Sequence[str], writable: Sequence[Path]) -> list[str]:
    """`argv` run so that it can write below `writable` and nowhere else, if that can be had."""
    if not works():
        return list(argv)
    folders = [word for path in writable for word in ("--bind", str(path), str(path))]
    return [_PROGRAM, *_KEPT_IN, *folders, "--", *argv]


@functools.cache
def works() -> bool:
    """Whether bubblewrap is installed and the system allows what it does."""
    if not shutil.which(_PROGRAM):
        log.info("builds are not confined: bubblewrap is not installed")
        return False
    done = run([_PROGRAM, *_KEPT_IN, "--", "true"], check=False)
    if done.returncode:
        log.info("builds are not confined: %s", done.stderr.strip())
    return not done.returncode
