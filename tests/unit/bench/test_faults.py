# SPDX-License-Identifier: GPL-2.0-or-later
"""A command that the harness runs in a copy of itself is the same as one in a shell."""

from __future__ import annotations

import os

import pytest
from bench.faults import works


def test_a_command_in_a_child_has_the_caches_of_the_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    def command(words: list[str]) -> int:
        print(os.environ["KENTRY_CACHE"], *words)
        return 3

    monkeypatch.setattr(works, "kentry_main", command)
    assert works.in_a_child(("diff",), {"KENTRY_CACHE": "/c"}) == (3, "/c diff\n")
    assert os.environ.get("KENTRY_CACHE") != "/c"


def test_a_command_that_raises_in_a_child_is_an_error_of_kentrys(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(works, "kentry_main", lambda words: words.absent)
    assert works.in_a_child((), {}) == (70, "")
