# SPDX-License-Identifier: GPL-2.0-or-later
"""Folders for one run, and files and folders that are there whole or not at all."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kentry.host.cache import fresh_folder, scratch_folder, write_atomically
from tests.processes import PATIENCE, pid_in


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KENTRY_CACHE", str(tmp_path))
    return tmp_path / "scratch"


def folders(scratch: Path) -> list[Path]:
    return [path for path in scratch.iterdir() if path.is_dir()]


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


HALF = """
import sys, time
from pathlib import Path
from kentry.host.cache import fresh_folder, whole_file
with {call} as made:
    {write}
    print("half", flush=True)
    time.sleep(1000)
"""
FILE = ("whole_file(Path(sys.argv[1]))", "made.write(b'half')")
FOLDER = ("fresh_folder(Path(sys.argv[1]))", "(made / 'half').write_text('half')")


def half_made(how: tuple[str, str], final: Path) -> subprocess.Popen[str]:
    call, write = how
    argv = [sys.executable, "-c", HALF.format(call=call, write=write), str(final)]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    assert process.stdout and process.stdout.readline() == "half\n"
    return process


def test_a_killed_writer_leaves_no_file(tmp_path: Path) -> None:
    old = tmp_path / "old"
    old.write_text("old")
    for final in (tmp_path / "new", old):
        with half_made(FILE, final) as process:
            process.kill()
    # Some file systems have no files without a name: then a half one has another name.
    with contextlib.suppress(OSError):
        os.close(os.open(tmp_path, os.O_TMPFILE | os.O_WRONLY))
        assert [path.name for path in tmp_path.iterdir()] == ["old"]
    assert old.read_text() == "old"
    for path in tmp_path.glob(".*"):
        path.unlink()
    write_atomically(old, "newer")
    write_atomically(tmp_path / "new", "new")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "old": "newer",
        "new": "new",
    }


def test_what_a_killed_maker_of_a_folder_left_is_removed_and_a_living_ones_is_not(
    tmp_path: Path,
) -> None:
    with half_made(FOLDER, tmp_path / "final") as dead:
        dead.kill()
    with half_made(FOLDER, tmp_path / "final") as living:
        with fresh_folder(tmp_path / "final") as folder:
            (folder / "whole").touch()
        names = sorted(path.name for path in tmp_path.iterdir())
        assert names[-1] == "final" and len(names) == 2
        assert (tmp_path / names[0] / "half").exists()
        living.kill()
