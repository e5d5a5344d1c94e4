# SPDX-License-Identifier: GPL-2.0-or-later
"""Workload -> initramfs, kept in the cache.

It stays there until it is deleted.  A trace belongs to its packages' versions, so a root file
system that updated itself would change traces without a change of the kernel.
"""

import hashlib
import json
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kentry.arch import Arch
from kentry.boot.userland.file_tree import Tree
from kentry.boot.userland.finish import begin, enable, finish
from kentry.boot.userland.rootfs import fetched, unpack
from kentry.boot.userland.workloads import FOLDER, PREPARE, RUNNER, WORKLOAD, Copy, Workload
from kentry.errors import UserError
from kentry.host.apt import Release
from kentry.host.cache import cache_dir, held, sha256_of, write_atomically
from kentry.host.native import runner_file
from kentry.progress import Update

# How much of the guest's memory a distribution's kernel takes before it starts init.
_KERNEL_MIB = 128
_MIB = 1 << 20


@dataclass(frozen=True)
class Userland:
    """A root file system that boots into its workload.

    `initramfs` is what QEMU's -initrd takes, `kernel_words` belong on the kernel's command
    line, `unpacked_bytes` is what the files take in the guest's memory.
    """

    workload: Workload
    release: Release
    initramfs: Path
    kernel_words: tuple[str, ...]
    size_bytes: int
    unpacked_bytes: int
    packages: tuple[tuple[str, str], ...]
    sha256: str

    @property
    def need_mib(self) -> int:
        """The least memory of a guest in which it boots and the workload has room, in MiB.

        A root on tmpfs may fill half of the memory (tmpfs.rst).  While the archive is unpacked,
        both are in memory.
        """
        unpacked = -(-self.unpacked_bytes // _MIB)
        both = unpacked + -(-self.size_bytes // _MIB)
        return max(2 * unpacked, both) + self.workload.room + _KERNEL_MIB

    def describe(self) -> dict[str, Any]:
        """What a trace says about it, for JSON."""
        return {
            "name": self.workload.name,
            "command": list(self.workload.argv),
            "release": self.release.name,
            "initramfs_bytes": self.size_bytes,
            "initramfs_sha256": self.sha256,
            "packages": dict(self.packages),
        }


def build_userland(
    arch: Arch, workload: Workload, release: Release, memory: int, update: Update
) -> Userland:
    """The root file system for `workload`, from the cache or made; the guest has `memory` MiB.

    FetchError or UserError where a package cannot be had.  UserError where the files do not fit
    into the guest's memory, or the guest not into this machine's.
    """
    from filelock import FileLock

    check_machine(memory)
    key = _request_key(arch, workload, release)
    final = cache_dir("userland") / key
    image, description = final.with_suffix(".cpio"), final.with_suffix(".json")
    lock = FileLock(final.with_suffix(".lock"))
    with held(lock, update, "another kentry that makes this userland"):
        try:
            facts = json.loads(description.read_text(encoding="utf-8"))
            whole = isinstance(facts, dict) and facts.get("size_bytes") == image.stat().st_size
        except (OSError, ValueError):
            whole = False
        if not whole:
            tree = Tree()
            with fetched(arch, release, workload.packages, update) as packages:
                begin(tree)
                unpack(packages, tree, update)
            finish(tree)
            _add_workload(tree, arch, workload)
            update(None, "writing the root file system")
            archive = b"".join(tree.archive())
            facts = {
                "size_bytes": len(archive),
                "unpacked_bytes": tree.unpacked_bytes(),
                "packages": [[package.name, package.version] for package in packages],
                "sha256": hashlib.sha256(archive).hexdigest(),
            }
            # The description comes last: where it is there, both are whole.
            write_atomically(image, archive)
            write_atomically(description, json.dumps(facts, indent=1) + "\n")
    userland = Userland(
        workload,
        release,
        image,
        # systemd prints no colours and asks the terminal nothing: nobody reads the console.
        ("TERM=dumb",) if workload.is_init else (),
        facts["size_bytes"],
        facts["unpacked_bytes"],
        tuple((name, version) for name, version in facts["packages"]),
        facts["sha256"],
    )
    if memory < userland.need_mib:
        size = -(-userland.unpacked_bytes // _MIB)
        raise UserError(
            f"The root file system of '{workload.name}' has {size} MiB, and does not fit into a"
            f" guest with {memory} MiB of memory.",
            f"Use --memory {userland.need_mib}, or more.",
        )
    return userland


def check_machine(memory: int) -> None:
    """UserError where this machine has less than `memory` MiB free for a guest."""
    try:
        text = Path("/proc/meminfo").read_text(encoding="ascii")
        free = int(text.partition("MemAvailable:")[2].split()[0]) >> 10
    except (OSError, ValueError, IndexError):
        return
    if free < memory:
        raise UserError(
            f"This machine has {free} MiB of free memory, and the guest is to have {memory} MiB.",
            "Choose less with --memory, or end other programs.",
        )


def _add_workload(tree: Tree, arch: Arch, workload: Workload) -> None:
    tree.folder(FOLDER)
    runner = runner_file(arch).read_bytes()
    tree.file(RUNNER, runner, 0o755)
    tree.file("init", runner, 0o755)
    words = ("exec" if workload.is_init else "run", *workload.argv)
    tree.file(WORKLOAD, b"".join(word.encode("utf-8", "surrogateescape") + b"\0" for word in words))
    if workload.prepare:
        tree.file(PREPARE, "\n".join(("set -e", *workload.prepare, "")))
    for copy in workload.copies:
        for source, guest in _files(copy):
            # As cp: into a folder, under its own name.
            path = f"{guest}/{source.name}" if tree.is_folder(guest) else guest
            tree.file(path, source.read_bytes(), stat.S_IMODE(source.stat().st_mode))
    for unit in workload.units:
        enable(tree, unit)


def _files(copy: Copy) -> Iterator[tuple[Path, str]]:
    """The file to copy, or those in and below a folder, each with its place in the guest."""
    if copy.source.is_file():
        yield copy.source, copy.guest
    for path in sorted(copy.source.rglob("*")) if copy.source.is_dir() else ():
        if path.is_file():
            yield path, f"{copy.guest}/{path.relative_to(copy.source)}"


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
            (guest, file.stat().st_mode, sha256_of(file))
            for copy in workload.copies
            for file, guest in _files(copy)
        ],
        "code": [sha256_of(file) for file in files if file.suffix != ".pyc"],
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
