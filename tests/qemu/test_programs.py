# SPDX-License-Identifier: GPL-2.0-or-later
"""The quickest workloads, and a command line, on one architecture.

`python -m bench.programs` boots all of them on three.
"""

import re

import pytest
from bench.programs import run

from kentry.arch import find_arch
from kentry.boot.emulator import BACKPORTS

from .conftest import GetEmulator, or_skip, tell

pytestmark = pytest.mark.qemu


@pytest.mark.parametrize(
    ("line", "printed"),
    [
        ("nginx", "Complete requests: +1000"),
        ("sqlite", "ok\\s+ok"),
        ("fio", "io_uring: .*err= 0"),
        ("git status && git ls-files | wc -l", "working tree clean\\s+[12][0-9]{3}$"),
    ],
)
def test_a_workload_does_what_it_says(line: str, printed: str, get_emulator: GetEmulator) -> None:
    arch = find_arch("arm64")
    get_emulator(arch, BACKPORTS)
    done = or_skip("no packages", run, "debian:6.12", arch, [line])
    tell(f"{line} on debian:6.12 (arm64): {done.wall:.1f} s")
    assert done.ending.status == 0, done.ending.output
    assert re.search(printed, done.ending.output), done.ending.output
