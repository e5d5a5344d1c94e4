# SPDX-License-Identifier: GPL-2.0-or-later
"""The probe as it is built prints files of the machine it runs on: guest/facts.h."""

import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

import pytest

from kentry.arch import host_arch
from kentry.host.native import probe_file
from kentry.machines.machine import CommandResult, Machine
from kentry.time.preflight import check, describe, gather, parse_lines, paths_to_read
from tests.processes import PATIENCE

LINE = 255  # bytes, without the new line
MOST = 64 << 10


def run(paths: str) -> list[str]:
    argv = [str(probe_file(host_arch())), f"facts={paths}"]
    text = subprocess.run(argv, capture_output=True, check=True, timeout=PATIENCE).stdout.decode(
        "ascii"
    )
    assert text.startswith(f"kentry-probe start {host_arch().name}\n")
    assert text.endswith("\n")
    return text.splitlines()


class Here:
    """This machine."""

    def run_probe(
        self, words: Sequence[str], timeout: float, on_line: Callable[[str], None]
    ) -> None:
        for line in run(words[0].removeprefix("facts=")):
            on_line(line)

    def run_command(self, argv: Sequence[str], timeout: float) -> CommandResult:
        return CommandResult(1, "none\n", "")


def said_of(lines: list[str]) -> list[str]:
    """The lines of the files, without the probe's own first ones."""
    first = next(n for n, line in enumerate(lines) if line.split()[1] in ("file", "nofile", "end"))
    return [line.removeprefix("kentry-probe ") for line in lines[first:]]


def test_files_and_their_lines(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_text("first\n\n last")
    two.write_text("")
    lines = [f"file {one}", "> first", "> ", ">  last", f"file {two}"]
    assert said_of(run(f"{one},{two}")) == [*lines, "end files=2"]
    paths = tmp_path / "paths"
    paths.write_text(f"{one}\n\n{tmp_path}/none,{two}")
    lines.insert(4, f"nofile {tmp_path}/none 2")
    assert said_of(run(f"@{paths}")) == [*lines, "end files=3"]
    assert said_of(run(f"@{tmp_path}/none")) == [f"nofile {tmp_path}/none 2", "end files=0"]
    assert said_of(run(",,")) == said_of(run("")) == ["end files=0"]


def test_what_cannot_be_read_has_its_errno(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("x")
    assert said_of(run(f"{tmp_path}/none,{tmp_path},{file}/")) == [
        f"nofile {tmp_path}/none 2",  # ENOENT
        f"nofile {tmp_path} 21",  # EISDIR
        f"nofile {file}/ 20",  # ENOTDIR
        "end files=3",
    ]
    too_long = "/" + "x" * 300
    assert said_of(run(too_long)) == [f"nofile {too_long[:223]} 36", "end files=1"]  # ENAMETOOLONG


def test_what_is_no_text_is_replaced(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"a\tb\0c\x1b[0m\xc3\xa9~\x7f\r\n")
    assert said_of(run(str(file)))[1:-1] == ["> a b?c?[0m??~??"]
    # A pipe does not stop it.
    os.mkfifo(tmp_path / "pipe")
    assert said_of(run(f"{tmp_path}/pipe"))[-1] == "end files=1"


@pytest.mark.parametrize("length", [0, 1, 238, 239, 240, 241, 242, 480, 481, 4095, 4096, 9000])
def test_long_lines_go_on(tmp_path: Path, length: int) -> None:
    file = tmp_path / "file"
    text = "".join(chr(ord("!") + n % 90) for n in range(length))
    file.write_text(f"{text}\nnext\n")
    lines = run(str(file))
    assert max(map(len, lines)) <= LINE
    assert parse_lines(lines).files[str(file)] == f"{text}\nnext"


def test_blanks_at_a_seam_stay_and_a_file_is_cut_after_64_kib(tmp_path: Path) -> None:
    file = tmp_path / "file"
    texts = ["x" * (236 + shift) + " y  z" * 100 for shift in range(6)]
    for text in [*texts, "\n".join(f"{n:07}" for n in range(20000))]:
        file.write_text(text)
        assert parse_lines(run(str(file))).files[str(file)] == text[:MOST].removesuffix("\n")


def test_files_are_read_to_their_end_in_several_reads() -> None:
    assert Path("/proc/kallsyms").stat().st_size == 0
    text = parse_lines(run("/proc/kallsyms")).files.get("/proc/kallsyms", "")
    if not text:
        pytest.skip("this kernel has no /proc/kallsyms (CONFIG_KALLSYMS)")
    assert len(text) >= MOST - 1


def test_a_preflight_of_this_machine() -> None:
    facts = gather(cast(Machine, Here()), None)
    assert facts.files.keys() | facts.missing.keys() == set(paths_to_read(facts.cpu))
    assert facts.cpu in os.sched_getaffinity(0) or facts.cpu in facts.isolated
    assert facts.seconds < 20
    assert facts.cpu in facts.ticks_between()
    assert all(finding.text and finding.remedy for finding in check(facts))
    about = describe(facts)
    assert int(about["cpus"]) >= len(os.sched_getaffinity(0))
    assert about["host"] == os.uname().nodename
