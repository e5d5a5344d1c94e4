# SPDX-License-Identifier: GPL-2.0-or-later
"""Both paths of a case in a comparison's file: packed and unpacked they are as they were."""

from collections.abc import Sequence

import msgspec
import pytest

from kentry.arch import find_arch
from kentry.compare.path_diff import diff_paths, modal_paths
from kentry.path.pairs import pack_pairs, unpack_pairs
from kentry.results.annotation import PathPair
from kentry.results.comparison import PackedPair, PackedPaths
from kentry.results.recording import CodeFile, Instruction, read_recording
from tests import ROOT

ARM64 = find_arch("arm64")
# One each: the bytes in memory order, LLVM's text.
ADD, SUB = ("0000018b", "add x0, x0, x1"), ("000001cb", "sub x0, x0, x1")
NOP, RET = ("1f2003d5", "nop"), ("c0035fd6", "ret")


def path(words: Sequence[tuple[str, str]], start: int, function: str = "f") -> list[Instruction]:
    return [
        Instruction(start + 4 * at, code, text, function, 4 * at)
        for at, (code, text) in enumerate(words)
    ]


def pair(old: Sequence[Instruction], new: Sequence[Instruction]) -> PathPair:
    return PathPair(old, new, diff_paths("case", old, new, ARM64))


def read(packed: PackedPaths) -> PackedPaths:
    """As a file has it."""
    return msgspec.json.decode(msgspec.json.encode(packed), type=PackedPaths)


def test_paths_come_back_as_they_were() -> None:
    old, new = (
        read_recording(ROOT / f"tests/golden/arm64-{version}.json") for version in ("6.1", "6.12")
    )
    found = {case.name: modal_paths(case.name, old, new) for case in old.cases}
    pairs = {name: own for name, own in found.items() if own}
    assert pairs.keys() == {"getppid", "invalid"}
    assert unpack_pairs(read(pack_pairs(pairs, ARM64)), ARM64) == pairs


def test_a_run_has_the_rows_that_follow_each_other() -> None:
    old, new = path([ADD, ADD, NOP, RET], 0x1000), path([ADD, ADD, SUB, SUB, SUB, NOP, RET], 0x2000)
    packed = pack_pairs({"case": pair(old, new)}, ARM64)
    assert packed.cases["case"].old == ((0, 4),) and packed.cases["case"].new == ((0, 7),)
    # What is printed alike on both sides, what is new, and the rest.
    assert [row[7:] for row in packed.cases["case"].rows] == [(0, 0, 2), (None, 2, 3), (2, 5, 2)]
    assert unpack_pairs(packed, ARM64)["case"].new == new
    # A loop executes the same instructions again.
    again = pair(old[:2] * 2 + old[2:], old)
    packed = pack_pairs({"case": again}, ARM64)
    assert packed.cases["case"].old == ((0, 2), (0, 4))
    assert unpack_pairs(packed, ARM64)["case"] == again


def changed(packed: PackedPaths, **keys: object) -> PackedPaths:
    case = msgspec.structs.replace(packed.cases["case"], **keys)
    return msgspec.structs.replace(packed, cases={"case": case})


def test_what_is_beyond_the_code_or_does_not_add_up_is_an_error() -> None:
    both = path([ADD, SUB, NOP, RET], 0x1000)
    packed = pack_pairs({"case": pair(both, both)}, ARM64)
    assert isinstance(packed.old, CodeFile) and isinstance(packed.cases["case"], PackedPair)
    [row] = packed.cases["case"].rows
    assert row[7:] == (0, 0, 4)
    for runs in (((0, 5),), ((1, 4),), ((0, 1), (2, 3)), ((0, 1 << 40),)):
        for side in ("old", "new"):
            with pytest.raises(ValueError, match="beyond the code"):
                unpack_pairs(changed(packed, **{side: runs}), ARM64)
    for places in ((0, 1, 4), (1, 0, 4), (0, 0, 5), (None, 0, 5), (0, None, 1 << 40)):
        with pytest.raises(ValueError, match="beyond the code"):
            unpack_pairs(changed(packed, rows=((*row[:7], *places),)), ARM64)
    for other in (((0, 3),), ((0, 4), (0, 1)), ()):
        with pytest.raises(ValueError, match="add up"):
            unpack_pairs(changed(packed, old=other), ARM64)
    for runs in (((-1, 4),), ((4, -4), (0, 4))):
        with pytest.raises(msgspec.ValidationError):
            read(changed(packed, new=runs))
    with pytest.raises(IndexError):
        unpack_pairs(changed(packed, rows=((99, *row[1:]),)), ARM64)
    none = changed(packed, old=(), new=(), rows=())
    assert unpack_pairs(read(none), ARM64)["case"].diff.rows == ()
