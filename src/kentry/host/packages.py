# SPDX-License-Identifier: GPL-2.0-or-later
"""The command that installs what is missing, for this system's own package manager.

packages.toml has the names of packages.  /etc/os-release says which system this is; a manager that
is here decides where that names none that is known.
"""

import platform
import re
import shutil
import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from kentry.errors import MissingToolError

# Ends a remedy where more may be missing.
DOCTOR = " (kentry doctor lists everything missing)"

_TABLE = Path(__file__).with_suffix(".toml")


_VERSIONED = re.compile(r"^(gcc|clang|lld|llvm)(?:-\d+)?(?=-|$)")


@cache
def _table() -> dict[str, Any]:
    return tomllib.loads(_TABLE.read_text(encoding="utf-8"))


def system() -> Mapping[str, str]:
    """Return what os-release says of this machine's system; nothing where there is none."""
    try:
        return platform.freedesktop_os_release()
    except OSError:
        return {}


def manager() -> str:
    """Return the name of this system's package manager; "" where none is known."""
    managers, facts = _table()["managers"], system()
    for word in (facts.get("ID", ""), *facts.get("ID_LIKE", "").split()):
        # openSUSE's IDs have the release in them: opensuse-tumbleweed.
        names = [word, word.partition("-")[0]]
        if name := next((m for m in managers if {*names} & {*managers[m]["systems"]}), ""):
            return name
    return next((m for m in managers if shutil.which(managers[m]["install"].split()[0])), "")


def install_command(tools: Iterable[str]) -> list[str]:
    """Return the command that installs all tools that have a package here; [] if none has."""
    name, facts = manager(), system()
    of_release = _table()["releases"].get(f"{facts.get('ID')}-{facts.get('VERSION_ID')}", {})
    packages: dict[str, None] = {}
    for tool in tools:
        versioned = re.fullmatch(r"(.+)-(\d+)", tool)
        plain, version = versioned.groups() if versioned else (tool, "")
        row = _table()["packages"].get(plain, "")
        cell = row if isinstance(row, str) else row.get(name, row.get("", ""))
        for package in of_release.get(plain, cell).split():
            if version and name == "apt":
                # gcc-12-aarch64-linux-gnu, llvm-19
                package = _VERSIONED.sub(rf"\1-{version}", package)
            packages[package] = None
    if not (name and packages):
        return []
    entry = _table()["managers"][name]
    prefix = entry.get("prefix", "")
    return [*entry["install"].split(), *(f"{prefix}{package}" for package in packages)]


def remedy(*tools: str, otherwise: str = "") -> str:
    """Say what to run; `otherwise` goes on behind it."""
    command = " ".join(install_command(tools))
    run = f"Run: {command}" if command else f"Install {', '.join(tools)} for this system"
    return f"{run}{otherwise}."


def missing(sentence: str, *tools: str, otherwise: str = "") -> MissingToolError:
    """Return the error for tools that are not here."""
    return MissingToolError(sentence, remedy(*tools, otherwise=otherwise), tools=tools)
