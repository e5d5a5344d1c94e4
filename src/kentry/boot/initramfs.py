# SPDX-License-Identifier: GPL-2.0-or-later
"""The guest's root file system: the probe as /init, the cases to run, and a console.

The format is the kernel's "newc" cpio (Documentation/driver-api/early-userspace/
buffer-format.rst).  Written here because the cpio program is not part of Debian's
base system, cannot make a device node without root, and stamps inode numbers and times
that would differ from run to run.
"""

import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

_CONSOLE = (5, 1)  # major, minor: Documentation/admin-guide/devices.txt

# A size is eight hexadecimal digits.
MOST_FILE_BYTES = (1 << 32) - 1

# The probe's cases, a line each: riscv64's kernel command line has room for 1024 bytes only.
CASES_FILE = "/cases"
# The files whose text it prints, a line each.
FACTS_FILE = "/facts"


@dataclass(frozen=True)
class Entry:
    """One name in an archive: what stat() is to say of it, `size` bytes of content.

    Entries with the same `inode` are links to one file, whose content comes with the first of
    them; `links` is how many there are.  `device` is a device's major and minor number, `mtime`
    in seconds since 1970.
    """

    name: str
    inode: int
    mode: int
    size: int = 0
    device: tuple[int, int] = (0, 0)
    uid: int = 0
    gid: int = 0
    links: int = 1
    mtime: int = 0


def build_initramfs(probe: Path, cases: Sequence[str], facts: Sequence[str] = ()) -> bytes:
    """Returns the archive; the same bytes for the same probe, cases and files of `facts`."""

    def listed(file: str, names: Sequence[str]) -> tuple[str, int, bytes, tuple[int, int]]:
        lines = "".join(f"{name}\n" for name in names).encode()
        return file.strip("/"), stat.S_IFREG | 0o444, lines, (0, 0)

    files = (
        ("dev", stat.S_IFDIR | 0o755, b"", (0, 0)),
        ("dev/console", stat.S_IFCHR | 0o600, b"", _CONSOLE),
        listed(CASES_FILE, cases),
        *([listed(FACTS_FILE, facts)] if facts else []),
        ("init", stat.S_IFREG | 0o755, probe.read_bytes(), (0, 0)),
    )
    return b"".join(
        archive(
            (Entry(name, inode, mode, len(data), device), [data])
            for inode, (name, mode, data, device) in enumerate(files, start=1)
        )
    )


def archive(files: Iterable[tuple[Entry, Iterable[bytes]]]) -> Iterator[bytes]:
    """The archive piece by piece; a folder must come before what is in it."""
    inode = 0
    for entry, content in files:
        inode = max(inode, entry.inode)
        yield _header(entry)
        yield from content
        yield bytes(-entry.size % 4)
    yield _header(Entry("TRAILER!!!", inode + 1, 0))


def _header(entry: Entry) -> bytes:
    """What stands before an entry's content."""
    path = entry.name.encode("utf-8", "surrogateescape") + b"\0"
    inode = (entry.inode, entry.mode, entry.uid, entry.gid, entry.links, entry.mtime, entry.size)
    # The device that it is on, the one that it is, and no checksum.
    fields = (*inode, 0, 0, *entry.device, len(path), 0)
    text = b"070701" + b"".join(b"%08X" % value for value in fields) + path
    return text + bytes(-len(text) % 4)
