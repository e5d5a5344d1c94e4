# SPDX-License-Identifier: GPL-2.0-or-later
"""source:6.12: which package that is, and that it is fetched, unpacked and read once."""

from __future__ import annotations

import contextlib
import io
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kentry.errors import FetchError, UserError
from kentry.host.apt import Candidate, Release
from kentry.kernels import debian
from kentry.kernels.repository import Revision
from kentry.kernels.spec import parse
from kentry.progress import Update
from tests.unit.kernels import fakes, sources
from tests.unit.kernels.conftest import Said

VERSIONS = {
    "6.12": ("6.12.9-1", "6.12.100-1~bpo12+1", "6.12.95-1"),
    "6.1": ("6.1.170-3",),
    "7.3": ("7.3~rc1-1",),
}


class Root:
    """An AptRoot with these packages, whose tarballs have the small tree."""

    versions = VERSIONS
    problems: tuple[str, ...] = ()
    downloads: tuple[str, ...] = ()
    tree = Path()

    def __init__(self, arch: str, release: Release) -> None:
        self.release = release

    def candidates(self, pattern: str, update: Update) -> list[Candidate]:
        return [
            Candidate(f"linux-source-{series}", version, "", f"{version:>064}", 1, "", "all")
            for series, versions in self.versions.items()
            for version in versions
        ]

    @contextlib.contextmanager
    def locked(self, update: Update) -> Iterator[None]:
        yield

    def download(self, found: Candidate, update: Update) -> Path:
        Root.downloads += (found.version,)
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:xz") as tar:
            tar.add(self.tree, arcname=found.package)
        name = f"./usr/src/{found.package}.tar.xz"
        return fakes.deb(self.tree.parent / "a.deb", {name: packed.getvalue()})


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> type[Root]:
    ignored = {".gitignore": "/*\n!/debian/\n"}
    monkeypatch.setattr(Root, "tree", sources.unpacked(tmp_path / "tree", ignored))
    monkeypatch.setattr(Root, "downloads", ())
    monkeypatch.setattr(debian, "AptRoot", Root)
    return Root


def revision(version: str) -> Revision:
    return debian.revision(parse(f"source:{version}"), Said())


@pytest.mark.parametrize(
    ("wanted", "version"),
    [
        ("6.12", "6.12.100-1~bpo12+1"),
        ("6.12.95", "6.12.95-1"),
        ("6.12.9", "6.12.9-1"),
        ("6.12.95-1", "6.12.95-1"),
        ("6.1", "6.1.170-3"),
        ("6.12.100-1~bpo12+1", "6.12.100-1~bpo12+1"),
        ("7.3", "7.3~rc1-1"),
        ("7", "7.3~rc1-1"),
        ("6", "6.12.100-1~bpo12+1"),
    ],
)
def test_the_newest_package_whose_version_begins_so(wanted: str, version: str) -> None:
    assert revision(wanted).origin["version"] == version


@pytest.mark.parametrize("wanted", ["6.2", "6.1.17", "6.12.9-", "6.120", ".*", "linux", "12"])
def test_what_there_is_otherwise(wanted: str) -> None:
    with pytest.raises(UserError) as raised:
        revision(wanted)
    assert wanted in raised.value.sentence
    assert "6.1, 6.12, 7.3" in raised.value.remedy


def test_lists_that_cannot_be_had(root: type[Root], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(root, "versions", {})
    monkeypatch.setattr(root, "problems", ("E: Could not resolve 'mirror.example.org'",))
    with pytest.raises(FetchError) as raised:
        revision("6.12")
    assert "KENTRY_MIRROR" in raised.value.remedy


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


def test_a_package_that_cannot_be_unpacked_leaves_nothing(
    root: type[Root], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*words: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(debian, "take_files", interrupted)
        with pytest.raises(KeyboardInterrupt):
            revision("6.12")
    assert not (root.tree.parent / "a.deb").exists()
    assert revision("6.12").version() == (6, 12)
    assert len(root.downloads) == 2
