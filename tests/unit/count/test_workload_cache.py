# SPDX-License-Identifier: GPL-2.0-or-later
"""Boots of a program come from the cache, if nothing that shapes them differs."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from msgspec.structs import replace as replaced

from kentry.arch import ARCHES
from kentry.boot.guest_tasks import Ending, TracedWorkload, TraceOptions
from kentry.boot.userland.workloads import find_workload
from kentry.count import workload_cache
from kentry.count.workload_cache import Program, run_program
from kentry.errors import GuestError
from kentry.host.archive import RELEASES
from kentry.results.workload import Workload, read_workload
from tests import ROOT
from tests.builders import image_kernel
from tests.places import silent

ARM64 = ARCHES["arm64"]
GUEST = TracedWorkload(Path("/rootfs.cpio"), ("a=b",), {"name": "true", "initramfs_sha256": "0"})
OPTIONS = TraceOptions(cpu="max")


@pytest.fixture
def booted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The seeds of the boots that were made; -1 among them ends the program badly."""
    seeds: list[int] = []
    saved = read_workload(ROOT / "tests" / "golden" / "workload.json")

    def run(
        kernel: Any, arch: Any, guest: Any, options: Any, update: Any
    ) -> tuple[Workload, Ending]:
        seeds.append(options.seed)
        target = {**saved.target, "seed": options.seed}
        return replaced(saved, target=target), Ending(3 if -1 in seeds else 0, "no such file")

    monkeypatch.setenv("KENTRY_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(workload_cache, "run_workload", run)
    plugin = tmp_path / "plugin.so"
    plugin.write_bytes(b"plugin")
    monkeypatch.setattr(workload_cache, "tasks_plugin_file", lambda: plugin)
    emulator = SimpleNamespace(version="10.0")
    monkeypatch.setattr(workload_cache, "tracing_emulator", lambda *_: emulator)
    return seeds


def ask(*, reuse: bool = True, guest: TracedWorkload = GUEST, **how: Any) -> list[int]:
    options = replace(OPTIONS, **how)
    program = Program(
        workload=find_workload(["true"]), release=RELEASES[0], options=options, seeds=(1, 2)
    )
    with mock.patch.object(workload_cache, "build_userland", return_value=guest):
        found = run_program(image_kernel(), ARM64, program, silent, reuse=reuse)
    return [one.target["seed"] for one in found]


def cut_short(folder: Path) -> None:
    for file in folder.glob("*/workload.json"):
        file.write_text(file.read_text()[:-20])


def exchange(folder: Path) -> None:
    one, two = folder.iterdir()
    one.rename(folder / "one")
    two.rename(one)
    (folder / "one").rename(two)


def test_a_boot_a_seed_once(booted: list[int]) -> None:
    assert ask() == ask(timeout=5.0) == [1, 2]
    assert booted == [1, 2]
    assert ask(reuse=False) == [1, 2]
    assert booted == [1, 2, 1, 2]


def test_what_shapes_a_run_is_another_run(booted: list[int], tmp_path: Path) -> None:
    ask()
    ask(memory=512)
    ask(guest=replace(GUEST, words=("a=c",)))
    ask(guest=replace(GUEST, description={"name": "false", "initramfs_sha256": "0"}))
    (tmp_path / "plugin.so").write_bytes(b"another")
    ask()
    assert booted == [1, 2] * 5


@pytest.mark.parametrize("damage", [cut_short, exchange])
def test_a_damaged_file_or_another_boots_is_made_again(
    booted: list[int], tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    ask()
    damage(tmp_path / "cache" / "workloads")
    assert ask() == [1, 2]
    assert booted == [1, 2, 1, 2]


def test_a_program_that_fails_is_not_kept(booted: list[int]) -> None:
    booted.append(-1)
    for _ in range(2):
        with pytest.raises(GuestError, match="seed 1") as caught:
            ask()
        assert caught.value.detail == "no such file"
    assert booted == [-1, 1, 1]
