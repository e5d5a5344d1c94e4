# SPDX-License-Identifier: GPL-2.0-or-later
"""What a reader is shown of riscv's entry in 6.1 and 6.12: the paths side by side.

Both kernels are built.  docs/cases/riscv-syscall-regression.md is about the same two.
"""

import json
import re
from collections import Counter
from typing import Any

import pytest

from kentry.arch import find_arch
from kentry.cli import main
from kentry.kernels import build
from kentry.kernels.config import Request
from kentry.kernels.resolve import resolve_source
from tests.places import silent

from .conftest import or_skip, timed

pytestmark = pytest.mark.qemu

OLD, NEW = "source:6.1", "source:6.12"
ARCH = find_arch("riscv64")
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


@pytest.fixture(scope="module", autouse=True)
def kernels() -> None:
    """Built, or found in the cache; or the test is skipped, where there is no source."""
    for spec in (OLD, NEW):
        revision = or_skip(f"no {spec}", resolve_source, spec, silent)
        with timed(f"{spec} for {ARCH.name}: built or found"):
            planned = or_skip(f"no {spec}", build.plan, revision, ARCH, Request(), silent)
            build.built(planned, silent)


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    argv = [words[0], OLD, NEW, "--arch", ARCH.name, "-q", "--json", *words[1:]]
    with timed(f"kentry {' '.join(argv)}"):
        assert main(argv) == 0
        return json.loads(capsys.readouterr().out)


def test_the_paths_are_aligned_across_the_renamed_functions(
    capsys: pytest.CaptureFixture[str],
) -> None:
    [case] = printed(capsys, "annotate", "--case", "getppid")["cases"]
    rows = case["rows"]
    counts = Counter[str]()
    for row in rows:
        counts[row["change"]] += row["times"]
    assert counts["added"] - counts["removed"] == case["delta"] == case["new"] - case["old"]
    # 58 with the kernels that Debian had when this was written.
    assert 50 < case["delta"] < 70
    renamed = {
        new: {old for old, _ in one["old"]} for one in case["renamed"] for new, _ in one["new"]
    }
    assert renamed == RENAMED
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
        found = [re.fullmatch(rf"{mnemonic} \w+,(\d+)\(sp\)", text) for text in texts]
        assert {int(one[1]) for one in found if one} >= SAVED
    handler = [row for row in rows if "__riscv_sys_getppid" in row["function"]]
    assert {row["change"] for row in handler} == {"same"}
    added = Counter(row["function"] for row in rows if row["change"] == "added")
    assert added.keys() >= GENERIC_ENTRY
    assert not [row for row in rows if row["function"] in GENERIC_ENTRY and row["change"] == "same"]
