# SPDX-License-Identifier: GPL-2.0-or-later
"""The built runner is small and static, and harmless outside a guest."""

import subprocess
from pathlib import Path

import pytest

from kentry.arch import ARCHES, host_arch
from kentry.host.native import runner_file


# marks.h: how a mark is encoded, and that 0x30 and 0x31 are the trace's.
@pytest.mark.parametrize(
    ("name", "base", "shift", "tail"),
    [
        ("arm64", 0xD280001F | 0xAB00 << 5, 5, b""),
        ("riscv64", 0xABC00 << 12 | 0x37, 12, b""),
        ("x86_64", 0x00841F0F, None, b"\xbc\xab\x5a"),
    ],
)
def test_both_marks_are_in_it(name: str, base: int, shift: int | None, tail: bytes) -> None:
    text = runner_file(ARCHES[name]).read_bytes()
    for number in (0x30, 0x31):
        if shift is None:
            mark = base.to_bytes(4, "little") + bytes([number]) + tail
        else:
            mark = (base + (number << shift)).to_bytes(4, "little")
        assert text.count(mark) >= 2, f"{number:#x}"


def test_the_runner_refuses_other_words_outside_a_guest() -> None:
    program = str(runner_file(host_arch()))
    assert subprocess.run([program, "mark"], check=False).returncode == 0
    # "end" powers off, but only where there is a workload's file.
    assert not Path("/kentry/workload").exists()
    for words in ([], ["end"], ["end", "x"], ["end", "0"], ["mark", "2"], ["other"]):
        assert subprocess.run([program, *words], check=False).returncode == 2
