# SPDX-License-Identifier: GPL-2.0-or-later
"""An emulator is tried once, and again when it or the plugin is another; a wrong count is told."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kentry.arch import ARCHES, Arch
from kentry.boot.exact import ExactOptions, QemuRunner
from kentry.boot.plugin_trace import Phase, PluginTrace, Window
from kentry.count import self_test as module
from kentry.count.self_test import self_test
from kentry.errors import MissingToolError
from tests.builders import image_kernel
from tests.places import silent
from tests.unit.boot.conftest import fake_qemu

ARCH = ARCHES["riscv64"]


def trace_of(counts: dict[str, tuple[int, ...]]) -> PluginTrace:
    windows = {
        case: [Window(1, number, 0, 1, 0, 0, 0, None) for number in numbers]
        for case, numbers in counts.items()
    }
    return PluginTrace(phases=[Phase(case, "count", 1, 0, rows) for case, rows in windows.items()])


@pytest.fixture
def booted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[PluginTrace]:
    """What each boot of the floor leaves, the next one last; one fewer when it was booted."""
    monkeypatch.setenv("KENTRY_CACHE", str(tmp_path / "cache"))
    plugin = tmp_path / "kentry.so"
    plugin.write_text("plugin")
    monkeypatch.setattr(module, "plugin_file", lambda: plugin)
    monkeypatch.setattr(module, "resolve_floor", lambda spec, arch: image_kernel(arch.name))
    traces: list[PluginTrace] = []

    def run(self: QemuRunner, *words: Any) -> SimpleNamespace:
        return SimpleNamespace(trace=traces.pop())

    monkeypatch.setattr(QemuRunner, "run", run)
    return traces


def right(arch: Arch) -> PluginTrace:
    return trace_of({case: (count, count) for case, count in arch.floor.items()})


def test_an_emulator_is_tried_once_and_again_when_it_changes(
    booted: list[PluginTrace], tmp_path: Path
) -> None:
    options = ExactOptions(cases=(), emulator=str(fake_qemu(tmp_path)))
    booted += [right(ARCH)] * 4
    left = []
    for change in (
        lambda: None,
        lambda: None,
        lambda: (tmp_path / "kentry.so").write_text("another plugin"),
        lambda: fake_qemu(tmp_path, version="10.0.2"),
        lambda: None,
    ):
        change()
        self_test(ARCH, options, silent)
        left.append(len(booted))
    assert left == [3, 3, 2, 1, 1]


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ({"getpid": (14,), "getppid": (13,)}, "getppid on kentry's floor is 12 .* counts 13"),
        ({"getpid": (14, 15), "getppid": (12,)}, "getpid on kentry's floor is 14 .* 14 or 15"),
        ({"getpid": (14,)}, "getppid on kentry's floor is 12 .* counts nothing"),
    ],
)
def test_a_wrong_count_is_an_error_and_tried_again(
    counts: dict[str, tuple[int, ...]], said: str, booted: list[PluginTrace], tmp_path: Path
) -> None:
    options = ExactOptions(cases=(), emulator=str(fake_qemu(tmp_path)))
    booted += [trace_of(counts)] * 2
    for _ in range(2):
        with pytest.raises(MissingToolError, match=said) as caught:
            self_test(ARCH, options, silent)
        assert "--emulator" in caught.value.remedy and not caught.value.tools
    assert not booted


@pytest.mark.qemu
@pytest.mark.parametrize("arch", ARCHES.values(), ids=lambda arch: arch.name)
def test_the_installed_emulator_counts_right(
    arch: Arch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KENTRY_CACHE", str(tmp_path))
    self_test(arch, ExactOptions(cases=()), silent)
    wrong = replace(arch, floor={case: count + 1 for case, count in arch.floor.items()})
    with pytest.raises(MissingToolError, match="counts wrong"):
        self_test(wrong, ExactOptions(cases=()), silent)
