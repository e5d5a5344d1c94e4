# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs of the probe: what it is told, what of it is kept, what is an error; tails, sweeps."""

from collections.abc import Sequence
from itertools import pairwise

import pytest

from kentry.errors import MachineError, UserError
from kentry.results.case_name import parse_size
from kentry.time.analysis import Tail, tails_of
from kentry.time.measurements import sweep_names
from kentry.time.output import Output
from kentry.time.sampling import CALLS, MOST_SLOTS, TURNS, Sampler, Settings
from tests import places
from tests.places import TIMER_NS, FakePlace

NS = {"getppid": 80.0, "read": 120.0}
LITTLE = Settings(turns=1, blocks=2, block_ns=1000, cpu=5, seed=40)


def sampler(place: FakePlace, *slots: str, odd_slots: Sequence[str] = ()) -> Sampler:
    return Sampler(place, slots or ("getppid",), LITTLE, Output(), odd_slots)


def groups_told(place: FakePlace) -> list[int]:
    return [
        int(word.removeprefix("groups="))
        for words in place.runs
        for word in words
        if word.startswith("groups=")
    ]


def test_the_probe_is_told_all_settings_and_another_seed_each_run() -> None:
    place = FakePlace(NS)
    both = sampler(place, "getppid", "read")
    for seed in (40, 41):
        both.run_in_one(7)
        words = f"time groups=7 turns=1 blocks=2 block_ns=1000 cpu=5 seed={seed} cases=getppid,read"
        assert place.runs[-1] == words.split()


@pytest.mark.parametrize(("seconds", "runs"), [(0.25, [4, 4, 2]), (3.0, [1] * 10), (0.01, [10])])
def test_runs_are_short(seconds: float, runs: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    place = FakePlace(NS)
    one = sampler(place)
    monkeypatch.setattr(places, "SECOND", round(seconds * 1e9))
    one.group_seconds = seconds
    one.run(10)
    assert groups_told(place) == runs


def test_where_starting_takes_long_runs_are_twice_as_long() -> None:
    """A boot, say, of 4 s; it is in what a group costs."""
    place = FakePlace(NS)
    one = sampler(place)
    one.group_seconds, one.run_overhead = 0.5, 4.0
    assert one.seconds_a_group == pytest.approx(0.75)
    one.run(16)
    assert groups_told(place) == [16]


def test_more_processes_than_the_probe_has_are_an_error() -> None:
    with pytest.raises(UserError, match="65 .* 64"):
        sampler(FakePlace(NS), *["getppid"] * (MOST_SLOTS + 1))
    sampler(FakePlace(NS), *["getppid"] * MOST_SLOTS)


def test_an_absent_case_is_an_error_only_where_slots_count() -> None:
    place = FakePlace(NS, absent={"read": "no such case"})
    one = sampler(place, "read", "getppid")
    one.run_in_one(1)
    assert one.output.absent == {"read": "no such case"}
    for slots, odd in ((("read", "getppid"), ("getppid", "read")), (("read", "read"), ())):
        with pytest.raises(MachineError, match="no such case"):
            sampler(place, *slots, odd_slots=odd).run_in_one(1)


def test_a_failed_case_is_an_error_that_names_it() -> None:
    place = FakePlace(NS, failed={"read": "phase=time call=1 result=-9"})
    with pytest.raises(MachineError, match="phase=time call=1"):
        sampler(place, "getppid", "read").run_in_one(1)


def test_what_a_probe_said_before_it_died_is_kept() -> None:
    one = sampler(FakePlace(NS, dies_in=1))
    one.run_in_one(3)
    with pytest.raises(MachineError, match="ssh:bench"):
        one.run_in_one(3)
    assert [key[:2] for key in one.output.processes] == [(0, 0), (0, 1), (0, 2), (1, 0)]


def test_fewer_groups_than_were_asked_for_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    place = FakePlace(NS)
    monkeypatch.setattr(
        place,
        "_lines",
        lambda words: iter(["timing cpu=0 cpus=1", "clock 1 1 1 0", "end groups=0"]),
    )
    with pytest.raises(MachineError, match="0 of 5"):
        sampler(place).run_in_one(5)


# --- tails -------------------------------------------------------------------------


def timed(place: FakePlace, *names: str, groups: int = 2) -> list[Tail]:
    output = Output()
    Sampler(place, names, Settings(cpu=3), output).run_tails(groups)
    return tails_of(output, names)


def test_percentiles_are_of_the_calls_without_the_clock() -> None:
    tails = timed(FakePlace({"getppid": 80.0, "read": 120.0}), "getppid", "read")
    assert [tail.name for tail in tails] == ["getppid", "read"]
    for tail, ns in zip(tails, (80, 120), strict=True):
        assert tail.calls == 2 * TURNS * CALLS
        assert tail.timer == TIMER_NS
        # Two of a thousand take four times as long, and one a group a thousand times.
        values = [tail.metrics[f"{word}_ns"].value for word in ("p50", "p99", "p99.9")]
        assert values == [ns, ns, 4 * ns]
        assert tail.longest == 1000 * ns


def test_the_groups_are_the_sample() -> None:
    place = FakePlace({"getppid": 80.0}, drift=5.0)
    (tail,) = timed(place, "getppid", groups=10)
    told = f"tails groups=10 turns={TURNS} calls={CALLS} cpu=3 cases=getppid"
    assert place.runs == [told.split()]
    samples = tail.metrics["p50_ns"].samples
    assert [one.group for one in samples] == list(range(10))
    assert samples[-1].values > samples[0].values
    assert tail.metrics["p50_ns"].interval is not None


def test_an_absent_case_is_left_out_and_an_error_if_all_are() -> None:
    place = FakePlace({"getppid": 80.0}, absent={"first-use+vec=each": "it has no time of its own"})
    names = ["first-use+vec=each", "getppid"]
    assert [one.name for one in timed(place, *names)] == ["getppid"]
    with pytest.raises(MachineError, match="first-use.vec=each"):
        timed(place, names[0])


# --- sweeps ------------------------------------------------------------------------


def test_a_sweep_begins_without_a_walk_and_goes_from_32_kib_to_256_mib_by_twos() -> None:
    names = sweep_names("getppid+vec=each", "sweep")
    assert names[0] == "getppid+vec=each+cache=warm"
    sizes = [parse_size(name.rpartition("=")[2]) for name in names[1:]]
    assert sizes[0] == 32 << 10 and sizes[-1] == 256 << 20
    assert all(b == 2 * a for a, b in pairwise(sizes))


def test_sizes_are_sorted_and_once() -> None:
    walks = ["warm", "32K", "1M"]
    assert sweep_names("read", "1M,32K,1024K,") == [f"read+cache={walk}" for walk in walks]


@pytest.mark.parametrize("text", ["", ",", "sweeps", "32K,big", "32K 64K"])
def test_what_is_no_size_is_an_error(text: str) -> None:
    with pytest.raises(UserError):
        sweep_names("read", text)
