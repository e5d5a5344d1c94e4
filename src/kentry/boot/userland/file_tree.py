# SPDX-License-Identifier: GPL-2.0-or-later
"""A root file system in memory, before it is an archive; what packages' own scripts would do to it.

A package's paths are keys of a dictionary and are never used as paths of this machine, so no link,
path, owner or device in a package has any effect here, and none needs root.

No script of a package runs.  finish() makes the files that deb-systemd-helper(1),
update-alternatives(1), systemd-sysusers(8), pam-auth-update(8) and base-passwd(8) would leave
behind, as far as the workloads need them.
"""

import shlex
import stat
import tarfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

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
    """A file (its content), link (its target), folder or device; hard links share a node."""

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
        """Returns the paths of the files in and below `folder`, sorted."""
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
        """Makes a character device."""
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
        """The path without links, but for the `last` name; as chroot(), never above the root."""
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
        """Yields the tree as an initramfs, piece by piece; the same bytes for the same tree."""
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


# The first program that is there gets the name, by the priorities of update-alternatives(1).
_ALTERNATIVES = {
    "usr/bin/awk": ("gawk", "mawk", "original-awk"),
    "usr/bin/which": ("which.debianutils",),
    "usr/bin/cc": ("gcc",),
    "usr/bin/c99": ("c99-gcc",),
    "usr/bin/ld": ("ld.bfd",),
    "usr/bin/sh": ("dash", "bash"),
    "usr/bin/pager": ("more",),
}

# Users that scripts make with adduser(8) and that no file below sysusers.d names: the user, its
# home, and the program that runs as it.
_USERS = (
    ("messagebus", "/nonexistent", "usr/bin/dbus-daemon"),
    ("sshd", "/run/sshd", "usr/sbin/sshd"),
    ("redis", "/var/lib/redis", "usr/bin/redis-server"),
    ("postgres", "/var/lib/postgresql", "usr/bin/pg_ctlcluster"),
)
_GROUPS = ("_ssh", "crontab", "input", "kvm", "netdev", "render", "sgx")

# System users get numbers from this one down: adduser.conf(5), sysusers.d(5).
_FIRST_SYSTEM_ID = 999
_MASTERS = "usr/share/base-passwd"

# Files that scripts write into /etc.
_ETC = Path(__file__).parent / "etc"

# Copies that a script makes unless the file exists: ucf(1).
_FIRST_COPIES = {
    "etc/ssh/sshd_config": "usr/share/openssh/sshd_config",
    "etc/profile": "usr/share/base-files/profile",
    "root/.profile": "usr/share/base-files/dot.profile",
    "root/.bashrc": "usr/share/base-files/dot.bashrc",
}

# Units that need a disk, a network or somebody who logs in; the guest has none of them.
_MASKED = """serial-getty@.service getty@.service console-getty.service systemd-firstboot.service
systemd-networkd-wait-online.service systemd-hwdb-update.service proc-sys-fs-binfmt_misc.automount
proc-sys-fs-binfmt_misc.mount systemd-binfmt.service apt-daily.timer apt-daily-upgrade.timer
dpkg-db-backup.timer e2scrub_all.timer fstrim.timer"""

_UNIT_FOLDER = "usr/lib/systemd/system"


def begin(tree: Tree) -> None:
    """What base-files makes before any other package is unpacked."""
    tree.link("var/run", "/run")
    tree.link("var/lock", "/run/lock")


def finish(tree: Tree) -> None:
    """Makes what was unpacked usable."""
    for name in ("bin", "sbin", "lib"):
        tree.folder(name)
    for name in ("dev", "proc", "sys", "run", "mnt", "root", "var/lib", "etc", "usr/local/bin"):
        tree.folder(name, 0o700 if name == "root" else 0o755)
    for name in ("tmp", "var/tmp"):
        tree.folder(name, 0o1777)
    tree.device("dev/console", 0o600, (5, 1))
    for source in sorted(_ETC.rglob("*")):
        path = f"etc/{source.relative_to(_ETC)}"
        if source.is_file() and path not in tree:
            tree.file(path, source.read_bytes())
    for path, original in _FIRST_COPIES.items():
        if path not in tree and original in tree:
            tree.file(path, tree.read(original))
    for path, programs in _ALTERNATIVES.items():
        folder = path.rpartition("/")[0]
        program = next((name for name in programs if f"{folder}/{name}" in tree), None)
        if path not in tree and program:
            tree.link(path, program)
    _make_users(tree)
    if _UNIT_FOLDER in tree:
        tree.link("etc/systemd/system/default.target", f"/{_UNIT_FOLDER}/multi-user.target")
        for unit in _MASKED.split():
            tree.link(f"etc/systemd/system/{unit}", "/dev/null")
        # Newer than /usr, so that ConditionNeedsUpdate= finds nothing to update.
        for folder in ("etc", "var"):
            tree.file(f"{folder}/.updated", "", mtime=MTIME + 1)
        # The journal stays in memory, because there is no /var/log/journal.
        tree.folder("var/log")
        tree.folder("var/lib/systemd")


