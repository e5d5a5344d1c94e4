# SPDX-License-Identifier: GPL-2.0-or-later
"""Which packages are fetched and what of them is unpacked; when an image is made again."""

import contextlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kentry.arch import find_arch
from kentry.boot.guest_tasks import TracedWorkload
from kentry.boot.userland import root_image
from kentry.boot.userland.file_tree import Tree
from kentry.boot.userland.root_image import (
    ESSENTIAL,
    build_userland,
    check_machine,
    fetched,
    find_release,
    unpack,
)
from kentry.boot.userland.workloads import WORKLOADS, Copy, Workload, find_workload
from kentry.errors import FetchError, UserError
from kentry.host.archive import RELEASES, USERLAND_RELEASES, Candidate
from kentry.host.native import runner_file
from kentry.progress import Update
from tests.unit.boot.conftest import rows
from tests.unit.kernels import fakes
from tests.unit.kernels.conftest import Said

ARM64, RISCV64 = find_arch("arm64"), find_arch("riscv64")
BOOKWORM = RELEASES[0]


CONTENTS = {
    "coreutils": {"./bin/ls": b"", "./bin/true": b""},
    "dash": {"./bin/dash": b"x" * 1000, "./usr/share/doc/dash/copyright": b"y"},
    "fio": {"./usr/bin/fio": b"x"},
    "units": {"./lib/systemd/system/cron.service": b"[Install]\nWantedBy=multi-user.target\n"},
}
WANTED = ("coreutils", "dash", "units")


class Root:
    """An archive with all packages but "nonsense"; a suite of None is the ordinary way."""

    folder: Path
    asked: list[tuple[str, ...]]  # the packages each time, without those that are always wanted
    broken: tuple[str | None, ...] = ()

    def __init__(self, arch: str, release: Any) -> None:
        self.arch, self.release = arch, release

    @contextlib.contextmanager
    def locked(self, update: Update) -> Iterator[None]:
        yield

    def download_closure(
        self, packages: Sequence[str], update: Update, suite: str | None = None
    ) -> dict[Path, Candidate]:
        self.asked.append(tuple(name for name in packages if name not in (*WANTED, MERGED)))
        if "nonsense" in packages:
            raise UserError("no 'nonsense'", "")
        if suite in self.broken:
            raise FetchError(f"no {suite}", "")
        version = "1:2-3" if suite is None else "0-1"
        files = {name: CONTENTS.get(name, {"./x": b""}) for name in packages}
        return {
            fakes.deb(self.folder / f"{name}.deb", own, Package=name): package(name, version)
            for name, own in files.items()
        }


MERGED = "usr-is-merged"


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> type[Root]:
    class Fresh(Root):
        folder, asked = tmp_path, []

    monkeypatch.setattr(root_image, "Archive", Fresh)
    monkeypatch.setattr(root_image, "ESSENTIAL", WANTED)
    return Fresh


def package(name: str, version: str = "1") -> Candidate:
    return Candidate(name, version, "", 1, "", "arm64")


def test_essential_packages_are_fetched_too(said: Said) -> None:
    with fetched(ARM64, BOOKWORM, ["hello", "dash"], said) as packages:
        names = [package.package for package in packages.values()]
        assert names == ["coreutils", "dash", "hello", "units", MERGED]
        assert {package.version for package in packages.values()} == {"1:2-3"}
    assert {"libc-bin", "dash", "coreutils", "mawk", "base-passwd"} <= set(ESSENTIAL)


def test_a_missing_package_is_named(said: Said, root: type[Root]) -> None:
    root.broken = (None, "bookworm")
    names = ["hello", "nonsense"]
    with pytest.raises(UserError, match="'nonsense'"), fetched(ARM64, BOOKWORM, names, said):
        pass
    # Without one the first error is reported.
    with pytest.raises(FetchError, match="no None"), fetched(ARM64, BOOKWORM, ["hello"], said):
        pass
    # Without its updates the release itself is used.
    root.broken = (None,)
    with fetched(ARM64, BOOKWORM, ["hello"], said) as packages:
        assert {package.version for package in packages.values()} == {"0-1"}


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
    # No kernel comes from the user space's own releases.
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
    unpack({file: package("gcc")}, tree, said)
    found = {f"./{path}" for path in tree if path in tree and tree.read(path)}
    assert found == {*kept, "./usr/lib/gcc/a/12/libgcc.a"}
    assert said == ["unpacking gcc"]


