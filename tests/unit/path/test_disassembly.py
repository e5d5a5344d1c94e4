# SPDX-License-Identifier: GPL-2.0-or-later
"""Instructions that QEMU 7.2 cannot name, against objdump 2.40."""

import pytest

from kentry.arch import ARCHES
from kentry.path.instructions import readable_text
from kentry.results.recording import Instruction


def readable(code: str, text: str, arch: str = "arm64") -> str:
    return readable_text(Instruction(0xFFFF800080010000, code, text, "f", 0), ARCHES[arch])


@pytest.mark.parametrize(
    ("code", "text", "wanted"),
    [
        ("5f4103d5", ".byte 0x5f, 0x41, 0x03, 0xd5", "msr dit, #1"),
        ("3f1022f8", ".byte 0x3f, 0x10, 0x22, 0xf8", "stclr x2, [x1]"),
        ("027ce188", ".byte 0x02, 0x7c, 0xe1, 0x88", "casa w1, w2, [x0]"),
        ("0fe41825", ".byte 0x0f, 0xe4, 0x18, 0x25", "pfalse p15.b"),
        ("00902825", ".byte 0x00, 0x90, 0x28, 0x25", "wrffr p0.b"),
        ("3f2303d5", "hint #0x19", "paciasp"),
        ("bf2303d5", "hint #0x1d", "autiasp"),
        ("9f2203d5", "hint #0x14", "csdb"),
        ("5f2403d5", "hint #0x22", "bti c"),
        ("ff2003d5", "hint #0x7", "xpaclri"),
    ],
)
def test_the_bytes_name_what_the_emulator_could_not(code: str, text: str, wanted: str) -> None:
    assert readable(code, text) == wanted


def test_other_text_stays() -> None:
    assert readable("1f2003d5", "nop") == "nop"
    assert readable("2058bf04", ".byte 0x20, 0x58, 0xbf, 0x04") == ".byte 0x20, 0x58, 0xbf, 0x04"
    assert readable("278c0202", ".byte 0x27", "riscv64") == ".byte 0x27"