class _Accounts:
    """The users' numbers and the rest of their lines of passwd(5); the groups' and members."""

    def __init__(self, tree: Tree) -> None:
        users, groups = (
            [line.split(":", 3) for line in tree.read(file).decode().splitlines()]
            for file in (f"{_MASTERS}/passwd.master", f"{_MASTERS}/group.master")
        )
        self.users = {name: (int(number), rest) for name, _, number, rest in users}
        self.groups: dict[str, tuple[int, list[str]]]
        self.groups = {name: (int(number), []) for name, _, number, _ in groups}

    def free_id(self) -> int:
        """The highest number that neither a user nor a group has."""
        used = {number for number, _ in (*self.users.values(), *self.groups.values())}
        return next(number for number in range(_FIRST_SYSTEM_ID, 0, -1) if number not in used)

    def add_group(self, name: str, number: int | None = None) -> int:
        """Returns the group's number; a new group gets `number` or a free one."""
        if name not in self.groups:
            self.groups[name] = (self.free_id() if number is None else number, [])
        return self.groups[name][0]

    def add_user(
        self, name: str, home: str, number: int | None = None, group: int | None = None
    ) -> None:
        """A user with `number` if that is free, in `group` or else a group of its own name."""
        if name in self.users:
            return
        if number is None or number in (taken for taken, _ in self.users.values()):
            number = self.free_id()
        gid = self.add_group(name, number) if group is None else group
        self.users[name] = (number, f"{gid}::{home}:/usr/sbin/nologin")


def _make_users(tree: Tree) -> None:
    """Writes passwd(5), group(5) and their shadows from base-passwd and sysusers.d(5)."""
    accounts = _Accounts(tree)
    rules: list[list[str]] = []
    for path in tree.files_below("usr/lib/sysusers.d"):
        lines = tree.read(path).decode().splitlines()
        rules += [rule for line in lines if (rule := shlex.split(line, comments=True))]
    for kind in "gum":
        for rule in (rule for rule in rules if rule[0][0] == kind):
            name, number, _, home = [*rule[1:5], "-", "-", "-"][:4]
            uid, _, gid = number.partition(":")
            uid_number = int(uid) if uid.isdecimal() else None
            if kind == "g":
                accounts.add_group(name, uid_number)
            elif kind == "u":
                group = int(gid) if gid.isdecimal() else accounts.groups[gid][0] if gid else None
                accounts.add_user(name, home if home != "-" else "/", uid_number, group)
            else:
                accounts.add_group(number)
                members = accounts.groups[number][1]
                members += [] if name in members else [name]
    for name, home, program in _USERS:
        if program in tree:
            accounts.add_user(name, home)
    for name in _GROUPS:
        accounts.add_group(name)
    users, groups = accounts.users.items(), accounts.groups.items()
    shadow = accounts.groups.get("shadow", (0, []))[0]
    secret = f"*:{MTIME // 86400}:0:99999:7:::"
    for file, lines, mode, owner in (
        ("passwd", [f"{name}:x:{number}:{rest}" for name, (number, rest) in users], 0o644, 0),
        ("group", [f"{name}:x:{n}:{','.join(members)}" for name, (n, members) in groups], 0o644, 0),
        ("shadow", [f"{name}:{secret}" for name, _ in users], 0o640, shadow),
        ("gshadow", [f"{name}:*::" for name, _ in groups], 0o640, shadow),
    ):
        tree.file(f"etc/{file}", "\n".join([*lines, ""]), mode, owner)


def enable(tree: Tree, unit: str) -> None:
    """As systemctl enable: the links of the unit's [Install] section; none without such a unit."""
    path = f"{_UNIT_FOLDER}/{unit}"
    section = ""
    for line in tree.read(path).decode().splitlines():
        section = line.strip() if line.startswith("[") else section
        key, _, value = line.partition("=")
        if section != "[Install]" or key not in ("WantedBy", "RequiredBy", "Alias"):
            continue
        for word in value.split():
            kind = "wants" if key == "WantedBy" else "requires"
            link = word if key == "Alias" else f"{word}.{kind}/{unit}"
            tree.link(f"etc/systemd/system/{link}", f"/{path}")
