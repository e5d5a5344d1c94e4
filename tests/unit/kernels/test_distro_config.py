# SPDX-License-Identifier: GPL-2.0-or-later
"""Which of Debian's configs, and that one is fetched once; the fetch is in test_apt.py."""

from __future__ import annotations

import contextlib
import lzma
from collections.abc import Iterator
from pathlib import Path

import pytest

from kentry.errors import FetchError
from kentry.host.apt import Candidate, Release
from kentry.kernels import debian
from kentry.progress import Update
from tests.unit.kernels import fakes
from tests.unit.kernels.conftest import Said

ARM64 = fakes.ARM64


def candidate(version: str) -> Candidate:
    name = f"linux-config-{version}"
    return Candidate(name, f"{version}.1-1", "", version.replace(".", "a") * 20, 1, "", "arm64")


class Root:
    """An AptRoot that has these versions."""

    versions: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    downloads: tuple[str, ...] = ()
    folder = Path()
    inside = f"config.{ARM64.debian}_none_{ARM64.debian}.xz"

    def __init__(self, arch: str, release: Release) -> None:
        self.arch = arch

    def candidates(self, pattern: str, update: Update) -> list[Candidate]:
        return [candidate(version) for version in self.versions]

    @contextlib.contextmanager
    def locked(self, update: Update) -> Iterator[None]:
        yield

    def download(self, found: Candidate, update: Update) -> Path:
        Root.downloads += (found.package,)
        packed = lzma.compress(f"CONFIG_OF={found.package}\n".encode())
        name = f"./usr/src/{found.package}/{self.inside}"
        return fakes.deb(self.folder / "a.deb", {name: packed})


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> type[Root]:
    monkeypatch.setattr(debian, "AptRoot", Root)
    monkeypatch.setattr(Root, "folder", tmp_path)
    for name in ("versions", "problems", "downloads"):
        monkeypatch.setattr(Root, name, ())
    return Root


@pytest.mark.parametrize(
    ("wanted", "chosen"),
    [
        ((6, 12), "6.12"),
        ((6, 1), "6.1"),
        ((6, 6), "6.1"),
        ((6, 13), "6.12"),
        ((6, 18), "6.17"),
        ((7, 0), "6.17"),
        ((7, 4), "7.3"),
        ((8, 0), "7.3"),
        ((5, 10), "6.1"),
    ],
)
def test_the_same_version_or_the_nearest_older_one(
    root: type[Root], wanted: tuple[int, int], chosen: str
) -> None:
    root.versions = ("6.12", "7.3", "6.1", "6.17", "7.1")
    text = debian.distro_config(wanted, ARM64, Said())
    assert text == f"CONFIG_OF=linux-config-{chosen}\n"


def test_it_is_fetched_once(root: type[Root]) -> None:
    root.versions = ("6.12",)
    texts = {debian.distro_config((6, 12), ARM64, Said()) for _ in range(3)}
    assert texts == {"CONFIG_OF=linux-config-6.12\n"}
    assert root.downloads == ("linux-config-6.12",)


def test_none_at_all_is_said_with_why(root: type[Root]) -> None:
    root.problems = ("E: Failed to fetch http://mirror.example.org: no route",)
    with pytest.raises(FetchError) as raised:
        debian.distro_config((6, 12), ARM64, Said())
    assert "--config tiny" in raised.value.remedy
    assert "no route" in str(raised.value) + raised.value.detail


def test_a_package_without_the_architectures_config(
    root: type[Root], monkeypatch: pytest.MonkeyPatch
) -> None:
    root.versions = ("6.12",)
    monkeypatch.setattr(Root, "inside", "config.amd64_none_amd64.xz")
    with pytest.raises(FetchError, match="config.arm64"):
        debian.distro_config((6, 12), ARM64, Said())
