# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs other programs; every command line is logged so that it can be pasted."""

from __future__ import annotations

import logging
import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from kentry.errors import MissingToolError

log = logging.getLogger("kentry")


def command_line(argv: Sequence[str], env: Mapping[str, str] | None = None) -> str:
    """`argv` as a shell would read it, with the environment variables it adds in front."""
    words = [f"{name}={shlex.quote(value)}" for name, value in (env or {}).items()]
    return " ".join([*words, shlex.join(argv)])


def need(program: str, package: str) -> str:
    """The full path of `program`, or MissingToolError naming the Debian package it is in."""
    found = shutil.which(program)
    if not found:
        raise MissingToolError(
            f"{program} is not installed.",
            f"Run: apt-get install {package}  (kentry doctor lists everything missing).",
        )
    return found


def run(
    argv: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    check: bool = True,
) -> subprocess.CompletedProcess[str]:
    """Runs `argv` to its end and returns it with stdout and stderr as text.

    `env` is added to our own environment.  With `check`, a status other than 0 raises
    subprocess.CalledProcessError; the caller knows what that means to a user.
    """
    log.info("$ %s", command_line(argv, env))
    return subprocess.run(
        argv,
        env={**os.environ, **(env or {})},
        cwd=cwd,
        check=check,
        capture_output=True,
        text=True,
        errors="replace",
        stdin=subprocess.DEVNULL,
    )
