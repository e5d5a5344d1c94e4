# SPDX-License-Identifier: GPL-2.0-or-later
"""The user's defaults: of kentry.toml, and of the environment, which goes before it.

The file is in $XDG_CONFIG_HOME or ~/.config.  What stands on the command line goes before both.
"""

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from kentry.arch import ARCHES, Arch, find_arch, host_arch
from kentry.arch.processors import MAX, all_names, names_of
from kentry.commands.emit import COLORS
from kentry.errors import UserError, did_you_mean
from kentry.host.cache import read_bytes
from kentry.host.toml import MOST_BYTES, parse_toml

_MIRROR = re.compile(r"[a-z][a-z0-9+-]*:[!-~]+( [a-z][a-z0-9+-]*:[!-~]+)?")


class Settings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a user may set, each by its key in the file or by KENTRY_KEY."""

    mirror: str = ""
    arch: str = ""
    cpu: str = ""
    tree: str = ""
    color: str = ""


_REMEDY = f"The settings are {', '.join(Settings.__struct_fields__)}, each a text in quotes."

# Keys whose values are among known words.
_CHOICES: dict[str, Callable[[], list[str]]] = {
    "arch": lambda: [name for arch in ARCHES.values() for name in (arch.name, *arch.aliases)],
    "cpu": lambda: [MAX, *all_names()],
    "color": lambda: list(COLORS),
}


def settings() -> Settings:
    """Read the environment and the file; UserError says what is wrong with either."""
    named = {key: os.environ.get(f"KENTRY_{key.upper()}") for key in Settings.__struct_fields__}
    # NO_COLOR is every program's word for it.
    plain = {"color": "auto"} if os.environ.get("NO_COLOR") else {}
    environment = plain | {key: value for key, value in named.items() if value}
    _check(environment, "The environment")
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    file = Path(base, "kentry.toml")
    of_file: dict[str, Any] = {}
    if file.exists():
        try:
            of_file = parse_toml(read_bytes(file, _REMEDY, MOST_BYTES + 1))
            _check(of_file, str(file))
        except (ValueError, RecursionError) as err:
            reason = " ".join(str(err).split())[:200]
            raise UserError(f"{file} is not a file of settings: {reason}.", _REMEDY) from err
    return msgspec.convert({**of_file, **environment}, Settings)


def default_arch() -> Arch:
    """Return the user's architecture, or this machine's own."""
    named = settings().arch
    return find_arch(named) if named else host_arch()


def default_cpu(arch: Arch) -> str:
    """Return the user's processor where the architecture has it, or all that QEMU emulates."""
    named = settings().cpu
    return named if named in names_of(arch.name) else MAX


def _check(values: Mapping[str, Any], source: str) -> None:
    """Raise UserError for a key or a value that will not do; `source` has them."""
    keys = Settings.__struct_fields__
    for key, value in values.items():
        shown = f"{source} says {key} = {str(value)[:100]!r}"
        if key not in keys:
            meant = did_you_mean(key, keys)
            raise UserError(f"{source} has an unknown setting, {key[:100]!r}.{meant}", _REMEDY)
        if not isinstance(value, str) or not value.isprintable() or not value:
            raise UserError(f"{shown}, which is not a text in quotes.", _REMEDY)
        known = _CHOICES[key]() if key in _CHOICES else [value]
        if value not in known:
            meant = did_you_mean(value, known)
            raise UserError(f"{shown}, which kentry does not know.{meant}", _REMEDY)
        if key == "mirror" and not _MIRROR.fullmatch(value):
            raise UserError(f"{shown}, which is not a URL like http://HOST/debian.", _REMEDY)
