# SPDX-License-Identifier: GPL-2.0-or-later
"""Workload and Debian's packages -> initramfs, kept in the cache.

Packages are unpacked without root and without running any program of theirs.  mmdebstrap 1.3.5 is
not used.  It downloads everything in each run.  Without root it needs newuidmap or fakechroot, or
(chrootless) forgets the files' owners.  It configures packages of another architecture only by
running their scripts under qemu-user, so finish() would stay.

An initramfs stays there until it is deleted.  A trace belongs to its packages' versions, so a root
file system that updated itself would change traces without a change of the kernel.
"""

import contextlib
import hashlib
import json
import posixpath
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from kentry.arch import Arch
from kentry.boot.guest_tasks import FLAW, TracedWorkload
from kentry.boot.mitigations import PRINTING_FLAWS
from kentry.boot.userland.file_tree import Tree, begin, enable, finish
from kentry.boot.userland.workloads import (
    FOLDER,
    PACKAGE_NAME,
    PREPARE,
    RUNNER,
    WORKLOAD,
    Copy,
    Workload,
)
from kentry.errors import FetchError, UserError
from kentry.host.archive import USERLAND_RELEASES, Archive, Candidate, Release
from kentry.host.cache import cache_dir, held, read_json, sha256_of, write_atomically, write_json
from kentry.host.native import runner_file
from kentry.host.sandbox import available_memory
from kentry.host.unpack import file_tree
from kentry.progress import Update

# Debian's essential packages, on which others depend without saying so.
_ESSENTIAL = """base-files base-passwd bash bsdutils coreutils dash debianutils diffutils dpkg
findutils grep gzip hostname init-system-helpers libc-bin login mawk ncurses-base ncurses-bin
perl-base sed sysvinit-utils tar util-linux"""
ESSENTIAL = tuple(_ESSENTIAL.split())

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


# Where guest/runner.c has a shell look for a program.
_PATH = ("usr/local/sbin", "usr/local/bin", "usr/sbin", "usr/bin")


def find_release(name: str | None, arch: Arch) -> Release:
    """The release `name`, or else the oldest one with kernels for `arch`; UserError if none."""
    having = {r.name: r for r in USERLAND_RELEASES if arch.debian not in r.without}
    if name is None:
        # The first of all has no kernel.
        return next(release for release in having.values() if release is not USERLAND_RELEASES[0])
    if name not in having:
        having_not = any(release.name == name for release in USERLAND_RELEASES)
        raise UserError(
            f"Debian {name} has no {arch.debian}."
            if having_not
            else f"Unknown Debian release '{name}'.",
            f"Use one of: {', '.join(having)}.",
        )
    return having[name]


@contextlib.contextmanager
def fetched(
    arch: Arch, release: Release, names: Sequence[str], update: Update
) -> Iterator[dict[Path, Candidate]]:
    """The essential packages, `names` and what they depend on, as files while the block runs.

    Sorted by file.  The files are kept for other root file systems.  FetchError where they
    cannot be had; UserError names one that is not there.
    """
    archive = Archive(arch.debian, release)
    wanted = sorted({*ESSENTIAL, *_ALTERNATIVES.get(release.name, ()), *names})
    with archive.locked(update):
        try:
            files = archive.download_closure(wanted, update)
        except FetchError as err:
            # Mirrors drop a release's security updates before the release itself.
            try:
                files = archive.download_closure(wanted, update, release.name)
            except FetchError:
                raise err from None
        yield dict(sorted(files.items()))


def unpack(packages: Mapping[Path, Candidate], tree: Tree, update: Update) -> None:
    """Adds the packages' files without those that no workload reads; runs nothing."""
    for number, (file, package) in enumerate(packages.items()):
        update(number / len(packages), f"unpacking {package.package}")
        with file_tree(file, "Delete it and try again.") as tar:
            for info in tar:
                if not _DROPPED.fullmatch(info.name.removeprefix("./")):
                    tree.member(tar, info)


# How much of the guest's memory a distribution's kernel takes before it starts init.
_KERNEL_MIB = 128
_MIB = 1 << 20


