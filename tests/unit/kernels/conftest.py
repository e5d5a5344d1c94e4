# SPDX-License-Identifier: GPL-2.0-or-later
"""A cache of its own for each test, and what was said as progress."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("KENTRY_CACHE", str(folder))
    return folder


class Said(list[str]):
    """An Update that keeps what it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.fractions: list[float | None] = []

    def __call__(self, fraction: float | None, now: str) -> None:
        self.append(now)
        self.fractions.append(fraction)


@pytest.fixture
def said() -> Said:
    return Said()
