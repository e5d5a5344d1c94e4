# SPDX-License-Identifier: GPL-2.0-or-later
"""Every kind of spec has somebody who makes a kernel, or the source, of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kentry.arch import Arch
from kentry.errors import UserError
from kentry.kernels import resolve
from kentry.kernels.config import Request
from kentry.kernels.kernel import Kernel
from kentry.kernels.spec import KINDS, Spec
from kentry.progress import Update
from tests.unit.kernels import fakes, sources
from tests.unit.kernels.conftest import Said


def test_every_kind_is_resolved_one_way() -> None:
    ready, built = resolve._RESOLVERS.keys(), resolve._BUILDERS.keys()
    assert ready | built == KINDS.keys()
    assert not ready & built
    assert resolve._SOURCES.keys() == built
    for name in built:
        assert {"config", "compiler"} <= set(KINDS[name].options)


def test_a_specs_own_words_say_how_it_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Request] = []

    def builder(spec: Spec, arch: Arch, update: Update, request: Request) -> Kernel:
        asked.append(request)
        raise UserError("no")

    monkeypatch.setitem(resolve._BUILDERS, "tree", builder)
    request = Request("distro", ("CONFIG_A=y",), "gcc-12")
    for spec in ("tree:.", "tree:.,config=tiny,compiler=clang"):
        with pytest.raises(UserError):
            resolve.resolve(spec, fakes.ARM64, Said(), request)
    with pytest.raises(UserError):
        resolve.resolve("tree:.", fakes.ARM64, Said())
    own = Request("tiny", ("CONFIG_A=y",), "clang")
    assert asked == [request, own, Request("tiny", (), "gcc")]


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