def test_a_package_cannot_leave_the_tree(tree: Tree, tmp_path: Path, said: Said) -> None:
    file = fakes.deb(tmp_path / "a_1_arm64.deb", {"./a": b"x" * 100000}, Package="a")
    file.write_bytes(file.read_bytes()[:-60])
    with pytest.raises(UserError, match=r"a_1_arm64\.deb"):
        unpack({file: package("a")}, tree, said)
    files = {"./out": f"-> {tmp_path}".encode(), "./out/evil": b"x"}
    file = fakes.deb(tmp_path / "a_1_arm64.deb", files, Package="a")
    unpack({file: package("a")}, tree, said)
    assert not (tmp_path / "evil").exists()
    file = fakes.deb(tmp_path / "b_1_arm64.deb", {"../evil": b"x"}, Package="b")
    with pytest.raises(UserError, match=r"'\.\.'"):
        unpack({file: package("b")}, tree, said)


MEMORY = 512


def make(workload: Workload, said: Said, memory: int = MEMORY) -> TracedWorkload:
    return build_userland(ARM64, workload, RELEASES[0], memory, said)


def test_what_an_image_holds(said: Said, tmp_path: Path, root: type[Root]) -> None:
    folder = tmp_path / "data"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub/file").write_text("content")
    userland = make(find_workload(["ls", "-l"], [Copy(folder, "/data")], ["acl"]), said)
    assert root.asked == [("acl",)]
    found = rows([userland.initramfs.read_bytes()])
    assert found["init"].data == found["kentry/runner"].data == runner_file(ARM64).read_bytes()
    assert found["init"].mode & 0o777 == 0o755
    words = b'run\0/bin/sh\0-c\0exec "$@"\0sh\0ls\0-l\0'
    assert found["kentry/workload"].data == words
    # First it says what the processor is affected by.
    prepare = found["kentry/prepare"].data
    assert b"vulnerabilities" in prepare
    assert (prepare[:7], prepare[-10:]) == (b"set -e\n", b"\nldconfig\n")
    assert found["data/sub/file"].data == b"content"
    assert "usr/share/doc/dash/copyright" not in found
    assert userland.words == ()
    described = userland.description
    assert described["initramfs_bytes"] == userland.initramfs.stat().st_size
    assert described["command"][-2:] == ["ls", "-l"]
    assert (described["name"], described["release"]) == ("command", "bookworm")
    assert described["packages"] == dict.fromkeys((*WANTED, MERGED, "acl"), "1:2-3")


def test_a_program_that_no_package_has_comes_with_the_package_of_its_name(
    said: Said, root: type[Root]
) -> None:
    userland = make(find_workload(["fio", "--version"], packages=["acl"]), said)
    assert root.asked == [("acl",), ("acl", "fio")]
    assert "usr/bin/fio" in rows([userland.initramfs.read_bytes()])
    assert userland.description["packages"]["fio"] == "1:2-3"
    # As a script, too; but not what is there already.
    for line in ("fio --version | cat", "ls | fio"):
        make(find_workload([line]), said)
    assert root.asked[2:] == [(), ("fio",), ()]


@pytest.mark.parametrize(
    "words",
    [["nonsense", "-v"], ["nonsense"], ["hollow"], ["No-Package"], ["./absent"], ["/bin/absent"]],
)
def test_a_program_that_is_nowhere_is_an_error(
    words: list[str], said: Said, cache: Path, root: type[Root]
) -> None:
    with pytest.raises(UserError, match=re.escape(f"'{words[0]}'")) as raised:
        make(find_workload(words), said)
    assert "bookworm" in raised.value.sentence
    assert "--packages" in raised.value.remedy and "--copy" in raised.value.remedy
    assert not list(cache.rglob("*.cpio"))
    assert len(root.asked) == (2 if words[0] in ("nonsense", "hollow") else 1)


