# SPDX-License-Identifier: GPL-2.0-or-later
"""Workload -> initramfs, kept in the cache.

It stays as it is until it is deleted there: what a trace says belongs to the packages' versions,
so a root file system that renewed itself would change traces by itself.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kentry.arch import Arch
from kentry.errors import MissingToolError, UserError
from kentry.host.cache import cache_dir, held, no_space_is_an_error, sha256_of, write_atomically
from kentry.host.mirror import Release
from kentry.host.native import probe_file
from kentry.progress import Update
from kentry.runners.userland.finish import begin, enable, finish
from kentry.runners.userland.rootfs import Package, fetched, unpack
from kentry.runners.userland.tree import Tree
from kentry.runners.userland.workloads import FOLDER, PREPARE, RUNNER, WORKLOAD, Workload

# What a distribution's kernel takes of the guest's memory before there is any user.
_KERNEL_MIB = 128
_MIB = 1 << 20

# Nobody reads the console while it boots: no colours, and no questions to a terminal that does
# not answer.
_INIT_WORDS = ("TERM=dumb",)


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
        """The least memory of a guest, in MiB, in which it boots and has room to work.

        A root on tmpfs may fill half of the memory (tmpfs.rst), and while it is unpacked the
        archive is there beside it.
        """
        unpacked = -(-self.unpacked_bytes // _MIB)
        both = unpacked + -(-self.size_bytes // _MIB)
        return max(2 * unpacked, both) + self.workload.room + _KERNEL_MIB

    def describe(self) -> dict[str, Any]:
        """What a file says about it: JSON-able."""
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
    """The root file system for `workload`, made or from the cache; `memory` of a guest in MiB.

    FetchError or UserError where a package cannot be had, UserError where it does not fit into
    the guest's memory, or that not into this machine's.
    """
    from filelock import FileLock

    check_machine(memory)
    key = _request_key(arch, workload, release)
    folder = cache_dir("userland")
    with held(FileLock(folder / f"{key}.lock"), update, "another kentry that makes this userland"):
        facts = _kept(folder / key)
        if not facts:
            facts = _make(arch, workload, release, folder / key, update)
    userland = Userland(
        workload,
        release,
        folder / f"{key}.cpio",
        _INIT_WORDS if workload.is_init else (),
        facts["size_bytes"],
        facts["unpacked_bytes"],
        tuple((name, version) for name, version in facts["packages"]),
        facts["sha256"],
    )
    check_guest(userland, memory)
    return userland


def check_guest(userland: Userland, memory: int) -> None:
    """UserError unless the root file system fits into a guest with `memory` MiB."""
    if memory < userland.need_mib:
        size = -(-userland.unpacked_bytes // _MIB)
        raise UserError(
            f"The root file system of '{userland.workload.name}' has {size} MiB, and does not fit"
            f" into a guest with {memory} MiB of memory.",
            f"Use --memory {userland.need_mib}, or more.",
        )


def check_machine(memory: int) -> None:
    """UserError where this machine has no `memory` MiB to give to a guest."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return
    free = next(
        (int(line.split()[1]) >> 10 for line in lines if line[:13] == "MemAvailable:"), None
    )
    if free is not None and free < memory:
        raise UserError(
            f"This machine has {free} MiB of free memory, and the guest is to have {memory} MiB.",
            "Choose less with --memory, or end other programs.",
        )


def _kept(final: Path) -> dict[str, Any] | None:
    """What FINAL.json says where that and FINAL.cpio are whole."""
    try:
        facts = json.loads(final.with_suffix(".json").read_text(encoding="utf-8"))
        size = final.with_suffix(".cpio").stat().st_size
    except (OSError, ValueError):
        return None
    return facts if isinstance(facts, dict) and facts.get("size_bytes") == size else None


def _make(
    arch: Arch, workload: Workload, release: Release, final: Path, update: Update
) -> dict[str, Any]:
    with Tree(final.parent) as tree:
        with fetched(arch, release, workload.packages, update) as packages:
            begin(tree)
            unpack(packages, tree, update)
        finish(tree)
        _add_workload(tree, arch, workload)
        update(None, "writing the root file system")
        return _write(tree, packages, final)


def _write(tree: Tree, packages: tuple[Package, ...], final: Path) -> dict[str, Any]:
    """FINAL.cpio, and FINAL.json, which comes last: where it is, both are whole."""
    part = final.with_suffix(".part")
    digest, size = hashlib.sha256(), 0
    try:
        with no_space_is_an_error(part), part.open("wb") as file:
            for piece in tree.archive():
                digest.update(piece)
                size += file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, final.with_suffix(".cpio"))
    finally:
        part.unlink(missing_ok=True)
    facts = {
        "size_bytes": size,
        "unpacked_bytes": tree.unpacked_bytes(),
        "packages": [[package.name, package.version] for package in packages],
        "sha256": digest.hexdigest(),
    }
    write_atomically(final.with_suffix(".json"), json.dumps(facts, indent=1) + "\n")
    return facts


def _add_workload(tree: Tree, arch: Arch, workload: Workload) -> None:
    tree.folder(FOLDER)
    tree.copy(RUNNER, runner_file(arch), 0o755)
    tree.copy("init", runner_file(arch), 0o755)
    words = ("exec" if workload.is_init else "run", *workload.argv)
    tree.file(WORKLOAD, b"".join(word.encode("utf-8", "surrogateescape") + b"\0" for word in words))
    if workload.prepare:
        tree.file(PREPARE, "\n".join(("set -e", *workload.prepare, "")))
    for copy in workload.copies:
        for source, guest in _files(copy.source, copy.guest):
            tree.copy(guest, source)
    for unit in workload.units:
        enable(tree, unit)


def runner_file(arch: Arch) -> Path:
    """The runner's executable, which is built beside the probe; MissingToolError if not."""
    file = probe_file(arch).with_name(f"runner-{arch.name}")
    if not file.exists():
        raise MissingToolError(
            f"The runner for {arch.name} is not built.",
            f"Run: apt-get install {arch.compiler_package} make, then install kentry again"
            " (make setup).",
        )
    return file


def _files(source: Path, guest: str) -> Iterator[tuple[Path, str]]:
    """The files of one to copy: itself, or those in and below it with their places."""
    if source.is_file():
        yield source, guest
    for path in sorted(source.rglob("*")) if source.is_dir() else ():
        if path.is_file():
            yield path, f"{guest}/{path.relative_to(source)}"


def _request_key(arch: Arch, workload: Workload, release: Release) -> str:
    """Of all that the root file system is made from, but for the packages' versions."""
    code = sorted(Path(__file__).parent.glob("*.py"))
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
            for file, guest in _files(copy.source, copy.guest)
        ],
        "code": [sha256_of(file) for file in code],
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
