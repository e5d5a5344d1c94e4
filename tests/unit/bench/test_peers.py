# SPDX-License-Identifier: GPL-2.0-or-later
"""Peers' estimators, on blocks whose answer is known."""

import math

import numpy as np
import pytest
from bench.honesty import peers
from bench.honesty.peers import Blocks

from kentry.time.output import Output


def blocks(*ns: float, calls: int = 100) -> Blocks:
    return Blocks(np.array(ns, dtype=np.float64), np.full(len(ns), float(calls)))


@pytest.mark.parametrize("name", peers.ESTIMATORS)
@pytest.mark.parametrize("count", [1, 3, 10, 11, 240])
def test_blocks_that_are_alike_take_what_one_takes(name: str, count: int) -> None:
    assert peers.ESTIMATORS[name](blocks(*[8000.0] * count)) == pytest.approx(80)


@pytest.mark.parametrize("name", peers.ESTIMATORS)
def test_a_slower_second_half_is_a_difference(name: str) -> None:
    found = peers.false_differences(blocks(*[8000.0] * 110, *[8800.0] * 110))
    assert found[name] == pytest.approx(0.1, abs=0.01)


def test_the_mean_of_perf_bench_is_of_calls() -> None:
    mixed = Blocks(np.array([1000.0, 9000.0]), np.array([10.0, 30.0]))
    assert peers.perf_bench(mixed) == 250


def test_an_interrupt_is_in_the_mean_and_not_in_the_median_of_tries() -> None:
    disturbed = blocks(*[8000.0] * 109, 8_000_000.0)
    assert peers.perf_bench(disturbed) > 700
    assert peers.lat_syscall(disturbed) == pytest.approx(80)


def test_unix_bench_leaves_the_worst_third_of_passes_out() -> None:
    third = blocks(*[8000.0] * 80, *[16000.0] * 15)
    assert peers.unix_bench(third) == pytest.approx(80, rel=0.02)
    half = blocks(*[8000.0] * 60, *[16000.0] * 30)
    assert 80 < peers.unix_bench(half) < 120


def test_halves_are_of_time_and_never_empty() -> None:
    first, second = peers.halves(blocks(30, 10, 10, 10))
    assert first.ns.tolist() == [30]
    assert second.ns.tolist() == [10, 10, 10]
    first, second = peers.halves(blocks(1, 1000))
    assert (first.ns.size, second.ns.size) == (1, 1)


def output(groups: int, slower: float = 1.0) -> Output:
    """Four slots, two turns of two blocks; half-way the machine gets `slower` times as slow."""
    out = Output()
    out.begin_run()
    for group in range(groups):
        times = slower if group >= groups / 2 else 1.0
        for slot in range(4):
            out.take(f"kentry-probe process {group} {slot} getppid calls=100")
            for turn in range(2):
                ns = f"{8000 * times + slot % 2:.0f} {8001 * times + group % 3:.0f}"
                out.take(f"kentry-probe t {group} {slot} {turn} {ns}")
    return out


def test_what_drifts_is_in_peers_and_not_in_kentry() -> None:
    found = peers.all_differences(list(output(12, slower=1.1).processes.values()))
    assert abs(found[peers.KENTRY]) < 0.0005
    for name in peers.ESTIMATORS:
        assert found[name] == pytest.approx(0.1, abs=0.02)


def test_blocks_are_in_the_order_in_which_they_were_timed() -> None:
    out = Output()
    for _ in range(2):
        out.begin_run()
        for slot in range(2):
            out.take(f"kentry-probe process 0 {slot} getppid calls={10 + slot}")
        for turn in range(2):
            for slot in range(2):
                number = 100 * out.run + 10 * turn + slot
                out.take(f"kentry-probe t 0 {slot} {turn} {number} {number}")
    found = peers.in_order(list(out.processes.values()))
    assert found.ns.tolist()[::2] == [0, 1, 10, 11, 100, 101, 110, 111]
    assert found.calls.tolist()[:4] == [10, 10, 11, 11]


def test_windows_are_whole_groups_and_whole_windows() -> None:
    parts = peers.windows(list(output(11).processes.values()), 4)
    assert [len(part) for part in parts] == [16, 16]
    assert {process.group for process, _ in parts[1]} == {4, 5, 6, 7}


def test_percentile_is_of_sizes() -> None:
    assert peers.percentile([-3.0, 1.0, 2.0], 1.0) == 3
    assert math.isnan(peers.percentile([]))


def test_the_interval_of_a_ratio_is_about_it() -> None:
    rng = np.random.default_rng(0)
    small, large = rng.normal(0, 1, 100), rng.normal(0, 20, 100)
    low, high = peers.ratio_interval(large.tolist(), small.tolist())
    assert low < 20 < high
    assert math.isnan(peers.ratio_interval([1.0], [1.0])[0])
