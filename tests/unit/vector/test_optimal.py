# SPDX-License-Identifier: GPL-2.0-or-later
"""The optimum is what trying everything finds, and nothing is cheaper."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from kentry.arch.mechanism import ACTS
from kentry.errors import UserError
from kentry.vector.replay import optimal, prepare, replay
from kentry.vector.trace import Event, VectorTrace
from tests.unit.vector.kernel_models import (
    Arm64,
    Arm64Flushing,
    RiscV,
    Row,
    cheapest,
    trace_of,
    traces,
)

# Compiles the search for the best decisions: 8 s, once.
pytestmark = pytest.mark.slow

E = Event

COSTS = st.fixed_dictionaries({act: st.integers(0, 60).map(float) for act in ACTS})

# Policies of the arm64 mechanism that give access by a trap only.
TRAPPING = (
    *("keep", "drop-each-syscall", "drop-on-load", "timeout:1us", "timeout-entry:1us"),
    *("count:0", "count:2"),
)
# And of riscv64's, where the kernel sees uses.
SEEING = (*TRAPPING, "timeout-from-use:1us", "count-from-use:2")


@given(trace=traces(most=40), costs=COSTS)
def test_trying_all_decisions_finds_no_less_and_no_more(
    trace: VectorTrace, costs: dict[str, float]
) -> None:
    least = cheapest(Arm64, trace, costs, 9)
    assume(least is not None)
    assert optimal(prepare(trace), costs).cost(costs).sum() == least


@given(trace=traces(release="7.3.4", most=40), costs=COSTS)
def test_so_it_is_where_signals_give_the_registers_up(
    trace: VectorTrace, costs: dict[str, float]
) -> None:
    least = cheapest(Arm64Flushing, trace, costs, 9)
    assume(least is not None)
    assert optimal(prepare(trace), costs).cost(costs).sum() == least


@given(trace=traces("riscv64", signals=False, most=40), costs=COSTS)
def test_so_it_is_on_riscv(trace: VectorTrace, costs: dict[str, float]) -> None:
    least = cheapest(RiscV, trace, costs, 9)
    assume(least is not None)
    assert optimal(prepare(trace), costs).cost(costs).sum() == least


@given(trace=traces(), costs=COSTS, policy=st.sampled_from(TRAPPING))
def test_no_policy_that_gives_access_by_traps_is_cheaper(
    trace: VectorTrace, costs: dict[str, float], policy: str
) -> None:
    prepared = prepare(trace)
    best = optimal(prepared, costs).cost(costs)
    assert (best <= replay(prepared, policy, costs).cost(costs)).all()


@given(
    trace=traces("riscv64", signals=False),
    costs=COSTS,
    policy=st.sampled_from((*SEEING, "discard")),
)
def test_no_policy_is_cheaper_on_riscv(
    trace: VectorTrace, costs: dict[str, float], policy: str
) -> None:
    prepared = prepare(trace)
    best = optimal(prepared, costs).cost(costs)
    assert (best <= replay(prepared, policy, costs).cost(costs)).all()


@given(trace=traces("x86_64"), costs=COSTS)
def test_where_nothing_is_decided_the_optimum_is_what_is_done(
    trace: VectorTrace, costs: dict[str, float]
) -> None:
    prepared = prepare(trace)
    eager = replay(prepared, "eager").cost(costs)
    assert (optimal(prepared, costs).cost(costs) == eager).all()


def used_then_called(gaps: list[int]) -> VectorTrace:
    """A use, so many calls, a use, and so on; always the one task, never switched out."""
    rows: list[Row] = [(E.EXIT, 1)]
    for gap in gaps:
        rows += [(E.USE, 1, 1), *((E.SYSCALL, 1), (E.EXIT, 1)) * gap]
    return trace_of(rows)


@pytest.mark.parametrize(
    ("gaps", "least"),
    [
        # A trap of 10, flushes of 1: gaps above ten calls are worth a drop, and the last is.
        ([5, 5, 5], 10 + 5 + 5),
        ([30], 10),
        ([30, 30, 1], 30),
        ([5, 30, 9, 11, 4], 10 + 5 + 10 + 9 + 10),
    ],
)
def test_known_optima(gaps: list[int], least: float) -> None:
    costs = {"trap": 10.0, "flush": 1.0, "drop": 0.0, "small_restore": 0.0}
    assert optimal(prepare(used_then_called(gaps)), costs).cost(costs).sum() == least


def test_an_optimum_needs_costs() -> None:
    with pytest.raises(UserError, match="'optimal'"):
        replay(prepare(used_then_called([1])), "optimal")


@given(trace=traces(most=300), costs=COSTS)
def test_the_counts_of_the_optimum_are_of_one_run(
    trace: VectorTrace, costs: dict[str, float]
) -> None:
    prepared = prepare(trace)
    best = optimal(prepared, costs)
    keep = replay(prepared, "keep")
    for column in ("calls", "returns"):
        assert (best.of(column) == keep.of(column)).all()
    for counts in (best, keep):
        stored = counts.of("save") + counts.of("small_save")
        assert (stored == (keep.of("save") + keep.of("small_save"))).all()
        assert (counts.of("drop") <= counts.of("trap") + counts.of("restore")).all()
