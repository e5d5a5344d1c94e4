# SPDX-License-Identifier: GPL-2.0-or-later
"""What a path misses in the caches and TLBs of a named core: warm, cold, and after a walk.

    misses(path, accesses, hierarchy_of("neoverse-n1"))

models/caches.toml has sizes and ways of cores, each with its source.  The model is exact for what
it assumes: every level replaces the line that was used longest ago (LRU), a miss fills each level
that was asked, stores allocate like loads, a line's set follows from its virtual address, pages
have 4 KiB, nothing is prefetched, and nothing else runs on the core.
"""

import tomllib
from collections.abc import Collection, Iterable, Iterator, Sequence
from copy import copy
from functools import cache
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec
import numpy as np
from msgspec import Meta, Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from kentry.host.native import compiled
from kentry.results import caveats
from kentry.results.estimate import Level, Misses
from kentry.results.recording import Access, Instruction, Recording

_TABLE = Path(__file__).with_name("caches.toml")
_PAGE = 4096

# Code and data have caches and TLBs of their own, which share what is behind them.
_CODE, _DATA = 0, 1
_Blocks = NDArray[np.int64]

# A program reads one byte in 64, or runs one instruction; as guest/walks.c.
_STEP = 64
# Where what it reads begins, and what it runs.
_WALKED = {_DATA: 1 << 40, _CODE: 1 << 41}
_SHORTEST_WALK = 4096

_Amount = Annotated[int, Meta(gt=0)]


class _Size(Struct, frozen=True, forbid_unknown_fields=True):
    """Of a cache in KiB, of a TLB in entries."""

    ways: _Amount
    kib: _Amount | None = None
    entries: _Amount | None = None
    line: _Amount = 64


class _Row(Struct, frozen=True, forbid_unknown_fields=True):
    """A core in the table; what is not known of it is left out."""

    arch: str
    source: str
    l1i: _Size
    l1d: _Size
    l2: _Size
    l3: _Size | None = None
    itlb: _Size | None = None
    dtlb: _Size | None = None
    l2itlb: _Size | None = None
    l2dtlb: _Size | None = None
    l2tlb: _Size | None = None


class Hierarchy(NamedTuple):
    """Caches and TLBs; `chains` are asked in turn: caches, TLBs of code, caches, TLBs of data."""

    core: str
    source: str
    levels: tuple[Level, ...]
    chains: tuple[tuple[int, ...], ...]


# The levels by the table's keys, in the order in which people read them.
_NAMES = {key: key.upper() for key in ("l1i", "l1d", "l2", "l3", "itlb", "dtlb")}
_NAMES |= {"l2itlb": "L2 ITLB", "l2dtlb": "L2 DTLB", "l2tlb": "L2 TLB"}
_CHAINS = tuple(
    chain.split() for chain in ("l1i l2 l3", "itlb l2itlb l2tlb", "l1d l2 l3", "dtlb l2dtlb l2tlb")
)


@cache
def _table() -> dict[str, _Row]:
    return msgspec.convert(tomllib.loads(_TABLE.read_text()), dict[str, _Row])


def hierarchy_of(core: str) -> Hierarchy | None:
    """Looks up the caches and TLBs of a core by LLVM's name; None if they are not known."""
    row = _table().get(core)
    if row is None:
        return None
    levels = {}
    for key, name in _NAMES.items():
        size: _Size | None = getattr(row, key)
        if size and size.kib:
            levels[key] = Level(name, size.kib * 1024, size.ways, size.line)
        elif size and size.entries:
            levels[key] = Level(name, size.entries * _PAGE, size.ways, _PAGE)
    numbers = {key: number for number, key in enumerate(levels)}
    # Where the first is not known, it is not known either what the next ones are asked for.
    chains = tuple(
        tuple(numbers[key] for key in keys if key in numbers) if keys[0] in numbers else ()
        for keys in _CHAINS
    )
    return Hierarchy(core, row.source, tuple(levels.values()), chains)


def with_misses(
    recording: Recording, cores: Iterable[str], names: Collection[str] | None = None
) -> Recording:
    """Adds what paths of these cases, or all, miss on each core; caveats say what is unknown."""
    arch, hierarchies = recording.kernel["arch"], {core: hierarchy_of(core) for core in cores}
    known = [hierarchy for hierarchy in hierarchies.values() if hierarchy]
    notes = [caveats.modelled_caches()] if known else []
    if unknown := [core for core, hierarchy in hierarchies.items() if not hierarchy]:
        listed = ", ".join(name for name, row in _table().items() if row.arch == arch)
        notes.append(caveats.unknown_caches(", ".join(unknown), listed))
    cases = []
    for case in recording.cases:
        path = case.modal_path if names is None or case.name in names else None
        if path and path.length and known:
            if path.accesses is None:
                notes.append(caveats.no_accesses(case.name))
            else:
                code = recording.instructions(path)
                rows = tuple(misses(code, path.accesses, hierarchy) for hierarchy in known)
                case = replace(case, misses=rows)
        cases.append(case)
    # In place of those of an older model.
    kinds = {note["kind"] for note in notes}
    others = [note for note in recording.caveats if note["kind"] not in kinds]
    return replace(recording, cases=cases, caveats=[*others, *notes])


