# SPDX-License-Identifier: GPL-2.0-or-later
"""A root file system as names and contents, before it is an archive.

Nothing is written to this machine's own tree by a name that a package chose: names lead into a
dictionary, contents into one file without a name.  So no link, path, owner or device in a
package has any effect here, and none needs root.
"""

from __future__ import annotations

import shutil
import stat
import tarfile
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO

from kentry.errors import UserError
from kentry.host.cache import no_space_is_an_error
from kentry.runners.initramfs import MOST_FILE_BYTES, Entry, archive

# The time of every file: when the guest's clock starts (2020-01-01), so that what the guest
# writes is newer than what it found.
MTIME = 1577836800

_CHUNK = 1 << 20
_PAGE = 4096
_MOST_LINKS = 40  # as the kernel's own MAXSYMLINKS

# Folders that are links into /usr on every system since Debian 12, whatever the package says.
_MERGED = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")


@dataclass(eq=False)
class Node:
    """A file, folder, link or device; the same node under several names is hard links.

    The content is `data`, or the `size` bytes at `offset` of the tree's spool.  A symbolic
    link's is where it leads.
    """

    mode: int
    uid: int = 0
    gid: int = 0
    data: bytes | None = b""
    offset: int = 0
    size: int = 0
    device: tuple[int, int] = (0, 0)
    mtime: int = MTIME

    @property
    def length(self) -> int:
        """Bytes of content."""
        return self.size if self.data is None else len(self.data)


