# SPDX-License-Identifier: GPL-2.0-or-later
"""Metrics, recordings and comparisons, on a machine whose times are known."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kentry.errors import MachineError
from kentry.results.recording import (
    NoisyMetric,
    TimedProcess,
    read_recording,
    to_json,
    write_recording,
)
from kentry.results.samples import value_of
from kentry.stats.exact import BETTER, SAME, UNDECIDED, WORSE
from kentry.stats.sequential import LOOKS, Look
from kentry.stats.verdict import Effect
from kentry.time import measurements
from kentry.time.measurements import (
    LEAST_GROUPS,
    LEAST_ROUNDS,
    Ending,
    KernelRuns,
    Pair,
    Rows,
    Schedule,
    compare_cases,
    compare_kernels,
    metric,
    metrics_of,
    metrics_of_pair,
    pairs_sampler,
    run_looks,
)
from kentry.time.preflight import Facts
from kentry.time.sampling import Output, Sampler, Settings
from kentry.time.session import Session
from tests.builders import validate
from tests.places import GHZ, LOOP_NS, FakePlace, silent

FOUR = Settings(turns=4, blocks=4)
TWO = {"getppid": 80.0, "read": 120.0}


def sampled(place: FakePlace, *slots: str, groups: int = 20) -> Output:
    output = Output()
    Sampler(place, slots, FOUR, output).run_in_one(groups)
    return output


def metrics(*slots: str, groups: int = 20, **place: Any) -> dict[str, NoisyMetric]:
    """Those of the last slot, of which getppid takes 80 ns and read 120."""
    return metrics_of(sampled(FakePlace(TWO, **place), *slots, groups=groups), slots[-1])


def process(
    values: tuple[float, ...], group: int = 0, slot: int = 0, boot: int = 0
) -> TimedProcess:
    return TimedProcess(0, boot, group, slot, 10, len(values), values)


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


def test_a_case_in_blocks_has_its_time_its_loop_and_its_counters() -> None:
    found = metrics("getppid", "read", "getppid", "read", spread=0.0, noise=0.0)
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
    found = metrics("read", "read", noise=0.0)["ns"]
    assert found.interval is not None and found.confidence == 0.99
    assert found.interval[0] < 120.0 < found.interval[1]
    assert found.interval[0] <= found.value <= found.interval[1]
    assert found.floor is not None and 0 < found.floor < 0.01
    assert found.detectable is not None and found.detectable >= found.floor


def test_one_by_one_has_no_loop_and_no_counters() -> None:
    found = metrics("getppid+cache=64K", spread=0.0, noise=0.0)
    assert set(found) == {"ns"}
    assert found["ns"].value == pytest.approx(80.0)
    assert found["ns"].samples[0].calls == 1
    assert found["ns"].samples[0].empties


def test_a_slot_alone_has_no_floor_and_one_process_no_interval() -> None:
    alone = metrics("read")["ns"]
    assert alone.floor is None and alone.detectable is None and alone.interval
    single = metrics("read", groups=1)["ns"]
    assert single.interval is None and single.confidence is None


def test_groups_of_several_runs_are_numbered_through() -> None:
    output = Output()
    sampler = Sampler(FakePlace({"read": 120.0}), ["read"], FOUR, output)
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
    assert narrow and wide and wide[1] - wide[0] > 2 * (narrow[1] - narrow[0])


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
    output = sampled(FakePlace(TWO), *slots)
    cases = {name: metrics_of(output, name) for name in slots}
    recording = Session(FakePlace(TWO)).recording(output, cases, {"turns": 4})
    validate(to_json(recording), "recording-1")
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


OPEN = Effect(effect=0.0, interval=(-1.0, 1.0), confidence=0.99, threshold=0.01, groups=9)
DECIDED = replace(OPEN, verdict=WORSE)


def looked(*rows: Rows, least: int = 6) -> tuple[Ending, list[tuple[int, int]]]:
    """The ending if the looks find these rows in turn, and the units measured at each look."""
    measured: list[int] = []
    looks: list[tuple[int, int]] = []

    def measure(before: int, count: int) -> None:
        assert before == (measured[-1] if measured else 0)
        measured.append(count)

    def estimate(look: Look) -> Rows:
        looks.append((look.number, measured[-1]))
        return rows[min(len(looks), len(rows)) - 1]

    ending = run_looks(100, least, "groups", measure, estimate)
    return ending, looks


def test_it_ends_at_the_first_look_that_decides_every_row_or_at_the_last() -> None:
    ending, looks = looked([OPEN, DECIDED], [DECIDED, DECIDED])
    assert looks == [(1, 10), (2, 20)]
    assert ending.options == {"groups": 20, "looks": 5, "look": 2}
    ending, looks = looked([OPEN])
    assert looks == [(1, 10), (2, 20), (3, 40), (4, 70), (5, 100)]
    assert (ending.done, ending.planned, ending.rows) == (100, 100, [OPEN])
    # No look has fewer units than an interval needs.
    _, looks = looked([OPEN], least=30)
    assert [units for _, units in looks] == [30, 30, 40, 70, 100]


def test_a_row_that_was_not_measured_is_not_waited_for() -> None:
    assert looked([None, DECIDED])[0].look.number == 1
    assert looked([None])[0].look.number == 5


NS = {"a": 80.0, "b": 80.8, "same": 80.0, "fast": 40.0}
SETTINGS = Settings(turns=2, blocks=4)
SCHEDULE = Schedule(100)


def compared(
    place: FakePlace, *pairs: Pair, schedule: Schedule = SCHEDULE, output: Output | None = None
) -> Ending:
    sampler = pairs_sampler(place, pairs, SETTINGS, output or Output())
    return compare_cases(sampler, pairs, schedule, silent)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("drift", [0.0, 0.3])  # it is in both, and makes no difference
def test_a_case_is_the_same_as_itself_and_one_per_cent_is_found(drift: float, seed: int) -> None:
    for new, verdict in (("a", SAME), ("b", WORSE)):
        (row,) = compared(FakePlace(NS, drift=drift, seed=seed), Pair("a", new)).rows
        assert row and row.verdict == verdict
        assert row.interval[0] < (new == "b") / 100 < row.interval[1]


def test_groups_in_which_a_clock_jumped_are_in_no_comparison() -> None:
    place, output = FakePlace(NS, jumps=frozenset({2, 3, 15})), Output()
    ending = compared(place, Pair("a", "b"), output=output)
    (row,) = ending.rows
    assert row and row.groups == ending.done - 3
    old, _ = metrics_of_pair(output, 0, Pair("a", "b"))
    assert len(old["ns"].samples) == 2 * (ending.done - 3)


def test_an_early_look_has_a_higher_confidence_and_at_least_the_groups_of_an_interval() -> None:
    (row,) = compared(FakePlace(NS), Pair("fast", "a"), schedule=Schedule(300)).rows
    assert row and row.confidence > 0.999
    ending = compared(FakePlace(NS), Pair("fast", "a"), schedule=Schedule(6))
    assert ending.done == ending.planned == LEAST_GROUPS


def test_the_boots_of_a_guest_are_the_sample() -> None:
    place = FakePlace(NS, kind="kvm")
    ending = compared(place, Pair("fast", "a"), schedule=Schedule(12))
    assert (ending.unit, ending.done) == ("boots", len(place.runs))


def test_each_pair_has_slots_of_its_own() -> None:
    pairs, output = (Pair("a", "b"), Pair("fast", "fast"), Pair("b", "a")), Output()
    ending = compared(FakePlace(NS), *pairs, output=output)
    assert [row.verdict for row in ending.rows if row] == ["worse", "same", "better"]
    for number, pair in enumerate(pairs):
        old, new = metrics_of_pair(output, number, pair)
        for samples, slots in ((old, ((0, 3), (1, 2))), (new, ((1, 2), (0, 3)))):
            for one in samples["ns"].samples:
                assert one.slot - 4 * number in slots[one.group // 100_000 % 2]


@pytest.mark.parametrize("gone", ["a", "b", "fast"])
def test_a_case_that_is_absent_is_an_error_and_never_another_ones_slot(gone: str) -> None:
    place = FakePlace(NS, absent={gone: "no such case"})
    with pytest.raises(MachineError, match=gone):
        compared(place, Pair("a", "b"), Pair("fast", "same"))


def test_neither_is_one_whose_line_was_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """The slots behind it move up: their names say whose they are."""
    place = FakePlace(NS, absent={"a": "no such case"})
    lines = place._lines

    def without_absent(words: Sequence[str]) -> Any:
        return (line for line in lines(words) if not line.startswith("absent"))

    monkeypatch.setattr(place, "_lines", without_absent)
    with pytest.raises(MachineError):
        compared(place, Pair("a", "b"), Pair("fast", "same"))


TIMED = Schedule(1.0)


@pytest.fixture(autouse=True)
def _few_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measurements, "BOOT_GROUPS", 3)


def booted(
    place: FakePlace, schedule: Schedule = TIMED, both: tuple[KernelRuns, KernelRuns] | None = None
) -> tuple[Ending, tuple[KernelRuns, KernelRuns]]:
    both = both or (KernelRuns("6.1"), KernelRuns("6.12"))
    settings = Settings(turns=2, blocks=4, seed=7)
    return compare_kernels(place, both, list(TWO), settings, schedule, silent), both


def times(side: KernelRuns) -> Sequence[TimedProcess]:
    return metrics_of(side.output, "read")["ns"].samples


def estimates(ending: Ending) -> dict[str, Effect]:
    return {case: row for case, row in zip(TWO, ending.rows, strict=True) if row}


def test_each_round_boots_abba_or_baab() -> None:
    place = FakePlace(TWO, boot_spread=0.05)
    ending, _ = booted(place)
    rounds = [tuple(place.booted[i : i + 4]) for i in range(0, len(place.booted), 4)]
    assert len(rounds) == ending.done == 12
    a, b = "6.1", "6.12"
    assert set(rounds) == {(a, b, b, a), (b, a, a, b)}


def test_boots_are_numbered_through_and_each_has_its_groups() -> None:
    place = FakePlace(TWO, boot_spread=0.05)
    _, (old, new) = booted(place)
    for number, side in enumerate((old, new)):
        wanted = [i for i, kernel in enumerate(place.booted) if kernel == ("6.1", "6.12")[number]]
        samples = times(side)
        assert [one.boot for one in samples] == [boot for boot in wanted for _ in range(3)]
    assert all("groups=3" in words and "cases=getppid,read" in words for words in place.runs)


@pytest.mark.parametrize(("slower", "sign"), [("6.12", 1), ("6.1", -1)])
def test_a_kernel_that_is_slower_is_found(slower: str, sign: int) -> None:
    ending, _ = booted(FakePlace(TWO, kernels={slower: 1.02}, boot_spread=0.002))
    rows = estimates(ending)
    assert [row.verdict for row in rows.values()] == [WORSE if sign > 0 else BETTER] * len(TWO)
    assert rows["read"].interval[0] < sign * 0.02 < rows["read"].interval[1]


@pytest.mark.parametrize("seed", range(6))
def test_two_that_are_alike_are_never_a_difference(seed: int) -> None:
    ending, _ = booted(FakePlace(TWO, boot_spread=0.01, seed=seed))
    assert {one.verdict for one in estimates(ending).values()} <= {SAME, UNDECIDED}


def test_it_ends_at_a_planned_look() -> None:
    place = FakePlace(TWO, kernels={"6.12": 1.5})
    ending, _ = booted(place, Schedule(40))
    assert ending.look.number < len(LOOKS)
    assert ending.done in [max(LEAST_ROUNDS, round(40 * part)) for part in LOOKS]
    assert len(place.booted) == 4 * ending.done
    assert ending.options == {"rounds": ending.done, "looks": 5, "look": ending.look.number}


@pytest.mark.parametrize(
    ("place", "pattern", "samples"),
    [(FakePlace(TWO, refuses=5), "6.1", 15), (FakePlace(TWO, dies_in=5), "ssh:bench", 16)],
)
def test_a_boot_or_probe_that_fails_keeps_what_was_measured(
    place: FakePlace, pattern: str, samples: int
) -> None:
    both = KernelRuns("6.1"), KernelRuns("6.12")
    with pytest.raises(MachineError, match=pattern):
        booted(place, both=both)
    assert len([one for side in both for one in times(side)]) == samples


def test_a_boot_that_timed_nothing_is_an_error() -> None:
    """Its groups were all lost, though those of the boots before were not."""
    place = FakePlace(TWO, boot_spread=0.05, jumps=frozenset(range(6, 9)))
    with pytest.raises(MachineError, match="ssh:bench"):
        booted(place)


def test_a_case_that_is_absent_is_in_no_comparison() -> None:
    ending, _ = booted(FakePlace(TWO, absent={"read": "no unit"}))
    assert set(estimates(ending)) == {"getppid"}


class Loader(FakePlace):
    """A machine whose boot loader starts these releases, whatever it is told."""

    def __init__(self, *releases: str) -> None:
        super().__init__(TWO)
        self.releases = releases

    def _lines(self, words: Sequence[str]) -> Iterator[str]:
        yield "notes 0400"
        for line in super()._lines(words):
            release = self.releases[(len(self.booted) - 1) % len(self.releases)]
            yield f"release {release}" if line.startswith("release ") else line


def test_a_boot_loader_that_starts_another_kernel_or_always_the_same_is_an_error() -> None:
    with pytest.raises(MachineError, match="another kernel than before: 5"):
        booted(Loader("6.1", "6.12", "5.10"))
    with pytest.raises(MachineError, match="the same kernel, 6.1"):
        booted(Loader("6.1"))
