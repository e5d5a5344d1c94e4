# SPDX-License-Identifier: GPL-2.0-or-later
"""What instructions do by their bytes, and what a path costs besides their number.

The architectures' records have the patterns (Decoding), from their manuals.  capstone is not used:
what its 5.0.7 says of memory and branches differs from LLVM 22 for 2,611 of 21,034 distinct
instructions of arm64 in recordings (str reads, cas and ldadd access nothing) and for 157 of 3,495
of x86-64 (lea reads, push writes nothing); for riscv64 it does not say which memory operands are
read.  tests/unit/path/test_instructions.py compares the patterns with LLVM.

QEMU 7.2's disassembler prints `.byte 0x5f, 0x41, 0x03, 0xd5` and `hint #0x19` where objdump prints
`msr dit, #1` and `paciasp`.  A recording keeps that text; only what is shown is by capstone.

Every metric is a sum over the path's instructions, so shares add up.  A line or page counts where
the path touches it first, a fetch window each time the path comes to it from another one.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from functools import cache
from typing import NamedTuple, TypeVar

from kentry.arch import Arch
from kentry.path.calls import parts_of
from kentry.results.recording import ABOUT_PATHS, Access, Instruction

# A function, a part or the number of a call.
Group = TypeVar("Group")

_NAMELESS = re.compile(r"\.byte|hint #")


class Effects(NamedTuple):
    """What one instruction does besides running."""

    branch: bool  # may change the flow of control within its privilege level; three kinds follow
    conditional: bool
    indirect: bool  # a jump or call whose target is in a register or in memory
    call: bool
    returns: bool
    # A read-modify-write, load-exclusive or store-exclusive instruction: arm64's ldxr, stxr, cas,
    # swp, ld<op>, st<op>; riscv64's lr, sc, amo*; on x86-64 those with a lock prefix, or with the
    # ds prefix that a kernel on one processor writes in its place, and xchg with memory.
    atomic: bool
    serialising: str  # its name where no instruction behind overtakes it, or else ""
    # By the architecture, data memory, the stack included; also where a conditional store fails,
    # and without what an exception stores.
    reads: bool
    writes: bool


@cache
def effects(code: str, arch: Arch) -> Effects:
    """Decodes the instruction with these bytes (hex, memory order); ValueError if not hex."""
    raw = bytes.fromhex(code)
    of = arch.decoding

    def fits(pattern: bytes) -> bool:
        return bool(re.match(pattern, raw, re.DOTALL))

    conditional, call, returns = fits(of.conditional), fits(of.calls), fits(of.returns)
    return Effects(
        branch=conditional or call or returns or fits(of.jumps),
        conditional=conditional,
        indirect=fits(of.indirect),
        call=call,
        returns=returns,
        atomic=fits(of.atomic),
        serialising=next((name for name, encoding in of.serialising.items() if fits(encoding)), ""),
        reads=fits(of.reads),
        writes=fits(of.writes),
    )


@cache
def is_far(before: str, code: str, arch: Arch) -> bool:
    """Returns whether two instructions in a row make one jump or call to a fixed address."""
    return bool(re.match(arch.decoding.far, bytes.fromhex(before + code), re.DOTALL))


def readable_text(insn: Instruction, arch: Arch) -> str:
    """Returns the instruction's text, by capstone where the emulator has no name for it."""
    if not arch.capstone or not _NAMELESS.match(insn.text):
        return insn.text
    import capstone

    disassembler = capstone.Cs(*(getattr(capstone, name) for name in arch.capstone))
    decoded = next(disassembler.disasm(bytes.fromhex(insn.code), insn.address), None)
    return f"{decoded.mnemonic} {decoded.op_str}".strip() if decoded else insn.text


STACK, SERIALISING = "stack.bytes", "serialising"
# Bytes.  Most cores have lines of 64, so that metric's name does not say it.
_LINE, _OTHER_LINES, _PAGE = 64, (32, 128), 4096
# Bytes: what cores fetch or decode at once is 16 to 64, aligned to its size.  To 16 Linux aligns
# functions on x86-64 (FUNCTION_ALIGNMENT_16B, arch/x86/Kconfig).
_FETCHES, _TARGET = (16, 32, 64), 16

# A block of a kernel's stack: THREAD_SIZE of 6.1 to 7.3 on all three architectures is 16 KiB or
# a multiple, and a stack is aligned to it (arch/*/include/asm/thread_info.h, memory.h).
_STACK_BLOCK = 16384

# The metrics that follow from accesses: those that the path's own instructions determine, in the
# order of KernelPath.accessed, and those that depend on where the data lies.
OF_CALLS = ("loads", "stores", "bytes.loaded", "bytes.stored")
OF_PLACES = ("lines.data", "lines.data.32", "lines.data.128", "pages.data", STACK)
OF_ACCESSES = frozenset((*OF_CALLS, *OF_PLACES))

# By metric, the amount of each instruction that has one, by its position in the path.
Amounts = dict[str, Counter[int]]


def amounts_of_code(path: Sequence[Instruction], arch: Arch) -> Amounts:
    """What follows from the instructions alone; a metric without an amount is there, too."""
    names = ("atomics", "branches", "branches.taken", "branches.indirect", "calls", "returns")
    sums: Amounts = {name: Counter() for name in (*names, SERIALISING, "targets.unaligned")}
    code = []
    before = ""
    # A path may be empty.
    for position, (insn, after) in enumerate(zip(path, [*path[1:], None], strict=False)):
        own, behind = effects(insn.code, arch), insn.address + len(insn.code) // 2
        code.append((position, insn.address, behind))
        # The last instruction of a path goes elsewhere unless it is conditional.
        elsewhere = after.address != behind if after else not own.conditional
        indirect = own.indirect and not is_far(before, insn.code, arch)
        taken = own.branch and elsewhere
        has = (own.atomic, own.branch, taken, indirect, own.call, own.returns)
        kinds = [name for name, amount in zip(names, has, strict=True) if amount]
        if taken and after and after.address % _TARGET:
            kinds.append("targets.unaligned")
        if own.serialising:
            kinds += [SERIALISING, f"{SERIALISING}.{own.serialising}"]
        for name in kinds:
            sums.setdefault(name, Counter())[position] = 1
        before = insn.code
    sums |= {f"fetches.{size}": _entered(code, size) for size in _FETCHES}
    sums["functions.straddling"] = _straddling(path)
    return sums | _blocks("lines.code", "pages.code", code)