def misses(path: Sequence[Instruction], accesses: Sequence[Access], hierarchy: Hierarchy) -> Misses:
    """Counts misses after itself (warm), in empty caches (cold), after walks of doubled length."""
    model = Model(hierarchy)
    blocks, sides = model.stream(path, accesses)
    cold = model.run(blocks, sides)
    # A level repeats what it did one pass after those in front of it do.
    for _ in hierarchy.levels:
        warm = model.run(blocks, sides)
    data, both = (
        tuple((size, caches.run(blocks, sides)) for size, caches in model.walks(through))
        for through in ((_DATA,), (_DATA, _CODE))
    )
    return Misses(hierarchy.core, hierarchy.levels, warm, cold, data, hierarchy.source, both)


class Model:
    """The state of a core's caches and TLBs."""

    def __init__(self, hierarchy: Hierarchy) -> None:
        """Begins with everything empty."""
        self._hierarchy = hierarchy
        levels, chains = hierarchy.levels, hierarchy.chains
        self._unit = min(level.line for level in levels)
        entries = [level.bytes // level.line for level in levels]
        rows = [
            (first, count // level.ways, level.ways, (level.line // self._unit).bit_length() - 1)
            for first, count, level in zip(np.cumsum([0, *entries]), entries, levels, strict=False)
        ]
        self._shape = np.array(rows, np.int64)
        self._chains = np.full((len(chains), max(map(len, chains))), -1, np.int64)
        for number, chain in enumerate(chains):
            self._chains[number, : len(chain)] = chain
        self._tags = np.full(sum(entries), -1, np.int64)

    def stream(
        self, path: Sequence[Instruction], accesses: Sequence[Access]
    ) -> tuple[_Blocks, _Blocks]:
        """Prepares a path for run(): an instruction's fetch, then what it loads and stores."""
        spans = [(n, _CODE, insn.address, len(insn.code) // 2) for n, insn in enumerate(path)]
        spans += [(access.position, _DATA, access.address, access.size) for access in accesses]
        # A stable sort: an instruction's accesses stay in their order.
        spans.sort(key=lambda span: span[:2])
        accessed = [
            (block, side)
            for _, side, address, size in spans
            for block in range(address // self._unit, (address + size - 1) // self._unit + 1)
        ]
        both = np.array(accessed, np.int64).reshape(-1, 2)
        return both[:, 0].copy(), both[:, 1].copy()

    def run(self, blocks: _Blocks, sides: _Blocks) -> tuple[int, ...]:
        """Accesses blocks of `_unit` bytes, of code or of data; how often each level missed."""
        missed = np.zeros(len(self._shape), np.int64)
        _run(blocks, sides, self._chains, self._shape, self._tags, missed)
        return tuple(missed.tolist())

    def walks(self, through: Sequence[int]) -> Iterator[tuple[int, "Model"]]:
        """Walks through 4 KiB, 8 KiB, ... of each side; yields the bytes and a copy behind them."""
        walked, size = 0, _SHORTEST_WALK
        # A walk through as much as a level holds leaves nothing that was in it.
        while walked < max(level.bytes for level in self._hierarchy.levels):
            behind = copy(self)
            behind._tags = self._tags.copy()
            for side in through:
                blocks = np.arange(_WALKED[side], _WALKED[side] + size, _STEP) // self._unit
                behind.run(blocks, np.full(len(blocks), side, np.int64))
            yield size, behind
            walked, size = size, 2 * size


@compiled
def _is_hit(tags: _Blocks, first: int, ways: int, tag: int) -> bool:
    """Looks for a tag in a set, which is in the order of use, and moves it to the front."""
    before = tag
    for way in range(first, first + ways):
        before, tags[way] = tags[way], before
        if before == tag:
            return True
    return False


@compiled
def _run(
    blocks: _Blocks, sides: _Blocks, chains: _Blocks, shape: _Blocks, tags: _Blocks, missed: _Blocks
) -> None:
    for n in range(len(blocks)):
        for chain in range(2 * sides[n], 2 * sides[n] + 2):
            for depth in range(chains.shape[1]):
                level = chains[chain, depth]
                if level < 0:
                    break
                tag = blocks[n] >> shape[level, 3]
                ways = shape[level, 2]
                first = shape[level, 0] + tag % shape[level, 1] * ways
                if _is_hit(tags, first, ways, tag):
                    break
                missed[level] += 1
