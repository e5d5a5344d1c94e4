# SPDX-License-Identifier: GPL-2.0-or-later
"""The compiled parts, and what is said where one is missing."""

from collections.abc import Callable
from pathlib import Path

import pytest

from kentry.arch import find_arch
from kentry.errors import MissingToolError
from kentry.host import native

PARTS: list[tuple[Callable[[], Path], str, str, str]] = [
    (native.plugin_file, "kentry.so", "The QEMU plugin is not built.", "gcc"),
    (native.tasks_plugin_file, "tasks.so", "The QEMU plugin for tasks is not built.", "gcc"),
    (
        lambda: native.probe_file(find_arch("riscv64")),
        "probe-riscv64",
        "The probe for riscv64 is not built.",
        "gcc-riscv64-linux-gnu",
    ),
    (
        lambda: native.runner_file(find_arch("arm64")),
        "runner-arm64",
        "The runner for arm64 is not built.",
        "gcc-aarch64-linux-gnu",
    ),
]


@pytest.mark.parametrize(("find", "name", "sentence", "package"), PARTS)
def test_a_part_is_there_or_its_package_is_named(
    find: Callable[[], Path],
    name: str,
    sentence: str,
    package: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(native, "_FOLDER", tmp_path)
    with pytest.raises(MissingToolError) as caught:
        find()
    assert caught.value.sentence == sentence
    assert f"apt-get install {package} make" in caught.value.remedy
    (tmp_path / name).touch()
    assert find() == tmp_path / name
