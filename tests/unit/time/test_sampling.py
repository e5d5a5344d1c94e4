# SPDX-License-Identifier: GPL-2.0-or-later
"""The probe's lines and runs: what it is told, what is kept, what is an error; tails, sweeps."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kentry.errors import MachineError, UserError
from kentry.results.case_name import parse_size
from kentry.time.measurements import Tail, metrics_of, sweep_names, tails_of
from kentry.time.sampling import CALLS, MOST_SLOTS, TURNS, Output, Sampler, Settings, quantile
from tests import places
from tests.places import TIMER_NS, FakePlace

SECOND = 1_000_000_000


def heard(*lines: str, output: Output | None = None) -> Output:
    """What these lines say, "kentry-probe " put before each."""
    output = output or Output()
    output.begin_run()
    for line in lines:
        output.take(f"kentry-probe {line}")
    return output


def clock(seconds: float, ahead: float = 0.0, slept: float = 0.0, cpu: int = 0) -> str:
    """The clocks after so many seconds; monotonic `ahead` of raw, `slept` in boottime only."""
    now = round(seconds * SECOND)
    return f"clock {now} {now - round(ahead * SECOND)} {now + round(slept * SECOND)} {cpu}"


def group(number: int) -> list[str]:
    return [
        f"process {number} 0 getppid calls=100",
        f"t {number} 0 0 9000 9100 9200",
        f"o {number} 0 0 150",
        f"c {number} 0 0 300 kernel-cycles=27900-900 user-cycles=610-10",
        f"t {number} 0 1 9001 9101 9201",
        f"o {number} 0 1 151",
        f"c {number} 0 1 300 kernel-cycles=27903-900 user-cycles=601-0",
    ]


def test_all_that_a_run_says() -> None:
    output = heard(
        "start x86_64",
        "release 6.12.1 of mine",
        "notes 040a",
        "vector vec 256",
        "timing cpu=2 cpus=8 timer_ns=17 resolution_ns=1 clock=vdso counters=kernel-cycles",
        "absent first-use+vec=each no window",
        "failed openat+close phase=time call=1 result=-24",
        clock(1, cpu=2),
        *group(0),
        clock(2, cpu=2),
        "end groups=1",
    )
    assert output.release == "6.12.1 of mine"
    assert output.notes == b"\x04\x0a"
    assert output.machine["cpu"] == "2" and output.machine["counters"] == "kernel-cycles"
    assert output.absent == {"first-use+vec=each": "no window"}
    assert output.failed == {"openat+close": "phase=time call=1 result=-24"}
    (process,) = output.of_case("getppid")
    assert (process.slot, process.case, process.calls) == (0, "getppid", 100)
    assert process.turns == [[9000, 9100, 9200], [9001, 9101, 9201]]
    assert process.empties == [[150], [151]]
    assert process.counted == {
        "kernel-cycles": [(27000, 300), (27003, 300)],
        "user-cycles": [(600, 300), (601, 300)],
    }
    assert output.groups_ended == 1
    assert not output.jumps and not output.multiplexed
    # Another run has its own groups; that it began anew is no clock that went back.
    heard(clock(1, cpu=2), *group(0), clock(2, cpu=2), output=output)
    assert list(output.processes) == [(0, 0, 0), (1, 0, 0)]
    assert output.groups_ended == 2 and not output.jumps


def test_what_the_kernel_says_before_the_prefix_is_none_of_it() -> None:
    output = Output()
    output.begin_run()
    for line in group(0):
        output.take(f"[   12.345678] random: crng init done kentry-probe {line}\r")
    (samples,) = output.processes.values()
    assert len(samples.turns) == 2


@pytest.mark.parametrize(
    "line",
    [
        *("process 0 0 read", "process 0 0 read calls=", "process 0 0 re ad calls=4"),
        *("process 0 0 calls=4", "proc 0 0 read calls=4", "t 0", "t 7 7 0 9000 9100 9200"),
        *("t 0 0 0 90[   12.3] usb 1-1: new device", "c 0 0 0 300 kernel-cycles", "c 0 0"),
        *("c 0 0 0 300 kernel-cycles=27900", "c 0 0 0 3x0 kernel-cycles=4", "h 0 0 90"),
        *("h 0 0 90 1 1", "e 0 0 90 x", "notes 4", "notes zz", "timing cpu", "clock 1 2 3"),
        *("clock 1 2 3 4 5", "clock", "clock a b c d", ""),
    ],
)
def test_what_is_damaged_counts_as_not_there(line: str) -> None:
    whole, damaged = heard(clock(1), *group(0)), heard(clock(1), *group(0))
    damaged.take(f"kentry-probe {line}")
    for other in ("kentry-prob process 0 0 read calls=4", "process 0 0 read calls=4", ""):
        damaged.take(other)
    assert damaged == whole


@given(st.lists(st.text(max_size=40), max_size=8))
@example(["clock 1 2 3"])
@example(["clock 1 1 1 1", "clock 1" + 400 * "0" + " 1 1 1"])
def test_no_text_at_all_is_an_error(lines: list[str]) -> None:
    output = heard(clock(1), *group(0))
    for line in lines:
        output.take(line)
        output.take(f"kentry-probe {line}")


@pytest.mark.parametrize(
    ("reading", "why"),
    [
        (clock(1.5), "it went back by 500000000 ns"),
        (clock(3.0, ahead=0.5), "1.000 s passed by one clock and 0.500 s by another"),
        (clock(3.0, ahead=-0.5), "1.000 s passed by one clock and 1.500 s by another"),
        (clock(3.0, slept=7.25), "the machine slept for 7.2 s"),
        (clock(3.0, cpu=3), "cpu 0 was left for cpu 3"),
    ],
)
def test_a_group_during_which_a_clock_jumps_is_dropped_and_counted(reading: str, why: str) -> None:
    begins = "timing cpu=0 cpus=4 timer_ns=17 resolution_ns=1 clock=vdso counters=none:2"
    output = heard(begins, clock(1), *group(0), clock(2), *group(1), reading, *group(2))
    assert list(output.processes) == [(0, 0, 0), (0, 2, 0)]
    assert output.jumps == [why]
    assert output.groups_ended == 2


def test_every_group_on_another_cpu_is_dropped() -> None:
    """One whose cpu went offline stays where it was moved to."""
    begins = "timing cpu=1 cpus=4 timer_ns=17 resolution_ns=1 clock=vdso counters=none:2"
    readings = [clock(number + 2, cpu=cpu) for number, cpu in enumerate((1, 0, 0, 0))]
    lines = [line for number in range(4) for line in (*group(number), readings[number])]
    output = heard(begins, clock(1, cpu=1), *lines)
    assert list(output.processes) == [(0, 0, 0)]
    assert len(output.jumps) == 3


def test_clocks_may_drift_as_ntp_has_them() -> None:
    for ahead in (0.0009, -0.0009):
        output = heard(clock(1), *group(0), clock(2), *group(1), clock(3, ahead=ahead))
        assert not output.jumps and len(output.processes) == 2


def test_a_run_that_lost_some_groups_goes_on_and_one_that_lost_all_is_an_error() -> None:
    settings = Settings(turns=1, blocks=1)
    place = FakePlace({"getppid": 90.0}, jumps=frozenset({1, 2}))
    some = Sampler(place, ["getppid"], settings, Output())
    some.run(5)
    assert (len(some.output.jumps), len(some.output.processes)) == (2, 3)
    assert some.output.groups_ended == 5
    place = FakePlace({"getppid": 90.0}, jumps=frozenset(range(100)))
    with pytest.raises(MachineError, match="1.000 s passed"):
        Sampler(place, ["getppid"], settings, Output()).run(3)


def test_a_place_without_that_cpu_is_an_error() -> None:
    output = heard("timing cpu=-1 cpus=2 timer_ns=17 resolution_ns=1 clock=vdso", "end groups=0")
    with pytest.raises(MachineError, match="cpu 7"):
        Sampler(FakePlace(), ["getppid"], Settings(cpu=7), output).check(0)


def test_a_counter_that_was_not_always_counting_is_left_out_and_named() -> None:
    output = heard(
        "process 0 0 getppid calls=100",
        "t 0 0 0 9000",
        "c 0 0 0 300 kernel-cycles=27900-900/500/1000 user-cycles=600-0",
    )
    assert output.multiplexed == {"kernel-cycles"}
    assert set(metrics_of(output, "getppid")) == {"ns", "user-cycles"}


def test_what_has_no_times_yet_has_no_metrics() -> None:
    """A probe that ends after a process's first line is an error, and this not another one."""
    assert not metrics_of(heard("process 0 0 getppid calls=100"), "getppid")
    assert not metrics_of(heard("process 0 0 getppid calls=100", "t 0 0 0"), "getppid")
    assert set(metrics_of(heard(*group(0)[:2]), "getppid")) == {"ns"}


