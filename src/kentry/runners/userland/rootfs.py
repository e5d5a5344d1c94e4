# SPDX-License-Identifier: GPL-2.0-or-later
"""Debian packages become a tree: without root, and without running anything of theirs."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from kentry.arch import Arch
from kentry.errors import FetchError, UserError
from kentry.host.apt import AptRoot, file_tree
from kentry.host.mirror import USERLAND_RELEASES, Release
from kentry.progress import Update
from kentry.runners.userland.tree import Tree

# What Debian calls essential, by name: apt adds it only to what is installed already.
ESSENTIAL = (
    "base-files",
    "base-passwd",
    "bash",
    "bsdutils",
    "coreutils",
    "dash",
    "debianutils",
    "diffutils",
    "dpkg",
    "findutils",
    "grep",
    "gzip",
    "hostname",
    "init-system-helpers",
    "libc-bin",
    "login",
    "mawk",
    "ncurses-base",
    "ncurses-bin",
    "perl-base",
    "sed",
    "sysvinit-utils",
    "tar",
    "util-linux",
)

# Alternatives that a dependency does not name first, by release: usrmerge would bring all of Perl
# along, to merge what is made merged here.
_RATHER = {"bookworm": ("usr-is-merged",)}

# What no program of a workload reads: every byte costs the guest's memory twice.
_DROPPED = re.compile(
    r"usr/share/(doc|doc-base|man|info|locale|lintian|bug|i18n|gdb|bash-completion"
    r"|zsh|fish|menu|pixmaps|icons|applications|common-licenses|perl5/debconf)/.*"
    # Other character sets than the C locale's, and sources of udev's and Python's compiled data.
    r"|usr/lib/[^/]+/gconv/.*|(usr/)?lib/udev/hwdb\.d/.*|usr/lib/locale/(?!C\.).*"
    r"|usr/lib/python3[^/]*/(test|idlelib|lib2to3|ensurepip|turtledemo|pydoc_data)/.*"
    # Of gcc: link-time optimisation and sanitizers; of binutils what debuggers are made from.
    r"|usr/(lib|libexec)/gcc/[^/]+/[^/]+/(lto1|lto-dump|plugin/.*|lib(a|t|ub|l|hwa)san.*)"
    r"|usr/lib/[^/]+/lib(asan|tsan|ubsan|hwasan|lsan)\.so.*|usr/lib/[^/]+/lib(bfd|opcodes)\.a"
    r"|usr/lib/modules/.*|boot/.*"
)


@dataclass(frozen=True)
class Package:
    """One package of a root file system."""

    name: str
    version: str
    file: Path


def find_release(name: str | None, arch: Arch) -> Release:
    """The release called `name`, or the oldest one with kernels that has `arch`.

    UserError where it is not known, or has no such architecture.
    """
    having = [one for one in USERLAND_RELEASES if arch.debian not in one.without]
    names = ", ".join(one.name for one in having)
    if name is None:
        # The first of all is there for comparison.
        return next(one for one in having if one is not USERLAND_RELEASES[0])
    found = next((one for one in USERLAND_RELEASES if one.name == name), None)
    if not found:
        raise UserError(f"Unknown Debian release '{name}'.", f"Use one of: {names}.")
    if found not in having:
        raise UserError(f"Debian {name} has no {arch.debian}.", f"Use one of: {names}.")
    return found


@contextlib.contextmanager
def fetched(
    arch: Arch, release: Release, names: Sequence[str], update: Update
) -> Iterator[tuple[Package, ...]]:
    """The essential packages, `names` and what they depend on, as files while the block runs.

    Sorted by name.  apt keeps the files, for what else is made of them.  FetchError where they
    cannot be had; UserError names one that is not there.
    """
    root = AptRoot(arch.debian, release)
    wanted = sorted({*ESSENTIAL, *_RATHER.get(release.name, ()), *names})
    with root.locked(update):
        files = _files(root, wanted, update)
        yield tuple(_package(file) for file in sorted(files))


def _files(root: AptRoot, wanted: Sequence[str], update: Update) -> list[Path]:
    try:
        return root.download_closure(wanted, update)
    except FetchError as err:
        _name_the_missing(root, wanted, err, update)
        # A release's security updates leave the mirrors before the release does, or their lists
        # name what is there no more: it as it was published is better than none.
        try:
            return root.download_closure(wanted, update, root.release.name)
        except FetchError:
            raise err from None


def _name_the_missing(
    root: AptRoot, wanted: Sequence[str], err: FetchError, update: Update
) -> None:
    pattern = "|".join(map(re.escape, wanted))
    there = {one.package for one in root.candidates(pattern, update)}
    missing = [name for name in wanted if name not in there]
    # None at all: the lists could not be had, and apt has said why.
    if there and missing:
        raise UserError(
            f"Debian {root.release.name} has no package '{missing[0]}' for {root.arch}.",
            "Name another package, or another release with --release.",
        ) from err


def _package(file: Path) -> Package:
    """From the name that apt gives to a file."""
    name, version, _ = file.stem.split("_")
    return Package(name, unquote(version), file)


def unpack(packages: Sequence[Package], tree: Tree, update: Update) -> None:
    """Adds what is in the packages, but for what nothing reads; runs nothing."""
    for number, package in enumerate(packages):
        update(number / len(packages), f"unpacking {package.name}")
        with file_tree(package.file, "Delete it and try again.") as tar:
            for info in tar:
                if not _DROPPED.fullmatch(info.name.removeprefix("./")):
                    tree.member(tar, info)
