# SPDX-License-Identifier: GPL-2.0-or-later
"""Sweeps over the size of the working set."""

from itertools import pairwise

import pytest

from kentry.errors import UserError
from kentry.time.measurements import sweep_names, sweep_sizes


def test_a_sweep_goes_from_32_kib_to_256_mib_by_twos() -> None:
    sizes = sweep_sizes("sweep")
    assert sizes[0] == 32 << 10 and sizes[-1] == 256 << 20
    assert all(b == 2 * a for a, b in pairwise(sizes))


def test_sizes_are_sorted_and_once() -> None:
    assert sweep_sizes("1M,32K,1024K,") == [32 << 10, 1 << 20]


@pytest.mark.parametrize("text", ["", ",", "sweeps", "32K,big", "32K 64K"])
def test_what_is_no_size_is_an_error(text: str) -> None:
    with pytest.raises(UserError):
        sweep_sizes(text)


def test_a_sweep_begins_without_a_walk() -> None:
    assert sweep_names("getppid+vec=each", [32 << 10, 1 << 20]) == [
        "getppid+vec=each+cache=warm",
        "getppid+vec=each+cache=32K",
        "getppid+vec=each+cache=1M",
    ]
