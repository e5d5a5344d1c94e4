# SPDX-License-Identifier: GPL-2.0-or-later
"""The workloads, a user's own commands, and the built runner, which is small and static."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kentry.arch import host_arch
from kentry.boot.userland.workloads import (
    PACKAGE_NAME,
    WORKLOADS,
    Copy,
    find_workload,
    parse_copy,
)
from kentry.errors import UserError
from kentry.host.native import runner_file
from tests import ROOT

FILES = ROOT / "src/kentry/boot/userland/files"


def test_every_workload_has_its_files() -> None:
    named = "boot shell python compile compileall git-status git-log tar-xz sqlite fio stress-ng"
    assert list(WORKLOADS) == [
        *named.split(),
        *("server", "redis-benchmark", "idle", "nginx", "postgres"),
    ]
    copied = [copy for one in WORKLOADS.values() for copy in one.copies]
    assert all(copy.source.exists() and copy.guest.startswith("/") for copy in copied)
    assert {copy.source for copy in copied} == set(FILES.iterdir())
    programs: list[str] = []
    for name, workload in WORKLOADS.items():
        assert find_workload([name]) == workload
        assert workload.argv[0].startswith("/")
        assert workload.summary
        assert all(PACKAGE_NAME.fullmatch(package) for package in workload.packages)
        guests = {copy.guest for copy in workload.copies}
        lines = [*workload.argv[1:], *workload.prepare]
        own = [word for line in lines for word in line.split() if word.startswith("/kentry/")]
        assert set(own) <= guests
        assert all(isinstance(line, str) for line in lines)
        programs += workload.programs
    assert len(programs) == len(set(programs))


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


def test_a_command_is_prepared_as_the_workload_of_its_program(tmp_path: Path) -> None:
    named = WORKLOADS["git-status"]
    for words in (["git", "log", "-p"], ["git log -p"], ["git log -p | wc"]):
        workload = find_workload(words, [Copy(tmp_path, "/data")], ["acl"])
        assert (workload.name, workload.program) == ("command", "git")
        assert workload.prepare == named.prepare
        assert workload.copies == (*named.copies, Copy(tmp_path, "/data"))
        assert workload.packages == ("git", "acl")
        assert workload.argv[3:] == ("sh", *words) or workload.argv[2:] == tuple(words)
    assert find_workload(["gcc", "-v"]).room == WORKLOADS["compile"].room
    assert find_workload(["xz -V"]).packages == ("xz-utils",)


@pytest.mark.parametrize(
    ("words", "program"),
    [
        (["ls", "-l"], "ls"),
        (["exit", "3"], "exit"),
        (["/root/x y", "1"], "/root/x y"),
        (["ls"], "ls"),
        (["./x -l"], "./x"),
        (["g++ a.cc; ./a.out"], "g++"),
        # What only a shell understands.
        (["exit 3"], ""),
        (["for i in 1; do ls; done"], ""),
        (["LC_ALL=C ls"], ""),
        (["(ls)"], ""),
        (["$SHELL -c ls"], ""),
        (["ls;ls"], ""),
        (["f() { ls; }; f"], ""),
        ([" ls"], ""),
    ],
)
def test_the_program_of_a_command_line_must_be_there(words: list[str], program: str) -> None:
    assert find_workload(words).program == program


def test_workloads_are_in_the_docs_in_their_order() -> None:
    page = (ROOT / "docs/howto/vector-policies.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([a-z-]+)` \| (.*) \|$", page, re.MULTILINE)
    assert [row for row in rows if row[0] in WORKLOADS] == [
        (name, workload.summary) for name, workload in WORKLOADS.items()
    ]


@pytest.mark.parametrize("name", ["~nobody", "bash-", "Bash", "a_b", "-y", "bash=1"])
def test_what_is_no_package_name_is_refused(name: str) -> None:
    with pytest.raises(UserError, match=name):
        find_workload(["shell"], packages=[name])


def test_without_a_workload_the_remedy_lists_them() -> None:
    with pytest.raises(UserError, match="workload") as raised:
        find_workload([""])
    assert ", ".join(WORKLOADS) in raised.value.remedy


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
