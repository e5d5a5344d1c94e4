# SPDX-License-Identifier: GPL-2.0-or-later
"""What one instruction is by its bytes: what it does besides running, and its name.

The architectures' records have the patterns (Decoding), from their manuals.  capstone is not used:
what its 5.0.7 says of memory and branches differs from LLVM 22 for 2,611 of 21,034 distinct
instructions of arm64 in recordings (str reads, cas and ldadd access nothing) and for 157 of 3,495
of x86-64 (lea reads, push writes nothing); for riscv64 it does not say which memory operands are
read.  tests/unit/path/test_instructions.py has what the manuals say of each kind.

QEMU 7.2's disassembler prints `.byte 0x5f, 0x41, 0x03, 0xd5` and `hint #0x19` where objdump prints
`msr dit, #1` and `paciasp`.  A recording keeps the emulator's text, which path/stream.py compares;
only what is shown to people is named by capstone.
"""

import re
from functools import cache
from typing import NamedTuple

from kentry.arch import Arch
from kentry.results.recording import Instruction

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
    """Of the instruction with these bytes (hex, memory order); ValueError if not hex."""
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
        serialising=next((name for name, one in of.serialising.items() if fits(one)), ""),
        reads=fits(of.reads),
        writes=fits(of.writes),
    )


@cache
def is_far(before: str, code: str, arch: Arch) -> bool:
    """Whether two instructions in a row make one jump or call to a fixed address."""
    return bool(re.match(arch.decoding.far, bytes.fromhex(before + code), re.DOTALL))


def readable_text(insn: Instruction, arch: Arch) -> str:
    """The instruction's text, by capstone where the emulator has no name for it."""
    if not arch.capstone or not _NAMELESS.match(insn.text):
        return insn.text
    import capstone

    disassembler = capstone.Cs(*(getattr(capstone, name) for name in arch.capstone))
    found = next(disassembler.disasm(bytes.fromhex(insn.code), insn.address), None)
    return f"{found.mnemonic} {found.op_str}".strip() if found else insn.text
