# SPDX-License-Identifier: GPL-2.0-or-later
"""No path leaves the tree, and the kernel can read the archive."""

import io
import stat
import tarfile
from pathlib import Path

import pytest

from kentry.boot.userland.file_tree import MTIME, Tree
from kentry.errors import UserError
from tests.unit.boot.userland.conftest import rows


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


def test_links_in_a_circle_end(tree: Tree) -> None:
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
