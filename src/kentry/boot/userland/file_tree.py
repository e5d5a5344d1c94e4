# SPDX-License-Identifier: GPL-2.0-or-later
"""A root file system in memory, before it is an archive.

A package's paths are keys of a dictionary and are never used as paths of this machine, so no link,
path, owner or device in a package has any effect here, and none needs root.
"""

import stat
import tarfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from kentry.boot.initramfs import MOST_FILE_BYTES, Entry, archive
from kentry.errors import UserError

# The time of every file: when the guest's clock starts (2020-01-01), so that what the guest
# writes is newer than what it found.
MTIME = 1577836800

_PAGE = 4096
_MOST_LINKS = 40  # as the kernel's own MAXSYMLINKS

# Folders that are links into /usr on every system since Debian 12, whatever the package says.
_MERGED = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")


@dataclass(eq=False)
class Node:
    """A file, folder, link or device; the same node under several names is hard links.

    `data` is a file's content, or where a symbolic link leads.
    """

    mode: int
    uid: int = 0
    gid: int = 0
    data: bytes = b""
    device: tuple[int, int] = (0, 0)
    mtime: int = MTIME


class Tree:
    """The names of a root file system.

    Paths are those of the guest, with or without the first slash.  A path leads through the
    links that are in the tree and never out of it; UserError where it has "..".
    """

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}

    def __contains__(self, path: str) -> bool:
        return self._resolve(path) in self._nodes

    def __iter__(self) -> Iterator[str]:
        """Every path, sorted: a folder comes before what is in it."""
        return iter(sorted(self._nodes, key=lambda path: path.split("/")))

    def read(self, path: str) -> bytes:
        """A file's content; b"" where there is none."""
        node = self._nodes.get(self._resolve(path))
        return node.data if node and stat.S_ISREG(node.mode) else b""

    def is_folder(self, path: str) -> bool:
        """Whether there is a folder, at the end of all links."""
        return self._is_folder(self._resolve(path))

    def files_below(self, folder: str) -> list[str]:
        """The paths of the files in and below `folder`, sorted."""
        start = self._resolve(folder) + "/"
        return [path for path in self if path.startswith(start) and not self._is_folder(path)]

    def folder(self, path: str, mode: int = 0o755, uid: int = 0, gid: int = 0) -> None:
        """A folder, or its mode and owner where it is there."""
        name = self._resolve(path)
        node = self._nodes.get(name)
        if node and stat.S_ISDIR(node.mode):
            node.mode, node.uid, node.gid = stat.S_IFDIR | mode, uid, gid
        else:
            self._put(name, Node(stat.S_IFDIR | mode, uid, gid))

    def file(
        self, path: str, content: str | bytes, mode: int = 0o644, gid: int = 0, mtime: int = MTIME
    ) -> None:
        """A file with `content`, in the place of what was there; a link there is followed."""
        data = content.encode() if isinstance(content, str) else content
        self._put(self._resolve(path), Node(stat.S_IFREG | mode, 0, gid, data, mtime=mtime))

    def link(self, path: str, target: str) -> None:
        """A symbolic link, in the place of what was there."""
        data = target.encode("utf-8", "surrogateescape")
        self._put(self._resolve(path, last=False), Node(stat.S_IFLNK | 0o777, data=data))

    def device(self, path: str, mode: int, number: tuple[int, int]) -> None:
        """A character device."""
        self._put(self._resolve(path), Node(stat.S_IFCHR | mode, device=number))

    def member(self, tar: tarfile.TarFile, info: tarfile.TarInfo) -> None:
        """A member of a package's archive, unless it is a device, socket or pipe."""
        mode = info.mode & 0o7777
        if info.isdir():
            self.folder(info.name, mode, info.uid, info.gid)
            return
        name = self._resolve(info.name, last=False)
        if info.issym():
            # As dpkg: a link that a package has never takes the place of a folder.
            if not self._is_folder(name):
                self.link(info.name, info.linkname)
        elif info.islnk():
            if node := self._nodes.get(self._resolve(info.linkname, last=False)):
                self._put(name, node)
        elif info.isreg():
            source = tar.extractfile(info)
            assert source
            self._put(name, Node(stat.S_IFREG | mode, info.uid, info.gid, source.read()))

    def _put(self, name: str, node: Node) -> None:
        """`name` is resolved; the folders above it are made."""
        if len(node.data) > MOST_FILE_BYTES:
            raise UserError(
                "A file of 4 GiB or more does not fit in an initramfs.", "Leave it out."
            )
        if not name:
            return
        parent = name.rpartition("/")[0]
        if parent and not self._is_folder(parent):
            self._put(parent, Node(stat.S_IFDIR | 0o755))
        self._nodes[name] = node

    def _is_folder(self, name: str) -> bool:
        node = self._nodes.get(name)
        return not name or (node is not None and stat.S_ISDIR(node.mode))

    def _resolve(self, path: str, *, last: bool = True) -> str:
        """The path without links, but for the last name's own unless `last` is to be followed.

        As chroot() would: what leads above the root stays there.
        """
        if ".." in path.split("/"):
            raise UserError(f"{path!r} is a path with '..' in it.", "Name it from the root on.")
        todo = path.split("/")
        done: list[str] = []
        links = 0
        while todo:
            word = todo.pop(0)
            if word in ("", "."):
                continue
            if word == "..":
                del done[-1:]
                continue
            if not done and word in _MERGED and word not in self._nodes:
                self._put(f"usr/{word}", Node(stat.S_IFDIR | 0o755))
                self._nodes[word] = Node(stat.S_IFLNK | 0o777, data=f"usr/{word}".encode())
            node = self._nodes.get("/".join([*done, word]))
            if node and stat.S_ISLNK(node.mode) and (any(todo) or last):
                links += 1
                if links > _MOST_LINKS:
                    raise UserError(f"{path!r} leads through too many links.", "Leave it out.")
                target = node.data.decode("utf-8", "surrogateescape")
                todo[:0] = target.split("/")
                done = [] if target.startswith("/") else done
            else:
                done.append(word)
        return "/".join(done)

    def archive(self) -> Iterator[bytes]:
        """The tree as an initramfs, piece by piece; the same bytes for the same tree."""
        links = Counter(id(node) for node in self._nodes.values())
        inodes: dict[int, int] = {}
        entries: list[tuple[Entry, list[bytes]]] = []
        for path in self:
            node = self._nodes[path]
            # The content comes with the first of several names.
            data = b"" if id(node) in inodes else node.data
            inode = inodes.setdefault(id(node), len(inodes) + 1)
            owner = (node.uid, node.gid, links[id(node)], node.mtime)
            entries.append((Entry(path, inode, node.mode, len(data), node.device, *owner), [data]))
        return archive(entries)

    def unpacked_bytes(self) -> int:
        """What the files take in the guest's memory: whole pages, and about one for each name."""
        nodes = {id(node): node for node in self._nodes.values()}.values()
        contents = sum(-(-len(node.data) // _PAGE) * _PAGE for node in nodes)
        # An inode and a directory entry of tmpfs are about 1 KiB.
        return contents + 1024 * len(self._nodes)
