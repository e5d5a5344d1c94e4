# SPDX-License-Identifier: GPL-2.0-or-later
"""Every kind of spec has somebody who makes a kernel, or the source, of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kentry.arch import Arch
from kentry.errors import PatchError, UserError
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
    assert "Patch 1, 'first', does not apply: " in raised.value.sentence
    assert "kentry series" in raised.value.remedy
    for value in (str(out / "none"), str(linux), "~nobody-of-this-name"):
        with pytest.raises(UserError, match=value):
            resolve.resolve_source(f"tree:{linux}@v6.12,patches={value}", Said())
