# SPDX-License-Identifier: GPL-2.0-or-later
"""Sweeps, what is recommended from them, what holds whatever the workload, where rankings flip."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kentry.errors import UserError
from kentry.vector.mechanism import COLUMNS
from kentry.vector.policies import parse_policy
from kentry.vector.replay import Counts, prepare, replay
from kentry.vector.sweep import (
    FAMILIES,
    Workload,
    competitive_bound,
    flips,
    recommend,
    sweep,
    value_text,
)
from kentry.vector.trace import Event, VectorTrace
from tests.unit.vector.kernel_models import Row, trace_of, traces

E = Event
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


@given(trace=traces(), family=st.sampled_from(FAMILIES), workers=st.integers(1, 3))
def test_a_sweep_is_a_replay_of_each_value(trace: VectorTrace, family: str, workers: int) -> None:
    prepared = prepare(trace)
    values = (0, 3, 1000, 5000)
    swept = sweep(prepared, family, values, workers=workers)
    for value, counts in zip(values, swept.counts, strict=True):
        alone = replay(prepared, f"{family}:{value_text(family, value)}")
        assert (counts.values == alone.values).all()


def test_a_sweep_of_what_has_no_value() -> None:
    with pytest.raises(UserError, match="'keep' has no value to sweep"):
        sweep(prepare(paced(1, 1, 1)), "keep", [1])


def advice_for(traces: list[VectorTrace], family: str, values: list[int], **options: int):  # type: ignore[no-untyped-def]
    loads = []
    for trace in traces:
        prepared = prepare(trace)
        loads.append(Workload.of(prepared, sweep(prepared, family, values), COSTS))
    return recommend(loads, **options)


def test_the_recommended_count_is_the_cheapest() -> None:
    # A use every 10 calls is worth keeping access for, one every 300 is not.
    often, seldom = paced(50, 10, 1000), paced(5, 300, 1000)
    assert advice_for([often], "count", [0, 5, 10, 499, 500]).value == 499
    assert advice_for([seldom], "count", [0, 5, 10, 50]).value == 0


def test_regret_is_above_the_optimum_per_call_and_second() -> None:
    # 100 uses, each followed by 30 calls a millisecond apart: a drop each time is best.
    advice = advice_for([paced(100, 30, MS)], "count", [0, 10])
    assert advice.regret_per_call[0] == 0
    assert advice.regret_per_call[1] == pytest.approx(10 * 100 / 3000)
    assert advice.regret_per_second[1] == pytest.approx(10 * 100 / 3.0)
    assert advice.place() == 0


def test_workloads_count_alike_however_long() -> None:
    # Per call: `often` is 2 dearer with 0 than with 50, `seldom` 50/300 dearer with 50.
    often, seldom = paced(20, 10, 1000), paced(500, 300, 1000)
    assert advice_for([often, seldom], "count", [0, 50]).value == 50


def test_an_interval_is_wide_where_workloads_disagree() -> None:
    often, seldom = paced(50, 10, 1000), paced(50, 300, 1000)
    both = advice_for([often, seldom], "count", [0, 500])
    assert (both.low, both.high) == (0, 500)
    one = advice_for([often, often], "count", [0, 500])
    assert (one.low, one.high) == (500, 500)


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
    assert advice.low < advice.high


def test_a_recommendation_is_the_same_each_time() -> None:
    loads = [paced(50, 10, 1000), paced(50, 30, 1000)]
    one, other = (advice_for(loads, "count", [0, 5, 10, 50], seed=7) for _ in range(2))
    assert (one.value, one.low, one.high) == (other.value, other.low, other.high)


def test_values_as_good_as_the_best_are_flat() -> None:
    # Whatever the count from 10 on, access is never dropped.
    advice = advice_for([paced(50, 10, 1000)], "count-from-use", [0, 5, 10, 20, 40])
    assert advice.value == 10
    assert advice.flat == (10, 40)


def test_what_cannot_be_recommended() -> None:
    with pytest.raises(UserError, match="no trace"):
        recommend([])
    prepared = prepare(paced(1, 1, 1))
    some = Workload.of(prepared, sweep(prepared, "count", [1]), COSTS)
    others = Workload.of(prepared, sweep(prepared, "count", [2]), COSTS)
    with pytest.raises(UserError, match="not over the same values"):
        recommend([some, others])
    idle = prepare(trace_of([(E.EXIT, 1)]))
    with pytest.raises(UserError, match="no system call"):
        recommend([Workload.of(idle, sweep(idle, "count", [1]), COSTS)])


@pytest.mark.parametrize(
    ("policy", "ratio"),
    [
        ("count:20", 2.0),
        ("count", 2.0),
        ("count:0", 20.0),
        ("drop-each-syscall", 20.0),
        ("count:9", 2.9),
        ("count:60", 4.0),
        ("count-from-use:20", 2.0),
        # 1 / (1 - (1 - 1/20)^20), which is below e/(e-1) and near it.
        ("randomised-from-use:20", 1.5588),
        ("randomised-from-use:1", 20.0),
    ],
)
def test_bounds(policy: str, ratio: float) -> None:
    bound = competitive_bound(parse_policy(policy), COSTS)
    assert bound.ratio == pytest.approx(ratio, abs=1e-4)
    assert f"{ratio:.2f} times optimal" in bound.sentence


def test_a_draw_that_only_sees_traps_is_not_better_than_two() -> None:
    for clears in range(1, 80):
        ratio = competitive_bound(parse_policy(f"randomised:{clears}"), COSTS).ratio
        assert ratio is not None and ratio >= 1.9


@pytest.mark.parametrize("policy", ["timeout:1s", "timeout-entry:10ms", "keep", "drop-on-load"])
def test_what_has_no_ratio_has_a_regret(policy: str) -> None:
    bound = competitive_bound(parse_policy(policy), COSTS)
    assert bound.ratio is None
    assert "no ratio" in bound.sentence and "1 a system call" in bound.sentence
    if policy == "timeout-entry:10ms":
        assert "2000 a second for traps" in bound.sentence


def test_a_bound_needs_costs() -> None:
    with pytest.raises(UserError, match="needs the costs"):
        competitive_bound(parse_policy("count:3"), {"trap": 3.0})


def counts_of(**acts: int) -> Counts:
    values = np.zeros((1, len(COLUMNS)), np.int64)
    for act, times in acts.items():
        values[0, COLUMNS.index(act)] = times
    return Counts(values)


def test_a_ranking_flips_where_two_lines_cross() -> None:
    found = flips(
        {"lazy": counts_of(trap=100, flush=200), "keen": counts_of(trap=10, flush=2000)}, COSTS
    )
    by_act = {flip.act: flip for flip in found}
    assert set(by_act) == {"trap", "flush", "B/r"}
    # 90 traps more against 1800 flushes more: equal where a trap costs 20 flushes.
    assert by_act["trap"].value == 20.0
    assert (by_act["trap"].cheaper_below, by_act["trap"].cheaper_above) == ("lazy", "keen")
    assert by_act["flush"].value == 1.0
    assert (by_act["flush"].cheaper_below, by_act["flush"].cheaper_above) == ("keen", "lazy")
    assert by_act["B/r"].value == 20.0
    assert all(flip.leads for flip in found)


def test_a_flip_behind_the_leader_does_not_lead() -> None:
    found = flips(
        {
            "first": counts_of(flush=1),
            "second": counts_of(flush=100, trap=1),
            "third": counts_of(flush=10, trap=10),
        },
        COSTS,
    )
    traps = [flip for flip in found if flip.act == "trap" and flip.value > 0]
    assert [(flip.cheaper_below, flip.cheaper_above) for flip in traps] == [("third", "second")]
    assert not traps[0].leads


@given(
    acts=st.lists(
        st.fixed_dictionaries({"trap": st.integers(0, 50), "flush": st.integers(0, 500)}),
        min_size=2,
        max_size=4,
    )
)
def test_on_both_sides_of_a_flip_the_ranking_is_as_said(acts: list[dict[str, int]]) -> None:
    counts = {f"policy {place}": counts_of(**one) for place, one in enumerate(acts)}
    for flip in flips(counts, COSTS):
        if flip.act == "B/r" or not 0 < flip.value < math.inf:
            continue
        below, above = counts[flip.cheaper_below], counts[flip.cheaper_above]
        for factor, cheaper, dearer in ((0.99, below, above), (1.01, above, below)):
            costs = {**COSTS, "kept_load": 1.0, "initial_restore": 1.0}
            costs[flip.act] = flip.value * factor
            assert cheaper.cost(costs).sum() < dearer.cost(costs).sum()


def test_policies_that_do_the_same_never_flip() -> None:
    assert flips({"one": counts_of(trap=3), "other": counts_of(trap=3)}, COSTS) == ()
