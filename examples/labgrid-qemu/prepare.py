#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Makes what env.yaml boots: a kernel, and a root file system with busybox's shell on the console.

    prepare.py ARCH [KERNEL [FOLDER]]

KERNEL is a spec of kentry's, FOLDER is where env.yaml is.  Debian's packages, without root.
"""

from __future__ import annotations

import re
import shutil
import stat
import sys
from pathlib import Path

from kentry.arch import Arch, find_arch
from kentry.boot.initramfs import Entry, archive
from kentry.errors import FetchError
from kentry.host.archive import RELEASES, Archive
from kentry.host.unpack import files_of
from kentry.kernels.resolve import resolve

# cttyhack gives the shell the console for a terminal, so that ^C reaches what runs in it.
INIT = """\
#!/bin/busybox sh
/bin/busybox mkdir -p /proc /sys /dev /tmp /bin /sbin /usr/bin /usr/sbin
/bin/busybox --install -s
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mount -t tmpfs tmpfs /tmp
export PATH=/bin:/sbin:/usr/bin:/usr/sbin HOME=/ PS1='board# '
while :; do
	setsid cttyhack sh
done
"""


def silent(_fraction: float | None, _now: str) -> None:
    """Progress that nobody is shown."""


def busybox(arch: Arch) -> bytes:
    """The program of Debian's busybox-static, of the first release that has the architecture."""
    for release in RELEASES:
        if arch.debian in release.without:
            continue
        root = Archive(arch.debian, release)
        with root.locked(silent):
            found = root.candidates("busybox-static", silent)
            if not found:
                continue
            deb = root.download(found[0], silent)
            for _, content in files_of(deb, re.compile(".*/busybox"), "Try again."):
                return content
    raise FetchError(f"Debian has no busybox-static for {arch.name}.")


def root_of(arch: Arch) -> bytes:
    """The root file system, as an initramfs."""
    files = (
        ("bin", stat.S_IFDIR | 0o755, b"", (0, 0)),
        ("bin/busybox", stat.S_IFREG | 0o755, busybox(arch), (0, 0)),
        ("dev", stat.S_IFDIR | 0o755, b"", (0, 0)),
        ("dev/console", stat.S_IFCHR | 0o600, b"", (5, 1)),
        ("init", stat.S_IFREG | 0o755, INIT.encode(), (0, 0)),
    )
    return b"".join(
        archive(
            (Entry(name, inode, mode, len(data), device), [data])
            for inode, (name, mode, data, device) in enumerate(files, start=1)
        )
    )


def prepare(arch: Arch, kernel: str, folder: Path) -> None:
    """Writes ARCH-kernel and ARCH-root.cpio."""
    shutil.copyfile(resolve(kernel, arch, silent).image, folder / f"{arch.name}-kernel")
    (folder / f"{arch.name}-root.cpio").write_bytes(root_of(arch))


if __name__ == "__main__":
    name, kernel, folder = (*sys.argv[1:], *("", "debian:6.12", "")[len(sys.argv) - 1 :])
    prepare(find_arch(name), kernel, Path(folder or Path(__file__).parent))
