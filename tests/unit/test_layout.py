# SPDX-License-Identifier: GPL-2.0-or-later
"""Rules of the source that no linter knows; import-linter has those of its layers."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import ROOT

SOURCE = ROOT / "src" / "kentry"
MODULES = sorted(SOURCE.rglob("*.py"))


def test_there_are_modules() -> None:
    assert len(MODULES) > 30


def test_heavy_libraries_wait_for_the_command_that_needs_them() -> None:
    """`kentry --help` and what boots kernels start without them."""
    script = (
        "import sys, kentry.cli, kentry.runners.guest_tasks; kentry.cli.build_parser();"
        " print(*{'numpy', 'numba', 'pyarrow', 'matplotlib'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    )
    assert done.stdout.split() == []


@pytest.mark.parametrize("file", MODULES, ids=lambda file: str(file.relative_to(SOURCE)))
def test_only_arch_asks_which_architecture_it_is(file: Path) -> None:
    if file.parent.name != "arch":
        assert not re.search(r"arch(\.name)?\s*(==|!=|in)\s*[\[({\"']", file.read_text())


@pytest.mark.parametrize("file", MODULES, ids=lambda file: str(file.relative_to(SOURCE)))
def test_only_the_cli_exits_and_only_commands_print(file: Path) -> None:
    text = file.read_text()
    # kallsyms.py is run as a program of its own, to keep a library's output and memory apart.
    if file.name not in ("cli.py", "kallsyms.py"):
        assert "sys.exit" not in text
        assert "os._exit" not in text
    if file.name not in ("cli.py", "progress.py") and file.parent.name != "commands":
        assert not re.search(r"^\s*print\(", text, re.MULTILINE)
    assert "shell=True" not in text
