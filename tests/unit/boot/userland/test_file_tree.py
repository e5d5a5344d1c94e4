# SPDX-License-Identifier: GPL-2.0-or-later
"""No path leaves the tree, the kernel can read the archive, and it has what scripts would make."""

import io
import stat
import tarfile
from pathlib import Path

import pytest

from kentry.boot.userland.file_tree import MTIME, Tree, begin, enable, finish
from kentry.errors import UserError
from tests.unit.boot.conftest import rows


def add(tree: Tree, *members: tuple[str, bytes, str]) -> None:
    """Adds members of a package's archive: name, type, content or where a link leads."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, kind, content in members:
            info = tarfile.TarInfo(name)
            info.type, info.mode, info.uid, info.gid = kind, 0o4755, 7, 8
            if kind in (tarfile.SYMTYPE, tarfile.LNKTYPE):
                info.linkname = content
            else:
                info.size = len(content)
            tar.addfile(info, io.BytesIO(content.encode()))
    out.seek(0)
    with tarfile.open(fileobj=out) as tar:
        for info in tar:
            tree.member(tar, info)


FILE, FOLDER, SYMBOLIC, HARD = (tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE)


def test_what_a_package_has_keeps_its_owner_and_mode(tree: Tree) -> None:
    add(tree, ("./usr", FOLDER, ""), ("./usr/bin/su", FILE, "odd"), ("./l", SYMBOLIC, "usr/bin"))
    found = rows(tree.archive())
    assert list(found) == ["l", "usr", "usr/bin", "usr/bin/su"]
    program = found["usr/bin/su"]
    assert (program.mode, program.uid, program.gid) == (stat.S_IFREG | 0o4755, 7, 8)
    assert (program.data, program.mtime) == (b"odd", MTIME)
    assert found["l"].data == b"usr/bin"
    assert found["usr"].mode == stat.S_IFDIR | 0o4755


def test_top_level_folders_are_links_into_usr(tree: Tree) -> None:
    add(tree, ("./lib64/ld.so", FILE, "x"), ("./bin", FOLDER, ""), ("./bin/sh", FILE, "y"))
    found = rows(tree.archive())
    assert found["lib64"].data == b"usr/lib64"
    assert found["usr/lib64/ld.so"].data == b"x"
    assert stat.S_ISLNK(found["bin"].mode)
    assert tree.read("/bin/sh") == tree.read("usr/bin/sh") == b"y"


def test_hard_links_are_one_file(tree: Tree) -> None:
    add(tree, ("./b", FILE, "text"), ("./a", HARD, "./b"), ("./c", HARD, "./absent"))
    found = rows(tree.archive())
    assert list(found) == ["a", "b"]
    assert found["a"].inode == found["b"].inode
    assert [row.links for row in found.values()] == [2, 2]
    # The kernel makes the second a link to the first, which has the content.
    assert [row.data for row in found.values()] == [b"text", b""]


@pytest.mark.parametrize("name", ["../evil", "./a/../../evil", "usr/.."])
def test_a_path_with_dot_dot_is_refused(tree: Tree, name: str) -> None:
    with pytest.raises(UserError, match=r"a path with '\.\.' in it"):
        add(tree, (name, FILE, "x"))


def test_links_lead_to_places_in_the_tree(tree: Tree, tmp_path: Path) -> None:
    add(
        tree,
        ("./out", SYMBOLIC, str(tmp_path)),
        ("./up", SYMBOLIC, "../../../../etc"),
        ("./out/x", FILE, "1"),
        ("./up/passwd", FILE, "2"),
        ("/absolute", FILE, "3"),
    )
    assert not (tmp_path / "x").exists()
    assert tree.read("etc/passwd") == b"2"
    assert tree.read(f"{tmp_path}/x") == b"1"
    assert "absolute" in tree
    # Links in a circle end.
    add(tree, ("./a", SYMBOLIC, "b"), ("./b", SYMBOLIC, "a"))
    with pytest.raises(UserError, match="too many links"):
        tree.file("a/x", "")


def test_what_of_a_package_is_left_out(tree: Tree) -> None:
    """A link in a folder's place, devices and sockets."""
    add(tree, ("./dev/sda", tarfile.BLKTYPE, ""), ("./pipe", tarfile.FIFOTYPE, ""))
    assert list(tree) == []
    add(tree, ("./d/f", FILE, "x"), ("./d", SYMBOLIC, "elsewhere"))
    assert tree.read("d/f") == b"x"


def test_what_kentry_adds(tree: Tree) -> None:
    tree.file("/root/program", b"#!/bin/sh\n", 0o700)
    tree.file("etc/new", "text", 0o640, gid=42, mtime=MTIME + 1)
    tree.device("dev/console", 0o600, (5, 1))
    tree.folder("tmp", 0o1777)
    tree.folder("tmp", 0o777)
    tree.link("a/link", "/etc/new")
    tree.file("a/link", "through")
    found = rows(tree.archive())
    assert found["root/program"].mode == stat.S_IFREG | 0o700
    assert found["dev/console"].mode == stat.S_IFCHR | 0o600
    assert found["dev/console"].device == (5, 1)
    assert found["tmp"].mode == stat.S_IFDIR | 0o777
    assert (found["etc/new"].data, found["etc/new"].mtime) == (b"through", MTIME)
    assert tree.files_below("/etc") == ["etc/new"]
    assert tree.read("etc") == tree.read("absent") == b""


def test_the_archive_and_the_memory_it_takes_are_known(tree: Tree) -> None:
    for name in ("b/2", "a", "b/1"):
        tree.file(name, "x" * 5000)
    first = b"".join(tree.archive())
    assert first == b"".join(tree.archive())
    assert list(rows([first])) == ["a", "b", "b/1", "b/2"]
    assert tree.unpacked_bytes() == 3 * 8192 + 4 * 1024


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
    base.file("usr/bin/pg_ctlcluster", "")
    finish(base)
    users = {line.split(":")[0]: line for line in lines(base, "etc/passwd")}
    assert users["root"] == "root:x:0:0:root:/root:/bin/bash"
    assert users["_b"] == "_b:x:999:999::/var/b:/usr/sbin/nologin"
    assert users["_c"] == "_c:x:100:42::/:/usr/sbin/nologin"
    # Its number has gone to root.
    assert users["_d"].startswith("_d:x:998:998:")
    assert users["_e"].startswith("_e:x:997:17:")
    assert "messagebus" in users
    assert users["postgres"].split(":")[5] == "/var/lib/postgresql"
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
