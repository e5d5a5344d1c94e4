# SPDX-License-Identifier: GPL-2.0-or-later
"""Percentiles of calls one by one."""

import pytest

from kentry.errors import MachineError
from kentry.measure.timed.output import Output
from kentry.measure.timed.tails import GROUPS, TURNS, time_tails
from tests.places import TIMER_NS, FakePlace


def test_percentiles_are_of_the_calls_the_clock_off() -> None:
    place = FakePlace({"getppid": 80.0, "read": 120.0})
    found = time_tails(place, ["getppid", "read"], 100_000, 3, Output())
    assert [tail.name for tail in found] == ["getppid", "read"]
    for tail, ns in zip(found, (80, 120), strict=True):
        assert tail.calls == 100_000
        assert tail.timer == TIMER_NS
        # Two of a thousand take four times as long, one of a thousand a thousand times.
        values = [tail.metrics[f"{word}_ns"].value for word in ("p50", "p99", "p99.9")]
        assert values == [ns, ns, 4 * ns]
        assert tail.longest == 1000 * ns


def test_calls_are_shared_among_groups_and_turns() -> None:
    place = FakePlace({"getppid": 80.0})
    time_tails(place, ["getppid"], 100_000, 3, Output())
    (words,) = place.runs
    assert words[0] == "tails"
    assert {f"groups={GROUPS}", f"turns={TURNS}", "calls=1000", "cpu=3"} <= set(words)


def test_fewer_calls_than_turns_are_one_a_turn() -> None:
    place = FakePlace({"getppid": 80.0})
    (tail,) = time_tails(place, ["getppid"], 1, -1, Output())
    assert "calls=1" in place.runs[0]
    assert tail.calls == GROUPS * TURNS


def test_a_group_is_a_sample() -> None:
    (tail,) = time_tails(FakePlace({"getppid": 80.0}, drift=5.0), ["getppid"], 5000, -1, Output())
    samples = tail.metrics["p50_ns"].samples
    assert [one.group for one in samples] == list(range(GROUPS))
    assert samples[-1].values > samples[0].values
    assert tail.metrics["p50_ns"].interval is not None


def test_a_case_that_is_absent_is_left_out_and_all_of_them_an_error() -> None:
    place = FakePlace({"getppid": 80.0}, absent={"first-use+vec=each": "it has no time of its own"})
    names = ["first-use+vec=each", "getppid"]
    assert [one.name for one in time_tails(place, names, 500, -1, Output())] == ["getppid"]
    with pytest.raises(MachineError, match="first-use.vec=each cannot be timed on ssh:bench"):
        time_tails(place, names[:1], 500, -1, Output())
