# SPDX-License-Identifier: GPL-2.0-or-later
from __future__ import annotations

import json
from pathlib import Path

import pytest

from kentry.arch import Arch
from kentry.errors import UserError
from kentry.kernels.kernel import Kernel
from kentry.kernels.resolve import resolve
from tests.unit.kernels import fakes
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


def test_what_is_no_whole_package_is_refused(tmp_path: Path, cache: Path) -> None:
    path = fakes.deb(tmp_path / "a.deb", fakes.boot_files())
    for content in (fakes.image(), path.read_bytes()[:-2000]):
        path.write_bytes(content)
        with pytest.raises(UserError):
            load(path)
    assert list((cache / "kernels").iterdir()) == []
    with pytest.raises(UserError, match=r"absent\.deb"):
        load(tmp_path / "absent.deb")


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
