# SPDX-License-Identifier: GPL-2.0-or-later
"""Costs counted along paths, and timed by the guest's own clock, which counts instructions."""

from __future__ import annotations

from pathlib import Path

import pytest

from kentry.cli import main
from kentry.models.costs import load_costs

from .conftest import timed

pytestmark = pytest.mark.qemu


@pytest.mark.parametrize(
    ("spec", "arch", "what"),
    [
        # A tick is in most blocks of the flush there.
        ("debian:6.12,cpu=neoverse-v1", "arm64", {"flush", "trap + drop"}),
        ("debian:6.1", "arm64", {"trap + drop"}),
        ("debian:6.12", "riscv64", {"flush", "save + restore"}),
    ],
)
def test_two_ways_of_counting_agree(
    spec: str, arch: str, what: set[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "core.toml"
    with timed(f"{spec} {arch}, counted and timed"):
        assert main(["vector", "costs", spec, "--arch", arch, "-q", "-o", str(file)]) == 0
    text = capsys.readouterr().out
    section = text.partition("Counted twice")[2].partition("\n\n")[0].splitlines()[2:]
    rows = [line.rsplit(maxsplit=2) for line in section]
    pairs = {name.strip(): (float(counted), float(other)) for name, counted, other in rows}
    assert pairs.keys() == what
    for counted, other in pairs.values():
        # The clock has ticks of 16 and 100 instructions, and the timer may interrupt most blocks.
        assert other == pytest.approx(counted, rel=0.03, abs=5)
    assert load_costs(file).unit == "instructions"
