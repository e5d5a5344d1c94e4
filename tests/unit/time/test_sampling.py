# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs of the probe: what it is told, what of it is kept, and what is an error."""

import pytest

from kentry.errors import MachineError, UserError
from kentry.time.output import Output
from kentry.time.sampling import MOST_SLOTS, PILOT_GROUPS, Sampler, Settings
from tests.places import FakePlace

NS = {"getppid": 80.0, "read": 120.0}
LITTLE = Settings(turns=1, blocks=2, block_ns=1000, cpu=5, seed=40)


def sampler(place: FakePlace, *slots: str, all_of_them: bool = False) -> Sampler:
    return Sampler(place, slots or ("getppid",), LITTLE, Output(), all_of_them=all_of_them)


def groups_told(place: FakePlace) -> list[int]:
    return [
        int(word.removeprefix("groups="))
        for words in place.runs
        for word in words
        if word.startswith("groups=")
    ]


def test_the_probe_is_told_all_settings() -> None:
    place = FakePlace(NS)
    sampler(place, "getppid", "read").run_in_one(7)
    assert place.runs == [
        [
            "time",
            "groups=7",
            "turns=1",
            "blocks=2",
            "block_ns=1000",
            "cpu=5",
            "seed=40",
            "cases=getppid,read",
        ]
    ]


def test_each_run_has_another_seed() -> None:
    place = FakePlace(NS)
    one = sampler(place)
    one.run(PILOT_GROUPS)
    one.run_in_one(1)
    assert ["seed=40" in place.runs[0], "seed=41" in place.runs[1]] == [True, True]


@pytest.mark.parametrize(("seconds", "runs"), [(0.25, [4, 4, 2]), (3.0, [1] * 10), (0.01, [10])])
def test_runs_are_short(seconds: float, runs: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    place = FakePlace(NS)
    one = sampler(place)
    took = property(lambda output: seconds * groups_told(place)[-1])
    monkeypatch.setattr(Output, "seconds_of_run", took)
    one.group_seconds = seconds
    one.run(10)
    assert groups_told(place) == runs


def test_where_starting_takes_long_runs_are_twice_as_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """A boot, say, of 4 s; it is in what a group costs."""
    place = FakePlace(NS)
    one = sampler(place)
    monkeypatch.setattr(Output, "seconds_of_run", property(lambda output: 0.5))
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
    for slots, all_of_them in ((("read", "getppid"), True), (("read", "read"), False)):
        with pytest.raises(MachineError, match="no such case"):
            sampler(place, *slots, all_of_them=all_of_them).run_in_one(1)


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