def test_a_program_may_be_copied_or_have_a_path(said: Said, tmp_path: Path) -> None:
    program = tmp_path / "bench"
    program.write_text("x")
    for guest, word in (("/root", "./bench"), ("/opt/x", "/opt/x"), ("/usr/local/bin/b", "b")):
        make(find_workload([word, "1"], [Copy(program, guest)]), said)


def test_a_copy_into_a_folder_keeps_its_name_and_mode(said: Said, tmp_path: Path) -> None:
    program = tmp_path / "once"
    program.write_text("x")
    program.chmod(0o700)
    copies = [Copy(program, "/usr/bin"), Copy(program, "/")]
    found = rows([make(find_workload(["true"], copies), said).initramfs.read_bytes()])
    assert found["usr/bin/once"].mode == found["once"].mode == 0o100700


def test_a_link_in_a_folder_that_is_copied_stays_one(said: Said, tmp_path: Path) -> None:
    """As cp -r: a folder of others' may have a link to a secret of this machine."""
    secret, folder = tmp_path / "secret", tmp_path / "folder"
    secret.write_text("secret")
    folder.mkdir()
    (folder / "link").symlink_to(secret)
    (folder / "dangling").symlink_to("nowhere")
    link = tmp_path / "link"
    link.symlink_to(folder)
    workload = find_workload(["true"], [Copy(link, "/data"), Copy(folder / "link", "/named")])
    first = make(workload, said)
    found = rows([first.initramfs.read_bytes()])
    assert found["data/link"].data == bytes(secret)
    assert found["data/dangling"].data == b"nowhere"
    assert found["data/link"].mode == 0o120777
    assert (found["named"].data, found["named"].mode & 0o170000) == (b"secret", 0o100000)
    (folder / "dangling").unlink()
    (folder / "dangling").symlink_to("elsewhere")
    assert make(workload, said).initramfs != first.initramfs


def test_systemd_takes_the_runners_place_as_init(said: Said) -> None:
    userland = make(WORKLOADS["boot"], said)
    found = rows([userland.initramfs.read_bytes()])
    assert found["kentry/workload"].data == b"exec\0/usr/lib/systemd/systemd\0"
    wants = "etc/systemd/system/multi-user.target.wants"
    assert {f"{wants}/cron.service", f"{wants}/kentry-end.service"} <= set(found)
    assert userland.words == ("TERM=dumb",)


def test_an_image_is_made_once_for_the_same_input(
    said: Said, tmp_path: Path, root: type[Root], cache: Path
) -> None:
    program = tmp_path / "program"
    program.write_text("one")
    workload = find_workload(["true"], [Copy(program, "/root/program")])
    first = make(workload, said)
    assert make(workload, said) == first
    assert len(root.asked) == 1
    program.write_text("two")
    assert make(workload, said).initramfs != first.initramfs
    program.write_text("one")
    assert make(workload, said) == first
    assert len(root.asked) == 2
    # What has been cut short since, or has another byte or number in it, is made again, the same.
    description = first.initramfs.with_suffix(".json")
    content, text = first.initramfs.read_bytes(), description.read_text()
    for file, damaged in (
        (first.initramfs, content[:100]),
        (first.initramfs, content[:-1] + b"\1"),
        (description, text.replace('_bytes": ', '_bytes": 1').encode()),
    ):
        file.write_bytes(damaged)
        assert make(workload, said) == first
        assert (first.initramfs.read_bytes(), description.read_text()) == (content, text)
    assert not list(cache.rglob("*.part"))


def test_an_image_too_big_for_the_guest_is_an_error(said: Said) -> None:
    workload = replace(find_workload(["true"]), room=100)
    with pytest.raises(UserError, match="does not fit") as raised:
        make(workload, said, 1)
    need = int(raised.value.remedy.split()[2].strip(","))
    assert 228 < need < 240
    make(workload, said, need)
    with pytest.raises(UserError, match=f" {need - 1} MiB of memory"):
        make(workload, said, need - 1)
    # So is a guest too big for this machine.
    check_machine(1)
    with pytest.raises(UserError, match="MiB"):
        check_machine(1 << 30)
