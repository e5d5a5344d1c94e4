# SPDX-License-Identifier: GPL-2.0-or-later
"""Which mirror of Debian packages come from, through which proxy, and whose signature they carry.

KENTRY_MIRROR names one, and after a space the security mirror; KENTRY_KEYRING the keys.  Otherwise
the mirror of this machine's apt holds, if it has one, and its proxies and judgement of dates do.
"""

import contextlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kentry.errors import UserError

MIRROR_VARIABLE = "KENTRY_MIRROR"
KEYRING_VARIABLE = "KENTRY_KEYRING"

_DEBIANS = ("https://deb.debian.org/debian", "https://deb.debian.org/debian-security")
_URI = re.compile(r"https?://[!-~]+|file:///[!-~]*")
# A release's names in sources.list(5), with a part behind them.
_SUITE = re.compile(r"(?:bullseye|bookworm|trixie|forky|sid|unstable|testing|(?:old)*stable)(-.*)?")
# The machine's own is renewed with it; keys/README.md says where kentry's is from.
_KEYRINGS = (
    Path("/usr/share/keyrings/debian-archive-keyring.gpg"),
    Path(__file__).parent / "keys/debian-archive-keyring.gpg",
)
_APT = Path("/etc/apt")


@dataclass(frozen=True)
class Mirror:
    """Where packages come from and whose signature they carry."""

    base: str
    security: str | None
    keyring: Path
    proxies: dict[str, str]
    checks_dates: bool


def find_mirror() -> Mirror:
    """Return KENTRY_MIRROR, or the Debian mirror of this machine's apt, or Debian's; UserError."""
    named = os.environ.get(MIRROR_VARIABLE, "").split()
    if len(named) > 2 or not all(map(_URI.fullmatch, named)):
        raise UserError(
            f"{MIRROR_VARIABLE} does not name a mirror.",
            f"Write it like {MIRROR_VARIABLE}=http://HOST/debian, and after a space the"
            " security mirror.",
        )
    if not named:
        mirrors = {part == "-security": uri for uri, part in reversed([*_sources_of_apt()])}
        named = [mirrors[it] for it in (False, True) if it in mirrors]
        named = named if False in mirrors else [*_DEBIANS]
    keyring = Path(os.path.expanduser(os.environ.get(KEYRING_VARIABLE, "")))
    if os.environ.get(KEYRING_VARIABLE) and not keyring.is_file():
        raise UserError(
            f"{KEYRING_VARIABLE} does not name a keyring: {keyring!s:.200}.",
            "Name a file with the keys of the mirror's archive.",
        )
    if not keyring.is_file():
        keyring = next(filter(Path.is_file, _KEYRINGS))
    http = _setting_of_apt("http::Proxy")
    proxies = {"http": http, "https": _setting_of_apt("https::Proxy") or http}
    checks = {_setting_of_apt(name).lower() for name in ("Check-Valid-Until", "Check-Date")}
    return Mirror(
        named[0].rstrip("/"),
        named[1].rstrip("/") if len(named) > 1 else None,
        keyring.absolute(),
        {scheme: proxy for scheme, proxy in proxies.items() if proxy not in ("", "DIRECT")},
        not checks & {"false", "no", "0", "off", "without", "disable"},
    )


def _sources_of_apt() -> Iterator[tuple[str, str]]:
    """Yield the mirrors of Debian in sources.list(5), each with the part of a release it has."""
    from debian.deb822 import Deb822

    line = re.compile(
        r"(?m)^deb[ \t]+(?:\[(?:.*?signed-by=([^\s\]]+))?[^]]*\][ \t]*)?(\S+)[ \t]+(\S+)[ \t]+(.*)"
    )
    entries: list[tuple[str, ...]] = []
    for file in (_APT / "sources.list", *sorted((_APT / "sources.list.d").glob("*"))):
        with contextlib.suppress(OSError):
            text = file.read_text(encoding="utf-8", errors="replace")
            if file.suffix == ".list":
                entries += line.findall(text)
            for part in Deb822.iter_paragraphs(text) if file.suffix == ".sources" else ():
                if "deb" in part.get("Types", "").split() and part.get("Enabled") != "no":
                    fields = ("Signed-By", "URIs", "Suites", "Components")
                    entries.append(tuple(part.get(name, "") for name in fields))
    for key, uris, suites, components in entries:
        # Others' archives have suites of these names too, and keys of their own.
        if "main" in components.split() and (not key or "debian-archive" in key):
            for uri in filter(_URI.fullmatch, uris.split()):
                yield from (
                    (uri, it[1] or "") for it in map(_SUITE.fullmatch, suites.split()) if it
                )


def _setting_of_apt(name: str) -> str:
    """Return the last value of a setting in apt.conf(5); "" where there is none."""
    setting = re.compile(rf'(?mi)^(?!\s*(?://|#)).*\b{name}\s+"([^"]*)"')
    values = [""]
    for file in (*sorted((_APT / "apt.conf.d").glob("*")), _APT / "apt.conf"):
        with contextlib.suppress(OSError):
            values += setting.findall(file.read_text(encoding="utf-8", errors="replace"))
    return values[-1]
