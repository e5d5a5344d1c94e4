# SPDX-License-Identifier: GPL-2.0-or-later
"""A program on one kernel in boots with other seeds: nothing is better or worse."""

import pytest

from kentry.arch import find_arch
from kentry.arch.processors import MAX
from kentry.boot.emulator import BACKPORTS
from kentry.boot.guest_tasks import TraceOptions
from kentry.boot.userland.root_image import build_userland, find_release
from kentry.boot.userland.workloads import find_workload
from kentry.compare.workload import compare_workloads
from kentry.count.workload import run_workload
from kentry.stats.exact import SAME, UNDECIDED
from tests.places import silent

from .conftest import GetEmulator, or_skip, timed
from .test_record import fetched

pytestmark = pytest.mark.qemu


def test_a_kernel_and_itself_with_another_seed(get_emulator: GetEmulator) -> None:
    arch, kernel = find_arch("arm64"), fetched("debian:6.12", "arm64")
    get_emulator(arch, BACKPORTS)
    release, boots = find_release(None, arch), []
    userland = or_skip(
        "no packages", build_userland, arch, find_workload(["true"]), release, 768, silent
    )
    for seed in (1, 2):
        options = TraceOptions(memory=768, emulator=BACKPORTS, cpu=MAX, seed=seed)
        with timed(f"true on {kernel.spec} (arm64), seed {seed}"):
            workload, ending = run_workload(kernel, arch, userland, options, silent)
        assert ending.status == 0, ending.output
        boots.append(workload)
    # Other seeds are another run: two files of the same numbers would test nothing.
    assert boots[0].instructions != boots[1].instructions
    found = compare_workloads(boots[:1], boots[1:])
    assert found.verdicts <= {SAME, UNDECIDED}
    assert (found.entry.verdict, found.entry.delta) == (SAME, 0)
    assert sum(kind.verdict == SAME for kind in found.kinds) > 15
