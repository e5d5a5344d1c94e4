# SPDX-License-Identifier: GPL-2.0-or-later
"""Misses in caches and TLBs: by hand, against another model of few lines, and the table."""

import os
import platform
import random
import shutil
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest
from msgspec import structs
from msgspec.structs import replace

from kentry.arch import ARCHES
from kentry.models import caches
from kentry.models.caches import Hierarchy, Model, hierarchy_of, misses, with_misses
from kentry.results.estimate import Level
from kentry.results.recording import Access, Instruction, read_recording, write_recording
from tests import builders, cachegrind

NOP = "1f2003d5"
CODE, DATA = 0, 1

# Code: 4 lines of 64 bytes, 2 ways.  Data: 2 lines of one set.  Both share 16 lines, 4 ways.
SMALL = Hierarchy(
    "small",
    "",
    (
        Level("L1I", 256, 2, 64),
        Level("L1D", 128, 2, 64),
        Level("L2", 1024, 4, 64),
        Level("ITLB", 4096, 1, 4096),
        Level("DTLB", 2 * 4096, 2, 4096),
    ),
    ((0, 2), (3,), (1, 2), (4,)),
)


def instructions(*addresses: int) -> list[Instruction]:
    return [Instruction(address, NOP, "nop", "f", 0) for address in addresses]


def test_a_line_and_a_page_are_missed_once_and_found_again() -> None:
    path = instructions(0, 4, 60, 64, 0)
    found = misses(path, [Access(1, 0x2000, 8, False)], SMALL)
    assert found.cold == (2, 1, 3, 1, 1)
    assert found.warm == (0, 0, 0, 0, 0)
    # An access across two lines and pages is one to each.
    found = misses(instructions(0), [Access(0, 4092, 8, True)], SMALL)
    assert (found.cold[1], found.cold[4]) == (2, 2)
    # Code and data share what is behind their own caches.
    found = misses(instructions(0), [Access(0, 0, 4, False)], SMALL)
    assert found.cold == (1, 1, 1, 1, 1)


def test_a_walk_evicts_data_and_leaves_code_in_its_own_cache() -> None:
    path = instructions(*range(0, 256, 4))
    found = misses(path, [Access(n, 0x10000 + 64 * n, 8, False) for n in range(2)], SMALL)
    assert found.cold == (4, 2, 6, 1, 1)
    # The first walk is larger than the caches; its one page leaves the other entry of the DTLB.
    assert found.walked == ((4096, (0, 2, 2, 0, 0)), (8192, (0, 2, 2, 0, 1)))
    # One that also runs through code leaves nothing of the path's; the ITLB has one entry.
    assert found.walked_with_code == ((4096, (4, 2, 6, 1, 0)), (8192, (4, 2, 6, 1, 1)))


def test_a_walk_ends_where_the_largest_level_is_full() -> None:
    hierarchy = hierarchy_of("skylake-avx512")
    assert hierarchy
    data = [Access(0, 64 * n, 8, False) for n in range(300)]
    found = misses(instructions(1 << 30), data, hierarchy)
    sizes = [size for size, _ in found.walked]
    largest = max(level.bytes for level in hierarchy.levels)
    assert sizes == [4096 << power for power in range(len(sizes))]
    assert sizes[-2] < largest <= sizes[-1]
    missed = dict(zip((level.name for level in hierarchy.levels), found.walked[-1][1], strict=True))
    assert (missed["L1D"], missed["L2"], missed["L1I"], missed["DTLB"]) == (300, 300, 0, 5)
    assert found.walked_with_code[-1] == (sizes[-1], found.cold)


class Plain:
    """The same model in few lines, without numba: sets of an OrderedDict, longest ago first."""

    def __init__(self, hierarchy: Hierarchy) -> None:
        self.hierarchy = hierarchy
        self.sets: dict[tuple[int, int], OrderedDict[int, None]] = {}
        self.missed = [0] * len(hierarchy.levels)

    def access(self, address: int, side: int) -> None:
        for chain in self.hierarchy.chains[2 * side : 2 * side + 2]:
            for place in chain:
                level = self.hierarchy.levels[place]
                line = address // level.line
                count = level.bytes // level.line // level.ways
                ways = self.sets.setdefault((place, line % count), OrderedDict())
                hit = line in ways
                ways[line] = None
                ways.move_to_end(line)
                if hit:
                    break
                self.missed[place] += 1
                if len(ways) > level.ways:
                    ways.popitem(last=False)