def test_what_the_reading_of_a_counter_counts_is_taken_off_and_never_more() -> None:
    output = heard("process 0 0 getppid calls=1", "c 0 0 0 2 user-cycles=3-5 kernel-cycles=9-5")
    (samples,) = output.processes.values()
    assert samples.counted == {"user-cycles": [(0, 2)], "kernel-cycles": [(4, 2)]}


@pytest.mark.parametrize(
    ("bins", "share", "value"),
    [
        ({10: 1}, 0.5, 10),
        ({10: 50, 20: 50}, 0.5, 10),
        ({10: 49, 20: 51}, 0.5, 20),
        ({20: 1, 10: 99}, 0.99, 10),
        ({20: 2, 10: 98}, 0.99, 20),
        ({10: 998, 20: 1, 30: 1}, 0.999, 20),
        ({10: 997, 20: 1, 30: 2}, 0.999, 30),
    ],
)
def test_a_quantile_is_the_first_bin_with_so_many_below_or_in_it(
    bins: dict[int, int], share: float, value: int
) -> None:
    assert quantile(bins, share) == value


NS = {"getppid": 80.0, "read": 120.0}
LITTLE = Settings(turns=1, blocks=2, block_ns=1000, cpu=5, seed=40)


def sampler(place: FakePlace, *slots: str, odd_slots: Sequence[str] = ()) -> Sampler:
    return Sampler(place, slots or ("getppid",), LITTLE, Output(), odd_slots)