def build_userland(
    arch: Arch, workload: Workload, release: Release, memory: int, update: Update
) -> TracedWorkload:
    """The root file system for `workload`, from the cache or made; the guest has `memory` MiB.

    FetchError or UserError where a package cannot be had.  UserError where the files do not fit
    into the guest's memory, or the guest not into this machine's.
    """
    check_machine(memory)
    key = _request_key(arch, workload, release)
    final = cache_dir("userland") / key
    image, description = final.with_suffix(".cpio"), final.with_suffix(".json")
    with held(final.with_suffix(".lock"), update, "another kentry that makes this userland"):
        facts = read_json(description)
        if not image.is_file() or facts.get("sha256") != sha256_of(image):
            tree, packages = _make_tree_with_program(arch, workload, release, update)
            update(None, "writing the root file system")
            archive = b"".join(tree.archive())
            facts = {
                "size_bytes": len(archive),
                "unpacked_bytes": tree.unpacked_bytes(),
                "packages": [[it.package, it.version] for it in packages.values()],
                "sha256": hashlib.sha256(archive).hexdigest(),
            }
            # The description comes last: where it is there, both are whole.
            write_atomically(image, archive)
            write_json(description, facts)
    # A root on tmpfs may fill half of the memory (tmpfs.rst).  While the archive is unpacked, both
    # are in memory.
    unpacked = -(-facts["unpacked_bytes"] // _MIB)
    both = unpacked + -(-facts["size_bytes"] // _MIB)
    need = max(2 * unpacked, both) + workload.room + _KERNEL_MIB
    if memory < need:
        raise UserError(
            f"The root file system of '{workload.name}' has {unpacked} MiB, and does not fit into a"
            f" guest with {memory} MiB of memory.",
            f"Use --memory {need}, or more.",
        )
    about = {
        "name": workload.name,
        "command": list(workload.argv),
        "release": release.name,
        "initramfs_bytes": facts["size_bytes"],
        "initramfs_sha256": facts["sha256"],
        "packages": dict(facts["packages"]),
    }
    # systemd prints no colours and asks the terminal nothing: nobody reads the console.
    return TracedWorkload(image, ("TERM=dumb",) if workload.is_init else (), about)


def check_machine(memory: int) -> None:
    """UserError where this machine has less than `memory` MiB free for a guest."""
    free = available_memory() >> 20
    if free < memory:
        raise UserError(
            f"This machine has {free} MiB of free memory, and the guest is to have {memory} MiB.",
            "Choose less with --memory, or end other programs.",
        )


def _make_tree(
    arch: Arch, workload: Workload, release: Release, update: Update
) -> tuple[Tree, Mapping[Path, Candidate]]:
    tree = Tree()
    with fetched(arch, release, workload.packages, update) as packages:
        begin(tree)
        unpack(packages, tree, update)
    finish(tree)
    _add_workload(tree, arch, workload)
    return tree, packages


def _make_tree_with_program(
    arch: Arch, workload: Workload, release: Release, update: Update
) -> tuple[Tree, Mapping[Path, Candidate]]:
    """The tree with the packages, and one more of the program's name if none of them has it."""
    tree, packages = _make_tree(arch, workload, release, update)
    program = workload.program
    if not _has_program(tree, program) and PACKAGE_NAME.fullmatch(program):
        more = replace(workload, packages=(*workload.packages, program))
        # Debian may have no package of that name.
        with contextlib.suppress(UserError):
            tree, packages = _make_tree(arch, more, release, update)
    if not _has_program(tree, program):
        raise UserError(
            f"The user space, Debian {release.name}, has no program '{program}'.",
            "Name its package with --packages, or copy it into the user space with --copy.",
        )
    return tree, packages


def _has_program(tree: Tree, program: str) -> bool:
    """Whether a command can begin with that word; also if there is no word."""
    folders = ("root",) if "/" in program else _PATH
    return not program or any(posixpath.join(folder, program) in tree for folder in folders)


def _add_workload(tree: Tree, arch: Arch, workload: Workload) -> None:
    tree.folder(FOLDER)
    runner = runner_file(arch).read_bytes()
    tree.file(RUNNER, runner, 0o755)
    tree.file("init", runner, 0o755)
    argv = ("exec" if workload.is_init else "run", *workload.argv)
    tree.file(WORKLOAD, b"".join(word.encode("utf-8", "surrogateescape") + b"\0" for word in argv))
    flaws = PRINTING_FLAWS.format(word=FLAW)
    # The C library's package runs ldconfig(8), so that programs find libraries.
    tree.file(PREPARE, "\n".join(("set -e", flaws, "ldconfig", *workload.prepare, "")))
    for copy in workload.copies:
        for source, guest in _files(copy):
            # As cp: into a folder, under its own name.
            path = f"{guest}/{source.name}" if tree.is_folder(guest) else guest
            if _is_link(source, copy):
                tree.link(path, str(source.readlink()))
            else:
                tree.file(path, source.read_bytes(), stat.S_IMODE(source.stat().st_mode))
    for unit in workload.units:
        enable(tree, unit)


def _files(copy: Copy) -> Iterator[tuple[Path, str]]:
    """Yields the file to copy, or those in and below a folder, each with its place in the guest."""
    if copy.source.is_file():
        yield copy.source, copy.guest
    for path in sorted(copy.source.rglob("*")) if copy.source.is_dir() else ():
        if path.is_file() or path.is_symlink():
            yield path, f"{copy.guest}/{path.relative_to(copy.source)}"


def _is_link(path: Path, copy: Copy) -> bool:
    """Whether it stays a link: as cp -r, so a folder of others' names no file of this machine."""
    return path != copy.source and path.is_symlink()


def _request_key(arch: Arch, workload: Workload, release: Release) -> str:
    """A digest of everything the root file system is made from except the packages' versions."""
    files = (path for path in sorted(Path(__file__).parent.rglob("*")) if path.is_file())
    parts = {
        "arch": arch.debian,
        "release": release.name,
        "packages": sorted(set(workload.packages)),
        "argv": workload.argv,
        "prepare": workload.prepare,
        "init": workload.is_init,
        "units": workload.units,
        "runner": sha256_of(runner_file(arch)),
        "copies": [
            (guest, str(file.readlink()))
            if _is_link(file, copy)
            else (guest, file.stat().st_mode, sha256_of(file))
            for copy in workload.copies
            for file, guest in _files(copy)
        ],
        "code": [sha256_of(file) for file in files if file.suffix != ".pyc"],
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
