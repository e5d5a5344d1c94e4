# SPDX-License-Identifier: GPL-2.0-or-later
"""Tab in a shell: what bash offers for a command line, and that each shell takes its code."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kentry.cli import COMMANDS, main
from tests import ROOT
from tests.unit.machines.sshd import skip

# Calls bash's own completion function, as Tab does, and prints what it may continue with.
TAB = """
eval "$(kentry completion bash)"
complete -p kentry > /dev/null
COMP_LINE=$1 COMP_POINT=${#1} COMP_TYPE=9
_python_argcomplete kentry
printf '%s\\n' "${COMPREPLY[@]}"
"""


def tab(line: str, folder: Path = ROOT) -> list[str]:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-c", TAB, "bash", line],
        env={**os.environ, "PATH": path, "PYTHONPATH": os.pathsep.join(sys.path)},
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stderr == ""
    return [word.strip() for word in done.stdout.splitlines() if word]


def test_commands_are_completed() -> None:
    assert tab("kentry rec") == ["record"]
    assert set(tab("kentry ")) == {name for name in COMMANDS if " " not in name}
    assert tab("kentry vector re") == ["replay"]


def test_options_and_their_values_are_completed() -> None:
    assert tab("kentry diff a b --fail") == ["--fail-on-regression"]
    assert tab("kentry diff a b --color=") == ["auto", "always", "never"]
    assert tab("kentry record debian:6.12 --arch ris") == ["riscv64"]


def test_cases_are_completed_also_in_a_list() -> None:
    assert "getppid" in tab("kentry diff a b --case getp")
    assert tab("kentry record floor: --arch arm64 --case read,memo") == ["read,memory"]


@pytest.mark.parametrize(("name", "is_offered"), [("x86_64", True), ("arm64", False)])
def test_cases_are_those_of_the_architecture(name: str, is_offered: bool) -> None:
    # "@" ends a word of bash: only what follows it is offered.
    assert tab(f"kentry record floor: --arch {name} --case getpid@") == ["int80"] * is_offered


def test_a_file_is_completed_where_a_recording_is_wanted(tmp_path: Path) -> None:
    (tmp_path / "old.json").touch()
    assert tab("kentry diff ol", tmp_path) == ["old.json"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_takes_its_code(
    shell: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["completion", shell]) == 0
    code = capsys.readouterr().out
    assert "kentry" in code
    if not shutil.which(shell):
        skip(f"{shell} is not installed: apt-get install {shell}")
    file = tmp_path / "code"
    file.write_text(code)
    done = subprocess.run([shell, "-n", str(file)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
