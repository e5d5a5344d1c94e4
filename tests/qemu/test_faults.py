# SPDX-License-Identifier: GPL-2.0-or-later
"""Kills and damages, the short form of make faults: the same answer again, or an error."""

from __future__ import annotations

import pytest
from bench.faults import run

from .conftest import timed

pytestmark = pytest.mark.qemu


def test_no_kill_loses_and_no_damage_is_believed() -> None:
    said: list[str] = []
    with timed("debian:6.1 and 6.12 for arm64: 8 kills, 56 damages"):
        wrong = run(kills=8, damages=56, seed=20261127, say=said.append)
    assert wrong == [] and len(said) == 3
