# SPDX-License-Identifier: GPL-2.0-or-later
"""What a reader is shown of riscv's entry in 6.1 and 6.12: the paths side by side.

Both kernels are built.  docs/cases/riscv-syscall-regression.md is about the same two.
"""

import json
import re
from collections import Counter

import pytest

from kentry.arch import find_arch
from kentry.kernels import build

from .conftest import or_skip
from .test_record import kentry

pytestmark = pytest.mark.qemu

# What 6.1 keeps in functions of their own and 6.12 keeps in others, as entry.S of both says.
RENAMED = {
    "handle_exception": {"_save_context", "handle_exception"},
    "ret_from_exception": {"restore_all", "resume_userspace", "ret_from_exception"},
    "__riscv_sys_getppid": {"sys_getppid"},
}
# The generic entry of kernel/entry/ and of arch/riscv/kernel/traps.c; 6.1 has neither.
GENERIC_ENTRY = {"do_trap_ecall_u", "syscall_exit_to_user_mode"}
# struct pt_regs keeps xN at byte 8 * N; x2 and x4 are the stack and the task, kept otherwise.
SAVED = {8 * number for number in range(1, 32) if number not in (2, 4)}


def test_the_paths_are_aligned_across_the_renamed_functions() -> None:
    or_skip("no tools", build.check_tools, find_arch("riscv64"))
    argv = ("annotate", "source:6.1", "source:6.12", "--arch", "riscv64", "--case", "getppid")
    [case] = json.loads(kentry(*argv, "--json").stdout)["cases"]
    rows = case["rows"]
    counts = Counter[str]()
    for row in rows:
        counts[row["change"]] += row["times"]
    assert counts["added"] - counts["removed"] == case["delta"] == case["new"] - case["old"]
    # 58 with the kernels that Debian had when this was written.
    assert 50 < case["delta"] < 70
    assert {
        new: {old for old, _ in pair["old"]} for pair in case["renamed"] for new, _ in pair["new"]
    } == RENAMED
    same = [row for row in rows if row["change"] == "same"]
    for mnemonic, old, new in (
        ("sd", "_save_context", "handle_exception"),
        ("ld", "restore_all", "ret_from_exception"),
    ):
        texts = [
            row["new"]["text"]
            for row in same
            if (row["old"]["function"], row["new"]["function"]) == (old, new)
        ]
        matches = [re.fullmatch(rf"{mnemonic} \w+,(\d+)\(sp\)", text) for text in texts]
        assert {int(match[1]) for match in matches if match} >= SAVED
    added = {row["function"] for row in rows if row["change"] == "added"}
    assert added >= GENERIC_ENTRY
    assert not [row for row in same if row["function"] in GENERIC_ENTRY]
