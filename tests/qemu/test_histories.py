# SPDX-License-Identifier: GPL-2.0-or-later
"""The histories on Debian's source: their places are found, and one of them panics.

test_bisect.py measures what their commits add.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kentry.arch import ARCHES
from kentry.errors import FetchError, MissingToolError
from kentry.kernels import toolchain
from tests import history_edits as edits
from tests.histories import History, make

from .conftest import skip, timed

pytestmark = pytest.mark.qemu

ARCH = ARCHES["riscv64"]


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


def first_of(history: History, kind: str) -> str:
    return next(name for name, its in history.kinds.items() if its == kind)


@pytest.mark.parametrize("seed", range(2, 11))
def test_every_change_has_its_place_in_the_source(
    seed: int, history: History, tmp_path: Path
) -> None:
    another = make(seed, tmp_path / str(seed))
    assert len(another.kinds) == len(history.kinds)
    assert another.last != history.last


def test_a_commit_that_panics_says_so_at_once(history: History) -> None:
    commit = first_of(history, edits.BOOT_BREAK)
    done = record(history, commit)
    assert done.returncode == 2
    assert "The kernel panicked before the probe started" in done.stderr
