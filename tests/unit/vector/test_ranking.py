# SPDX-License-Identifier: GPL-2.0-or-later
"""Where the ranking of policies changes as one cost does."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kentry.arch.mechanism import COLUMNS
from kentry.vector.ranking import flips
from kentry.vector.replay import ActCounts

COSTS = {"trap": 20.0, "drop": 0.0, "flush": 1.0, "small_save": 0.0, "small_restore": 0.0}


def counts_of(**acts: int) -> ActCounts:
    values = np.zeros((1, len(COLUMNS)), np.int64)
    for act, times in acts.items():
        values[0, COLUMNS.index(act)] = times
    return ActCounts(values)


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


def test_a_flush_without_a_cost_has_no_ratio_to_a_trap() -> None:
    counts = {"lazy": counts_of(trap=100, save=1), "keen": counts_of(trap=10, save=200)}
    found = flips(counts, {"trap": 20.0, "save": 5.0})
    assert {flip.act for flip in found} == {"trap", "save"}
    assert all(math.isfinite(flip.value) and math.isfinite(flip.now) for flip in found)
