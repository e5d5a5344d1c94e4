# SPDX-License-Identifier: GPL-2.0-or-later
"""The manual pages: complete, and man prints them without a warning."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kentry.cli import COMMANDS
from tests import ROOT
from tests.docs.test_docs import load
from tests.unit.commands.test_options import OPTIONS
from tests.unit.machines.sshd import skip

man = load(ROOT / "scripts" / "man.py")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder like .venv, made as make man does."""
    found = tmp_path_factory.mktemp("prefix")
    pages = found / "share" / "man" / "man1"
    subprocess.run([sys.executable, ROOT / "scripts" / "man.py", pages], check=True)
    (found / "bin").mkdir()
    return found


def printed(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    if not shutil.which("man"):
        skip("man is not installed: apt-get install man-db")
    path = os.pathsep.join([str(folder / "bin"), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "LC_ALL": "C.UTF-8", "MANPAGER": "cat"}
    environment.pop("MANPATH", None)
    command = ["man", "--warnings", *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_each_command_has_a_page(folder: Path) -> None:
    names = {file.name for file in (folder / "share" / "man" / "man1").iterdir()}
    commands = {f"kentry-{name.replace(' ', '-')}.1" for name in COMMANDS}
    assert names == {"kentry.1"} | commands


@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_man_prints_a_page_without_warnings_and_with_every_option(name: str, folder: Path) -> None:
    file = folder / "share" / "man" / "man1" / f"{'-'.join(['kentry', *name.split()])}.1"
    done = printed(folder, "-l", str(file))
    assert (done.returncode, done.stderr) == (0, "")
    prog = f"kentry {name}".strip()
    flags = [one.option_strings[-1] for parser, one in OPTIONS if parser == prog]
    assert [flag for flag in flags if flag not in done.stdout] == []


def test_man_finds_the_pages_beside_the_program(folder: Path) -> None:
    done = printed(folder, "-w", "kentry-vector-replay")
    assert done.stdout.strip() == str(folder / "share" / "man" / "man1" / "kentry-vector-replay.1")


@pytest.mark.parametrize("text", [".TH x", "'br", "a\\fBb", '-o ~/x ^ ` " \\'])
def test_text_is_printed_as_it_is(text: str, tmp_path: Path) -> None:
    page = tmp_path / "x.1"
    page.write_text(f".TH x 1 x x x\n.SH NAME\n{man._text(text)}\n")
    done = printed(tmp_path, "-l", str(page))
    assert done.stderr == "" and text in done.stdout


def test_an_option_can_be_copied_from_a_page() -> None:
    # Outside Debian, a bare "-" is printed as a hyphen, which no shell knows.
    assert man._text("--case a-b") == r"\-\-case a\-b"
