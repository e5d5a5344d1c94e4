# SPDX-License-Identifier: GPL-2.0-or-later
"""Three instructions more at every system call's entry, in the quickest workloads.

`python -m bench.planted_programs` has all workloads, and 100 pairs of boots.
"""

from pathlib import Path

import pytest
from bench.planted_programs import ARCH, PLANTED, UNUSED, kernels, measure

from kentry.boot.emulator import BACKPORTS
from kentry.results.workload import SYSCALL

from .conftest import GetEmulator, or_skip, timed

pytestmark = pytest.mark.qemu

SPEC = "debian:6.12"


@pytest.mark.parametrize("line", ["true", "sqlite"])
def test_a_plant_at_the_entry_is_found_and_nothing_else(
    line: str, get_emulator: GetEmulator, tmp_path: Path
) -> None:
    get_emulator(ARCH, BACKPORTS)
    base, planted = or_skip(f"no {SPEC}", kernels, SPEC, tmp_path)
    with timed(f"{line} on {SPEC} ({ARCH.name}), two boots with a plant and two without"):
        result = or_skip("no packages", measure, [line], 2, base, planted)
    right, decided = result.kinds
    assert result.found.entry.delta == PLANTED
    assert right == decided > 10
    assert (result.others, result.same, len(result.pairs)) == ([], 1, 1)
    assert result.is_right
    functions = {one.name: one.delta for one in result.found.functions}
    sides = [kind.new for kind in result.found.kinds if kind.what == SYSCALL]
    assert functions[UNUSED] == PLANTED * sum(side.calls[0] for side in sides if side)
