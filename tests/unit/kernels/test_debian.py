# SPDX-License-Identifier: GPL-2.0-or-later
"""Packages of kernels: taken apart, and which one a version means; nothing is fetched."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import lzma
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kentry.arch import Arch
from kentry.errors import FetchError, UserError
from kentry.host.archive import Candidate, Release
from kentry.host.cache import cache_dir
from kentry.host.unpack import extract
from kentry.kernels import debian
from kentry.kernels.kernel import Kernel
from kentry.kernels.repository import Revision
from kentry.kernels.resolve import arch_of, resolve
from kentry.kernels.spec import parse
from kentry.progress import Update
from tests.unit.kernels import fakes, sources
from tests.unit.kernels.conftest import Said

SAID = Said()


def load(path: Path, arch: Arch = fakes.ARM64) -> Kernel:
    return resolve(f"deb:{path}", arch, SAID)


def test_a_kernel_package(tmp_path: Path, cache: Path) -> None:
    path = fakes.deb(tmp_path / "a.deb", fakes.boot_files())
    kernel = load(path)
    assert kernel.release == fakes.RELEASE
    assert kernel.image.read_bytes() == fakes.image()
    assert kernel.config is not None
    assert kernel.config.read_bytes() == fakes.CONFIG
    assert kernel.origin["package"] == f"linux-image-{fakes.RELEASE}-arm64"
    assert kernel.origin["version"] == "6.1.99-1"
    (folder,) = (cache / "kernels").iterdir()
    assert folder.name == kernel.origin["deb_sha256"]
    # Not the modules.
    assert sorted(kept.name for kept in folder.iterdir()) == [
        f"config-{fakes.RELEASE}",
        "manifest.json",
        f"vmlinuz-{fakes.RELEASE}",
    ]
    # The second time nothing is unpacked.
    SAID.clear()
    assert load(path) == kernel
    assert SAID == []


def test_an_image_beside_its_modules(tmp_path: Path) -> None:
    """Debian's linux-binary packages, since 6.19."""
    files = {"./usr/lib/modules/6.19.1/vmlinuz": fakes.image()}
    kernel = load(fakes.deb(tmp_path / "a.deb", files))
    assert (kernel.image.name, kernel.config) == ("vmlinuz", None)


def test_a_damaged_cache_is_said_and_repaired(tmp_path: Path) -> None:
    path = fakes.deb(tmp_path / "a.deb", fakes.boot_files())
    first = load(path)
    first.image.write_bytes(b"damaged")
    SAID.clear()
    assert load(path) == first
    assert first.image.read_bytes() == fakes.image()
    assert f"{first.image.parent} is damaged" in SAID[0]
    manifest = first.image.parent / "manifest.json"
    # Of an older version, without a checksum.
    old = json.loads(manifest.read_text())
    del old["checksum"]
    for damaged in ("{", json.dumps({**old, "image": "vmlinuy"}), json.dumps({**old, "sha256": 1})):
        manifest.write_text(damaged)
        assert load(path) == first


MODULES = f"./lib/modules/{fakes.RELEASE}"


def test_a_dictionary_of_4_gib_is_refused(tmp_path: Path) -> None:
    """liblzma's header says so, and xz -9 has 64 MiB."""
    form = "xz of 4 GiB"
    deb = fakes.deb(tmp_path / "a.deb", fakes.boot_files(), form=form)
    files = {f"{MODULES}/vmlinuz": fakes.image(), f"{MODULES}/config": fakes.CONFIG}
    for package in (deb, fakes.rpm(tmp_path / "a.rpm", files, form)):
        with pytest.raises(UserError, match=str(package)) as raised:
            resolve(f"{package.suffix[1:]}:{package}", fakes.ARM64, SAID)
        assert "limit" in raised.value.detail


