# SPDX-License-Identifier: GPL-2.0-or-later
"""What an instruction does besides running, by its bytes; and how often a path does it.

The architectures' records have the patterns (Decoding), from their manuals.  capstone is not used:
what its 5.0.7 says of memory and branches differs from LLVM 22 for 2,611 of 21,034 distinct
instructions of arm64 in recordings (str reads, cas and ldadd access nothing) and for 157 of 3,495
of x86-64 (lea reads, push writes nothing); for riscv64 it does not say which memory operands are
read.  tests/unit/path/test_effects.py compares the patterns with LLVM.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

from kentry.arch import ARCHES, Arch
from kentry.model.recording import Instruction


@dataclass(frozen=True, slots=True)
class Effects:
    """What one instruction does besides running.

    `branch`: it may change the flow of control within its privilege level; `conditional`,
    `call` and `returns` are kinds of it.  `indirect`: a jump or call whose target is in a register
    or in memory.  `atomic`: a read-modify-write, load-exclusive or store-exclusive instruction:
    arm64's ldxr, stxr, cas, swp, ld<op>, st<op>; riscv64's lr, sc, amo*; on x86-64 those with a
    lock prefix, or with the ds prefix that a kernel on one processor writes in its place, and xchg
    with memory.  `serialising` is its name where no instruction behind overtakes it, or else "".
    `reads` and `writes`: the architecture says that it accesses data memory, the stack included;
    a conditional store counts as one that writes, and what an exception stores does not.
    """

    branch: bool
    conditional: bool
    indirect: bool
    call: bool
    returns: bool
    atomic: bool
    serialising: str
    reads: bool
    writes: bool


def effects(code: str, arch: Arch) -> Effects:
    """Of the instruction with these bytes (hex, memory order), cached; ValueError if not hex."""
    return _effects(code, arch.name)


@cache
def _effects(code: str, arch: str) -> Effects:
    raw = bytes.fromhex(code)
    of = ARCHES[arch].decoding
    conditional, call, returns = (
        _matches(pattern, raw) for pattern in (of.conditional, of.calls, of.returns)
    )
    return Effects(
        branch=conditional or call or returns or _matches(of.jumps, raw),
        conditional=conditional,
        indirect=_matches(of.indirect, raw),
        call=call,
        returns=returns,
        atomic=_matches(of.atomic, raw),
        serialising=next((name for name, one in of.serialising.items() if _matches(one, raw)), ""),
        reads=_matches(of.reads, raw),
        writes=_matches(of.writes, raw),
    )


def _matches(pattern: bytes, raw: bytes) -> bool:
    return bool(_compiled(pattern).match(raw))


@cache
def _compiled(pattern: bytes) -> re.Pattern[bytes]:
    return re.compile(pattern, re.DOTALL)


def path_counts(path: Sequence[Instruction], arch: Arch) -> dict[str, int]:
    """The exact metrics of a path that its instructions alone tell, by name.

    `serialising.NAME` is there for each name that occurs.
    """
    found = Counter(
        dict.fromkeys(("atomics", "branches", "branches.taken", "branches.indirect"), 0)
        | dict.fromkeys(("calls", "returns", "serialising"), 0)
    )
    for code, times in Counter(insn.code for insn in path).items():
        of = effects(code, arch)
        found["atomics"] += times * of.atomic
        found["branches"] += times * of.branch
        found["branches.indirect"] += times * of.indirect
        found["calls"] += times * of.call
        found["returns"] += times * of.returns
        if of.serialising:
            found["serialising"] += times
            found[f"serialising.{of.serialising}"] += times
    found["branches.taken"] = taken_branches(path, arch)
    found["lines.code"] = len(code_lines(path))
    found["pages.code"] = len(code_lines(path, 4096))
    return dict(found)


def taken_branches(path: Sequence[Instruction], arch: Arch) -> int:
    """How many branches go elsewhere than to the instruction behind them.

    The last instruction of a path does unless it is conditional.
    """
    taken = Counter(
        insn.code
        for insn, following in pairwise(path)
        if following.address != insn.address + len(insn.code) // 2
    )
    if path and not effects(path[-1].code, arch).conditional:
        taken[path[-1].code] += 1
    return sum(times for code, times in taken.items() if effects(code, arch).branch)


def code_lines(path: Iterable[Instruction], line: int = 64) -> set[int]:
    """The distinct lines of `line` bytes that a path executes: addresses divided by `line`.

    An instruction that begins in one line and ends in the next is in both.
    """
    sizes = {insn.address: len(insn.code) // 2 for insn in path}
    ends = {(address + size - 1) // line for address, size in sizes.items()}
    return ends | {address // line for address in sizes}
