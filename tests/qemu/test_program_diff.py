# SPDX-License-Identifier: GPL-2.0-or-later
"""A program on two kernels: what each entry got dearer by, and nothing in boots of one kernel."""

import pytest

from kentry.arch import find_arch
from kentry.arch.processors import MAX
from kentry.boot.emulator import BACKPORTS
from kentry.boot.exact import ExactOptions
from kentry.boot.guest_tasks import TraceOptions
from kentry.boot.userland.root_image import build_userland, find_release
from kentry.boot.userland.workloads import find_workload
from kentry.compare.workload import compare_workloads
from kentry.count.workload import run_workload
from kentry.results.recording import INSTRUCTIONS
from kentry.results.workload import Workload
from kentry.stats.exact import SAME, UNDECIDED, WORSE
from tests.places import silent

from .conftest import GetEmulator, or_skip, timed
from .test_record import fetched, recorded

pytestmark = pytest.mark.qemu

KERNEL = "debian:6.12"
# Unmaps the kernel while a program runs: more instructions at each entry and exit.
APPEND = "kpti=1"


@pytest.fixture
def boots(get_emulator: GetEmulator) -> list[Workload]:
    """A shell that does nothing: twice with other seeds, then with APPEND."""
    arch, kernel = find_arch("arm64"), fetched(KERNEL, "arm64")
    get_emulator(arch, BACKPORTS)
    release, found = find_release(None, arch), []
    userland = or_skip(
        "no packages", build_userland, arch, find_workload(["true"]), release, 768, silent
    )
    for seed, append in ((1, ""), (2, ""), (1, APPEND)):
        options = TraceOptions(memory=768, emulator=BACKPORTS, cpu=MAX, seed=seed, append=append)
        with timed(f"true on {KERNEL} (arm64), seed {seed} {append}"):
            workload, ending = run_workload(kernel, arch, userland, options, silent)
        assert ending.status == 0, ending.output
        found.append(workload)
    return found


def test_each_entry_gets_dearer_and_none_in_another_boot(boots: list[Workload]) -> None:
    same, dearer = (compare_workloads(boots[:1], [other]) for other in boots[1:])
    # Other seeds are another run: two files of the same numbers would test nothing.
    assert boots[0].instructions != boots[1].instructions
    assert same.verdicts <= {SAME, UNDECIDED}
    assert (same.entry.verdict, same.entry.delta) == (SAME, 0)
    assert sum(kind.verdict == SAME for kind in same.kinds) > 15

    values = []
    for append in ("", APPEND):
        options = ExactOptions(cpu=MAX, append=append, cases=("getppid",))
        [case] = recorded(fetched(KERNEL, "arm64"), options).cases
        values.append(case.metrics[INSTRUCTIONS].value)
    assert values[1] > values[0]
    assert (dearer.entry.verdict, dearer.entry.delta) == (WORSE, values[1] - values[0])
    changed = {kind.name: kind.delta for kind in dearer.kinds if kind.delta}
    assert set(changed.values()) == {dearer.entry.delta}
    assert len(changed) > 15 and "getppid" in changed
