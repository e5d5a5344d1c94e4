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
    Model,
    RiscV,
    Row,
    cheapest,
    trace_of,
    traces,
)

# Compiles the search for the best decisions: 8 s, once.
pytestmark = pytest.mark.slow

E = Event

Prices = dict[str, float]
COSTS = st.fixed_dictionaries({act: st.integers(0, 60).map(float) for act in ACTS})

# Policies of the arm64 mechanism that give access by a trap only.
TRAPPING = (
    *("keep", "drop-each-syscall", "drop-on-load", "timeout:1us", "timeout-entry:1us"),
    *("count:0", "count:2"),
)
# And of riscv64's, where the kernel sees uses.
SEEING = (*TRAPPING, "timeout-from-use:1us", "count-from-use:2")


@pytest.mark.parametrize(
    ("model", "made"),
    [
        (Arm64, traces(most=40)),
        (Arm64Flushing, traces(release="7.3.4", most=40)),
        (RiscV, traces("riscv64", signals=False, most=40)),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
@given(data=st.data(), costs=COSTS)
def test_trying_all_decisions_finds_no_less_and_no_more(
    model: type[Model], made: st.SearchStrategy[VectorTrace], data: st.DataObject, costs: Prices
) -> None:
    trace = data.draw(made)
    least = cheapest(model, trace, costs, 9)
    assume(least is not None)
    assert optimal(prepare(trace), costs).cost(costs).sum() == least


@pytest.mark.parametrize(
    ("made", "policies"),
    [(traces(), TRAPPING), (traces("riscv64", signals=False), (*SEEING, "discard"))],
    ids=("arm64", "riscv64"),
)
@given(data=st.data(), costs=COSTS)
def test_no_policy_that_gives_access_by_traps_is_cheaper(
    made: st.SearchStrategy[VectorTrace],
    policies: tuple[str, ...],
    data: st.DataObject,
    costs: Prices,
) -> None:
    prepared, policy = prepare(data.draw(made)), data.draw(st.sampled_from(policies))
    best = optimal(prepared, costs).cost(costs)
    assert (best <= replay(prepared, policy, costs).cost(costs)).all()


@given(trace=traces("x86_64"), costs=COSTS)
def test_where_nothing_is_decided_the_optimum_is_what_is_done(
    trace: VectorTrace, costs: Prices
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
def test_the_counts_of_the_optimum_are_of_one_run(trace: VectorTrace, costs: Prices) -> None:
    prepared = prepare(trace)
    best = optimal(prepared, costs)
    keep = replay(prepared, "keep")
    for column in ("calls", "returns"):
        assert (best.of(column) == keep.of(column)).all()
    for counts in (best, keep):
        stored = counts.of("save") + counts.of("small_save")
        assert (stored == (keep.of("save") + keep.of("small_save"))).all()
        assert (counts.of("drop") <= counts.of("trap") + counts.of("restore")).all()
