# SPDX-License-Identifier: GPL-2.0-or-later
"""kentry series on a real kernel: what each kind of patch gets for a row, and no work twice.

The series: three no-ops in one function, a comment, one that does not build, one that builds
again and panics, one of which compilers warn.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from kentry.kernels import build
from kentry.kernels.resolve import resolve_source
from tests.places import silent

from .conftest import or_skip
from .test_exactly_n import ADDED, ARCH, BASE_SPEC, PATCHES
from .test_record import kentry

pytestmark = pytest.mark.qemu

CASES = "getppid,read,pipe"
NO_OPS = ADDED[0].count
ROWS = ["invoke_syscall", "comment", "broken", "panic", "warns"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The series as git format-patch would have written it."""
    or_skip("no tools", build.check_tools, ARCH)
    or_skip("no source to build", resolve_source, BASE_SPEC, silent)
    out = tmp_path_factory.mktemp("series")
    for number, name in enumerate(ROWS, start=1):
        text = (PATCHES / f"{name}.patch").read_text(encoding="utf-8")
        text = text.replace("@N@", str(NO_OPS))
        (out / f"{number:04}-{name}.patch").write_text(text, encoding="utf-8")
    return out


def words(folder: Path) -> list[str]:
    base = ["series", BASE_SPEC, str(folder), "--arch", ARCH.name]
    return [*base, "--case", CASES, "--timeout", "60", "--json"]


@pytest.fixture(scope="module")
def document(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(kentry(*words(folder)).stdout)
    return found


def test_every_patch_has_the_row_it_deserves(document: dict[str, Any]) -> None:
    base, no_ops, comment, broken, panic, warns = document["rows"]
    assert [row["patch"] for row in document["rows"]] == [0, 1, 2, 3, 4, 5]
    assert comment["subject"] == "arm64: syscall: say what invoke_syscall() does"
    assert comment["identical_path"]
    assert {case["delta"] for case in comment["cases"].values()} == {0}
    assert not no_ops["identical_path"]
    assert broken["status"] == "build-failed"
    assert "undeclared_by_anyone" in broken["problems"][ARCH.name]["sentence"]
    assert panic["status"] == "boot-failed"
    assert "that panics" in panic["problems"][ARCH.name]["detail"]
    [warning] = warns["warnings"][ARCH.name]
    said = "'called_by_nobody' defined but not used [-Wunused-function]"
    assert warning.startswith("arch/arm64/kernel/syscall.c:") and warning.endswith(f": {said}")
    assert not any("warnings" in row for row in document["rows"][:-1])
    for name in CASES.split(","):
        calls = 2 if name == "pipe" else 1
        before, after = base["cases"][name], no_ops["cases"][name]
        assert after["delta"] == after["cumulative"] == NO_OPS * calls
        assert after["instructions"] == before["instructions"] + NO_OPS * calls
        [function] = after["functions"]
        assert (function["name"], function["delta"]) == ("invoke_syscall", NO_OPS * calls)


def test_a_killed_run_is_taken_up_again(
    folder: Path, document: dict[str, Any], tmp_path: Path
) -> None:
    """Killed with its kernels still to be built; what comes out is what it was before."""
    text = (folder / "0001-invoke_syscall.patch").read_text(encoding="utf-8")
    other = text.replace(f".rept {NO_OPS}", f".rept {NO_OPS + 30}")
    (tmp_path / "0001-other.patch").write_text(other, encoding="utf-8")
    argv = [sys.executable, "-m", "kentry", *words(tmp_path)]
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(3)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    row = json.loads(kentry(*words(tmp_path)).stdout)["rows"][1]
    assert row["cases"]["getppid"]["delta"] == NO_OPS + 30
    again = json.loads(kentry(*words(folder), "--fresh").stdout)
    # A timer's interrupt may hit another window of another boot: that one is set apart.
    for row in [*document["rows"], *again["rows"]]:
        for case in row["cases"].values():
            assert case.pop("windows") > 990
            assert case.pop("agreeing") > 990
    assert again == document
