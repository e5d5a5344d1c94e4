# SPDX-License-Identifier: GPL-2.0-or-later
"""Kills and damages, the short form of make faults: the same answer again, or an error."""

from __future__ import annotations

import pytest
from bench.faults import run

from .conftest import timed

pytestmark = pytest.mark.qemu


def test_no_kill_loses_and_no_damage_is_believed() -> None:
    said: list[str] = []
    amounts = {"damages": 9, "kills": 2, "terminals": 1, "stalls": 1, "clocks": 1, "disks": 1}
    with timed("debian:6.1 and 6.12 for arm64: 9 damages, 6 faults"):
        wrong = run(amounts, 20261127, said.append)
    assert wrong == [] and len(said) == len(amounts) + 1
