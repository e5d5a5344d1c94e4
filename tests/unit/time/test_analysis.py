# SPDX-License-Identifier: GPL-2.0-or-later
"""From what the probe said to numbers, and to a file and back."""

from pathlib import Path

import jsonschema
import pytest

from kentry.results.recording import (
    Recording,
    TimedProcess,
    read_recording,
    to_json,
    write_recording,
)
from kentry.results.samples import value_of
from kentry.time.analysis import metric, metrics_of
from kentry.time.output import Output
from kentry.time.preflight import Facts
from kentry.time.sampling import Sampler, Settings
from kentry.time.session import Session
from tests.builders import schema
from tests.places import GHZ, LOOP_NS, FakePlace

SETTINGS = Settings(turns=4, blocks=4)


def sampled(place: FakePlace, *slots: str, groups: int = 20) -> Output:
    output = Output()
    Sampler(place, slots, SETTINGS, output).run_in_one(groups)
    return output


def process(
    values: tuple[float, ...], group: int = 0, slot: int = 0, boot: int = 0
) -> TimedProcess:
    return TimedProcess(0, boot, group, slot, 10, len(values), values)


# --- values ----------------------------------------------------------------------


def test_a_value_is_per_call_and_without_the_clocks_reading() -> None:
    assert [value_of(process(values)) for values in ((900.0, 900.0), (1200.0,))] == [90.0, 120.0]
    one = TimedProcess(0, 0, 0, 0, 1, 0, (110.0, 112.0, 5000.0), (19.0, 20.0, 400.0))
    # The longest of each is left out, which are 5 % at most, and the others have a mean.
    assert value_of(one) == 111.0 - 19.5


def test_a_clock_of_long_steps_says_more_than_its_steps() -> None:
    """41.7 ns, as of 24 MHz: calls of 100 ns are two or three steps."""
    step = 1000 / 24

    def calls(ns: float) -> TimedProcess:
        starts = [index * 7.3 for index in range(400)]
        read = [(start + ns) // step * step - start // step * step for start in starts]
        return TimedProcess(0, 0, 0, 0, 1, 0, tuple(read), (0.0,))

    for ns in (100.0, 106.0, 115.0):
        assert value_of(calls(ns)) == pytest.approx(ns, rel=0.05)


# --- metrics ---------------------------------------------------------------------


def test_a_case_in_blocks_has_its_time_its_loop_and_its_counters() -> None:
    place = FakePlace({"getppid": 80.0, "read": 120.0}, spread=0.0, noise=0.0)
    found = metrics_of(sampled(place, "getppid", "read", "getppid", "read"), "read")
    assert set(found) == {"ns", "loop_ns", "kernel-cycles", "user-cycles"}
    assert found["ns"].value == pytest.approx(120.0)
    assert found["ns"].unit == found["loop_ns"].unit == "ns"
    assert found["loop_ns"].value == pytest.approx(LOOP_NS)
    assert found["kernel-cycles"].value == pytest.approx(120.0 * GHZ)
    assert found["kernel-cycles"].unit == "cycles"
    assert {one.slot for one in found["ns"].samples} == {1, 3}
    assert found["ns"].samples[0].blocks == 4
    assert len(found["ns"].samples[0].values) == 16


def test_the_interval_holds_the_value_that_it_was_made_from() -> None:
    found = metrics_of(sampled(FakePlace({"read": 120.0}, noise=0.0), "read", "read"), "read")["ns"]
    assert found.interval is not None and found.confidence == 0.99
    assert found.interval[0] < 120.0 < found.interval[1]
    assert found.interval[0] <= found.value <= found.interval[1]
    assert found.floor is not None and 0 < found.floor < 0.01
    assert found.detectable is not None and found.detectable >= found.floor


def test_one_by_one_has_no_loop_and_no_counters() -> None:
    place = FakePlace({"getppid": 80.0}, spread=0.0, noise=0.0)
    found = metrics_of(sampled(place, "getppid+cache=64K"), "getppid+cache=64K")
    assert set(found) == {"ns"}
    assert found["ns"].value == pytest.approx(80.0)
    assert found["ns"].samples[0].calls == 1
    assert found["ns"].samples[0].empties


def test_a_slot_alone_has_no_floor_and_one_process_no_interval() -> None:
    alone = metrics_of(sampled(FakePlace({"read": 120.0}), "read"), "read")["ns"]
    assert alone.floor is None and alone.detectable is None and alone.interval
    single = metrics_of(sampled(FakePlace({"read": 120.0}), "read", groups=1), "read")["ns"]
    assert single.interval is None and single.confidence is None


def test_groups_of_several_runs_are_numbered_through() -> None:
    output = Output()
    sampler = Sampler(FakePlace({"read": 120.0}), ["read"], SETTINGS, output)
    sampler.run_in_one(3)
    sampler.run_in_one(2)
    samples = metrics_of(output, "read")["ns"].samples
    assert len({one.group for one in samples}) == 5
    assert {one.boot for one in samples} == {0}


def test_where_boots_are_the_sample_their_interval_is_wider() -> None:
    """Twenty processes of two boots that differ are no twenty samples."""
    one_boot = [process((900.0 + 10 * (n // 10),), n) for n in range(20)]
    two_boots = [process((900.0 + 10 * (n // 10),), n, boot=n // 10) for n in range(20)]
    narrow, wide = (metric(each, "ns", "x").interval for each in (one_boot, two_boots))
    assert narrow and wide
    assert wide[1] - wide[0] > 2 * (narrow[1] - narrow[0])


# --- a file and back ------------------------------------------------------------------


def recorded(place: FakePlace, *slots: str) -> Recording:
    output = sampled(place, *slots)
    cases = {name: metrics_of(output, name) for name in slots}
    return Session(place).recording(output, cases, {"turns": 4})


@pytest.mark.parametrize(
    "slots",
    [
        ("getppid", "read", "getppid", "read"),
        ("getppid",),
        ("getppid+cache=64K", "getppid+cache=warm"),
        ("getppid+vec=each+extra=1/10",),
    ],
)
def test_a_recording_is_what_the_schema_says_and_comes_back(
    slots: tuple[str, ...], tmp_path: Path
) -> None:
    recording = recorded(FakePlace({"getppid": 80.0, "read": 120.0}), *slots)
    jsonschema.validate(to_json(recording), schema("recording-1"))
    write_recording(recording, tmp_path / "it.json")
    back = read_recording(tmp_path / "it.json")
    assert back == recording
    for case in back.cases:
        found = metric(case.noisy["ns"].samples, "ns", case.noisy["ns"].estimator)
        assert found == case.noisy["ns"]


def test_what_is_known_of_the_kernel_is_what_it_said() -> None:
    output = Output()
    output.begin_run()
    for line in (
        "release 6.12.1",
        # An ELF note of type 3, NT_GNU_BUILD_ID, of two bytes.
        "notes 040000000200000003000000474e5500abcd0000",
    ):
        output.take(f"kentry-probe {line}")
    banner = "Linux version 6.12.1 (me@here) (gcc-12 (Debian 12.2.0) 12.2.0, GNU ld 2.40) #1 SMP\n"
    facts = Facts(files={"/proc/version": banner})
    kernel = Session(FakePlace(), facts).recording(output, {}, {}).kernel
    assert (kernel["release"], kernel["build_id"]) == ("6.12.1", "abcd")
    assert kernel["compiler"] == "gcc-12 (Debian 12.2.0) 12.2.0"
    assert kernel["banner"] == banner.strip()
    assert Session(FakePlace()).recording(Output(), {}, {}).kernel["compiler"] == ""
