# SPDX-License-Identifier: GPL-2.0-or-later
"""Names for instructions that the emulator's disassembler does not know.

QEMU 7.2 prints `.byte 0x5f, 0x41, 0x03, 0xd5` and `hint #0x19` where objdump prints `msr dit, #1`
and `paciasp`.  A recording keeps the emulator's text, which path/stream.py compares; only what
is shown to people is disassembled again, from the instruction's bytes.
"""

import re
from functools import cache
from typing import Any

from kentry.arch import Arch
from kentry.results.recording import Instruction

_NAMELESS = re.compile(r"\.byte|hint #")


def readable_text(insn: Instruction, arch: Arch) -> str:
    """The instruction's text, by capstone where the emulator has no name for it."""
    if not arch.capstone or not _NAMELESS.match(insn.text):
        return insn.text
    found = next(_disassembler(arch.capstone).disasm(bytes.fromhex(insn.code), insn.address), None)
    return f"{found.mnemonic} {found.op_str}".strip() if found else insn.text


@cache
def _disassembler(names: tuple[str, str]) -> Any:
    import capstone

    return capstone.Cs(*(getattr(capstone, name) for name in names))
