# SPDX-License-Identifier: GPL-2.0-or-later
"""The optimum is what trying everything finds; sweeps, and what is recommended from them."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from kentry.arch.mechanism import ACTS
from kentry.boot.task_hooks import Event
from kentry.errors import UserError
from kentry.vector.documents import Never, Recommendation
from kentry.vector.policies import duration
from kentry.vector.ranking import recommend, sweep
from kentry.vector.replay import optimal, prepare, replay
from kentry.vector.trace import VectorTrace
from tests.unit.vector.kernel_models import (
    X86,
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
ANY_COSTS = st.fixed_dictionaries({act: st.integers(0, 60).map(float) for act in ACTS})

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
        # With nothing to decide.
        (X86, traces("x86_64", most=40)),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
@given(data=st.data(), costs=ANY_COSTS)
def test_trying_all_decisions_finds_no_less_and_no_more(
    model: type[Model], made: st.SearchStrategy[VectorTrace], data: st.DataObject, costs: Prices
) -> None:
    trace = data.draw(made)
    least = cheapest(model, trace, costs, 9)
    assume(least is not None)
    assert optimal(prepare(trace), costs).cost(costs).sum() == least


@pytest.mark.parametrize(
    ("made", "policies"),
    [(traces(most=300), TRAPPING), (traces("riscv64", signals=False), (*SEEING, "discard"))],
    ids=("arm64", "riscv64"),
)
@given(data=st.data(), costs=ANY_COSTS)
def test_no_policy_that_gives_access_by_traps_is_cheaper(
    made: st.SearchStrategy[VectorTrace],
    policies: tuple[str, ...],
    data: st.DataObject,
    costs: Prices,
) -> None:
    prepared, policy = prepare(data.draw(made)), data.draw(st.sampled_from(policies))
    best, other = optimal(prepared, costs), replay(prepared, policy, costs)
    assert (best.cost(costs) <= other.cost(costs)).all()
    for column in ("calls", "returns"):
        assert (best.of(column) == other.of(column)).all()


def test_a_load_before_another_switch_is_no_return() -> None:
    away = [(E.SWITCH_BLOCKED, 1, 2), (E.EXIT, 2), (E.INTERRUPT, 2), (E.SWITCH_PREEMPTED, 2, 1)]
    rows = [(E.EXIT, 1), (E.SYSCALL, 1), *away, (E.SEEN_SMALL_RESTORE, 1), *away, (E.EXIT, 1)]
    assert optimal(prepare(trace_of(rows)), COSTS).of("returns").tolist() == [0, 2, 2]


COSTS = {"trap": 20.0, "drop": 0.0, "flush": 1.0, "small_save": 0.0, "small_restore": 0.0}
MS = 10**6


def paced(uses: int, calls: int, pause_ns: int) -> VectorTrace:
    """A task: a use, then `calls` system calls `pause_ns` apart; that `uses` times."""
    rows: list[Row] = [(E.EXIT, 1, 0, 0)]
    now = 0
    for _ in range(uses):
        rows.append((E.USE, 1, 1, now))
        for _ in range(calls):
            now += pause_ns
            rows += [(E.SYSCALL, 1, 0, now), (E.EXIT, 1, 0, now)]
    return trace_of(rows)


@given(trace=traces(), family=st.sampled_from(("timeout", "timeout-entry", "count")))
def test_a_sweep_is_a_replay_of_each_value(trace: VectorTrace, family: str) -> None:
    prepared = prepare(trace)
    values = (0, 3, 1000, 5000)
    swept = sweep(prepared, family, COSTS, values)
    for value, counts in zip(values, swept.counts, strict=True):
        text = str(value) if family == "count" else duration(value)
        assert (counts.values == replay(prepared, f"{family}:{text}").values).all()


@pytest.mark.parametrize(
    ("family", "first", "last"), [("timeout", 4 * MS, 10**11), ("count", 1, 10**4)]
)
def test_a_sweep_has_values_of_its_own(family: str, first: int, last: int) -> None:
    values = sweep(prepare(paced(1, 1, 1)), family, COSTS).values
    assert (values[0], values[-1]) == (first, last)
    assert list(values) == sorted(set(values))


@pytest.mark.parametrize("family", ["keep", "nonsense"])
def test_a_policy_without_a_value_to_sweep_is_an_error(family: str) -> None:
    prepared = prepare(paced(1, 1, 1))
    with pytest.raises(UserError, match=family):
        sweep(prepared, family, COSTS, [1])
    with pytest.raises(UserError, match="'optimal'"):
        replay(prepared, "optimal")


def advice_for(traces: list[VectorTrace], family: str, values: list[int]) -> Recommendation:
    return recommend([sweep(prepare(trace), family, COSTS, values) for trace in traces], COSTS)


def test_the_recommended_count_is_the_cheapest() -> None:
    # A use every 10 calls is worth keeping access for, one every 300 is not.
    often, seldom = paced(50, 10, 1000), paced(5, 300, 1000)
    assert advice_for([often], "count", [0, 5, 10, 499, 500]).recommended == 499
    assert advice_for([seldom], "count", [0, 5, 10, 50]).recommended == 0
    # Workloads count alike, however long.
    # Per call: `often` is 2 dearer with 0 than with 50, `seldom` 50/300 dearer with 50.
    often, seldom = paced(20, 10, 1000), paced(500, 300, 1000)
    assert advice_for([often, seldom], "count", [0, 50]).recommended == 50


def test_regret_is_above_the_optimum_per_call_and_second() -> None:
    # 100 uses, each followed by 30 calls a millisecond apart: a drop each time is best.
    advice = advice_for([paced(100, 30, MS)], "count", [0, 10])
    assert advice.regret_per_call[0] == 0
    assert advice.regret_per_call[1] == pytest.approx(10 * 100 / 3000)
    assert advice.regret_per_second[1] == pytest.approx(10 * 100 / 3.0)
    assert advice.recommended == 0


def test_an_interval_is_wide_where_workloads_disagree() -> None:
    often, seldom = paced(50, 10, 1000), paced(50, 300, 1000)
    both = advice_for([often, seldom], "count", [0, 500])
    assert both.interval == (0, 500)
    assert both == advice_for([often, seldom], "count", [0, 500])
    one = advice_for([often, often], "count", [0, 500])
    assert one.interval == (500, 500)


def test_an_interval_is_wide_where_tasks_disagree() -> None:
    rows: list[Row] = []
    # Tasks 1 to 6 use the unit every 10 calls, 7 and 8 every 300: some draws have more of these.
    for task in range(1, 9):
        gap = 10 if task < 7 else 300
        for _ in range(600 // gap):
            rows += [(E.EXIT, task), (E.USE, task, 1), *((E.SYSCALL, task), (E.EXIT, task)) * gap]
        rows += [(E.INTERRUPT, task), (E.SWITCH_PREEMPTED, task, task + 1)]
    rows = [row for row in rows if row[:1] != (E.SWITCH_PREEMPTED,) or row[2] < 9]
    advice = advice_for([trace_of(rows)], "count", [0, 11, 290])
    assert advice.interval[0] < advice.interval[1]


def test_values_as_good_as_the_best_are_flat() -> None:
    # From a count of 500 on, access is never dropped.
    advice = advice_for([paced(50, 10, 1000)], "count", [0, 5, 10, 500, 600, 700])
    assert advice.recommended == 500
    assert advice.within_1_percent == (500, 700)
    assert advice.good == [(500, 700)]


def test_a_count_that_no_trace_reaches_is_never() -> None:
    short, long = paced(3, 100, 1000), paced(3, 1000, 1000)
    values = [10, 99, 299, 300, 2999, 3000]
    assert advice_for([short], "count", values).never == Never(320 / 300, 300, [299])
    both = advice_for([short, long], "count", values).never
    assert both
    assert (both.unreached, both.alike) == (3000, [299, 2999])
    # A value that drops once, at the last call, differs by less than 1 %.
    assert advice_for([long], "count", [10, 20]).never == Never(3020 / 3000, None, [None])


def test_a_timeout_longer_than_a_trace_is_never() -> None:
    values = [10 * MS, 100 * MS, 10**9, 10**10]
    never = advice_for([paced(2, 500, MS)], "timeout-entry", values).never
    assert never
    assert never.unreached == 10**9
    # A trace without a system call has no recommendation.
    idle = prepare(trace_of([(E.EXIT, 1)]))
    with pytest.raises(UserError):
        recommend([sweep(idle, "count", COSTS, [1])], COSTS)
