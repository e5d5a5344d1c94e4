# SPDX-License-Identifier: GPL-2.0-or-later
"""A root file system with kexec and two kernels, for examples/labgrid-qemu's x86_64 board.

It is an initramfs behind the example's own, whose /init it replaces: what kexec gives the next
kernel is all of it, packed again by the guest.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile

from kentry.arch import Arch
from kentry.boot.initramfs import Entry, archive
from kentry.host.archive import RELEASES, Archive
from kentry.host.unpack import extract
from tests.places import silent

_LIBRARIES = "lib/x86_64-linux-gnu"
_INTERPRETER = "lib64/ld-linux-x86-64.so.2"
_PACK = """\
PATH=/bin:/sbin:/usr/bin:/usr/sbin
cd /
find bin boot dev init lib lib64 sbin usr | cpio -o -H newc >/initrd 2>/dev/null
for kernel in /boot/vmlinuz-*; do ln -sf /initrd /boot/initrd.img-${kernel#*-}; done
mount -t proc"""


def unpack(arch: Arch, folder: Path) -> None:
    """Debian's kexec-tools and all that it needs, below `folder`; FetchError."""
    root = Archive(arch.debian, RELEASES[0])
    with root.locked(silent):
        for deb in root.download_closure(["kexec-tools"], silent):
            extract(deb, folder, "")


def libraries(folder: Path, program: Path, seen: set[str]) -> Iterator[Path]:
    """The libraries that a program loads, and those that they do."""
    with program.open("rb") as stream:
        dynamic = ELFFile(stream).get_section_by_name(".dynamic")
        assert isinstance(dynamic, DynamicSection)
        names = [tag.needed for tag in dynamic.iter_tags("DT_NEEDED")]  # type: ignore[attr-defined]
    for name in names:
        if name in seen:
            continue
        seen.add(name)
        file = folder / "usr" / _LIBRARIES / name
        yield file
        yield from libraries(folder, file, seen)


def root_of(folder: Path, init: str, kernels: Sequence[Path]) -> bytes:
    """kexec from `folder`, with the kernels in /boot; `init` is the example's."""
    kexec = folder / "usr/sbin/kexec"
    files = {
        "init": init.replace("mount -t proc", _PACK, 1).encode(),
        "sbin/kexec": kexec.read_bytes(),
        # In the package it is a link to a whole path.
        _INTERPRETER: (folder / "usr" / _LIBRARIES / Path(_INTERPRETER).name).read_bytes(),
    }
    for file in libraries(folder, kexec, set()):
        files[f"{_LIBRARIES}/{file.name}"] = file.read_bytes()
    for image in kernels:
        files[f"boot/{image.name}"] = image.read_bytes()
    folders = ("boot", "lib", _LIBRARIES, "lib64", "sbin", "usr")
    made = [
        (Entry(name, inode, stat.S_IFDIR | 0o755), b"") for inode, name in enumerate(folders, 1)
    ]
    made += [
        (Entry(name, inode, stat.S_IFREG | 0o755, len(data)), data)
        for inode, (name, data) in enumerate(files.items(), len(folders) + 1)
    ]
    return b"".join(archive((entry, [data]) for entry, data in made))
