# SPDX-License-Identifier: GPL-2.0-or-later
"""Sweeps over the size of the working set."""

from itertools import pairwise

import pytest

from kentry.errors import UserError
from kentry.measure.timed.sampling import Settings
from kentry.measure.timed.sweep import names_of, settings_of, sizes_of


def test_a_sweep_goes_from_32_kib_to_256_mib_by_twos() -> None:
    sizes = sizes_of("sweep")
    assert sizes[0] == 32 << 10 and sizes[-1] == 256 << 20
    assert all(b == 2 * a for a, b in pairwise(sizes))


def test_sizes_are_sorted_and_once() -> None:
    assert sizes_of("1M,32K,1024K,") == [32 << 10, 1 << 20]


@pytest.mark.parametrize("text", ["", ",", "sweeps", "32K,big", "32K 64K"])
def test_what_is_no_size_is_an_error(text: str) -> None:
    with pytest.raises(UserError):
        sizes_of(text)


def test_a_sweep_begins_without_a_walk() -> None:
    assert names_of("getppid+vec=each", [32 << 10, 1 << 20]) == [
        "getppid+vec=each+cache=warm",
        "getppid+vec=each+cache=32K",
        "getppid+vec=each+cache=1M",
    ]


def test_a_sweeps_turns_are_fewer_on_the_same_cpu() -> None:
    settings = Settings(cpu=3, seed=9)
    found = settings_of(settings)
    assert (found.cpu, found.seed, found.blocks) == (3, 9, settings.blocks)
    assert found.turns < settings.turns
