# SPDX-License-Identifier: GPL-2.0-or-later
"""The instructions that the tasks plugin takes to never fault: none that may, by the patterns."""

import ctypes
import random
import re
import shutil
import subprocess
from collections.abc import Callable

import pytest

from kentry.arch import find_arch
from tests import ROOT

Sure = Callable[[str, bytes], bool]
TARGETS = {"arm64": b"aarch64", "riscv64": b"riscv64", "x86_64": b"x86_64"}
HARNESS = """\
#include "tasks_isa.h"

int sure(const char *target, const uint8_t *bytes, size_t length)
{
	return tasks_isa_find(target)->is_sure(bytes, length);
}
"""


@pytest.fixture(scope="module")
def sure(tmp_path_factory: pytest.TempPathFactory) -> Sure:
    """Asks the plugin's own code, compiled as a library."""
    if not shutil.which("gcc"):
        pytest.skip("no gcc: apt-get install gcc")
    folder = tmp_path_factory.mktemp("sure")
    (folder / "harness.c").write_text(HARNESS)
    plugin = ROOT / "plugin"
    words = [str(plugin / "tasks_isa.c"), str(folder / "harness.c"), "-o", str(folder / "sure.so")]
    subprocess.run(["gcc", "-shared", "-fPIC", f"-I{plugin}", *words], check=True)
    library = ctypes.CDLL(str(folder / "sure.so"))
    library.sure.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t]

    def ask(arch: str, code: bytes) -> bool:
        return bool(library.sure(TARGETS[arch], code, len(code)))

    return ask


@pytest.mark.parametrize("name", ["arm64", "riscv64"])
def test_none_accesses_memory_branches_or_changes_the_machine(name: str, sure: Sure) -> None:
    of = find_arch(name).decoding
    patterns = (of.reads, of.writes, of.conditional, of.jumps, of.calls, of.returns)
    unsure = [re.compile(one, re.DOTALL) for one in (*patterns, *of.serialising.values())]
    numbers = random.Random(1)
    found = 0
    for _ in range(100_000):
        code = numbers.randbytes(4)
        # The two low bits of a riscv instruction say how long it is.
        short = name == "riscv64" and code[0] & 3 != 3
        code = code[:2] if short else code
        if sure(name, code):
            found += 1
            assert not any(one.match(code) for one in unsure), code.hex()
    assert found > 5_000


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        *[(code, True) for code in ("4889d8", "4801c8", "488d0424", "85c0", "c1e003", "0fb6c0")],
        *[(code, True) for code in ("b801000000", "0f1f4000", "f30f1efa", "480f44c1", "f7d8")],
        # mov, add and test with memory, push, pop, ret, call, div, ud2, a jump, rdtsc, in, rep
        *[(code, False) for code in ("488b03", "480103", "8503", "50", "58", "c3", "e800000000")],
        *[(code, False) for code in ("f7f9", "0f0b", "7400", "0f31", "ec", "f3a4", "cd80", "fb")],
    ],
)
def test_of_x86_only_what_works_on_registers(code: str, expected: bool, sure: Sure) -> None:
    assert sure("x86_64", bytes.fromhex(code)) == expected
