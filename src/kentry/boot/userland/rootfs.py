# SPDX-License-Identifier: GPL-2.0-or-later
"""Debian packages -> a tree, without root and without running any program of a package.

mmdebstrap 1.3.5 is not used.  It downloads everything in each run.  Without root it needs
newuidmap or fakechroot, or (chrootless) forgets the files' owners.  It configures packages of
another architecture only by running their scripts under qemu-user, so finish.py would stay.
"""

import contextlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from kentry.arch import Arch
from kentry.boot.userland.file_tree import Tree
from kentry.errors import FetchError, UserError
from kentry.host.apt import USERLAND_RELEASES, AptRoot, Release, file_tree
from kentry.progress import Update

# Debian's essential packages; apt adds them by itself only to what is installed already.
_ESSENTIAL_NAMES = """base-files base-passwd bash bsdutils coreutils dash debianutils diffutils dpkg
findutils grep gzip hostname init-system-helpers libc-bin login mawk ncurses-base ncurses-bin
perl-base sed sysvinit-utils tar util-linux"""
ESSENTIAL = tuple(_ESSENTIAL_NAMES.split())

# Alternatives that a dependency does not name first, by release: usrmerge depends on all of Perl,
# and the tree is merged without it.
_ALTERNATIVES = {"bookworm": ("usr-is-merged",)}

# Files that no workload reads.  Every byte takes the guest's memory twice.
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
    """The release called `name`, or else the oldest one with kernels that has `arch`.

    UserError where the release is unknown, or does not have `arch`.
    """
    having = [one for one in USERLAND_RELEASES if arch.debian not in one.without]
    names = ", ".join(one.name for one in having)
    if name is None:
        # The first of all has no kernel.
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

    Sorted by name.  apt keeps the files for other root file systems.  FetchError where they
    cannot be had; UserError names one that is not there.
    """
    root = AptRoot(arch.debian, release)
    wanted = sorted({*ESSENTIAL, *_ALTERNATIVES.get(release.name, ()), *names})
    with root.locked(update):
        try:
            files = root.download_closure(wanted, update)
        except FetchError as err:
            candidates = root.candidates("|".join(map(re.escape, wanted)), update)
            packages = {candidate.package for candidate in candidates}
            missing = [name for name in wanted if name not in packages]
            # No candidate at all: the lists could not be fetched, and apt has said why.
            if packages and missing:
                raise UserError(
                    f"Debian {release.name} has no package '{missing[0]}' for {arch.debian}.",
                    "Name another package, or another release with --release.",
                ) from err
            # Mirrors drop a release's security updates before the release itself.
            try:
                files = root.download_closure(wanted, update, release.name)
            except FetchError:
                raise err from None
        # apt names the files NAME_VERSION_ARCH.deb.
        parts = [(file, file.stem.split("_")) for file in sorted(files)]
        yield tuple(Package(name, unquote(version), file) for file, (name, version, _) in parts)


def unpack(packages: Sequence[Package], tree: Tree, update: Update) -> None:
    """Adds the packages' files without those that no workload reads; runs nothing."""
    for number, package in enumerate(packages):
        update(number / len(packages), f"unpacking {package.name}")
        with file_tree(package.file, "Delete it and try again.") as tar:
            for info in tar:
                if not _DROPPED.fullmatch(info.name.removeprefix("./")):
                    tree.member(tar, info)
