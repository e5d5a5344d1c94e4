# SPDX-License-Identifier: GPL-2.0-or-later
"""Debian's releases, and the mirror that this machine's apt has them from.

Environment: KENTRY_MIRROR names the mirror, and after a space the security mirror, instead
of those that this machine's apt uses; KENTRY_KEYRING the keyring that signs them.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kentry.errors import MissingToolError, UserError
from kentry.host.process import need, run

MIRROR_VARIABLE = "KENTRY_MIRROR"
KEYRING_VARIABLE = "KENTRY_KEYRING"

# A URI of sources.list(5); apt cannot read its sources with anything else in them.
_URI = re.compile(r"[a-z][a-z0-9+-]*:[!-~]+")

_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


@dataclass(frozen=True)
class Release:
    """A Debian release by its code name; `without` are Debian's names of architectures."""

    name: str
    without: tuple[str, ...] = ()

    @property
    def suites(self) -> tuple[str, ...]:
        """Its suites on the ordinary mirror."""
        return (self.name, f"{self.name}-updates", f"{self.name}-backports")

    @property
    def security(self) -> str:
        """Its suite on the security mirror."""
        return f"{self.name}-security"


# Oldest first: the first that has a kernel is where it is taken from.
RELEASES = (Release("bookworm", ("riscv64",)), Release("trixie"))

# Those whose packages may make a guest's root file system, oldest first.  The first and the last
# are no place for kernels: one has none that is wanted, the other another one every few days.
USERLAND_RELEASES = (Release("bullseye", ("riscv64",)), *RELEASES, Release("forky"))


@dataclass(frozen=True)
class Mirror:
    """Where packages come from and whose signature they carry."""

    base: str
    security: str | None
    keyring: Path


def find_mirror() -> Mirror:
    """Return the mirror that KENTRY_MIRROR names, or the Debian one that this machine's apt uses.

    UserError where there is neither, MissingToolError where there is no keyring.
    """
    named = os.environ.get(MIRROR_VARIABLE, "").split()
    if len(named) > 2 or not all(map(_URI.fullmatch, named)):
        raise UserError(
            f"{MIRROR_VARIABLE} does not name a mirror.",
            f"Write it like {MIRROR_VARIABLE}=http://HOST/debian, and after a space the"
            " security mirror.",
        )
    if named:
        return Mirror(named[0], named[1] if len(named) > 1 else None, _keyring())
    sources = list(_debian_sources())
    security = [uri for uri, is_security in sources if is_security]
    base = [uri for uri, is_security in sources if not is_security]
    if not base:
        raise UserError(
            "This machine's apt uses no Debian mirror.",
            f"Name one in {MIRROR_VARIABLE}, as after 'deb' in a sources.list of Debian.",
        )
    return Mirror(base[0], security[0] if security else None, _keyring())


def _keyring() -> Path:
    named = os.environ.get(KEYRING_VARIABLE)
    if named:
        path = Path(os.path.expanduser(named))
        # apt takes a list of keyrings, separated by blanks.
        if not path.is_file() or not str(path).isprintable() or " " in str(path):
            raise UserError(
                f"{KEYRING_VARIABLE} does not name a keyring: {path!s:.200}.",
                "Name a file whose path has no blank in it.",
            )
        return path.absolute()
    if not _KEYRING.is_file():
        raise MissingToolError(
            f"{_KEYRING}, which verifies Debian's packages, is not there.",
            f"Run: apt-get install debian-archive-keyring, or name one in {KEYRING_VARIABLE}.",
        )
    return _KEYRING


def _debian_sources() -> Iterator[tuple[str, bool]]:
    """Read from the user's apt, in its order: URI, and whether it is for security."""
    fields = ("REPO_URI", "ORIGIN", "LABEL", "RELEASE")
    layout = "|".join(f"$({field})" for field in fields)
    argv = [need("apt-get", "apt"), "indextargets", "--format", layout, "Created-By: Packages"]
    ours = {suite for release in USERLAND_RELEASES for suite in (*release.suites, release.security)}
    for line in run(argv, check=False).stdout.splitlines():
        uri, origin, label, suite = line.split("|")
        # apt leaves $(ORIGIN) as it is until it has fetched the Release file once.
        if origin == "Debian" or (origin.startswith("$(") and suite in ours):
            is_security = label == "Debian-Security" or "-security" in suite
            yield uri, is_security
