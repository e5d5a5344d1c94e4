# SPDX-License-Identifier: GPL-2.0-or-later
"""The words a user names a kernel with: KIND:VALUE,option=value."""

import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from kentry.errors import UserError, did_you_mean

# The processor, and words for the kernel's command line.  Both may have commas in them, so what
# follows them and is no option of a spec belongs to them: cpu=max,sve=off.
_BOOTED = ("cpu", "append")


@dataclass(frozen=True)
class Kind:
    """One kind of spec and the options it knows; it takes one of its `values` or none."""

    name: str
    example: str
    takes_value: bool = True
    values: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    booted: tuple[str, ...] = _BOOTED


KINDS = {
    kind.name: kind
    for kind in (
        Kind("debian", "debian:6.12", options=("flavour",)),
        Kind("deb", "deb:linux-image.deb", options=("sha256",)),
        Kind("rpm", "rpm:kernel.rpm", options=("sha256",)),
        Kind("image", "image:Image,symbols=vmlinux", options=("symbols", "config")),
        Kind("running", "running", takes_value=False),
        Kind("floor", "floor:linux", values=("linux",), booted=("cpu",)),
        Kind("source", "source:6.12", options=("config", "compiler", "patches")),
        Kind("tree", "tree:~/linux@HEAD", options=("config", "compiler", "patches")),
    )
}

# The calls that are measured on a floor; the others are slow, and are those that the probe needs.
FLOOR_CASES = ("getpid", "getppid")

# debian: also takes the ends of what there is for an architecture.
OLDEST, NEWEST = "oldest", "newest"

# The start of a package's version, or all of it: Debian policy 5.6.12, without an epoch.
_VERSION = re.compile(r"\d[A-Za-z0-9.+~-]*")
_FLAVOUR = re.compile(r"[a-z0-9][a-z0-9-]*")


@dataclass(frozen=True)
class Spec:
    """A spec taken apart; `text` is what the user wrote."""

    text: str
    kind: str
    value: str = ""
    options: dict[str, str] = field(default_factory=dict)

    @property
    def booted(self) -> dict[str, str]:
        """How the kernel is to be booted, as far as the spec says so: cpu and append."""
        return {name: self.options[name] for name in _BOOTED if name in self.options}

    def path(self, option: str = "") -> Path:
        """Return the file of the value, or of the option of that name; ~ is the home folder."""
        # Path.expanduser() raises RuntimeError for the home of an unknown user.
        return Path(os.path.expanduser(self.options[option] if option else self.value))


def parse(text: str) -> Spec:
    """Take a spec apart; UserError says what is wrong with it and shows a right one."""
    # A comma belongs to the value unless an option's name and = follow it.
    named, *options_given = re.split(r",(?=[a-z][a-z0-9]*=)", text.strip())
    name, _, value = named.partition(":")
    if name not in KINDS:
        examples = ", ".join(kind.example for kind in KINDS.values())
        hint = f"The file itself is 'image:{text}'. " if Path(text).is_file() else ""
        hint = f"The source tree is 'tree:{text}'. " if Path(text).is_dir() else hint
        meant = did_you_mean(name, KINDS)
        raise UserError(f"Unknown kernel spec '{text}'.{meant}", f"{hint}Use one like: {examples}.")
    kind = KINDS[name]
    if kind.values and value and value not in kind.values:
        choices = " or ".join(f"{name}:{value}" for value in ("", *kind.values))
        raise UserError(f"There is no '{text}'.", f"Write {choices}.")
    if kind.takes_value and not value and not kind.values:
        raise UserError(f"'{text}' names no kernel.", f"Write it like {kind.example}.")
    if value and not kind.takes_value:
        raise UserError(f"'{kind.name}' takes nothing after it.", f"Write: {kind.example}.")
    options: dict[str, str] = {}
    for word in options_given:
        option, _, argument = word.partition("=")
        known = (*kind.options, *kind.booted)
        if option not in known and (last := next(reversed(options), "")) in _BOOTED:
            options[last] += f",{word}"
            continue
        if option not in known:
            allowed = ", ".join(map("{}=".format, known))
            remedy = f"The options it knows: {allowed}."
            raise UserError(f"'{name}' has no option '{option}='.", remedy)
        if not argument:
            remedy = f"Write it like {kind.example}."
            raise UserError(f"The option '{option}=' has no value.", remedy)
        if option in options:
            raise UserError(f"The option '{option}=' is given twice.", "Give it once.")
        options[option] = argument.strip('"') if option in _BOOTED else argument
    if name == "debian":
        example = "debian:6.12, debian:6.1.176-1, debian:newest or debian:6.12,flavour=cloud"
        remedy = f"Write it like {example}."
        flavour = options.get("flavour", "cloud")
        if value not in (OLDEST, NEWEST) and not _VERSION.fullmatch(value):
            what = f"'{value}' is not a Debian package version or the start of one."
            raise UserError(what, remedy)
        if not _FLAVOUR.fullmatch(flavour):
            raise UserError(f"'{flavour}' is not a flavour of Debian's kernels.", remedy)
    return Spec(text, name, value, options)
