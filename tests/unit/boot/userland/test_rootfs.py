# SPDX-License-Identifier: GPL-2.0-or-later
"""Which packages are fetched, from which release, and which of their files are unpacked."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from kentry.arch import find_arch
from kentry.boot.userland import root_image as rootfs
from kentry.boot.userland.file_tree import Tree
from kentry.boot.userland.root_image import ESSENTIAL, Package, fetched, find_release, unpack
from kentry.errors import FetchError, UserError
from kentry.host.apt import RELEASES, USERLAND_RELEASES
from kentry.progress import Update
from tests.unit.kernels import fakes
from tests.unit.kernels.conftest import Said

ARM64, RISCV64 = find_arch("arm64"), find_arch("riscv64")
BOOKWORM = RELEASES[0]


class Root:
    """An apt with three packages; a suite of None is the ordinary way, which may fail."""

    there = ("sed", "grep", "hello", "usr-is-merged")
    broken: tuple[str | None, ...] = ()

    def __init__(self, arch: str, release: Any) -> None:
        self.arch, self.release = arch, release

    @contextlib.contextmanager
    def locked(self, update: Update) -> Iterator[None]:
        yield

    def candidates(self, pattern: str, update: Update) -> list[Any]:
        return [type("Candidate", (), {"package": name}) for name in self.there]

    def download_closure(
        self, packages: Sequence[str], update: Update, suite: str | None = None
    ) -> list[Path]:
        if suite in self.broken:
            raise FetchError(f"no {suite}", "")
        versions = "1%3a2-3" if suite is None else "0-1"
        return [Path(f"/x/{name}_{versions}_arm64.deb") for name in packages]


@pytest.fixture(autouse=True)
def root(monkeypatch: pytest.MonkeyPatch) -> type[Root]:
    class Fresh(Root):
        pass

    monkeypatch.setattr(rootfs, "AptRoot", Fresh)
    monkeypatch.setattr(rootfs, "ESSENTIAL", ("sed", "grep"))
    return Fresh


def test_essential_packages_are_fetched_too(said: Said) -> None:
    with fetched(ARM64, BOOKWORM, ["hello", "sed"], said) as packages:
        assert [package.name for package in packages] == ["grep", "hello", "sed", "usr-is-merged"]
        assert packages[0].version == "1:2-3"
    assert {"libc-bin", "dash", "coreutils", "mawk", "base-passwd"} <= set(ESSENTIAL)


def test_a_missing_package_is_named(said: Said, root: type[Root]) -> None:
    root.broken = (None, "bookworm")
    with pytest.raises(UserError) as raised, fetched(ARM64, BOOKWORM, ["hello", "nonsense"], said):
        pass
    assert "'nonsense'" in raised.value.sentence
    assert "--release" in raised.value.remedy
    # Without one the first error of apt is reported.
    with pytest.raises(FetchError, match="no None"), fetched(ARM64, BOOKWORM, ["hello"], said):
        pass


def test_without_its_updates_the_release_itself_is_used(said: Said, root: type[Root]) -> None:
    root.broken = (None,)
    with fetched(ARM64, BOOKWORM, ["hello"], said) as packages:
        assert {package.version for package in packages} == {"0-1"}


def test_the_default_release_is_the_oldest_with_kernels_for_the_architecture() -> None:
    assert find_release(None, ARM64).name == "bookworm"
    assert find_release(None, RISCV64).name == "trixie"
    assert find_release("bullseye", ARM64).name == "bullseye"
    with pytest.raises(UserError, match="sid") as raised:
        find_release("sid", ARM64)
    assert raised.value.remedy == "Use one of: bullseye, bookworm, trixie, forky."
    with pytest.raises(UserError, match="bullseye") as raised:
        find_release("bullseye", RISCV64)
    assert raised.value.remedy == "Use one of: trixie, forky."


def test_no_kernel_comes_from_the_userlands_own_releases() -> None:
    assert [release.name for release in RELEASES] == ["bookworm", "trixie"]
    assert set(RELEASES) < set(USERLAND_RELEASES)


def test_files_that_no_workload_reads_are_left_out(tree: Tree, tmp_path: Path, said: Said) -> None:
    kept = ["./usr/bin/gcc", "./usr/lib/locale/C.utf8/LC_CTYPE", "./usr/lib/a/libc.a"]
    dropped = [
        "./usr/share/doc/gcc/copyright",
        "./usr/share/man/man1/gcc.1.gz",
        "./usr/share/locale/de/LC_MESSAGES/gcc.mo",
        "./usr/lib/gcc/a/12/lto1",
        "./usr/lib/gcc/a/12/libasan.a",
        "./usr/lib/gcc/a/12/libhwasan_preinit.o",
        "./usr/lib/a/liblsan.so.0",
        "./usr/lib/a/libbfd.a",
        "./boot/vmlinuz",
    ]
    files = dict.fromkeys([*kept, *dropped, "./usr/lib/gcc/a/12/libgcc.a"], b"x")
    file = fakes.deb(tmp_path / "gcc_1_arm64.deb", files, Package="gcc")
    unpack([Package("gcc", "1", file)], tree, said)
    found = {f"./{path}" for path in tree if path in tree and tree.read(path)}
    assert found == {*kept, "./usr/lib/gcc/a/12/libgcc.a"}
    assert said == ["unpacking gcc"]


def test_a_package_is_damaged_or_cannot_leave_the_tree(
    tree: Tree, tmp_path: Path, said: Said
) -> None:
    file = fakes.deb(tmp_path / "a_1_arm64.deb", {"./a": b"x" * 100000}, Package="a")
    file.write_bytes(file.read_bytes()[:-60])
    with pytest.raises(UserError, match=r"a_1_arm64\.deb"):
        unpack([Package("a", "1", file)], tree, said)
    files = {"./out": f"-> {tmp_path}".encode(), "./out/evil": b"x"}
    file = fakes.deb(tmp_path / "a_1_arm64.deb", files, Package="a")
    unpack([Package("a", "1", file)], tree, said)
    assert not (tmp_path / "evil").exists()
    file = fakes.deb(tmp_path / "b_1_arm64.deb", {"../evil": b"x"}, Package="b")
    with pytest.raises(UserError, match=r"'\.\.'"):
        unpack([Package("b", "1", file)], tree, said)
