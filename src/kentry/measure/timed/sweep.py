# SPDX-License-Identifier: GPL-2.0-or-later
"""How a case does among programs with large working sets: its time behind walks of many sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kentry.errors import UserError
from kentry.measure.timed.sampling import Settings
from kentry.model.case_name import WARM, CaseName, parse_size, size_name

SMALLEST, LARGEST = 32 << 10, 256 << 20
# A walk over the largest takes some 30 ms, and each turn has a dozen.
TURNS = 2


def sizes_of(text: str) -> list[int]:
    """ "sweep" (32 KiB, twice as much, ... 256 MiB) or a list of sizes; UserError."""
    if text == "sweep":
        count = (LARGEST // SMALLEST).bit_length()
        return [SMALLEST << power for power in range(count)]
    sizes = [parse_size(word) for word in text.split(",") if word]
    if not sizes:
        raise UserError("--working-set names no size.", "Write --working-set sweep, or 1M,16M.")
    return sorted(set(sizes))


def names_of(case: str, sizes: Sequence[int]) -> list[str]:
    """The case one by one without a walk, and behind each."""
    base = CaseName.parse(case).counted
    walks = [WARM, *map(size_name, sizes)]
    return [str(replace(base, cache=walk)) for walk in walks]


def settings_of(settings: Settings) -> Settings:
    """How a sweep's groups are timed."""
    return Settings(TURNS, settings.blocks, settings.block_ns, settings.cpu, settings.seed)
