# SPDX-License-Identifier: GPL-2.0-or-later
"""kentry run against what is known otherwise.

That is: the kernel's own counts of system calls by a tracepoint, in the same boot; a program of
which every call was counted by hand (tracing/countable.c); the guest's clock; another boot.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from bench.calls import calls_of_kentry, calls_of_the_kernel, counted, differences
from msgspec.structs import replace

from kentry.arch import find_arch
from kentry.arch.processors import MAX
from kentry.boot.emulator import BACKPORTS
from kentry.boot.guest_tasks import Ending, TraceOptions
from kentry.boot.userland.root_image import build_userland, find_release
from kentry.boot.userland.workloads import Workload as Program
from kentry.boot.userland.workloads import find_workload, parse_copy
from kentry.count.workload import run_workload
from kentry.results.workload import Workload, write_workload
from tests.places import silent

from .conftest import GetEmulator, timed
from .test_record import fetched
from .test_tracing import CALLS, CHILDREN, CHILDS_CALLS, KERNEL, NUMBERS, countable

pytestmark = pytest.mark.qemu

LATE_NS = 3000
ARCHES = ("arm64", "riscv64", "x86_64")
SCRIPT = "find /usr -name '*.so*' | sort >/tmp/sorted; /root/countable"


def calls_of(workload: Workload, program: str) -> Counter[int]:
    """The system calls of the tasks of a name."""
    others = tuple(one for one in workload.programs if one.name == program)
    return calls_of_kentry(replace(workload, programs=others))


def run(name: str, workload: Program, timeout: float = 900.0) -> tuple[Workload, Ending]:
    arch, kernel = find_arch(name), fetched(KERNEL, name)
    userland = build_userland(arch, workload, find_release(None, arch), 1024, silent)
    options = TraceOptions(memory=1024, emulator=BACKPORTS, cpu=MAX, timeout=timeout)
    with timed(f"{KERNEL} ({name}), kentry run"):
        return run_workload(kernel, arch, userland, options, silent)


@pytest.mark.parametrize("name", ARCHES)
def test_calls_are_those_that_the_kernel_and_a_hand_counted(
    name: str, get_emulator: GetEmulator, tmp_path: Path
) -> None:
    arch = find_arch(name)
    get_emulator(arch, BACKPORTS)
    program = countable(arch, tmp_path)
    copies = [parse_copy(f"{program}:/root/countable")]
    workload, ending = run(name, counted(find_workload([SCRIPT], copies)))
    assert workload.complete
    assert ending.status == 0, ending.output
    numbers = {call: pair[name == "x86_64"] for call, pair in NUMBERS.items()}
    wanted = Counter(numbers[call] for call, _ in CALLS)
    for call, _ in CHILDS_CALLS:
        wanted[numbers[call]] += CHILDREN
    assert calls_of(workload, "countable") == wanted
    kernels = calls_of_the_kernel(ending)
    assert not differences(workload, calls_of_kentry(workload), kernels)
    assert kernels.total() > 2 * wanted.total()
    assert sum(row.instructions for row in workload.rows) == workload.instructions
    assert not {one["kind"] for one in workload.caveats} & {"missed-returns", "stopped-early"}
    # An access that faults is dispatched twice, and the clock counts it once.
    again = sum(row.calls for row in workload.rows if row.name.startswith("page fault"))
    assert workload.clock
    assert workload.clock.instructions > workload.instructions / 4
    # Readings are a tick or some hundred instructions late, 20 of riscv's ticks in all.
    assert -LATE_NS <= workload.clock.ahead <= again + LATE_NS


def test_two_boots_are_the_same_bytes(get_emulator: GetEmulator, tmp_path: Path) -> None:
    get_emulator(find_arch("arm64"), BACKPORTS)
    files = [tmp_path / "one.json", tmp_path / "other.json"]
    for file in files:
        write_workload(run("arm64", find_workload(["ls", "-l", "/usr"]))[0], file)
    assert files[0].read_bytes() == files[1].read_bytes()


def test_what_never_ends_is_stopped_and_what_was_counted_kept(get_emulator: GetEmulator) -> None:
    get_emulator(find_arch("arm64"), BACKPORTS)
    endless = find_workload(["while :; do read -r line </proc/uptime; done"])
    workload, ending = run("arm64", endless, timeout=30)
    assert (ending.status, workload.complete) == (None, False)
    row = workload.row("openat")
    assert row
    assert row.calls > 1000
    assert "stopped-early" in {one["kind"] for one in workload.caveats}
