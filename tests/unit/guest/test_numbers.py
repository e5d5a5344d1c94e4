# SPDX-License-Identifier: GPL-2.0-or-later
"""The probe's system call numbers are those of the kernel's own headers (linux-libc-dev)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests import ROOT

INCLUDE = Path("/usr/include")
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

ROW = re.compile(r"X\((\w+), (\d+), (\d+), (\d+)\)")
DEFINED = re.compile(r"^#define __NR(?:3264)?_(\w+)\s+(\d+)$", re.MULTILINE)


def numbers(header: str) -> dict[str, int]:
    files = [INCLUDE / header, *INCLUDE.glob(f"*-linux-gnu/{header}")]
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
def test_numbers_are_those_of_the_kernels_headers(
    header: str, column: int, names: dict[str, str]
) -> None:
    theirs = numbers(header)
    rows = ROW.findall((ROOT / "guest" / "numbers.h").read_text())
    assert len(rows) > 30
    ours = {name: int(columns[column]) for name, *columns in rows if name != NO_CALL}
    assert ours == {name: theirs[names.get(name, name)] for name in ours}
