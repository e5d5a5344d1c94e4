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
from tests.unit.kernels.sources import put, write

SAID = Said()


def load(path: Path, arch: Arch = fakes.ARM64, options: str = "") -> Kernel:
    return resolve(f"image:{path}{options}", arch, SAID)


@pytest.fixture
def image(tmp_path: Path) -> Path:
    return put(tmp_path / "Image", fakes.image())


def test_a_kernel_says_what_it_is(image: Path) -> None:
    kernel = load(image)
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


def test_an_x86_kernel(tmp_path: Path) -> None:
    path = put(tmp_path / "bzImage", fakes.bzimage(fakes.x86_vmlinux()))
    kernel = load(path, fakes.X86_64)
    assert kernel.image == path
    assert kernel.symbols.address_of("_text") == 0xFFFFFFFF81000000


def test_a_compressed_image_is_in_the_cache(tmp_path: Path, cache: Path) -> None:
    path = put(tmp_path / "Image.gz", gzip.compress(fakes.image()))
    kernel = load(path)
    assert cache in kernel.image.parents
    assert kernel.image.read_bytes() == fakes.image()
    assert kernel.image_sha256 == hashlib.sha256(fakes.image()).hexdigest()
    kernel.image.write_bytes(b"damaged")
    assert load(path).image.read_bytes() == fakes.image()


def test_nothing_is_read_twice(image: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = load(image)
    monkeypatch.delattr(symtab, "of_image")
    monkeypatch.delattr("kentry.kernels.payload.unpack")
    SAID.clear()
    assert load(image) == first
    assert SAID == []


@pytest.mark.parametrize("name", ["manifest.json", "symbols-2", "symbols-2.sha256"])
def test_a_damaged_cache_is_made_anew(image: Path, cache: Path, name: str) -> None:
    first = load(image)
    (kept,) = cache.glob(f"images/*/{name}")
    whole = kept.read_bytes()
    for damaged in (whole[:-20], whole.replace(b'"arm64"', b'"arm65"').replace(b'"T', b'"U')):
        kept.write_bytes(damaged)
        assert load(image) == first


@pytest.mark.parametrize("names", [["manifest.json"], ["symbols-2", "symbols-2.sha256"]])
def test_another_images_files_are_not_believed(
    image: Path, tmp_path: Path, cache: Path, names: list[str]
) -> None:
    first = load(image)
    other = put(tmp_path / "Other", fakes.image(content=fakes.body(base=fakes.BASE + 0x10000)))
    load(other)
    for name in names:
        [own] = cache.glob(f"images/{hashlib.sha256(image.read_bytes()).hexdigest()}/{name}")
        [its] = cache.glob(f"images/{hashlib.sha256(other.read_bytes()).hexdigest()}/{name}")
        own.write_bytes(its.read_bytes())
    SAID.clear()
    assert load(image) == first
    assert SAID != []


def test_symbols_of_a_vmlinux(tmp_path: Path) -> None:
    path = put(tmp_path / "Image", fakes.image(content=fakes.body(symbols=False)))
    vmlinux = put(tmp_path / "vmlinux", fakes.vmlinux())
    kernel = load(path, options=f",symbols={vmlinux}")
    assert kernel.symbols_from == f"vmlinux {vmlinux}"
    assert kernel.symbols.address_of("local_function") == fakes.BASE + 0x40
    # Of another build with the same banner.
    put(vmlinux, fakes.vmlinux("33" * 20))
    with pytest.raises(UserError, match="vmlinux"):
        load(path, options=f",symbols={vmlinux}")


def test_the_config_is_the_one_named_or_the_one_inside(tmp_path: Path) -> None:
    path = put(tmp_path / "Image", fakes.image(content=fakes.body(config=True)))
    inside = load(path)
    assert inside.config and inside.config.read_bytes() == fakes.CONFIG
    assert inside.config_sha256 == hashlib.sha256(fakes.CONFIG).hexdigest()
    inside.config.write_bytes(fakes.CONFIG + b"CONFIG_OTHER=y\n")
    assert load(path) == inside
    config = put(tmp_path / "config", "CONFIG_OTHER=y\n")
    assert load(path, options=f",config={config}").config == config
    with pytest.raises(UserError, match="absent"):
        load(path, options=f",config={tmp_path}/absent")


def test_an_image_of_another_architecture_is_refused(image: Path) -> None:
    with pytest.raises(UserError) as raised:
        load(image, fakes.X86_64)
    assert str(image) in raised.value.sentence and "x86_64" in raised.value.sentence
    assert "--arch arm64" in raised.value.remedy
    # And again, when the cache knows it.
    with pytest.raises(UserError, match="riscv64"):
        load(image, fakes.RISCV64)


@pytest.mark.parametrize(("name", "words"), [("absent", "absent"), (".", "directory")])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, name: str, words: str) -> None:
    with pytest.raises(UserError, match=words):
        load(tmp_path / name)


OTHERS = [arch for arch in ARCHES.values() if arch.name != host_arch().name]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine of this architecture that runs the fake kernel."""
    monkeypatch.setattr("platform.release", lambda: fakes.RELEASE)
    bzimage = host_arch().image_format == "bzImage"
    files: dict[str, str | bytes] = {
        f"boot/vmlinuz-{fakes.RELEASE}": (
            fakes.bzimage(fakes.x86_vmlinux()) if bzimage else fakes.image(host_arch())
        ),
        f"boot/config-{fakes.RELEASE}": fakes.CONFIG,
        "proc/version": fakes.BANNER + "\n",
    }
    write(tmp_path / "root", files)
    return tmp_path / "root"


def find(root: Path) -> Kernel:
    return resolve_running(parse("running"), host_arch(), SAID, root)


def test_the_image_and_config_in_boot(root: Path) -> None:
    kernel = find(root)
    assert kernel.image == root / f"boot/vmlinuz-{fakes.RELEASE}"
    assert kernel.config == root / f"boot/config-{fakes.RELEASE}"
    assert kernel.origin["kind"] == "running"


def test_the_image_beside_its_modules_and_the_kernels_own_config(root: Path) -> None:
    modules = root / f"usr/lib/modules/{fakes.RELEASE}"
    modules.mkdir(parents=True)
    (root / f"boot/vmlinuz-{fakes.RELEASE}").rename(modules / "vmlinuz")
    (root / f"boot/config-{fakes.RELEASE}").unlink()
    put(root / "proc/config.gz", gzip.compress(fakes.CONFIG))
    kernel = find(root)
    assert kernel.image == modules / "vmlinuz"
    assert kernel.config and kernel.config.read_bytes() == fakes.CONFIG


def test_an_image_that_is_not_there_is_named(root: Path) -> None:
    path = root / f"boot/vmlinuz-{fakes.RELEASE}"
    path.unlink()
    with pytest.raises(UserError) as raised:
        find(root)
    assert str(path) in raised.value.sentence
    assert "image:FILE" in raised.value.remedy


def test_an_image_that_is_not_readable(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(path: Path, mode: str) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", denied)
    with pytest.raises(UserError, match=r"vmlinuz-.* Permission denied"):
        find(root)


def test_an_image_upgraded_since_the_boot_is_refused(root: Path) -> None:
    (root / "proc/version").write_text(fakes.BANNER.replace("#1", "#2"))
    with pytest.raises(UserError, match="upgraded"):
        find(root)


@pytest.mark.parametrize("arch", OTHERS, ids=lambda arch: arch.name)
def test_another_architecture_is_refused(root: Path, arch: Arch) -> None:
    with pytest.raises(UserError, match=arch.name):
        resolve_running(parse("running"), arch, SAID, root)
