# SPDX-License-Identifier: GPL-2.0-or-later
"""kentry bisect on the conversion of riscv's entry that the article of 2024 found by hand.

docs/cases/riscv-syscall-regression.md prints the same bisection.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.generic_entry import make

from .conftest import or_skip
from .test_record import kentry

pytestmark = pytest.mark.qemu


SLOW = "KENTRY_TEST_SLOW"


def test_the_conversion_is_named_with_its_functions_and_its_share(tmp_path: Path) -> None:
    if os.environ.get(SLOW) != "1":
        pytest.skip(f"builds kernels for many minutes, as make docs does; {SLOW}=1 runs it")
    history = or_skip("no source to build", make, tmp_path / "history")
    ends = ("--good", history.first, "--bad", history.last, "--tree", str(history.folder))
    found = json.loads(kentry("bisect", *ends, "--arch", "riscv64", "--json").stdout)
    culprit = found["culprit"]
    assert culprit["commit"] == history.conversion
    # It is most of the growth, and not all: smaller commits after it grow the path too.
    assert 80 < culprit["share"] < 100
    assert [one["kind"] for one in found["caveats"]] == ["more-remains"]
    deltas = {row["name"]: row["delta"] for row in found["functions"]}
    assert sum(deltas.values()) == culprit["delta"]
    # From assembly to C, as upstream's commit.
    assert deltas["_save_context"] < 0 < deltas["do_trap_ecall_u"]
    assert deltas["syscall_exit_to_user_mode"] > 0
    assert "arch/riscv/kernel/entry.S" in culprit["compiled"]
