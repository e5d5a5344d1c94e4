# SPDX-License-Identifier: GPL-2.0-or-later
"""Bisections by simulated workers that fail by a seed; a seed that ever failed stands here."""

from __future__ import annotations

from collections import Counter

import pytest
from bench import seeds

from kentry.study import bisection

pytestmark = pytest.mark.slow


def test_however_workers_and_disks_fail_the_answer_is_the_seeds() -> None:
    told = Counter[str]()
    assert [reason for seed in range(1, 25) if (reason := seeds.check(seed, told))] == []
    # There were faults.
    assert min(told["kills"], told["units whose worker died"], told["recordings stored"]) > 5
    assert told["runs"] > 24


# What each came to: a file of steps whose damage is no UTF-8 ended in a traceback.
ONCE_WRONG = (48,)


@pytest.mark.parametrize("seed", ONCE_WRONG)
def test_a_seed_that_was_once_wrong_is_right(seed: int) -> None:
    assert seeds.check(seed, Counter()) == ""


def test_a_search_that_is_wrong_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    right = bisection.all_steps

    def wrong(*args: object, **own: object) -> list[tuple[int, int]]:
        return right(*args, **own)[1:]  # type: ignore[arg-type]

    monkeypatch.setattr(bisection, "all_steps", wrong)
    assert all(seeds.check(seed, Counter()) for seed in range(1, 4))