def groups_told(place: FakePlace) -> list[int]:
    return [int(words[1].removeprefix("groups=")) for words in place.runs]


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


def test_fewer_groups_than_were_asked_for_are_an_error() -> None:
    one = sampler(FakePlace(NS))
    one.run_in_one(2)
    with pytest.raises(MachineError, match="2 of 5"):
        one.check(5)


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


def test_a_sweep_begins_without_a_walk_and_goes_from_32_kib_to_256_mib_by_twos() -> None:
    names = sweep_names("getppid+vec=each", "sweep")
    assert names[0] == "getppid+vec=each+cache=warm"
    assert names[15:] == [f"{name}:code" for name in names[1:15]]
    sizes = [parse_size(name.rpartition("=")[2]) for name in names[1:15]]
    assert sizes[0] == 32 << 10 and sizes[-1] == 256 << 20
    assert all(b == 2 * a for a, b in pairwise(sizes))
    # Sizes are sorted, and each is there once.
    walks = ["warm", "32K", "1M", "32K:code", "1M:code"]
    assert sweep_names("read", "1M,32K,1024K,") == [f"read+cache={walk}" for walk in walks]


@pytest.mark.parametrize("text", ["", ",", "sweeps", "32K,big", "32K 64K"])
def test_what_is_no_size_is_an_error(text: str) -> None:
    with pytest.raises(UserError):
        sweep_names("read", text)
