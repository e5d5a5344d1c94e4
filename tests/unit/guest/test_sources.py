# SPDX-License-Identifier: GPL-2.0-or-later
"""The C and assembly sources: modules, system call numbers, what each floor instruction is for."""

import re
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from kentry.arch import ARCHES
from tests import ROOT

# What follows the measured code in each file.
NOT_MEASURED = re.compile(r"^(floor_other|floor_work):", re.MULTILINE)
INSTRUCTION = re.compile(r"^\t(?!\.|UNUSED|b floor_fault$)(.+)$", re.MULTILINE)
WHY = {
    "least": re.compile(r"/\* (ABI|hardware)\b"),
    "linux": re.compile(
        r"/\* (ABI|hardware|registers|restart|work|latency|table|speculation|exit)\b"
    ),
}


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("kind", WHY)
def test_each_measured_instruction_says_why(arch: str, kind: str) -> None:
    text = (ROOT / "guest" / "floor" / arch / f"{kind}.S").read_text()
    end = NOT_MEASURED.search(text)
    assert end
    measured = text[text.index("floor_entry:") if ":" in text else 0 : end.start()]
    lines = INSTRUCTION.findall(measured)
    assert lines
    assert [line for line in lines if not WHY[kind].search(line)] == []


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
    """Which modules each module includes; X.c and X.h are one."""
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
    foreign = {module: names - defined.get(module, set()) for module, names in declared.items()}
    assert not any(foreign.values()), foreign
    assert sum(map(len, declared.values())) > 10


HEADERS = Path("/usr/include")
# The headers name the 64-bit forms otherwise: generic ones by __NR3264, i386's by 64 or 2.
GENERIC = {"newfstatat": "fstatat"}
I386 = {
    "clock_gettime": "clock_gettime64",
    "fstat": "fstat64",
    "getuid": "getuid32",
    "mmap": "mmap2",
    "newfstatat": "fstatat64",
}
NO_CALL = "invalid"
# Newer than the headers of this machine.
NEWER = {"rseq_slice_yield": 471}

ROW = re.compile(r"X\((\w+), (\d+), (\d+), (\d+)\)")
DEFINED = re.compile(r"^#define __NR(?:3264)?_(\w+)\s+(\d+)$", re.MULTILINE)


def numbers(header: str) -> dict[str, int]:
    files = [HEADERS / header, *HEADERS.glob(f"*-linux-gnu/{header}")]
    found = [file for file in files if file.exists()]
    if not found:
        pytest.skip(f"no {header} on this machine: it is in linux-libc-dev for that architecture")
    return {name: int(number) for name, number in DEFINED.findall(found[0].read_text())}


@pytest.mark.parametrize(
    ("header", "column", "names"),
    [
        ("asm-generic/unistd.h", 0, GENERIC),
        ("asm/unistd_64.h", 1, {}),
        ("asm/unistd_32.h", 2, I386),
    ],
)
def test_numbers_are_the_kernels(header: str, column: int, names: dict[str, str]) -> None:
    theirs = NEWER | numbers(header)
    rows = ROW.findall((ROOT / "guest" / "numbers.h").read_text())
    assert len(rows) > 30
    ours = {name: int(columns[column]) for name, *columns in rows if name != NO_CALL}
    assert ours == {name: theirs[names.get(name, name)] for name in ours}
