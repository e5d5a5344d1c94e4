# SPDX-License-Identifier: GPL-2.0-or-later
"""apt itself against a small signed archive made here; no network."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kentry.arch import Arch
from kentry.errors import FetchError, MissingToolError, UserError
from kentry.host import apt
from kentry.host.cache import read_json, write_json
from kentry.host.process import run
from kentry.kernels import debian
from kentry.kernels.kernel import Kernel
from kentry.kernels.resolve import resolve
from kentry.kernels.spec import parse
from tests.processes import gone, pid_in, script
from tests.unit.kernels import fakes
from tests.unit.kernels.conftest import Said
from tests.unit.kernels.sources import put

SAID = Said()

# Each runs tuxmake or apt.
pytestmark = pytest.mark.slow

SUITE = "bookworm"


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with two throwaway keys: good.gpg signs the archive, wrong.gpg does not."""
    for program in ("gpg", "apt-ftparchive", "apt-get"):
        if not shutil.which(program):
            pytest.skip(f"{program} is not installed: apt-get install gpg apt-utils")
    folder = tmp_path_factory.mktemp("keys")
    folder.chmod(0o700)
    for name in ("good", "wrong"):
        _gpg(folder, "--passphrase", "", "--quick-gen-key", f"{name}@example.org", "ed25519")
        _gpg(folder, "--output", str(folder / f"{name}.gpg"), "--export", f"{name}@example.org")
    yield folder
    subprocess.run(["gpgconf", "--homedir", str(folder), "--kill", "all"], check=False)


def _gpg(home: Path, *words: str) -> None:
    run(["gpg", "--homedir", str(home), "--batch", "--yes", "--pinentry-mode", "loopback", *words])


class Archive:
    """A Debian archive in a folder, with one suite."""

    def __init__(self, folder: Path, keys: Path) -> None:
        self.folder = folder
        self._keys = keys
        (folder / "pool").mkdir(parents=True)

    def add(self, version: str) -> Path:
        name = f"linux-image-{version.split('-')[0]}-arm64"
        path = self.folder / f"pool/{name}_{version}_arm64.deb"
        return fakes.deb(path, fakes.boot_files(), Package=name, Version=version)

    def publish(self) -> None:
        """Writes the lists and signs them."""
        suite = f"dists/{SUITE}"
        for arch in ("arm64", "riscv64"):
            text = self._ftparchive("--arch", arch, "packages", "pool")
            put(self.folder / suite / f"main/binary-{arch}/Packages", text)
        for name in ("InRelease", "Release"):
            (self.folder / suite / name).unlink(missing_ok=True)
        says = {"Codename": SUITE, "Suite": "oldstable", "Architectures": "arm64 riscv64"}
        says |= {"Components": "main", "Origin": "Debian"}
        options = [f"-oAPT::FTPArchive::Release::{name}={text}" for name, text in says.items()]
        release = self._ftparchive(*options, "release", suite)
        (self.folder / suite / "Release").write_text(release)
        words = ("--local-user", "good@example.org", "--output", f"{self.folder / suite}/InRelease")
        _gpg(self._keys, *words, "--clearsign", str(self.folder / suite / "Release"))

    def _ftparchive(self, *words: str) -> str:
        return run(["apt-ftparchive", *words], cwd=self.folder).stdout


