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
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from kentry.errors import MissingToolError

# Ends a remedy where more may be missing.
DOCTOR = " (kentry doctor lists everything missing)"

_TABLE = Path(__file__).with_suffix(".toml")


@dataclass(frozen=True)
class _Manager:
    systems: tuple[str, ...]
    install: str
    prefix: str = ""


@dataclass(frozen=True)
class _Table:
    managers: dict[str, _Manager]
    packages: dict[str, str | dict[str, str]]
    releases: dict[str, dict[str, str]]


_VERSIONED = re.compile(r"^(gcc|clang|lld|llvm)(?:-\d+)?(?=-|$)")


@cache
def _table() -> _Table:
    # The sandbox needs this module, and no library of Python's, also as another user.
    import msgspec

    return msgspec.convert(tomllib.loads(_TABLE.read_text(encoding="utf-8")), _Table)


def _system() -> Mapping[str, str]:
    try:
        return platform.freedesktop_os_release()
    except OSError:
        return {}


def manager() -> str:
    """Return the name of this system's package manager; "" where none is known."""
    managers, system = _table().managers, _system()
    for word in (system.get("ID", ""), *system.get("ID_LIKE", "").split()):
        # openSUSE's IDs have the release in them: opensuse-tumbleweed.
        names = [word, word.partition("-")[0]]
        if name := next((m for m in managers if {*names} & {*managers[m].systems}), ""):
            return name
    return next((m for m in managers if shutil.which(managers[m].install.split()[0])), "")


def install_command(tools: Iterable[str]) -> list[str]:
    """Return the command that installs all tools that have a package here; [] if none has."""
    name, system = manager(), _system()
    of_release = _table().releases.get(f"{system.get('ID')}-{system.get('VERSION_ID')}", {})
    packages: dict[str, None] = {}
    for tool in tools:
        versioned = re.fullmatch(r"(.+)-(\d+)", tool)
        plain, version = versioned.groups() if versioned else (tool, "")
        row = _table().packages.get(plain, "")
        cell = row if isinstance(row, str) else row.get(name, row.get("", ""))
        for package in of_release.get(plain, cell).split():
            if version and name == "apt":
                # gcc-12-aarch64-linux-gnu, llvm-19
                package = _VERSIONED.sub(rf"\1-{version}", package)
            packages[package] = None
    if not (name and packages):
        return []
    entry = _table().managers[name]
    return [*entry.install.split(), *(f"{entry.prefix}{package}" for package in packages)]


def remedy(*tools: str, otherwise: str = "") -> str:
    """Say what to run; `otherwise` goes on behind it."""
    command = " ".join(install_command(tools))
    run = f"Run: {command}" if command else f"Install {', '.join(tools)} for this system"
    return f"{run}{otherwise}."


def missing(sentence: str, *tools: str, otherwise: str = "") -> MissingToolError:
    """Return the error for tools that are not here."""
    return MissingToolError(sentence, remedy(*tools, otherwise=otherwise), tools=tools)
