# SPDX-License-Identifier: GPL-2.0-or-later
"""The files that packages' own scripts would leave behind."""

import pytest

from kentry.boot.userland.file_tree import Tree, begin, enable, finish
from tests.unit.boot.userland.conftest import rows

PASSWD = "root:*:0:0:root:/root:/bin/bash\nnobody:*:65534:65534:nobody:/nonexistent:/bin/false\n"
GROUP = "root:*:0:\nshadow:*:42:\nnogroup:*:65534:\n"
UNIT = """
[Unit]
Description=x
WantedBy=not-here.target
[Install]
WantedBy=multi-user.target  other.target
RequiredBy=r.target
Alias=second.service
"""


@pytest.fixture
def base(tree: Tree) -> Tree:
    begin(tree)
    tree.file("usr/share/base-passwd/passwd.master", PASSWD)
    tree.file("usr/share/base-passwd/group.master", GROUP)
    tree.file("usr/bin/dash", "a shell")
    tree.file("usr/bin/mawk", "an awk")
    return tree


def lines(tree: Tree, path: str) -> list[str]:
    return tree.read(path).decode().splitlines()


def test_a_tree_gets_folders_links_and_etc(base: Tree) -> None:
    finish(base)
    found = rows(base.archive())
    assert found["var/run"].data == b"/run"
    assert found["tmp"].mode & 0o7777 == 0o1777
    assert found["root"].mode & 0o7777 == 0o700
    assert {"bin", "sbin", "lib", "proc", "sys", "run", "dev/console"} <= set(found)
    assert base.read("bin/sh") == b"a shell"
    assert base.read("usr/bin/awk") == b"an awk"
    assert "usr/bin/cc" not in base
    assert len(base.read("etc/machine-id")) == 33
    assert "127.0.0.1\tlocalhost" in lines(base, "etc/hosts")
    assert "etc/systemd" not in base


def test_a_packages_own_files_are_not_replaced(base: Tree) -> None:
    base.file("usr/bin/sh", "its own")
    base.file("etc/pam.d/common-auth", "its own")
    base.file("usr/share/openssh/sshd_config", "UsePAM yes\n")
    finish(base)
    assert base.read("usr/bin/sh") == base.read("etc/pam.d/common-auth") == b"its own"
    assert base.read("etc/ssh/sshd_config") == b"UsePAM yes\n"


def test_users_and_groups_come_from_base_passwd_and_sysusers(base: Tree) -> None:
    base.file(
        "usr/lib/sysusers.d/b.conf",
        '# a comment\nu _b - "B\'s own" /var/b\nm _b shadow\ng _number 17\nr - 500-900\n'
        "u! _c 100:shadow\nu _d 0\nu _e -:_number - -\n",
    )
    base.file("usr/bin/dbus-daemon", "")
    finish(base)
    users = {line.split(":")[0]: line for line in lines(base, "etc/passwd")}
    assert users["root"] == "root:x:0:0:root:/root:/bin/bash"
    assert users["_b"] == "_b:x:999:999::/var/b:/usr/sbin/nologin"
    assert users["_c"] == "_c:x:100:42::/:/usr/sbin/nologin"
    # Its number has gone to root.
    assert users["_d"].startswith("_d:x:998:998:")
    assert users["_e"].startswith("_e:x:997:17:")
    assert "messagebus" in users
    assert "sshd" not in users
    groups = {line.split(":")[0]: line for line in lines(base, "etc/group")}
    assert groups["shadow"] == "shadow:x:42:_b"
    assert groups["_number"] == "_number:x:17:"
    assert "input" in groups
    numbers = [line.split(":")[2] for line in users.values()]
    assert len(set(numbers)) == len(numbers)
    shadow = rows(base.archive())["etc/shadow"]
    assert (shadow.mode & 0o777, shadow.gid) == (0o640, 42)
    assert len(shadow.data.splitlines()) == len(users)


def test_units_are_enabled_and_masked(base: Tree) -> None:
    base.file("usr/lib/systemd/system/multi-user.target", "the target")
    base.file("usr/lib/systemd/system/one.service", UNIT)
    finish(base)
    enable(base, "one.service")
    enable(base, "absent.service")
    found = rows(base.archive())
    etc = "etc/systemd/system"
    assert base.read(f"{etc}/default.target") == b"the target"
    for name in (
        "multi-user.target.wants/one.service",
        "other.target.wants/one.service",
        "r.target.requires/one.service",
        "second.service",
    ):
        assert found[f"{etc}/{name}"].data == b"/usr/lib/systemd/system/one.service"
    assert found[f"{etc}/getty@.service"].data == b"/dev/null"
    assert f"{etc}/not-here.target.wants" not in found
    # ConditionNeedsUpdate= compares the times of these.
    assert found["etc/.updated"].mtime > found["usr"].mtime
