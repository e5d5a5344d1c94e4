# SPDX-License-Identifier: GPL-2.0-or-later
"""Does what packages' own scripts would do after unpacking, as far as the workloads need it.

No script runs.  The files are those that deb-systemd-helper(1), update-alternatives(1),
systemd-sysusers(8), pam-auth-update(8) and base-passwd(8) would leave behind.
"""

import shlex
from pathlib import Path

from kentry.boot.userland.file_tree import MTIME, Tree

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
)
_GROUPS = ("_ssh", "crontab", "input", "kvm", "netdev", "render", "sgx")

# System users get numbers from this one down: adduser.conf(5), sysusers.d(5).
_FIRST_SYSTEM_ID = 999

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
    """The lines of passwd(5), and the numbers and members of group(5)."""

    def __init__(self, tree: Tree) -> None:
        masters = "usr/share/base-passwd"
        self.passwd: dict[str, str] = {}
        self.group: dict[str, tuple[int, list[str]]] = {}
        for line in tree.read(f"{masters}/passwd.master").decode().splitlines():
            name, _, rest = line.partition(":")
            self.passwd[name] = f"{name}:x:{rest.partition(':')[2]}"
        for line in tree.read(f"{masters}/group.master").decode().splitlines():
            name, _, number, _ = line.split(":")
            self.group[name] = (int(number), [])

    def free_id(self) -> int:
        """The highest number that neither a user nor a group has."""
        used = {int(line.split(":")[2]) for line in self.passwd.values()}
        used |= {number for number, _ in self.group.values()}
        return next(number for number in range(_FIRST_SYSTEM_ID, 0, -1) if number not in used)

    def add_group(self, name: str, number: int | None = None) -> int:
        """The group's number; a new group gets `number` or a free one."""
        if name not in self.group:
            self.group[name] = (self.free_id() if number is None else number, [])
        return self.group[name][0]

    def add_user(
        self, name: str, home: str, number: int | None = None, group: int | None = None
    ) -> None:
        """A user with `number` if that is free, in `group` or else a group of its own name."""
        if name in self.passwd:
            return
        if number is None or number in (int(line.split(":")[2]) for line in self.passwd.values()):
            number = self.free_id()
        gid = self.add_group(name, number) if group is None else group
        self.passwd[name] = f"{name}:x:{number}:{gid}::{home}:/usr/sbin/nologin"


def _make_users(tree: Tree) -> None:
    """Writes passwd(5), group(5) and their shadows from base-passwd and sysusers.d(5)."""
    accounts = _Accounts(tree)
    rules: list[list[str]] = []
    for path in tree.files_below("usr/lib/sysusers.d"):
        lines = tree.read(path).decode().splitlines()
        rules += [words for line in lines if (words := shlex.split(line, comments=True))]
    for kind in "gum":
        for words in (rule for rule in rules if rule[0][0] == kind):
            name, number, _, home = [*words[1:5], "-", "-", "-"][:4]
            uid, _, gid = number.partition(":")
            uid_number = int(uid) if uid.isdecimal() else None
            if kind == "g":
                accounts.add_group(name, uid_number)
            elif kind == "u":
                group = int(gid) if gid.isdecimal() else accounts.group[gid][0] if gid else None
                accounts.add_user(name, home if home != "-" else "/", uid_number, group)
            else:
                accounts.add_group(number)
                members = accounts.group[number][1]
                members += [] if name in members else [name]
    for name, home, program in _USERS:
        if program in tree:
            accounts.add_user(name, home)
    for name in _GROUPS:
        accounts.add_group(name)
    groups = [f"{name}:x:{n}:{','.join(members)}" for name, (n, members) in accounts.group.items()]
    secrets = [f"{name}:*:{MTIME // 86400}:0:99999:7:::" for name in accounts.passwd]
    shadow = accounts.group.get("shadow", (0, []))[0]
    tree.file("etc/passwd", "\n".join([*accounts.passwd.values(), ""]))
    tree.file("etc/group", "\n".join([*groups, ""]))
    tree.file("etc/shadow", "\n".join([*secrets, ""]), 0o640, gid=shadow)
    group_secrets = [f"{name}:*::" for name in accounts.group]
    tree.file("etc/gshadow", "\n".join([*group_secrets, ""]), 0o640, gid=shadow)


def enable(tree: Tree, unit: str) -> None:
    """As systemctl enable: the links that the unit's [Install] section asks for.

    Nothing where there is no such unit: releases differ in which they have.
    """
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
