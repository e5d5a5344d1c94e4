# SPDX-License-Identifier: GPL-2.0-or-later
from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from kentry.arch import ARCHES, Arch, host_arch
from kentry.errors import UserError
from kentry.kernels.image import resolve_running
from kentry.kernels.kernel import Kernel
from kentry.kernels.spec import parse
from tests.unit.kernels import fakes
from tests.unit.kernels.conftest import Said

OTHERS = [arch for arch in ARCHES.values() if arch.name != host_arch().name]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A machine of this architecture that runs the fake kernel."""
    folder = tmp_path / "root"
    (folder / "boot").mkdir(parents=True)
    (folder / "proc").mkdir()
    bzimage = host_arch().image_format == "bzImage"
    image = fakes.bzimage(fakes.x86_vmlinux()) if bzimage else fakes.image(host_arch())
    (folder / f"boot/vmlinuz-{fakes.RELEASE}").write_bytes(image)
    (folder / f"boot/config-{fakes.RELEASE}").write_bytes(fakes.CONFIG)
    (folder / "proc/version").write_text(fakes.BANNER + "\n")
    return folder


def find(root: Path, said: Said) -> Kernel:
    return resolve_running(parse("running"), host_arch(), said, root, fakes.RELEASE)


def test_the_image_and_config_in_boot(root: Path, said: Said) -> None:
    kernel = find(root, said)
    assert kernel.image == root / f"boot/vmlinuz-{fakes.RELEASE}"
    assert kernel.config == root / f"boot/config-{fakes.RELEASE}"
    assert kernel.origin["kind"] == "running"


def test_the_image_beside_its_modules_and_the_kernels_own_config(root: Path, said: Said) -> None:
    modules = root / f"usr/lib/modules/{fakes.RELEASE}"
    modules.mkdir(parents=True)
    (root / f"boot/vmlinuz-{fakes.RELEASE}").rename(modules / "vmlinuz")
    (root / f"boot/config-{fakes.RELEASE}").unlink()
    (root / "proc/config.gz").write_bytes(gzip.compress(fakes.CONFIG))
    kernel = find(root, said)
    assert kernel.image == modules / "vmlinuz"
    assert kernel.config is not None
    assert kernel.config.read_bytes() == fakes.CONFIG


def test_an_image_that_is_not_there_is_named(root: Path, said: Said) -> None:
    path = root / f"boot/vmlinuz-{fakes.RELEASE}"
    path.unlink()
    with pytest.raises(UserError) as raised:
        find(root, said)
    assert str(path) in raised.value.sentence
    assert "image:FILE" in raised.value.remedy
    assert "apt-get" not in raised.value.remedy


def test_an_image_that_may_not_be_read_is_named(
    root: Path, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(UserError, match=r"vmlinuz-.* Permission denied"):
        find(root, said)


def test_an_image_upgraded_since_the_boot_is_refused(root: Path, said: Said) -> None:
    (root / "proc/version").write_text(fakes.BANNER.replace("#1", "#2"))
    with pytest.raises(UserError, match="upgraded"):
        find(root, said)


@pytest.mark.parametrize("arch", OTHERS, ids=lambda arch: arch.name)
def test_another_architecture_is_refused(root: Path, said: Said, arch: Arch) -> None:
    with pytest.raises(UserError, match=arch.name):
        resolve_running(parse("running"), arch, said, root, fakes.RELEASE)