@pytest.mark.parametrize("core", ["small", *caches._table()])
def test_a_second_model_counts_the_same(core: str) -> None:
    hierarchy = SMALL if core == "small" else hierarchy_of(core)
    assert hierarchy
    chosen = random.Random(core)
    addresses, at = [], 0
    for _ in range(10_000):
        # Near the one before, or anywhere in a little more than the largest cache.
        near = at + chosen.randrange(-256, 256)
        at = near if chosen.random() < 0.7 else chosen.randrange(1 << 26)
        addresses.append(abs(at) // 64 * 64)
    sides = [chosen.randrange(2) for _ in addresses]
    plain, model = Plain(hierarchy), Model(hierarchy)
    for address, side in zip(addresses, sides, strict=True):
        plain.access(address, side)
    unit = min(level.line for level in hierarchy.levels)
    found = model.run(np.array(addresses) // unit, np.array(sides, np.int64))
    assert list(found) == plain.missed
    assert all(found)


@pytest.mark.parametrize("core", ["small", "neoverse-n1"])
def test_a_second_model_counts_the_same_behind_walks(core: str) -> None:
    """Whatever the order of lines in a page, which is the probe's own where it runs code."""
    hierarchy = SMALL if core == "small" else hierarchy_of(core)
    assert hierarchy
    chosen = random.Random(core)
    path = instructions(*(chosen.randrange(1 << 18) & ~3 for _ in range(400)))
    data = [Access(n, chosen.randrange(1 << 20) & ~7, 8, False) for n in range(0, 400, 3)]
    found = misses(path, data, hierarchy)
    lines, sides = Model(hierarchy).stream(path, data)
    unit = min(level.line for level in hierarchy.levels)
    window = list(zip((lines * unit).tolist(), sides.tolist(), strict=True))
    for walks, through in ((found.walked, (DATA,)), (found.walked_with_code, (DATA, CODE))):
        for size, counts in walks[:9]:
            plain = Plain(hierarchy)
            for address, side in window * 2:
                plain.access(address, side)
            for side in through:
                for line in range(size // 64):
                    at = line if side == DATA else line & ~63 | line * 29 & 63
                    plain.access((side + 1 << 40) + 64 * at, side)
            before = list(plain.missed)
            for address, side in window:
                plain.access(address, side)
            assert counts == tuple(b - a for a, b in zip(before, plain.missed, strict=True))


@pytest.mark.parametrize("core", caches._table())
def test_each_core_of_the_table_can_be_built_and_has_its_source(core: str) -> None:
    row, found = caches._table()[core], hierarchy_of(core)
    assert found
    assert row.arch in ARCHES
    assert len(row.source) > 20
    assert row.source.isascii()
    for level in found.levels:
        lines, rest = divmod(level.bytes, level.line)
        assert not rest, level
        assert not lines % level.ways, level
        assert not level.line & (level.line - 1), "a line is a power of two"
    assert not (row.l2tlb and (row.l2itlb or row.l2dtlb)), "together or apart"


def test_a_level_behind_one_that_is_not_known_is_not_asked() -> None:
    """What an unknown first TLB passes on is not known: of Neoverse N2's L2 TLB, data only."""
    found = hierarchy_of("neoverse-n2")
    assert found
    names = [[found.levels[place].name for place in chain] for chain in found.chains]
    assert names == [["L1I", "L2"], [], ["L1D", "L2"], ["DTLB", "L2 TLB"]]


def test_misses_are_kept_in_the_file(tmp_path: Path) -> None:
    base = builders.recording({"getppid": [("f", 2)], "read": [("g", 1)]})
    rows = (Access(0, 64, 8, False).row,)
    cases = [
        replace(case, paths=tuple(structs.replace(path, rows=rows) for path in case.paths))
        for case in base.cases
    ]
    recording = with_misses(replace(base, cases=cases), ["neoverse-n1"], ["getppid"])
    file = tmp_path / "one.json"
    write_recording(recording, file)
    again = read_recording(file)
    assert again.cases == recording.cases
    (found,) = again.cases[0].misses
    assert (found.core, found.warm) == ("neoverse-n1", (0,) * len(found.levels))
    assert again.cases[1].misses == ()


def test_what_is_not_known_is_said_and_the_rest_is_there() -> None:
    base = builders.recording({"getppid": [("f", 2)]})
    found = with_misses(base, ["neoverse-n1", "thunderx"])
    assert [case.misses for case in found.cases] == [()]
    texts = {one["kind"]: one["text"] for one in found.caveats}
    assert "thunderx" in texts["unknown-caches"]
    assert "neoverse-n1" in texts["unknown-caches"]
    assert "getppid" in texts["no-accesses"]


@pytest.mark.slow
def test_cachegrind_misses_the_same(tmp_path: Path) -> None:
    """valgrind's own model of the same caches, of a program that misses in each."""
    if not shutil.which("valgrind") or platform.machine() != "x86_64":
        assert not os.environ.get("KENTRY_TEST_FORCE") or platform.machine() != "x86_64"
        pytest.skip(
            "no valgrind for x86-64 programs here (to make this a failure: KENTRY_TEST_FORCE=1)"
        )
    program = cachegrind.build(tmp_path, rounds=20_000)
    hierarchy = cachegrind.hierarchy((8192, 2), (4096, 4), (65536, 8))
    counted = cachegrind.cachegrind(program, hierarchy.levels)
    lines, sides = cachegrind.trace(program)
    found = Model(hierarchy).run(lines, sides)
    assert counted["Ir"] == int((sides == CODE).sum())
    assert found[0] == counted["I1mr"] > 1000
    assert found[1] == counted["D1mr"] + counted["D1mw"] > 1000
    assert found[2] == counted["ILmr"] + counted["DLmr"] + counted["DLmw"] > 1000
