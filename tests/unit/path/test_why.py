# SPDX-License-Identifier: GPL-2.0-or-later
"""Reasons for other paths."""

import pytest

from kentry.path.symbols import why

MODAL = {"el0_svc": 40, "__arm64_sys_openat": 200}


@pytest.mark.parametrize(
    ("extra", "reason"),
    [
        ({"__schedule": 300}, "reschedule"),
        ({"do_page_fault": 30, "handle_mm_fault": 90}, "page fault"),
        ({"get_random_u32": 20, "chacha_permute": 4000}, "random pool refill"),
        ({"___slab_alloc": 80}, "slab refill"),
        ({"rcu_core": 10, "__schedule": 1}, "reschedule"),
        ({"brand_new": 9, "other": 1}, "more in brand_new, other"),
    ],
)
def test_a_function_only_seen_there_says_why(extra: dict[str, int], reason: str) -> None:
    assert why(MODAL, {**MODAL, **extra}) == reason


def test_a_function_of_every_window_is_no_reason() -> None:
    modal = {**MODAL, "___slab_alloc": 10}
    assert why(modal, {**modal, "___slab_alloc": 20}) == "more in ___slab_alloc"


def test_a_shorter_path_names_what_it_left_out() -> None:
    assert why(MODAL, {"el0_svc": 40}) == "less in __arm64_sys_openat"


def test_equal_counts_per_function_mean_other_instructions() -> None:
    assert why(MODAL, MODAL) == "the same functions, other instructions"