class Tree:
    """The names of a root file system, to be used as a context manager: it has a spool file.

    Paths are those of the guest, with or without the first slash.  A path leads through the
    links that are in the tree and never out of it; UserError where it names "..".
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._nodes: dict[str, Node] = {}
        self._spool: IO[bytes]

    def __enter__(self) -> Tree:
        with no_space_is_an_error(self._folder):
            self._spool = tempfile.TemporaryFile(dir=self._folder)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._spool.close()

    # --- looking ----------------------------------------------------------------------

    def __contains__(self, path: str) -> bool:
        return self.find(path) is not None

    def __iter__(self) -> Iterator[str]:
        """Every path, sorted: a folder comes before what is in it."""
        return iter(sorted(self._nodes, key=lambda path: path.split("/")))

    def find(self, path: str) -> Node | None:
        """The node at the end of all links; None where there is none."""
        return self._nodes.get(self._resolve(path, last=True))

    def read(self, path: str) -> bytes:
        """A file's content; b"" where there is none."""
        node = self.find(path)
        if node is None or not stat.S_ISREG(node.mode):
            return b""
        return b"".join(self._content(node))

    def files_below(self, folder: str) -> list[str]:
        """The paths of the files in and below `folder`, sorted."""
        start = self._resolve(folder, last=True) + "/"
        return [
            path
            for path in self
            if path.startswith(start) and not stat.S_ISDIR(self._nodes[path].mode)
        ]

    # --- adding -----------------------------------------------------------------------

    def folder(self, path: str, mode: int = 0o755, uid: int = 0, gid: int = 0) -> None:
        """A folder, or its mode and owner where it is there."""
        name = self._resolve(path, last=True)
        there = self._nodes.get(name)
        if there and stat.S_ISDIR(there.mode):
            there.mode, there.uid, there.gid = stat.S_IFDIR | mode, uid, gid
        elif name:
            self._put(name, Node(stat.S_IFDIR | mode, uid, gid))

    def file(
        self,
        path: str,
        content: str | bytes,
        mode: int = 0o644,
        gid: int = 0,
        mtime: int = MTIME,
    ) -> None:
        """A file with `content`, in the place of what was there; a link there is followed."""
        data = content.encode() if isinstance(content, str) else content
        name = self._resolve(path, last=True)
        self._put(name, Node(stat.S_IFREG | mode, gid=gid, data=data, mtime=mtime))

    def copy(self, path: str, source: Path, mode: int | None = None) -> None:
        """A file of this machine's, with its own mode bits unless others are named.

        Where `path` is a folder, into it, under its own name.
        """
        name = self._resolve(path, last=True)
        if not name or self._is_folder(name):
            path = f"{path}/{source.name}"
        with source.open("rb") as file:
            bits = stat.S_IMODE(source.stat().st_mode) if mode is None else mode
            node = self._spooled(stat.S_IFREG | bits, file)
        self._put(self._resolve(path, last=True), node)

    def link(self, path: str, target: str) -> None:
        """A symbolic link, in the place of what was there."""
        node = Node(stat.S_IFLNK | 0o777, data=target.encode("utf-8", "surrogateescape"))
        self._put(self._resolve(path, last=False), node)

    def device(self, path: str, mode: int, number: tuple[int, int]) -> None:
        """A character device."""
        self._put(self._resolve(path, last=True), Node(stat.S_IFCHR | mode, device=number))

    def member(self, tar: tarfile.TarFile, info: tarfile.TarInfo) -> None:
        """What a package's archive has; where that is neither file, folder nor link, nothing."""
        mode = info.mode & 0o7777
        if info.isdir():
            self.folder(info.name, mode, info.uid, info.gid)
        elif info.issym():
            self._symbolic(info.name, info.linkname)
        elif info.islnk():
            node = self._nodes.get(self._resolve(info.linkname, last=False))
            if node:
                self._put(self._resolve(info.name, last=False), node)
        elif info.isreg():
            source = tar.extractfile(info)
            assert source
            node = self._spooled(stat.S_IFREG | mode, source, info.uid, info.gid)
            self._put(self._resolve(info.name, last=False), node)

    def _symbolic(self, path: str, target: str) -> None:
        """As dpkg: a link that a package has never takes the place of a folder."""
        name = self._resolve(path, last=False)
        there = self._nodes.get(name)
        if not (there and stat.S_ISDIR(there.mode)):
            self.link(path, target)

    def _spooled(self, mode: int, source: IO[bytes], uid: int = 0, gid: int = 0) -> Node:
        with no_space_is_an_error(self._folder):
            offset = self._spool.seek(0, 2)
            shutil.copyfileobj(source, self._spool, _CHUNK)
            size = self._spool.tell() - offset
        if size > MOST_FILE_BYTES:
            raise UserError(
                "A file of 4 GiB or more does not fit in an initramfs.", "Leave it out."
            )
        return Node(mode, uid, gid, None, offset, size)

    def _put(self, name: str, node: Node) -> None:
        """`name` is resolved; the folders above it are made."""
        if not name:
            return
        parent = name.rpartition("/")[0]
        if parent and not self._is_folder(parent):
            self._put(parent, Node(stat.S_IFDIR | 0o755))
        self._nodes[name] = node

    def _is_folder(self, name: str) -> bool:
        node = self._nodes.get(name)
        return node is not None and stat.S_ISDIR(node.mode)

    # --- names ------------------------------------------------------------------------

    def _resolve(self, path: str, *, last: bool) -> str:
        """The path without links, but for the last name's own unless `last` is to be followed.

        As chroot() would: what leads above the root stays there.
        """
        if ".." in path.split("/"):
            raise UserError(f"{path!r} is a path with '..' in it.", "Name it from the root on.")
        todo = _words(path)
        done: list[str] = []
        links = 0
        while todo:
            word = todo.pop(0)
            if word == "..":
                del done[-1:]
                continue
            self._merge(done, word)
            name = "/".join([*done, word])
            node = self._nodes.get(name)
            if node and stat.S_ISLNK(node.mode) and (todo or last):
                links += 1
                if links > _MOST_LINKS:
                    raise UserError(f"{path!r} leads through too many links.", "")
                target = (node.data or b"").decode("utf-8", "surrogateescape")
                todo[:0] = _words(target)
                done = [] if target.startswith("/") else done
            else:
                done.append(word)
        return "/".join(done)

    def _merge(self, done: list[str], word: str) -> None:
        """Makes the link into /usr that a name goes through, where it is the first such name."""
        if not done and word in _MERGED and word not in self._nodes:
            self._put(f"usr/{word}", Node(stat.S_IFDIR | 0o755))
            self._nodes[word] = Node(stat.S_IFLNK | 0o777, data=f"usr/{word}".encode())

    # --- the archive ------------------------------------------------------------------

    def archive(self) -> Iterator[bytes]:
        """The tree as an initramfs, piece by piece; the same bytes for the same tree."""
        links = Counter(id(node) for node in self._nodes.values())
        inodes: dict[int, int] = {}
        return archive(self._entry(path, links, inodes) for path in self)

    def _entry(
        self, path: str, links: Counter[int], inodes: dict[int, int]
    ) -> tuple[Entry, Iterator[bytes]]:
        node = self._nodes[path]
        first = id(node) not in inodes
        inode = inodes.setdefault(id(node), len(inodes) + 1)
        entry = Entry(
            path,
            inode,
            node.mode,
            node.length if first else 0,
            node.device,
            node.uid,
            node.gid,
            links[id(node)],
            node.mtime,
        )
        return entry, self._content(node) if first else iter(())

    def unpacked_bytes(self) -> int:
        """What the files take in the guest's memory: whole pages, and about one for each name."""
        nodes = {id(node): node for node in self._nodes.values()}.values()
        contents = sum(-(-node.length // _PAGE) * _PAGE for node in nodes)
        # An inode and a directory entry of tmpfs are about 1 KiB.
        return contents + 1024 * len(self._nodes)

    def _content(self, node: Node) -> Iterator[bytes]:
        if node.data is not None:
            yield node.data
            return
        self._spool.seek(node.offset)
        left = node.size
        while left:
            chunk = self._spool.read(min(left, _CHUNK))
            if not chunk:
                raise UserError(f"{self._folder} lost a file while it was read.", "Try again.")
            left -= len(chunk)
            yield chunk


def _words(path: str) -> list[str]:
    return [word for word in path.split("/") if word not in ("", ".")]
