# SPDX-License-Identifier: GPL-2.0-or-later
"""The C sources as modules: X.c and X.h are one, and no module needs itself through others.

python -m pytest tests/unit/guest/test_includes.py shows it for all three architectures.
"""

import re
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from kentry.arch import ARCHES
from tests import ROOT

INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)
# A function that begins a line, with the end of its head: ";" declares it, a brace defines it.
FUNCTION = re.compile(
    r"^(?!static|#|\t)(?:__attribute__\(\(.*?\)\) )?[a-z][\w ]*[ *](\w+)\(([^;{]*)([;{])",
    re.MULTILINE,
)
FOLDERS = [*(("guest", arch) for arch in ARCHES), ("plugin", "")]


def sources(folder: str, arch: str) -> list[Path]:
    root = ROOT / folder
    return [*root.glob("*.[ch]"), *root.glob("cases/*.c"), *root.glob(f"arch/{arch}/*.h")]


def includes(files: list[Path]) -> dict[str, set[str]]:
    """Which modules each module includes."""
    graph: dict[str, set[str]] = {}
    for file in files:
        headers = {Path(name).stem for name in INCLUDE.findall(file.read_text())}
        graph.setdefault(file.stem, set()).update(headers - {file.stem})
    return graph


def functions(files: list[Path], end: str) -> dict[str, set[str]]:
    """The functions that each module's files declare (";") or define ("{"), without static ones."""
    return {
        file.stem: {head[0] for head in FUNCTION.findall(file.read_text()) if head[2] == end}
        for file in files
    }


@pytest.mark.parametrize(("folder", "arch"), FOLDERS)
def test_no_module_includes_itself_through_others(folder: str, arch: str) -> None:
    graph = includes(sources(folder, arch))
    TopologicalSorter(graph).prepare()  # raises CycleError
    assert not any({"probe", "runner", "costs"} & headers for headers in graph.values())


@pytest.mark.parametrize(("folder", "arch"), FOLDERS)
def test_what_a_header_declares_its_own_module_defines(folder: str, arch: str) -> None:
    """So no function of one module stands in another's header, which would hide a circle."""
    files = sources(folder, arch)
    declared = functions([file for file in files if file.suffix == ".h"], ";")
    defined = functions([file for file in files if file.suffix == ".c"], "{")
    foreign = {
        module: names - defined.get(module, set())
        for module, names in declared.items()
        if names - defined.get(module, set())
    }
    assert foreign == {}
    assert sum(map(len, declared.values())) > 10
