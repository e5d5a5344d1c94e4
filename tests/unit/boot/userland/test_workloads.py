# SPDX-License-Identifier: GPL-2.0-or-later
"""The workloads, a user's own commands, and the built runner, which is small and static."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kentry.arch import host_arch
from kentry.boot.userland.workloads import WORKLOADS, Copy, find_workload, parse_copy
from kentry.errors import UserError
from kentry.host.native import runner_file
from tests import ROOT

FILES = ROOT / "src/kentry/boot/userland/files"


def test_every_workload_has_its_files() -> None:
    assert list(WORKLOADS) == ["boot", "shell", "python", "compile", "server", "idle"]
    copied = [copy for one in WORKLOADS.values() for copy in one.copies]
    assert all(copy.source.exists() and copy.guest.startswith("/") for copy in copied)
    assert {copy.source for copy in copied} == set(FILES.iterdir())
    for name, workload in WORKLOADS.items():
        assert find_workload([name]) == workload
        assert workload.argv[0].startswith("/")
        assert workload.summary
        assert all(one in {copy.guest for copy in workload.copies} for one in workload.argv[1:])


@pytest.mark.parametrize("file", sorted(FILES.glob("*.sh")), ids=lambda file: file.name)
def test_scripts_are_for_any_shell(file: Path) -> None:
    subprocess.run(["sh", "-n", str(file)], check=True)


def test_the_python_program_runs() -> None:
    argv = [sys.executable, str(FILES / "work.py"), "1"]
    ended = subprocess.run(argv, check=True, capture_output=True, text=True)
    assert ended.stdout == "1 rounds\n"


def test_the_c_program_builds_and_runs(tmp_path: Path) -> None:
    for program in ("make", "cc"):
        if not shutil.which(program):
            pytest.skip(f"{program} is not installed: apt-get install gcc make")
    shutil.copytree(FILES / "compile", tmp_path / "compile")
    subprocess.run(["make", "-s", "-C", str(tmp_path / "compile")], check=True)
    text = b"a b_1 a, b_1; a"
    program = str(tmp_path / "compile/words")
    ended = subprocess.run([program], input=text, check=True, capture_output=True)
    assert ended.stdout == b"3 a\n2 b_1\n"


def test_any_other_words_are_a_command(tmp_path: Path) -> None:
    copies = [Copy(tmp_path, "/data")]
    workload = find_workload(["ls", "-l", "a b"], copies, ["acl"])
    assert workload.argv == ("/bin/sh", "-c", 'exec "$@"', "sh", "ls", "-l", "a b")
    assert (workload.name, workload.summary) == ("command", "ls -l a b")
    assert workload.packages == ("acl",)
    assert workload.copies == tuple(copies)
    assert find_workload(["ls | wc"]).argv == ("/bin/sh", "-c", "ls | wc")
    assert find_workload(["shell"], copies).copies[-1] == copies[0]
    # A name with words behind it is a command.
    assert find_workload(["boot", "now"]).name == "command"


@pytest.mark.parametrize("name", ["~nobody", "bash-", "Bash", "a_b", "-y", "bash=1"])
def test_what_is_no_package_name_is_refused(name: str) -> None:
    with pytest.raises(UserError, match=name):
        find_workload(["shell"], packages=[name])


def test_without_a_workload_the_remedy_lists_them() -> None:
    with pytest.raises(UserError, match="workload") as raised:
        find_workload([""])
    assert "boot, shell, python, compile, server" in raised.value.remedy


def test_a_copy_needs_a_source_and_a_whole_path(tmp_path: Path) -> None:
    file = tmp_path / "program"
    file.touch()
    assert parse_copy(str(file)) == Copy(file, "/root/program")
    assert parse_copy(f"{file}:/usr/bin/x") == Copy(file, "/usr/bin/x")
    for guest in ("relative", "/a/../b"):
        with pytest.raises(UserError, match=guest):
            parse_copy(f"{file}:{guest}")
    with pytest.raises(UserError, match="absent"):
        parse_copy(f"{tmp_path}/absent")


def test_the_runner_refuses_other_words_outside_a_guest() -> None:
    program = str(runner_file(host_arch()))
    assert subprocess.run([program, "mark"], check=False).returncode == 0
    # "end" powers off, but only where there is a workload's file.
    assert not Path("/kentry/workload").exists()
    for words in ([], ["end"], ["end", "x"], ["end", "0"], ["mark", "2"], ["other"]):
        assert subprocess.run([program, *words], check=False).returncode == 2
