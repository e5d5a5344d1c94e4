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


def test_no_benchmark_stands_in_for_a_module_of_python() -> None:
    """A script's folder comes first where Python looks for modules."""
    assert not {file.stem for file in (ROOT / "bench").glob("*.py")} & sys.stdlib_module_names


GOLDEN = ROOT / "tests" / "golden"


def test_heavy_libraries_wait_for_the_command_that_needs_them() -> None:
    heavy = "{'numpy', 'scipy', 'numba', 'pyarrow', 'matplotlib'} & set(sys.modules)"
    lines = ["import sys, kentry.cli, kentry.boot.guest_tasks", "kentry.cli.build_parser()"]
    for words in (
        "diff arm64-6.1.json arm64-6.12.json",
        "annotate arm64-6.1.json",
        "check arm64-6.12.json --budget check.toml",
    ):
        lines += [f"kentry.cli.main('{words}'.split())", f"assert not {heavy}, {heavy}"]
    command = [sys.executable, "-c", "\n".join(lines)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=GOLDEN)


def test_no_module_imports_by_a_relative_name() -> None:
    """The key of cached recordings follows imports by their whole names."""
    assert not [file for file in MODULES if re.search(r"^ *from \.", file.read_text(), re.M)]


@pytest.mark.parametrize("file", MODULES, ids=lambda file: str(file.relative_to(SOURCE)))
def test_only_arch_asks_which_architecture_it_is(file: Path) -> None:
    if file.parent.name != "arch":
        assert not re.search(r"arch(\.name)?\s*(==|!=|in)\s*[\[({\"']", file.read_text())


@pytest.mark.parametrize("file", MODULES, ids=lambda file: str(file.relative_to(SOURCE)))
def test_only_the_cli_exits_and_only_commands_print(file: Path) -> None:
    text = file.read_text()
    # sandbox_init.py runs as a program of its own.
    if file.name not in ("__main__.py", "cli.py", "sandbox_init.py"):
        assert "sys.exit" not in text
        assert "os._exit" not in text
    if file.name not in ("cli.py", "progress.py") and file.parent.name != "commands":
        assert not re.search(r"^\s*print\(", text, re.MULTILINE)
    assert "shell=True" not in text
