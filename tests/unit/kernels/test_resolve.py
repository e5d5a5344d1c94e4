# SPDX-License-Identifier: GPL-2.0-or-later
"""Every kind of spec has somebody who makes a kernel, or the source, of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kentry.arch import ARCHES, Arch, host_arch
from kentry.commands.record import Options
from kentry.errors import PatchError, UserError
from kentry.host.cache import cache_dir, sha256_of
from kentry.kernels import build, resolve
from kentry.kernels.config import Request
from kentry.kernels.repository import Revision
from kentry.progress import Update
from tests.unit.kernels import fakes, sources
from tests.unit.kernels.conftest import Said


def test_the_options_of_a_spec_go_before_those_of_the_command_line() -> None:
    request = Request("distro", ("CONFIG_A=y",), "gcc-12")
    assert request.chosen({}) == request
    own = request.chosen({"config": "tiny", "compiler": "clang"})
    assert own == Request("tiny", ("CONFIG_A=y",), "clang")


@pytest.mark.parametrize("spec", ["debian:6.12", "image:Image", "deb:a.deb", "running"])
def test_only_source_can_be_built_with_something_changed(spec: str) -> None:
    with pytest.raises(UserError) as raised:
        resolve.resolve_source(spec, Said())
    assert spec in raised.value.sentence
    assert "tree:" in raised.value.remedy


def test_a_trees_source(tmp_path: Path) -> None:
    linux = sources.repository(tmp_path / "linux")
    found = resolve.resolve_source(f"tree:{linux}@v6.12,config=distro", Said())
    assert found.commit == sources.git(linux, "rev-parse", "HEAD")


@pytest.fixture
def patched(tmp_path: Path) -> tuple[Path, Path]:
    """A tree at v6.12, and a folder with the two patches that its master has on top."""
    linux, out = sources.repository(tmp_path / "linux"), tmp_path / "patches"
    for subject, value in (("first", 10), ("second", 11)):
        sources.commit(linux, subject, {"kernel/fork.c": sources.fork_c(first=value)})
    sources.git(linux, "format-patch", "--quiet", f"--output-directory={out}", "v6.12")
    return linux, out


def test_a_trees_source_with_patches(patched: tuple[Path, Path]) -> None:
    linux, out = patched
    found = resolve.resolve_source(f"tree:{linux}@v6.12,patches={out}", Said())
    assert found.tree == sources.git(linux, "rev-parse", "HEAD^{tree}")
    assert found.origin["patch"] == "second"
    assert found.origin["subject"] == "Linux 6.12"


def test_a_kernel_with_patches(patched: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    linux, out = patched
    spec = f"tree:{linux}@v6.12,patches={out},config=userland"
    built: list[tuple[str, str, Request]] = []

    def kernel(spec: str, revision: Revision, arch: Arch, request: Request, update: Update) -> None:
        built.append((spec, revision.tree, request))

    monkeypatch.setattr(build, "kernel", kernel)
    resolve.resolve(spec, fakes.ARM64, Said())
    tree = sources.git(linux, "rev-parse", "HEAD^{tree}")
    assert built == [(spec, tree, Request("userland"))]


def test_a_patch_that_does_not_fit(patched: tuple[Path, Path]) -> None:
    linux, out = patched
    with pytest.raises(PatchError) as raised:
        resolve.resolve_source(f"tree:{linux},patches={out}", Said())
    assert "Patch 1, 'first'" in raised.value.sentence
    assert "kentry series" in raised.value.remedy
    for value in (str(out / "none"), str(linux), "~nobody-of-this-name"):
        with pytest.raises(UserError, match=value):
            resolve.resolve_source(f"tree:{linux}@v6.12,patches={value}", Said())


@pytest.mark.parametrize("arch", ["arm64", "riscv64"])
def test_the_architecture_is_read_from_the_file(arch: str, tmp_path: Path) -> None:
    image, deb = tmp_path / "Image", tmp_path / "kernel.deb"
    image.write_bytes(fakes.image(ARCHES[arch]))
    fakes.deb(deb, fakes.boot_files(), ARCHES[arch].debian)
    for spec in (f"image:{image}", f"deb:{deb}"):
        assert Options(spec=spec).find_arch().name == arch
        assert Options(spec=spec, arch="x86_64").find_arch().name == "x86_64"
    assert Options(spec="debian:6.12").find_arch() == host_arch()
    with pytest.raises(UserError, match="kernel image"):
        resolve.arch_of(f"image:{deb}")


def test_facts_of_another_image_or_damaged_ones_are_read_anew(tmp_path: Path, said: Said) -> None:
    files = [tmp_path / name for name in ("arm64", "riscv64")]
    for file in files:
        file.write_bytes(fakes.image(ARCHES[file.name]))
        resolve.resolve(f"image:{file}", ARCHES[file.name], said)
    facts = [cache_dir("images", sha256_of(file)) / "facts.json" for file in files]
    facts[0].write_bytes(facts[1].read_bytes())
    assert resolve.arch_of(f"image:{files[0]}") == ARCHES["arm64"]
    text = facts[0].read_text()
    facts[0].write_text(text.replace('"arch": "arm64"', '"arch": "arm65"'))
    assert resolve.arch_of(f"image:{files[0]}") == ARCHES["arm64"]
    assert facts[0].read_text() == text