@pytest.mark.parametrize("form", ["gz", "bz2", "xz", "zst"])
def test_whole_packages_of_all_forms_are_taken(tmp_path: Path, cache: Path, form: str) -> None:
    """What make bindeb-pkg makes is zst on some systems."""
    path = fakes.deb(tmp_path / "a.deb", fakes.boot_files(), form=form)
    assert load(path).image.read_bytes() == fakes.image()
    content = path.read_bytes()
    begins = content.index(f"data.tar.{form}".encode()) + 60
    # Cut at its end or within what is packed, of another form than its name says, or none at all.
    cuts = (content[:-2000], content[: (begins + len(content)) // 2])
    for damaged in (*cuts, content[:begins] + bytes(9000), fakes.image()):
        path.write_bytes(damaged)
        with pytest.raises(UserError, match=str(path)):
            load(path)
    assert len(list((cache / "kernels").iterdir())) == 1
    with pytest.raises(UserError, match=r"absent\.deb"):
        load(tmp_path / "absent.deb")


@pytest.mark.parametrize("form", ["gzip", "xz", "zstd"])
def test_a_package_of_make_binrpm_pkg(tmp_path: Path, form: str) -> None:
    files = {f"{MODULES}/vmlinuz": fakes.image(), f"{MODULES}/config": fakes.CONFIG}
    path = fakes.rpm(tmp_path / "a.rpm", files | {"./boot/vmlinuz-2": b"-> /etc/passwd"}, form)
    kernel = resolve(f"rpm:{path}", fakes.ARM64, SAID)
    assert kernel.image.read_bytes() == fakes.image()
    assert kernel.config and kernel.config.read_bytes() == fakes.CONFIG
    assert (kernel.origin["kind"], kernel.origin["version"]) == ("rpm", "6.1.99-1")
    assert arch_of(f"rpm:{path}") == fakes.ARM64
    with pytest.raises(UserError, match="aarch64.*riscv64"):
        resolve(f"rpm:{path}", fakes.RISCV64, SAID)


@pytest.mark.parametrize("form", ["gzip", "zstd"])
@pytest.mark.parametrize("kept", [0, 90, 200, -100])
def test_a_damaged_rpm_is_refused(tmp_path: Path, cache: Path, form: str, kept: int) -> None:
    path = fakes.rpm(tmp_path / "a.rpm", {f"{MODULES}/vmlinuz": fakes.image()}, form)
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(UserError, match="a.rpm"):
        resolve(f"rpm:{path}", fakes.ARM64, SAID)
    assert not list((cache / "kernels").glob("*/vmlinuz*"))


def test_a_package_of_known_hash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = fakes.deb(tmp_path / "a.deb", fakes.boot_files())
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert resolve(f"deb:{path},sha256={digest.upper()}", fakes.ARM64, SAID).release
    for wrong in ("0" * 64, "abc"):
        with pytest.raises(UserError, match="SHA-256"):
            resolve(f"deb:{path},sha256={wrong}", fakes.ARM64, SAID)
    # From the network it has one, and its transport is private.
    for value in ("https://a.example/a.deb", f"http://a.example/a.deb,sha256={digest}"):
        with pytest.raises(UserError, match="cannot be checked|can be checked"):
            resolve(f"deb:{value}", fakes.ARM64, SAID)
    urls = []

    def fetched(url: str, file: Path, size: int, sha256: str, *_: object) -> None:
        urls.append((url, sha256))
        file.write_bytes(path.read_bytes())

    monkeypatch.setattr(debian, "fetch", fetched)
    url = "https://a.example/a.deb"
    kernel = resolve(f"deb:{url},sha256={digest}", fakes.ARM64, SAID)
    assert (kernel.origin["file"], urls) == (url, [(url, digest)])


def test_what_extract_unpacks_stays_in_the_folder(tmp_path: Path) -> None:
    files = {
        "./lib/a/libx.so.1": b"x",
        "./usr/lib/a/libx.so": b"-> libx.so.1",
        "./usr/up": b"-> ../..",
        "./usr/etc": b"-> /etc",
        "./usr/up/escaped": b"x",
        "./usr/../../escaped": b"x",
        "/absolute": b"x",
        "./usr/deep": b"-> lib/a",
        "./usr/deep/higher": b"-> ../../../../x",
        "./usr/deep/through": b"x",
    }
    folder = tmp_path / "a/b"
    folder.mkdir(parents=True)
    extract(fakes.deb(tmp_path / "a.deb", files), folder, "")
    assert (folder / "usr/lib/a/libx.so").read_bytes() == b"x"
    assert (folder / "usr/lib/a/through").read_bytes() == b"x"
    links = {path.name for path in folder.rglob("*") if path.is_symlink()}
    assert links == {"libx.so", "deep"}
    assert [path for path in tmp_path.rglob("escaped") if folder not in path.parents] == []
    assert (folder / "absolute").read_bytes() == b"x"


def test_paths_never_leave_the_folder(tmp_path: Path, cache: Path) -> None:
    files = {
        "./boot/../../escaped/vmlinuz-1": fakes.image(),
        "/boot/vmlinuz-2": fakes.image(),
        "../boot/vmlinuz-3": fakes.image(),
        "./boot/vmlinuz-4/../../../vmlinuz-5": fakes.image(),
        "./boot/config-6": b"-> /etc/passwd",
        **fakes.boot_files(),
    }
    kernel = load(fakes.deb(tmp_path / "a.deb", files))
    manifest = json.loads((kernel.image.parent / "manifest.json").read_text())
    assert sorted(manifest["sha256"]) == [f"config-{fakes.RELEASE}", f"vmlinuz-{fakes.RELEASE}"]
    everything = {path.name for path in tmp_path.rglob("*")}
    assert not everything & {"escaped", *(f"vmlinuz-{number}" for number in range(1, 6))}
    assert "config-6" not in everything


def test_a_package_without_a_kernel_is_refused(tmp_path: Path, cache: Path) -> None:
    path = fakes.deb(tmp_path / "a.deb", {"./usr/bin/true": b"x"}, Package="coreutils")
    with pytest.raises(UserError, match="a.deb") as raised:
        load(path)
    assert "linux-image-" in raised.value.remedy
    assert list((cache / "kernels").iterdir()) == []


def test_a_package_of_another_architecture_is_refused(tmp_path: Path) -> None:
    path = fakes.deb(tmp_path / "a.deb", fakes.boot_files(), arch="amd64")
    with pytest.raises(UserError, match="amd64.*arm64"):
        load(path)


def candidate(package: str, version: str) -> Candidate:
    return Candidate(package, version, "0" * 64, 1, "bookworm", "arm64")


CANDIDATES = [
    candidate(package, version)
    for package, version in (
        ("linux-image-6.1.0-9-arm64", "6.1.27-1"),
        ("linux-image-6.1.0-47-arm64", "6.1.170-3"),
        ("linux-image-6.1.0-47-arm64-dbg", "6.1.170-3"),
        ("linux-image-6.1.0-48-arm64-unsigned", "6.1.172-1"),
        ("linux-image-6.1.0-48-rt-arm64", "6.1.172-1"),
        ("linux-image-6.1.0-48-cloud-arm64", "6.1.172-1"),
        ("linux-image-6.1.0-0.deb11.5-arm64", "6.1.12-1~bpo11+1"),
        ("linux-image-6.12.95+deb12-arm64", "6.12.95-1~bpo12+1"),
        ("linux-image-6.12.100+deb12-arm64", "6.12.100-1~bpo12+1"),
        ("linux-image-6.12.100+deb12-arm64-16k", "6.12.100-1~bpo12+1"),
        ("linux-image-6.12-arm64", "6.12.100-1~bpo12+1"),
        ("linux-image-arm64", "6.12.100-1~bpo12+1"),
        ("linux-image-6.19.1+deb13-arm64", "6.19.1-1"),
        ("linux-binary-6.19.1+deb13-arm64", "6.19.1-1"),
        ("linux-base-6.19.1+deb13-arm64", "6.19.1-1"),
    )
]


NEWEST = {
    # As uname -r has it, too.
    "6.1.0-9-arm64": ("6.1.27", "6.1.0-9"),
    "6.1.0-47-arm64": ("6.1", "6.1 arm64"),
    "6.1.0-48-rt-arm64": ("6.1 rt",),
    "6.1.0-48-cloud-arm64": ("6.1 cloud", "6.1 cloud-arm64"),
    "6.12.95+deb12-arm64": ("6.12.95", "6.12.95-1~bpo12+1"),
    "6.12.100+deb12-arm64": ("6.12",),
    "6.12.100+deb12-arm64-16k": ("6.12 16k",),
    "6.19.1+deb13-arm64": ("6",),
    # A dot is a dot.
    "": ("6.1.2", "6.1.0-4", "6.12.9", "6.13", "6.12 cloud", "6.1+170"),
}


@pytest.mark.parametrize(
    ("words", "name"), [(words, name) for name, asked in NEWEST.items() for words in asked]
)
def test_the_newest_version_that_begins_so(words: str, name: str) -> None:
    wanted, _, flavour = words.partition(" ")
    pattern = debian.name_pattern(fakes.ARM64, flavour or None)
    chosen = debian.fitting(CANDIDATES, wanted, pattern)
    assert (chosen[-1].package if chosen else "linux-image-") == f"linux-image-{name}"


def test_versions_are_ordered_as_debian_orders_them() -> None:
    name = "linux-image-6.12.90+deb13-arm64"
    versions = ["6.12.90-1~bpo12+1", "6.12.90-1", "6.12.90-2~rc1"]
    listed = [candidate(name, version) for version in versions]
    chosen = debian.fitting(listed, "6.12", debian.name_pattern(fakes.ARM64, None))
    assert chosen == listed


def test_a_kernel_may_be_in_two_packages() -> None:
    pattern = debian.name_pattern(fakes.ARM64, None)
    split, whole = (
        debian.fitting(CANDIDATES, version, pattern)[-1] for version in ("6.19", "6.12")
    )
    assert [part.package for part in debian.kernel_parts(CANDIDATES, split)] == [
        "linux-binary-6.19.1+deb13-arm64",
        "linux-base-6.19.1+deb13-arm64",
    ]
    assert debian.kernel_parts(CANDIDATES, whole) == (whole,)


ARM64 = fakes.ARM64
SOURCES = (
    *(("linux-source-6.12", one) for one in ("6.12.9-1", "6.12.100-1~bpo12+1", "6.12.95-1")),
    ("linux-source-6.1", "6.1.170-3"),
    ("linux-source-7.3", "7.3~rc1-1"),
)
CONFIGS = tuple((f"linux-config-{one}", "1") for one in ("6.12", "7.3", "6.1", "6.17", "7.1"))


class Root:
    """An Archive with these packages, whose tarballs have the small tree."""

    packages: tuple[tuple[str, str], ...] = ()
    problems: tuple[str, ...] = ()
    downloads: tuple[str, ...] = ()
    tree = Path()
    config = f"config.{ARM64.debian}_none_{ARM64.debian}.xz"

    def __init__(self, arch: str, release: Release) -> None:
        self.release = release

    def candidates(self, pattern: str, update: Update) -> list[Candidate]:
        return [
            Candidate(name, version, f"{name.replace('.', '-')}{version:>064}", 1, "", "all")
            for name, version in self.packages
        ]

    @contextlib.contextmanager
    def locked(self, update: Update) -> Iterator[None]:
        yield

    def download(self, found: Candidate, update: Update) -> Path:
        Root.downloads += (found.version,)
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:xz") as tar:
            tar.add(self.tree, arcname=found.package)
        config = lzma.compress(f"CONFIG_OF={found.package}\n".encode())
        files = {
            f"./usr/src/{found.package}.tar.xz": packed.getvalue(),
            f"./usr/src/{found.package}/{self.config}": config,
        }
        return fakes.deb(self.tree.parent / "a.deb", files)


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> type[Root]:
    ignored = {".gitignore": "/*\n!/debian/\n"}
    monkeypatch.setattr(Root, "tree", sources.unpacked(tmp_path / "tree", ignored))
    monkeypatch.setattr(Root, "packages", SOURCES)
    for name in ("problems", "downloads"):
        monkeypatch.setattr(Root, name, ())
    monkeypatch.setattr(debian, "Archive", Root)
    return Root


def revision(version: str) -> Revision:
    return debian.revision(parse(f"source:{version}"), Said())


@pytest.mark.parametrize(
    ("wanted", "version"),
    [
        *((one, "6.12.100-1~bpo12+1") for one in ("6.12", "6.12.100-1~bpo12+1", "6")),
        *(("6.12.95", "6.12.95-1"), ("6.12.9", "6.12.9-1"), ("6.12.95-1", "6.12.95-1")),
        *(("6.1", "6.1.170-3"), ("7.3", "7.3~rc1-1"), ("7", "7.3~rc1-1")),
    ],
)
def test_the_newest_package_whose_version_begins_so(wanted: str, version: str) -> None:
    assert revision(wanted).origin["version"] == version


@pytest.mark.parametrize(
    "wanted", ["6.2", "6.1.17", "6.12.9-", "6.120", ".*", "linux", "12", "newest"]
)
def test_what_there_is_otherwise(wanted: str) -> None:
    with pytest.raises(UserError) as raised:
        revision(wanted)
    assert wanted in raised.value.sentence
    assert "6.1, 6.12, 7.3" in raised.value.remedy


def test_lists_that_cannot_be_had(root: type[Root]) -> None:
    root.packages, root.problems = (), ("E: Could not resolve 'mirror.example.org'",)
    with pytest.raises(FetchError, match="Could not resolve") as raised:
        revision("6.12")
    assert "KENTRY_MIRROR" in raised.value.remedy
    with pytest.raises(FetchError, match="Could not resolve") as raised:
        debian.distro_config((6, 12), ARM64, Said())
    assert "--config tiny" in raised.value.remedy


def test_a_kernel_that_deb_unpacked_is_debians(
    root: type[Root], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = load(fakes.deb(tmp_path / "a.deb", fakes.boot_files()))
    package, version, digest = (kernel.origin[key] for key in ("package", "version", "deb_sha256"))
    listed = [Candidate(package, version, digest, 1, "bookworm", "arm64")]
    monkeypatch.setattr(root, "candidates", lambda *_: listed)
    again = resolve(f"debian:{version},flavour=test-arm64", ARM64, Said())
    assert again.image == kernel.image
    assert again.origin["suite"] == "bookworm"


def test_it_is_unpacked_and_read_once(root: type[Root]) -> None:
    found = revision("6.12")
    assert found.origin["package"] == "linux-source-6.12"
    assert found.origin["version"] == "6.12.100-1~bpo12+1"
    assert found.version() == (6, 12)
    work = found.repository.work
    assert (work / "kernel/fork.c").read_bytes() == (root.tree / "kernel/fork.c").read_bytes()
    assert not (work / ".package").exists()
    # It is checked out as it was unpacked: nothing is written again.
    before = sources.times(work)
    found.repository.check_out(found.commit, Said())
    assert sources.times(work) == before
    again = revision("6.12")
    assert (again.commit, again.tree) == (found.commit, found.tree)
    assert len(root.downloads) == 1
    # What git cannot read is had again.
    (found.repository.git.folder / "HEAD").write_bytes(b"")
    again = revision("6.12")
    assert (again.commit, again.tree) == (found.commit, found.tree)
    assert len(root.downloads) == 2
    found.repository.check_out(found.commit, Said())


def test_an_interrupt_leaves_nothing(root: type[Root], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*words: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(debian, "take_files", interrupted)
        with pytest.raises(KeyboardInterrupt):
            revision("6.12")
    assert not (root.tree.parent / "a.deb").exists()
    assert revision("6.12").version() == (6, 12)
    assert len(root.downloads) == 2


@pytest.mark.parametrize(
    ("wanted", "chosen"),
    [
        *(((6, 12), "6.12"), ((6, 1), "6.1"), ((6, 6), "6.1"), ((6, 13), "6.12")),
        *(((6, 18), "6.17"), ((7, 0), "6.17"), ((7, 4), "7.3"), ((8, 0), "7.3"), ((5, 10), "6.1")),
    ],
)
def test_the_nearest_older_config(root: type[Root], wanted: tuple[int, int], chosen: str) -> None:
    root.packages = CONFIGS
    text = debian.distro_config(wanted, ARM64, Said())
    assert text == f"CONFIG_OF=linux-config-{chosen}\n"


def test_a_config_is_fetched_once(root: type[Root], monkeypatch: pytest.MonkeyPatch) -> None:
    root.packages = CONFIGS
    assert len({debian.distro_config((6, 12), ARM64, Said()) for _ in range(3)}) == 1
    assert len(root.downloads) == 1
    (file,) = cache_dir("configs").glob("*/config")
    text = file.read_text()
    file.write_text(text + "CONFIG_OTHER=y\n")
    assert debian.distro_config((6, 12), ARM64, Said()) == text
    assert len(root.downloads) == 2
    monkeypatch.setattr(Root, "config", "config.amd64_none_amd64.xz")
    with pytest.raises(FetchError, match="config.arm64"):
        debian.distro_config((7, 4), ARM64, Said())
