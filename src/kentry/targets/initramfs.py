# SPDX-License-Identifier: GPL-2.0-or-later
"""The guest's root file system: the probe as /init, the cases to run, and a console.

The format is the kernel's "newc" cpio (Documentation/driver-api/early-userspace/
buffer-format.rst).  Written here because the cpio program is not part of Debian's
base system, cannot make a device node without root, and stamps inode numbers and times
that would differ from run to run.
"""

from __future__ import annotations

import stat
from collections.abc import Sequence
from pathlib import Path

_CONSOLE = (5, 1)  # major, minor: Documentation/admin-guide/devices.txt


# Where the probe finds the names of its cases, a line each: a kernel's command line has room for
# 1024 bytes on riscv64.
CASES_FILE = "/cases"


def build_initramfs(probe: Path, cases: Sequence[str]) -> bytes:
    """The archive; the same bytes for the same probe and cases."""
    names = "".join(f"{name}\n" for name in cases).encode()
    entries = (
        ("dev", stat.S_IFDIR | 0o755, b"", (0, 0)),
        ("dev/console", stat.S_IFCHR | 0o600, b"", _CONSOLE),
        (CASES_FILE.strip("/"), stat.S_IFREG | 0o444, names, (0, 0)),
        ("init", stat.S_IFREG | 0o755, probe.read_bytes(), (0, 0)),
        ("TRAILER!!!", 0, b"", (0, 0)),
    )
    return b"".join(
        _entry(inode, name, mode, data, device)
        for inode, (name, mode, data, device) in enumerate(entries, start=1)
    )


def _entry(inode: int, name: str, mode: int, data: bytes, device: tuple[int, int]) -> bytes:
    path = name.encode() + b"\0"
    links = 1
    fields = (inode, mode, 0, 0, links, 0, len(data), 0, 0, *device, len(path), 0)
    header = b"070701" + b"".join(b"%08X" % value for value in fields)
    return _padded(header + path) + _padded(data)


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)
