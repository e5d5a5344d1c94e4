# SPDX-License-Identifier: GPL-2.0-or-later
"""Debian's own kernel configs, from its linux-config packages."""

from __future__ import annotations

import lzma
import re
from pathlib import Path

from kentry.arch import Arch
from kentry.errors import FetchError
from kentry.host.apt import AptRoot, Candidate, first_problem
from kentry.host.cache import cache_dir, fresh_folder
from kentry.host.mirror import RELEASES
from kentry.host.process import need, run
from kentry.progress import Update

_PACKAGE = r"linux-config-(\d+)\.(\d+)"


def distro_config(version: tuple[int, int], arch: Arch, update: Update) -> str:
    """The config of Debian's kernel of that version, or of the nearest it has: a .config.

    FetchError where there is none at all for the architecture.
    """
    roots = [AptRoot(arch.debian, release) for release in RELEASES]
    found = [(one, root) for root in roots for one in root.candidates(_PACKAGE, update)]
    if not found:
        problems = [line for root in roots for line in root.problems]
        raise FetchError(
            f"No linux-config package for {arch.name} could be had: {first_problem(problems)}",
            "Try again, use --config tiny, or name a .config file.",
            "\n".join(problems),
        )
    candidate, root = min(found, key=lambda pair: _distance(pair[0], version))
    folder = cache_dir("configs") / f"{candidate.sha256[:16]}-{arch.name}"
    if not (folder / "config").exists():
        with root.locked(update), fresh_folder(folder) as fresh:
            deb = root.download(candidate, update)
            _unpack(deb, candidate, arch, fresh)
            deb.unlink(missing_ok=True)
    return (folder / "config").read_text(encoding="utf-8")


def _distance(candidate: Candidate, version: tuple[int, int]) -> tuple[bool, int, int]:
    """The same version first, then the newest older, then the oldest newer one."""
    match = re.fullmatch(_PACKAGE, candidate.package)
    assert match
    own = (int(match[1]), int(match[2]))
    return (True, *own) if own > version else (False, -own[0], -own[1])


def _unpack(deb: Path, candidate: Candidate, arch: Arch, folder: Path) -> None:
    run([need("dpkg-deb", "dpkg"), "--extract", str(deb), str(folder / "package")])
    name = f"config.{arch.debian}_none_{arch.flavour}.xz"
    file = folder / "package/usr/src" / candidate.package / name
    try:
        text = lzma.decompress(file.read_bytes())
    except (OSError, lzma.LZMAError) as err:
        raise FetchError(
            f"{candidate.package} has no {name}.", "Use --config tiny, or name a .config file."
        ) from err
    (folder / "config").write_bytes(text)
