# SPDX-License-Identifier: GPL-2.0-or-later
"""The layout's rules, read off the source itself."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "kentry"
MODULES = sorted(SOURCE.rglob("*.py"))

# A package may import the ones to its right of the arrow and the modules of BASE.
BASE = {"errors", "run", "cache", "progress", "arch", "native", "caveats", "cases", "mirror", ""}
ALLOWED = {
    "stats": {"stats"},
    "kernels": BASE | {"kernels", "apt"},
    "targets": BASE | {"targets", "kernels", "apt"},
    "path": BASE | {"path", "recording", "stats"},
    "report": BASE
    | {"report", "series", "ablation", "compare", "compare_timed", "path", "recording"}
    | {"stats", "vector", "importing", "preflight", "timing"},
    "series": BASE | {"compare", "recording"},
    "ablation": BASE | {"compare", "recording"},
    "recording": BASE | {"recording", "stats", "vector"},
    "compare": BASE | {"compare_timed", "differences", "recording", "stats", "path"},
    "differences": BASE | {"compare_timed", "recording"},
    "compare_timed": BASE | {"recording", "stats", "timing"},
    "vector": {"cache", "errors", "path", "recording", "vector"},
    # It makes root file systems; targets.initramfs has their format.
    "userland": BASE | {"userland", "targets", "apt"},
    "measure_vector": BASE | {"vector", "targets", "kernels", "recording"},
    # A trace is no recording: nothing is counted in windows.
    "trace_workload": BASE | {"measure_vector", "targets", "kernels", "userland", "vector"},
    "apt": BASE,
    "preflight": BASE | {"preflight"},
    "timing": BASE | {"kernels", "preflight", "recording", "stats", "targets", "timing", "vector"},
    "importing": BASE | {"importing", "recording", "vector"},
    "mirror": {"errors", "run"},
}
# What one module may import besides, since it is where two packages meet.
BESIDES = {
    "vector/hooks.py": {"arch", "kernels"},
}
# Only what they name of another package.
PARTS = {
    "userland": {"targets": {"kentry.targets.initramfs"}},
    "compare_timed": {"timing": {"kentry.timing.values"}},
}


def imported(file: Path) -> set[str]:
    """The first words after "kentry." of everything a module imports."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            if node.module == "kentry":
                found.update(alias.name for alias in node.names)
            elif node.module.startswith("kentry."):
                found.add(node.module.split(".")[1])
        elif isinstance(node, ast.Import):
            found.update(
                alias.name.split(".")[1] for alias in node.names if alias.name[:7] == "kentry."
            )
    return found - {"__version__"}


def test_there_are_modules() -> None:
    assert len(MODULES) > 30


@pytest.mark.parametrize("file", MODULES, ids=lambda file: str(file.relative_to(SOURCE)))
def test_imports_go_one_way(file: Path) -> None:
    name = str(file.relative_to(SOURCE))
    layer = name.partition("/")[0].removesuffix(".py")
    if layer in ALLOWED:
        assert imported(file) <= ALLOWED[layer] | BESIDES.get(name, set())
    for package, parts in PARTS.get(layer, {}).items():
        assert set(re.findall(rf"from (kentry\.{package}\.\w+) import", file.read_text())) <= parts


def test_heavy_libraries_wait_for_the_command_that_needs_them() -> None:
    """`kentry --help` and what boots kernels start without them."""
    script = (
        "import sys, kentry.cli, kentry.targets.tracing; kentry.cli.build_parser();"
        " print(*{'numpy', 'numba', 'pyarrow', 'matplotlib'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    )
    assert done.stdout.split() == []


@pytest.mark.parametrize("file", MODULES, ids=lambda file: str(file.relative_to(SOURCE)))
def test_only_arch_asks_which_architecture_it_is(file: Path) -> None:
    if file.name != "arch.py":
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


@pytest.mark.parametrize("file", MODULES, ids=lambda file: str(file.relative_to(SOURCE)))
def test_functions_are_short(file: Path) -> None:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.FunctionDef):
            assert node.end_lineno is not None
            assert node.end_lineno - node.lineno < 80, node.name
