# SPDX-License-Identifier: GPL-2.0-or-later
"""Folders for one run."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kentry.host.cache import scratch_folder
from tests.processes import PATIENCE, pid_in


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KENTRY_CACHE", str(tmp_path))
    return tmp_path / "scratch"


def folders(scratch: Path) -> list[Path]:
    return [path for path in scratch.iterdir() if path.is_dir()]


def test_a_folder_is_gone_when_the_block_ends(scratch: Path) -> None:
    with scratch_folder() as folder:
        (folder / "trace").write_text("x")
        assert folders(scratch) == [folder.parent]
    assert not folders(scratch)


def test_the_next_run_removes_what_a_killed_one_left(scratch: Path, tmp_path: Path) -> None:
    text = (
        "import os, time\n"
        "from kentry.host.cache import scratch_folder\n"
        "with scratch_folder() as folder:\n"
        f"    open('{tmp_path}/pid', 'w').write(str(os.getpid()))\n"
        "    time.sleep(1000)\n"
    )
    with subprocess.Popen([sys.executable, "-c", text]) as other:
        pid_in(tmp_path / "pid")
        (theirs,) = folders(scratch)
        with scratch_folder() as mine:
            assert set(folders(scratch)) == {theirs, mine.parent}
        other.send_signal(signal.SIGKILL)
    assert folders(scratch) == [theirs]
    with scratch_folder() as mine:
        assert folders(scratch) == [mine.parent]


@pytest.mark.slow
def test_many_runs_at_once_do_not_disturb_each_other(scratch: Path) -> None:
    text = (
        "from kentry.host.cache import scratch_folder\n"
        "for n in range(100):\n"
        "    with scratch_folder() as folder:\n"
        "        (folder / 'trace').write_text('x')\n"
        "        assert (folder / 'trace').read_text() == 'x'\n"
    )
    runs = [subprocess.Popen([sys.executable, "-c", text]) for _ in range(4)]
    assert [run.wait(PATIENCE) for run in runs] == [0, 0, 0, 0]
    assert not folders(scratch)
