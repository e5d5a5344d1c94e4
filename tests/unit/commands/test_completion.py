# SPDX-License-Identifier: GPL-2.0-or-later
"""Tab in a shell: what bash offers for a command line, and that each shell takes its code."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kentry.cli import COMMANDS, main
from tests.unit.machines.sshd import skip

# Calls bash's own completion function, as Tab does, and prints what it may continue with.
TAB = """
eval "$2"
complete -p kentry > /dev/null
COMP_LINE=$1 COMP_POINT=${#1} COMP_TYPE=9
_python_argcomplete kentry
printf '%s\\n' "${COMPREPLY[@]}"
"""


def tab(line: str, code: str, folder: Path) -> list[str]:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-c", TAB, "bash", line, code],
        env={**os.environ, "PATH": path, "PYTHONPATH": os.pathsep.join(sys.path)},
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stderr == ""
    return [word.strip() for word in done.stdout.splitlines() if word]


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("rec", ["record"]),
        ("", sorted(name for name in COMMANDS if " " not in name)),
        ("vector re", ["replay"]),
        ("diff a b --fail", ["--fail-on-regression"]),
        ("diff a b --color=", ["always", "auto", "never"]),
        ("record debian:6.12 --arch ris", ["riscv64"]),
        ("record floor: --arch arm64 --case read,memo", ["read,memory"]),
        # "@" ends a word of bash: only what follows it is offered.
        ("record floor: --arch x86_64 --case getpid@", ["int80"]),
        ("record floor: --arch arm64 --case getpid@", []),
        ("diff ol", ["old.json"]),
    ],
)
def test_what_is_offered(
    line: str, offered: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "old.json").touch()
    assert main(["completion", "bash"]) == 0
    assert sorted(tab(f"kentry {line}", capsys.readouterr().out, tmp_path)) == offered


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