def _entered(code: Iterable[tuple[int, int, int]], size: int) -> Counter[int]:
    """How often each position, (position, start, end), comes to a block from another one."""
    entered: Counter[int] = Counter()
    last = None
    for position, start, end in code:
        for block in range(start // size, (end - 1) // size + 1):
            if block != last:
                entered[position] += 1
                last = block
    return entered


def _straddling(path: Sequence[Instruction]) -> Counter[int]:
    """The first position of each function whose executed bytes lie in two lines and fit in one."""
    extents: dict[tuple[str, int], tuple[int, int, int]] = {}
    for position, insn in enumerate(path):
        start, end = insn.address, insn.address + len(insn.code) // 2
        function = insn.function, start - insn.offset
        first, low, high = extents.get(function, (position, start, end))
        extents[function] = first, min(low, start), max(high, end)
    return Counter(
        first
        for first, low, high in extents.values()
        if high - low <= _LINE and low // _LINE != (high - 1) // _LINE
    )


def amounts_of_accesses(accesses: Sequence[Access]) -> Amounts:
    """Returns what follows from one window's loads and stores."""
    sums: Amounts = {name: Counter() for name in OF_CALLS}
    for access in accesses:
        sums["stores" if access.is_store else "loads"][access.position] = 1
        sums["bytes.stored" if access.is_store else "bytes.loaded"][access.position] += access.size
    spans = [(access.position, access.address, access.address + access.size) for access in accesses]
    return sums | _blocks("lines.data", "pages.data", spans)


def accessed_by_call(
    accesses: Sequence[Access], positions: Sequence[int]
) -> tuple[tuple[int, int, int, int], ...]:
    """KernelPath.accessed of one window, where `positions` are those of variation.by_call()."""
    amounts = amounts_of_accesses(accesses)
    loads, stores, loaded, stored = (shares(amounts[name], positions) for name in OF_CALLS)
    calls = range(max(positions, default=-1) + 1)
    return tuple((loads[n], stores[n], loaded[n], stored[n]) for n in calls)


def unreported(path: Sequence[Instruction], accesses: Sequence[Access], arch: Arch) -> Counter[str]:
    """How often each instruction accesses memory that the emulator did not report, by its name.

    QEMU 7.2 to 11.1 do not report arm64's "dc zva".  A failed store-conditional is no access.
    """
    seen = {(access.position, access.is_store) for access in accesses}
    silent: Counter[str] = Counter()
    for position, insn in enumerate(path):
        own = effects(insn.code, arch)
        loaded, stored = (position, False) in seen, (position, True) in seen
        if (own.reads and not loaded) or (own.writes and not stored and not own.atomic):
            silent[insn.text.split(",")[0]] += 1
    return silent


def stack_bytes(path: Sequence[Instruction], accesses: Sequence[Access], arch: Arch) -> int:
    """Returns the bytes between the ends of what the stack pointer accesses, added over stacks."""
    spans: dict[int, tuple[int, int]] = {}
    for access in accesses:
        if arch.by_stack_pointer.search(path[access.position].text):
            block, end = access.address // _STACK_BLOCK, access.address + access.size
            low, high = spans.get(block, (access.address, end))
            spans[block] = min(low, access.address), max(high, end)
    return sum(high - low for low, high in spans.values())


def amounts(path: Sequence[Instruction], accesses: Sequence[Access] | None, arch: Arch) -> Amounts:
    """All that is known of a path; without accesses what follows from the instructions alone."""
    sums = amounts_of_code(path, arch)
    return sums if accesses is None else sums | amounts_of_accesses(accesses)


def shares(amounts: Counter[int], groups: Sequence[Group]) -> Counter[Group]:
    """Returns the amounts by group: of functions, parts or calls, one for each position."""
    sums: Counter[Group] = Counter()
    for position, amount in amounts.items():
        sums[groups[position]] += amount
    return sums


def part_amounts(
    path: Sequence[Instruction], accesses: Sequence[Access] | None, arch: Arch
) -> dict[str, dict[str, int]]:
    """Each metric by part of the path, in the order of execution; metrics without any left out."""
    names = list(parts_of(path, arch))
    by_part = {
        metric: shares(own, names) for metric, own in amounts(path, accesses, arch).items() if own
    }
    # As people read them, names of instructions at the end.
    known = [name for name in ABOUT_PATHS if name in by_part]
    return {
        metric: {name: by_part[metric][name] for name in dict.fromkeys(names)}
        for metric in [*known, *sorted(by_part.keys() - set(known))]
    }


def _blocks(lines: str, pages: str, spans: Collection[tuple[int, int, int]]) -> Amounts:
    """How many blocks each position is the first to touch; spans are (position, start, end)."""
    sizes = {lines: _LINE, **{f"{lines}.{size}": size for size in _OTHER_LINES}, pages: _PAGE}
    touched = {}
    for name, size in sizes.items():
        first: dict[int, int] = {}
        for position, start, end in spans:
            for block in range(start // size, (end - 1) // size + 1):
                first.setdefault(block, position)
        touched[name] = Counter(first.values())
    return touched
