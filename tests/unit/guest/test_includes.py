# SPDX-License-Identifier: GPL-2.0-or-later
"""The C sources as modules: X.c and X.h are one."""

import re
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from kentry.arch import ARCHES
from tests import ROOT

INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)


def includes(files: list[Path]) -> dict[str, set[str]]:
    """Which modules each module includes."""
    graph: dict[str, set[str]] = {}
    for file in files:
        headers = {Path(name).stem for name in INCLUDE.findall(file.read_text())}
        graph.setdefault(file.stem, set()).update(headers - {file.stem})
    return graph


@pytest.mark.parametrize("arch", ARCHES)
def test_no_module_of_the_guest_includes_itself_through_others(arch: str) -> None:
    guest = ROOT / "guest"
    files = [*guest.glob("*.[ch]"), *guest.glob("cases/*.c"), *guest.glob(f"arch/{arch}/*.h")]
    graph = includes(files)
    assert {"run", "system", "windows"} <= graph["probe"]
    TopologicalSorter(graph).prepare()  # raises CycleError
    assert not any("probe" in headers for headers in graph.values())


def test_no_module_of_the_plugin_includes_itself_through_others() -> None:
    graph = includes([*(ROOT / "plugin").glob("*.[ch]")])
    TopologicalSorter(graph).prepare()
