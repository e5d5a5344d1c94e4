# SPDX-License-Identifier: GPL-2.0-or-later
"""What packages' own scripts would have done after unpacking, as far as a workload needs it.

None of them runs: this is what deb-systemd-helper(1), update-alternatives(1), systemd-sysusers(8),
pam-auth-update(8) and base-passwd(8) leave behind, written from what is in the tree.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from kentry.runners.userland.tree import MTIME, Tree

# The first that is there gets the name: update-alternatives(1) by its priorities.
_ALTERNATIVES = {
    "usr/bin/awk": ("gawk", "mawk", "original-awk"),
    "usr/bin/which": ("which.debianutils",),
    "usr/bin/cc": ("gcc",),
    "usr/bin/c99": ("c99-gcc",),
    "usr/bin/ld": ("ld.bfd",),
    "usr/bin/sh": ("dash", "bash"),
    "usr/bin/pager": ("more",),
    "usr/bin/nc": ("nc.openbsd", "nc.traditional"),
}

# Users that scripts make with adduser(8), where no file below sysusers.d names them:
# user, home, and the program that runs as it.
_USERS = (
    ("messagebus", "/nonexistent", "usr/bin/dbus-daemon"),
    ("sshd", "/run/sshd", "usr/sbin/sshd"),
    ("redis", "/var/lib/redis", "usr/bin/redis-server"),
    ("www-data", "/var/www", "usr/sbin/nginx"),
)
_GROUPS = ("_ssh", "crontab", "input", "kvm", "netdev", "render", "sgx")

# Numbers for system users, from the highest down: adduser.conf(5), sysusers.d(5).
_FIRST_SYSTEM_ID = 999
_NO_LOGIN = "/usr/sbin/nologin"

_MACHINE_ID = "6b656e74727900000000000000000001\n"

_PAM = {
    "auth": "auth [success=1 default=ignore] pam_unix.so nullok\n"
    "auth requisite pam_deny.so\nauth required pam_permit.so\n",
    "account": "account [success=1 new_authtok_reqd=done default=ignore] pam_unix.so\n"
    "account requisite pam_deny.so\naccount required pam_permit.so\n",
    "password": "password [success=1 default=ignore] pam_unix.so obscure yescrypt\n"
    "password requisite pam_deny.so\npassword required pam_permit.so\n",
    "session": "session required pam_permit.so\nsession required pam_unix.so\n"
    "session optional pam_systemd.so\n",
    "session-noninteractive": "session required pam_permit.so\nsession required pam_unix.so\n",
}

_TEXTS = {
    "etc/hostname": "kentry\n",
    "etc/hosts": "127.0.0.1\tlocalhost\n127.0.1.1\tkentry\n::1\tlocalhost ip6-localhost\n",
    # Nothing answers: the guest has no network.
    "etc/resolv.conf": "",
    "etc/fstab": "",
    "etc/machine-id": _MACHINE_ID,
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nshadow: files\ngshadow: files\n"
    "hosts: files\nnetworks: files\nprotocols: files\nservices: files\n",
    "etc/shells": "/bin/sh\n/bin/bash\n",
    "etc/default/locale": "LANG=C.UTF-8\n",
    "etc/environment": "",
    "etc/network/interfaces": "auto lo\niface lo inet loopback\n",
    "etc/timezone": "Etc/UTC\n",
}

# What a script copies where no file of the user's is yet: ucf(1).
_FIRST_COPIES = {
    "etc/ssh/sshd_config": "usr/share/openssh/sshd_config",
    "etc/profile": "usr/share/base-files/profile",
    "root/.profile": "usr/share/base-files/dot.profile",
    "root/.bashrc": "usr/share/base-files/dot.bashrc",
}

# Of no use in a guest that has neither disk, network nor anybody to log in, or waits for them.
_MASKED = (
    "serial-getty@.service",
    "getty@.service",
    "console-getty.service",
    "systemd-firstboot.service",
    "systemd-networkd-wait-online.service",
    "systemd-hwdb-update.service",
    "proc-sys-fs-binfmt_misc.automount",
    "proc-sys-fs-binfmt_misc.mount",
    "systemd-binfmt.service",
    "apt-daily.timer",
    "apt-daily-upgrade.timer",
    "dpkg-db-backup.timer",
    "e2scrub_all.timer",
    "fstrim.timer",
)

_UNIT_FOLDER = "usr/lib/systemd/system"


def begin(tree: Tree) -> None:
    """What base-files makes before any other package is unpacked."""
    for name, target in (("var/run", "/run"), ("var/lock", "/run/lock")):
        tree.link(name, target)


def finish(tree: Tree) -> None:
    """Makes what was unpacked usable."""
    for name in ("bin", "sbin", "lib"):
        tree.folder(name)
    for name in ("dev", "proc", "sys", "run", "mnt", "root", "var/lib", "etc", "usr/local/bin"):
        tree.folder(name, 0o700 if name == "root" else 0o755)
    for name in ("tmp", "var/tmp"):
        tree.folder(name, 0o1777)
    tree.device("dev/console", 0o600, (5, 1))
    for path, text in _TEXTS.items():
        tree.file(path, text)
    for kind, text in _PAM.items():
        if f"etc/pam.d/common-{kind}" not in tree:
            tree.file(f"etc/pam.d/common-{kind}", text)
    for path, source in _FIRST_COPIES.items():
        if path not in tree and source in tree:
            tree.file(path, tree.read(source))
    _choose_alternatives(tree)
    _make_users(tree)
    _set_up_python(tree)
    if _UNIT_FOLDER in tree:
        _set_up_systemd(tree)


def _choose_alternatives(tree: Tree) -> None:
    for path, candidates in _ALTERNATIVES.items():
        folder = path.rpartition("/")[0]
        found = next((name for name in candidates if f"{folder}/{name}" in tree), None)
        if path not in tree and found:
            tree.link(path, found)


# --- users --------------------------------------------------------------------------------


@dataclass
class _Accounts:
    """passwd(5) and group(5) as they grow."""

    passwd: dict[str, str] = field(default_factory=dict)
    group: dict[str, tuple[int, list[str]]] = field(default_factory=dict)

    def free_id(self) -> int:
        used = {int(line.split(":")[2]) for line in self.passwd.values()}
        used |= {number for number, _ in self.group.values()}
        return next(number for number in range(_FIRST_SYSTEM_ID, 0, -1) if number not in used)

    def add_group(self, name: str, number: int | None = None) -> int:
        if name not in self.group:
            self.group[name] = (self.free_id() if number is None else number, [])
        return self.group[name][0]

    def add_user(self, name: str, number: int | None, group: int | None, home: str) -> None:
        if name in self.passwd:
            return
        taken = number is not None and any(
            int(line.split(":")[2]) == number for line in self.passwd.values()
        )
        if number is None or taken:
            number = self.free_id()
        gid = self.add_group(name, number) if group is None else group
        self.passwd[name] = f"{name}:x:{number}:{gid}::{home}:{_NO_LOGIN}"

    def add_member(self, user: str, group: str) -> None:
        self.add_group(group)
        members = self.group[group][1]
        if user not in members:
            members.append(user)


def _make_users(tree: Tree) -> None:
    accounts = _Accounts()
    masters = "usr/share/base-passwd"
    for line in tree.read(f"{masters}/passwd.master").decode().splitlines():
        name, _, rest = line.partition(":")
        accounts.passwd[name] = f"{name}:x:{rest.partition(':')[2]}"
    for line in tree.read(f"{masters}/group.master").decode().splitlines():
        name, _, number, _ = line.split(":")
        accounts.group[name] = (int(number), [])
    for rule in sorted(_sysusers(tree), key=lambda words: "gum".index(words[0][0])):
        _apply(rule, accounts)
    for name, home, program in _USERS:
        if program in tree:
            accounts.add_user(name, None, None, home)
    for name in _GROUPS:
        accounts.add_group(name)
    _write_accounts(accounts, tree)


def _sysusers(tree: Tree) -> Iterator[list[str]]:
    """The lines of sysusers.d(5) as words, at least four; a file's name hides no other's."""
    for path in tree.files_below("usr/lib/sysusers.d"):
        for line in tree.read(path).decode().splitlines():
            words = shlex.split(line, comments=True)
            if words and words[0][0] in "gum":
                yield words + ["-"] * (6 - len(words))


def _apply(words: list[str], accounts: _Accounts) -> None:
    kind, name, number, _gecos, home = words[0][0], *words[1:5]
    uid, _, gid = number.partition(":")
    if kind == "m":
        accounts.add_member(name, number)
    elif kind == "g":
        accounts.add_group(name, int(uid) if uid.isdecimal() else None)
    else:
        group = int(gid) if gid.isdecimal() else accounts.group[gid][0] if gid else None
        accounts.add_user(
            name, int(uid) if uid.isdecimal() else None, group, home if home != "-" else "/"
        )


def _write_accounts(accounts: _Accounts, tree: Tree) -> None:
    shadow = accounts.group.get("shadow", (0, []))[0]
    groups = [
        f"{name}:x:{number}:{','.join(members)}"
        for name, (number, members) in accounts.group.items()
    ]
    tree.file("etc/passwd", _lines(accounts.passwd.values()))
    tree.file("etc/group", _lines(groups))
    days = MTIME // 86400
    secret = _lines(f"{name}:*:{days}:0:99999:7:::" for name in accounts.passwd)
    tree.file("etc/shadow", secret, 0o640, gid=shadow)
    tree.file("etc/gshadow", _lines(f"{name}:*::" for name in accounts.group), 0o640, gid=shadow)


def _lines(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


# --- Python -------------------------------------------------------------------------------


def _set_up_python(tree: Tree) -> None:
    """What py3compile(1) aside makes of a Python: nothing but its link where it is missing."""
    if "usr/bin/python3" not in tree:
        versions = [path for path in tree if re.fullmatch(r"usr/bin/python3\.\d+", path)]
        if versions:
            tree.link("usr/bin/python3", versions[-1].rpartition("/")[2])


# --- systemd ------------------------------------------------------------------------------


def _set_up_systemd(tree: Tree) -> None:
    tree.link("etc/systemd/system/default.target", f"/{_UNIT_FOLDER}/multi-user.target")
    for unit in _MASKED:
        tree.link(f"etc/systemd/system/{unit}", "/dev/null")
    # Newer than /usr: nothing is to be made up for after an update (ConditionNeedsUpdate=).
    for folder in ("etc", "var"):
        tree.file(f"{folder}/.updated", "", mtime=MTIME + 1)
    # The journal stays in memory, as on a system that never made a folder for it.
    tree.folder("var/log")
    tree.folder("var/lib/systemd")


def enable(tree: Tree, unit: str) -> None:
    """As systemctl enable: the links that the unit's [Install] asks for.

    Nothing where there is no such unit: releases differ in which they have.
    """
    path = f"{_UNIT_FOLDER}/{unit}"
    if path not in tree:
        return
    for key, value in _install_section(tree.read(path).decode()):
        for word in value.split():
            if key == "Alias":
                tree.link(f"etc/systemd/system/{word}", f"/{path}")
            else:
                kind = "wants" if key == "WantedBy" else "requires"
                tree.link(f"etc/systemd/system/{word}.{kind}/{unit}", f"/{path}")


def _install_section(text: str) -> Iterator[tuple[str, str]]:
    section = ""
    for line in text.splitlines():
        if line.startswith("["):
            section = line.strip()
        key, sign, value = line.partition("=")
        if section == "[Install]" and sign and key in ("WantedBy", "RequiredBy", "Alias"):
            yield key, value
