# SPDX-License-Identifier: GPL-2.0-or-later
"""Two kernels interleaved, a boot each, on a machine whose times are known."""

from collections.abc import Iterator, Sequence

import pytest

from kentry.errors import MachineError
from kentry.results.recording import TimedProcess
from kentry.stats.exact import BETTER, SAME, UNDECIDED, WORSE
from kentry.stats.sequential import LOOKS
from kentry.stats.verdict import Effect
from kentry.time.analysis import metrics_of
from kentry.time.comparing import (
    LEAST_ROUNDS,
    BootPlan,
    Ending,
    KernelRuns,
    Schedule,
    compare_kernels,
)
from kentry.time.sampling import Settings
from tests.places import FakePlace, silent

NS = {"getppid": 80.0, "read": 120.0}
PLAN = BootPlan(("getppid", "read"), Settings(turns=2, blocks=4, seed=7), groups=3)
SCHEDULE = Schedule(1.0)


def sides() -> tuple[KernelRuns, KernelRuns]:
    return KernelRuns("6.1"), KernelRuns("6.12")


def compared(
    place: FakePlace, schedule: Schedule = SCHEDULE
) -> tuple[Ending, tuple[KernelRuns, KernelRuns]]:
    both = sides()
    return compare_kernels(place, both, PLAN, schedule, silent), both


def times(side: KernelRuns) -> Sequence[TimedProcess]:
    return metrics_of(side.output, "read")["ns"].samples


def estimates(ending: Ending) -> dict[str, Effect]:
    return {case: row for case, row in zip(PLAN.cases, ending.rows, strict=True) if row}


def test_each_round_boots_abba_or_baab() -> None:
    place = FakePlace(NS, boot_spread=0.05)
    ending, _ = compared(place)
    rounds = [tuple(place.booted[i : i + 4]) for i in range(0, len(place.booted), 4)]
    assert len(rounds) == ending.done == 12
    a, b = "6.1", "6.12"
    assert set(rounds) == {(a, b, b, a), (b, a, a, b)}


def test_boots_are_numbered_through_and_each_has_its_groups() -> None:
    place = FakePlace(NS, boot_spread=0.05)
    _, (old, new) = compared(place)
    for number, side in enumerate((old, new)):
        wanted = [i for i, kernel in enumerate(place.booted) if kernel == ("6.1", "6.12")[number]]
        samples = times(side)
        assert [one.boot for one in samples] == [boot for boot in wanted for _ in range(3)]
    assert all("groups=3" in words and "cases=getppid,read" in words for words in place.runs)


def test_a_kernel_that_is_slower_is_found() -> None:
    ending, _ = compared(FakePlace(NS, kernels={"6.12": 1.02}, boot_spread=0.002))
    assert {case: one.verdict for case, one in estimates(ending).items()} == dict.fromkeys(
        NS, WORSE
    )
    assert estimates(ending)["read"].interval[0] < 0.02 < estimates(ending)["read"].interval[1]
    ending, _ = compared(FakePlace(NS, kernels={"6.1": 1.02}, boot_spread=0.002))
    assert estimates(ending)["read"].verdict == BETTER


@pytest.mark.parametrize("seed", range(6))
def test_two_that_are_alike_are_never_a_difference(seed: int) -> None:
    ending, _ = compared(FakePlace(NS, boot_spread=0.01, seed=seed))
    assert {one.verdict for one in estimates(ending).values()} <= {SAME, UNDECIDED}


def test_boots_that_differ_hide_what_their_groups_would_show() -> None:
    """A kernel 1 % slower, boots that differ by 3 %: groups alone would be very sure."""
    ending, _ = compared(FakePlace(NS, kernels={"6.12": 1.01}, boot_spread=0.03))
    assert {one.verdict for one in estimates(ending).values()} == {UNDECIDED}


def test_a_round_is_a_sample() -> None:
    ending, _ = compared(FakePlace(NS, boot_spread=0.05))
    assert {one.groups for one in estimates(ending).values()} == {12}


def test_it_ends_at_a_planned_look() -> None:
    place = FakePlace(NS, kernels={"6.12": 1.5})
    ending, _ = compared(place, Schedule(40))
    assert ending.look.number < len(LOOKS)
    assert ending.done in [max(LEAST_ROUNDS, round(40 * part)) for part in LOOKS]
    assert len(place.booted) == 4 * ending.done
    assert ending.options == {"rounds": ending.done, "looks": 5, "look": ending.look.number}


def test_a_boot_that_fails_keeps_what_was_measured() -> None:
    both = sides()
    with pytest.raises(MachineError, match="6.1"):
        compare_kernels(FakePlace(NS, refuses=5), both, PLAN, SCHEDULE, silent)
    samples = [one for side in both for one in times(side)]
    assert len({one.boot for one in samples}) == 5


def test_a_probe_that_dies_keeps_what_was_measured() -> None:
    both = sides()
    with pytest.raises(MachineError, match="ssh:bench"):
        compare_kernels(FakePlace(NS, dies_in=5), both, PLAN, SCHEDULE, silent)
    samples = [one for side in both for one in times(side)]
    assert len(samples) == 5 * 3 + 1


def test_a_boot_that_timed_nothing_is_an_error() -> None:
    """Its groups were all lost, though those of the boots before were not."""
    place = FakePlace(NS, boot_spread=0.05, jumps=frozenset(range(6, 9)))
    with pytest.raises(MachineError, match="ssh:bench"):
        compared(place)


def test_a_case_that_is_absent_is_in_no_comparison() -> None:
    ending, _ = compared(FakePlace(NS, absent={"read": "no unit"}))
    assert set(estimates(ending)) == {"getppid"}


class Loader(FakePlace):
    """A machine whose boot loader starts these releases, whatever it is told."""

    def __init__(self, *releases: str) -> None:
        super().__init__(NS)
        self.releases = releases

    def _lines(self, words: Sequence[str]) -> Iterator[str]:
        yield "notes 0400"
        for line in super()._lines(words):
            release = self.releases[(len(self.booted) - 1) % len(self.releases)]
            yield f"release {release}" if line.startswith("release ") else line


def test_a_boot_loader_that_falls_back_to_another_kernel_is_an_error() -> None:
    with pytest.raises(MachineError, match="another kernel than before: 5"):
        compared(Loader("6.1", "6.12", "5.10"))


def test_a_boot_loader_that_always_starts_the_same_kernel_is_an_error() -> None:
    with pytest.raises(MachineError, match="the same kernel, 6.1"):
        compared(Loader("6.1"))
