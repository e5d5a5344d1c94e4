# SPDX-License-Identifier: GPL-2.0-or-later
"""What becomes of an image file, and of the kernel that this machine runs."""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path

import pytest

from kentry.arch import ARCHES, Arch, host_arch
from kentry.errors import UserError
from kentry.kernels import symtab
from kentry.kernels.image import resolve_running
from kentry.kernels.kernel import Kernel
from kentry.kernels.resolve import resolve
from kentry.kernels.spec import parse
from tests.unit.kernels import fakes
from tests.unit.kernels.conftest import Said


def load(path: Path, said: Said, arch: Arch = fakes.ARM64, options: str = "") -> Kernel:
    return resolve(f"image:{path}{options}", arch, said)


@pytest.fixture
def image(tmp_path: Path) -> Path:
    path = tmp_path / "Image"
    path.write_bytes(fakes.image())
    return path


def test_a_kernel_says_what_it_is(image: Path, said: Said) -> None:
    kernel = load(image, said)
    digest = hashlib.sha256(image.read_bytes()).hexdigest()
    assert kernel.image == image
    assert (kernel.arch, kernel.image_sha256) == ("arm64", digest)
    assert (kernel.release, kernel.compiler) == (fakes.RELEASE, fakes.COMPILER)
    assert (kernel.banner, kernel.build_id) == (fakes.BANNER, fakes.BUILD_ID)
    assert (kernel.config, kernel.config_sha256) == (None, None)
    assert kernel.symbols_from == "kallsyms"
    assert kernel.origin == {
        "kind": "image",
        "file": str(image),
        "format": "Image",
        "file_sha256": digest,
    }


def test_an_x86_kernel(tmp_path: Path, said: Said) -> None:
    path = tmp_path / "bzImage"
    path.write_bytes(fakes.bzimage(fakes.x86_vmlinux()))
    kernel = load(path, said, fakes.X86_64)
    assert kernel.image == path
    assert kernel.symbols.address_of("_text") == 0xFFFFFFFF81000000


def test_a_compressed_image_is_booted_from_the_cache(
    tmp_path: Path, cache: Path, said: Said
) -> None:
    path = tmp_path / "Image.gz"
    path.write_bytes(gzip.compress(fakes.image()))
    kernel = load(path, said)
    assert cache in kernel.image.parents
    assert kernel.image.read_bytes() == fakes.image()
    assert kernel.image_sha256 == hashlib.sha256(fakes.image()).hexdigest()
    kernel.image.write_bytes(b"damaged")
    assert load(path, said).image.read_bytes() == fakes.image()


def test_the_second_time_nothing_is_read_again(
    image: Path, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = load(image, said)
    monkeypatch.delattr(symtab, "of_image")
    monkeypatch.delattr("kentry.kernels.payload.unpack")
    said.clear()
    assert load(image, said) == first
    assert said == []


@pytest.mark.parametrize("name", ["facts.json", "symbols-1", "symbols-1.sha256"])
def test_a_damaged_cache_is_made_anew(image: Path, cache: Path, said: Said, name: str) -> None:
    first = load(image, said)
    (kept,) = cache.glob(f"images/*/{name}")
    kept.write_bytes(kept.read_bytes()[:-20])
    assert load(image, said) == first


def test_symbols_of_a_vmlinux(tmp_path: Path, said: Said) -> None:
    path, vmlinux = tmp_path / "Image", tmp_path / "vmlinux"
    path.write_bytes(fakes.image(content=fakes.body(symbols=False)))
    vmlinux.write_bytes(fakes.vmlinux())
    kernel = load(path, said, options=f",symbols={vmlinux}")
    assert kernel.symbols_from == f"vmlinux {vmlinux}"
    assert kernel.symbols.address_of("local_function") == fakes.BASE + 0x40
    vmlinux.write_bytes(fakes.vmlinux("33" * 20))
    with pytest.raises(UserError, match="vmlinux"):
        load(path, said, options=f",symbols={vmlinux}")


def test_the_config_is_the_one_named_or_the_one_inside(tmp_path: Path, said: Said) -> None:
    path, config = tmp_path / "Image", tmp_path / "config"
    path.write_bytes(fakes.image(content=fakes.body(config=True)))
    inside = load(path, said)
    assert inside.config is not None
    assert inside.config.read_bytes() == fakes.CONFIG
    assert inside.config_sha256 == hashlib.sha256(fakes.CONFIG).hexdigest()
    config.write_text("CONFIG_OTHER=y\n")
    assert load(path, said, options=f",config={config}").config == config
    with pytest.raises(UserError, match="absent"):
        load(path, said, options=f",config={tmp_path}/absent")


def test_an_image_of_another_architecture_is_refused(image: Path, said: Said) -> None:
    with pytest.raises(UserError) as raised:
        load(image, said, fakes.X86_64)
    assert str(image) in raised.value.sentence and "x86_64" in raised.value.sentence
    assert "--arch arm64" in raised.value.remedy
    # And again, when the cache knows it.
    with pytest.raises(UserError, match="riscv64"):
        load(image, said, fakes.RISCV64)


def test_a_truncated_image_is_refused(tmp_path: Path, said: Said) -> None:
    path = tmp_path / "Image"
    path.write_bytes(fakes.efi_image()[:-100])
    with pytest.raises(UserError, match="100"):
        load(path, said)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, said: Said) -> None:
    with pytest.raises(UserError, match="absent"):
        load(tmp_path / "absent", said)
    with pytest.raises(UserError, match="directory"):
        load(tmp_path, said)


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
    def denied(path: Path, mode: str) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", denied)
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
