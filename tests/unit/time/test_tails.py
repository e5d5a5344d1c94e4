# SPDX-License-Identifier: GPL-2.0-or-later
"""Percentiles of calls one by one."""

import pytest

from kentry.errors import MachineError
from kentry.time.analysis import Tail, tails_of
from kentry.time.output import Output
from kentry.time.sampling import CALLS, TURNS, time_calls
from tests.places import TIMER_NS, FakePlace


def timed(place: FakePlace, *names: str, groups: int = 2) -> list[Tail]:
    output = Output()
    time_calls(place, names, groups, 3, output)
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


def test_the_probe_gets_groups_turns_and_calls() -> None:
    place = FakePlace({"getppid": 80.0})
    timed(place, "getppid", groups=7)
    (words,) = place.runs
    assert words[0] == "tails"
    assert {"groups=7", f"turns={TURNS}", f"calls={CALLS}", "cpu=3"} <= set(words)


def test_the_groups_are_the_sample() -> None:
    (tail,) = timed(FakePlace({"getppid": 80.0}, drift=5.0), "getppid", groups=10)
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
