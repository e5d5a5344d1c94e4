# SPDX-License-Identifier: GPL-2.0-or-later
"""The histories on Debian's source: its places are found, and the counts are what they say."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from time import monotonic

import pytest

from kentry.arch import ARCHES
from kentry.errors import FetchError, MissingToolError
from kentry.kernels import toolchain
from tests import history_edits as edits
from tests.histories import History, git, make

from .conftest import skip, timed

pytestmark = pytest.mark.qemu

ARCH = ARCHES["riscv64"]
PANIC_SECONDS = 30


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> History:
    try:
        toolchain.check_tools(ARCH)
        return make(1, tmp_path_factory.mktemp("histories") / "1")
    except (FetchError, MissingToolError) as err:
        skip(f"no source to build: {err}")
        raise


def record(history: History, commit: str) -> subprocess.CompletedProcess[str]:
    spec = f"tree:{history.folder}@{commit}"
    words = ["record", spec, "--arch", ARCH.name, "--case", "getppid", "--json"]
    argv = [sys.executable, "-m", "kentry", *words]
    with timed(f"kentry record of a {history.kinds[commit]} commit for {ARCH.name}"):
        return subprocess.run(argv, capture_output=True, text=True, check=False)


def count(history: History, commit: str) -> int:
    done = record(history, commit)
    assert done.returncode == 0, done.stderr
    metric = json.loads(done.stdout)["cases"][0]["metrics"]["instructions"]
    return int(metric["value"])


def first_of(history: History, kind: str) -> str:
    return next(name for name, its in history.kinds.items() if its == kind)


@pytest.mark.parametrize("seed", range(2, 11))
def test_every_change_has_its_place_in_the_source(
    seed: int, history: History, tmp_path: Path
) -> None:
    another = make(seed, tmp_path / str(seed))
    assert len(another.kinds) == len(history.kinds)
    assert another.last != history.last


def test_a_broken_commit_does_not_build(history: History) -> None:
    done = record(history, first_of(history, edits.BUILD_BREAK))
    assert done.returncode == 2
    assert "does not build" in done.stderr


def test_a_commit_that_panics_says_so_at_once(history: History) -> None:
    commit = first_of(history, edits.BOOT_BREAK)
    done = record(history, commit)
    assert done.returncode == 2
    assert "The kernel panicked before the probe started" in done.stderr
    # The kernel is there by now, so this is the boot alone.
    start = monotonic()
    record(history, commit)
    assert monotonic() - start < PANIC_SECONDS


def test_the_steps_are_the_whole_difference(history: History) -> None:
    """All other commits together add nothing."""
    step = first_of(history, edits.MORE)
    parent = git(history.folder, "rev-parse", f"{step}^").strip()
    assert count(history, step) - count(history, parent) == history.steps[step]
    whole = count(history, history.last) - count(history, history.first)
    assert whole == sum(history.steps.values())