@pytest.fixture
def archive(tmp_path: Path, keys: Path, monkeypatch: pytest.MonkeyPatch) -> Archive:
    made = Archive(tmp_path / "archive", keys)
    monkeypatch.delenv("KENTRY_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv(apt.MIRROR_VARIABLE, f"copy:{made.folder}")
    monkeypatch.setenv(apt.KEYRING_VARIABLE, str(keys / "good.gpg"))
    made.add("6.1.99-1")
    made.add("6.1.170-3")
    made.publish()
    return made


def load(version: str, arch: Arch = fakes.ARM64) -> Kernel:
    return resolve(f"debian:{version}", arch, SAID)


def root(arch: str = "arm64") -> apt.AptRoot:
    return apt.AptRoot(arch, apt.RELEASES[0])


def expire_lists() -> None:
    """As if the lists were fetched an hour ago: old enough to be fetched again."""
    for release in apt.RELEASES:
        path = apt.AptRoot("arm64", release).folder / "refreshed.json"
        if path.exists():
            write_json(path, {**read_json(path), "time": time.time() - 3600})


def test_the_newest_package_becomes_a_kernel(archive: Archive, tmp_path: Path) -> None:
    kernel = load("6.1")
    assert kernel.image.read_bytes() == fakes.image()
    assert kernel.spec == "debian:6.1"
    assert kernel.origin["package"] == "linux-image-6.1.170-arm64"
    assert kernel.origin["version"] == "6.1.170-3"
    assert kernel.origin["suite"] == SUITE
    # The packages are large, and what is in them is kept.
    assert list((tmp_path / "cache").rglob("*.deb")) == []


def test_all_versions_are_listed_oldest_first(archive: Archive) -> None:
    archive.add("6.12.1-1")
    archive.publish()
    found = debian.every_version(parse("debian:6.1"), fakes.ARM64, SAID)
    assert found == ["debian:6.1.99-1", "debian:6.1.170-3"]
    with pytest.raises(UserError, match="kernel 5.4"):
        debian.every_version(parse("debian:5.4"), fakes.ARM64, SAID)


def test_a_whole_version_in_the_cache_needs_no_apt(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = load("6.1.170-3")
    monkeypatch.setenv("PATH", "/nonexistent")
    assert load("6.1.170-3") == first
    with pytest.raises(MissingToolError, match="apt"):
        load("6.1.99-1")


def test_a_version_that_is_not_there_lists_those_that_are(archive: Archive) -> None:
    with pytest.raises(UserError) as raised:
        load("6.12")
    assert "6.12 for arm64" in raised.value.sentence
    assert "6.1.170-3" in raised.value.remedy
    assert "6.1.99-1 6.1.170-3" in raised.value.detail
    with pytest.raises(UserError, match=r"'rt'.*arm64"):
        load("6.1,flavour=rt")


def test_an_architecture_without_kernels(archive: Archive) -> None:
    # riscv64's list is there, and empty; the other suites are not there at all.
    with pytest.raises(FetchError, match="a Release file"):
        load("6.1", fakes.RISCV64)


def test_a_tampered_package_is_refused(archive: Archive, tmp_path: Path) -> None:
    path = archive.folder / "pool/linux-image-6.1.170-arm64_6.1.170-3_arm64.deb"
    data = bytearray(path.read_bytes())
    data[-100] ^= 1
    path.write_bytes(data)
    with pytest.raises(FetchError) as raised:
        load("6.1")
    assert "Hash Sum mismatch" in raised.value.sentence
    assert raised.value.exit_code == 2
    assert list((tmp_path / "cache/kentry/kernels").glob("*/vmlinuz*")) == []
    assert load("6.1.99").release == fakes.RELEASE


def test_a_list_that_was_tampered_with_is_refused(archive: Archive) -> None:
    path = archive.folder / f"dists/{SUITE}/main/binary-arm64/Packages"
    path.write_text(path.read_text().replace("6.1.170-3", "6.1.170-4"))
    with pytest.raises(FetchError, match="Hash Sum mismatch"):
        load("6.1")


def test_a_copied_cache_is_used_where_it_is(
    archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = load("6.1")
    (tmp_path / "cache").rename(tmp_path / "moved")
    shutil.rmtree(archive.folder)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "moved"))
    assert load("6.1").image_sha256 == first.image_sha256
    assert root().candidates("linux-image-.*", SAID)
    assert not (tmp_path / "cache").exists()


def test_damaged_settings_and_lists_are_made_again(archive: Archive) -> None:
    wanted = root().candidates("linux-image-.*", SAID)
    (root().folder / "apt.conf").write_text('Dir "/nonexistent"; {')
    assert root().candidates("linux-image-.*", SAID) == wanted
    for path in root().folder.glob("lists/*Packages*"):
        path.write_bytes(b"\xff\0garbage\n" * 100)
    for path in root().folder.glob("root/var/cache/apt/*.bin"):
        path.unlink()
    assert root().candidates("linux-image-.*", SAID) == wanted


def test_a_cache_that_may_not_be_written_is_read(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = load("6.1")

    def acquire(*words: object, **options: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    access = os.access
    monkeypatch.setattr("filelock.FileLock.acquire", acquire)
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK and access(path, mode))
    monkeypatch.setattr("kentry.host.apt.write_atomically", acquire)
    monkeypatch.setattr("kentry.kernels.debian.write_json", acquire)
    monkeypatch.setattr(apt, "_LISTS_LAST_SECONDS", 0)
    assert load("6.1") == first


def test_a_mirror_in_the_middle_of_an_update_has_whole_lists_under_the_other_name(
    archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    suites = archive.folder / "dists"
    shutil.copytree(suites / SUITE, suites / "oldstable")
    path = suites / SUITE / "main/binary-arm64/Packages"
    path.write_text(path.read_text().replace("6.1.170-3", "6.1.170-4"))
    kernel = load("6.1")
    assert kernel.origin["version"] == "6.1.170-3"
    assert kernel.origin["suite"] == SUITE
    assert "Hash Sum mismatch" in kernel.origin["note"]
    # So it stays where the cache is moved to.
    (tmp_path / "cache").rename(tmp_path / "moved")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "moved"))
    assert load("6.1").origin["version"] == "6.1.170-3"


def test_another_key(archive: Archive, keys: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(apt.KEYRING_VARIABLE, str(keys / "wrong.gpg"))
    with pytest.raises(FetchError) as raised:
        load("6.1")
    assert "NO_PUBKEY" in raised.value.sentence
    assert raised.value.exit_code == 2


def test_an_unsigned_archive_is_refused(archive: Archive) -> None:
    (archive.folder / f"dists/{SUITE}/InRelease").unlink()
    with pytest.raises(FetchError, match="not signed|a Release file"):
        load("6.1")


def test_lists_of_yesterday(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    load("6.1")
    archive.add("6.1.180-1")
    archive.publish()
    assert load("6.1").origin["version"] == "6.1.170-3"
    monkeypatch.setattr(apt, "_LISTS_LAST_SECONDS", 0)
    assert load("6.1").origin["version"] == "6.1.180-1"


def test_what_is_not_in_the_lists_is_looked_for_in_new_ones(archive: Archive) -> None:
    load("6.1")
    archive.add("6.1.180-1")
    archive.publish()
    expire_lists()
    assert load("6.1.180").origin["version"] == "6.1.180-1"


def test_what_the_mirror_has_no_more_is_chosen_again(archive: Archive) -> None:
    assert root().candidates("linux-image-.*", SAID)
    (archive.folder / "pool/linux-image-6.1.170-arm64_6.1.170-3_arm64.deb").unlink()
    archive.add("6.1.180-1")
    archive.publish()
    expire_lists()
    assert load("6.1").origin["version"] == "6.1.180-1"


def test_a_mirror_that_has_gone_leaves_the_lists_usable(archive: Archive) -> None:
    first = load("6.1")
    shutil.rmtree(archive.folder)
    expire_lists()
    assert not root().refresh(SAID) or root().problems
    assert load("6.1").image == first.image


def test_another_mirror_has_other_lists(
    archive: Archive, tmp_path: Path, keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load("6.1")
    other = Archive(tmp_path / "other", keys)
    other.add("6.1.50-1")
    other.publish()
    monkeypatch.setenv(apt.MIRROR_VARIABLE, f"copy:{other.folder}")
    assert load("6.1").origin["version"] == "6.1.50-1"


def test_candidates_say_what_the_lists_say(archive: Archive) -> None:
    found = root().candidates(r"linux-image-6\.1\.99-.*", SAID)
    assert [one.package for one in found] == ["linux-image-6.1.99-arm64"]
    (path,) = archive.folder.glob("pool/*_6.1.99-1_*")
    assert found[0].size == path.stat().st_size
    assert found[0].suite == SUITE
    assert root().candidates("linux-imag", SAID) == []


def test_a_closure_is_what_is_not_installed(archive: Archive) -> None:
    pool = archive.folder / "pool"
    fakes.deb(pool / "base_arm64.deb", {}, Package="base", Version="1:2+x~1")
    fakes.deb(pool / "top_arm64.deb", {}, Package="top", Version="1", Depends="base, there")
    fakes.deb(pool / "there_arm64.deb", {}, Package="there", Version="1")
    archive.publish()
    status = archive.folder / "status"
    status.write_text(
        "Package: there\nStatus: install ok installed\nVersion: 1\nArchitecture: arm64\n"
        "Maintainer: A Test <test@example.org>\nDescription: a test\n\n"
    )
    files = apt.AptRoot("arm64", apt.RELEASES[0], status).download_closure(["top"], SAID)
    assert sorted(path.name for path in files) == ["base_1%3a2+x~1_arm64.deb", "top_1_arm64.deb"]
    assert all(path.read_bytes().startswith(b"!<arch>") for path in files)
    with pytest.raises(FetchError, match="package absent"):
        root().download_closure(["absent"], SAID)


def test_two_at_once_do_not_meet(archive: Archive) -> None:
    script = (
        "from kentry.kernels.resolve import resolve; from kentry.arch import find_arch\n"
        "print(resolve('debian:6.1', find_arch('arm64'), lambda *_: None).image)"
    )
    package = str(Path(apt.__file__).parents[2])
    env = {**os.environ, "PYTHONPATH": package}
    argv = [sys.executable, "-c", script]
    both = [
        subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    out = [process.communicate() for process in both]
    assert [process.returncode for process in both] == [0, 0], out
    assert out[0][0] == out[1][0]


@pytest.mark.parametrize(
    ("lines", "first"),
    [
        ([], ""),
        (["E: Some index files failed to download."], "Some index files failed to download."),
        (["E: Some index files failed to download.", "E: Failed to fetch x"], "Failed to fetch x"),
        (["W: GPG error: NO_PUBKEY 1", "E: y is not signed."], "GPG error: NO_PUBKEY 1"),
    ],
)
def test_the_line_that_says_most(lines: list[str], first: str) -> None:
    assert apt.first_problem(lines) == first


def test_damaged_packages_leave_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """dpkg-deb starts a program that unpacks."""
    text = f"sleep 1000 & echo $! >{tmp_path}/pid; yes damaged | head -c 20480; wait"
    script(tmp_path / "dpkg-deb", text)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    with pytest.raises(UserError), apt.file_tree(tmp_path / "x.deb", "") as tree:
        tree.next()
    assert gone(pid_in(tmp_path / "pid"), 0)
