# SPDX-License-Identifier: GPL-2.0-or-later
"""What a trace says about use, against a slow reading of it, task by task and row by row."""

from collections import Counter
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kentry.boot.task_hooks import Event
from kentry.errors import UserError
from kentry.vector.statistics import Share, Statistics, TaskCounts, decades, doublings, statistics
from tests.unit.vector.traces import PAGE_FAULT, SVE_TRAP, TRAPPED, Row, run, trace_of

E = Event
USER, OTHER = 1, 2


def one(found: Statistics, task: int = USER) -> dict[str, int]:
    return found.counts.of(np.array([task]))


def test_where_no_load_is_small_restores_are_followed_by_uses() -> None:
    rows = run(E.SEEN_RESTORE, E.EXIT, (E.USE, 3), E.SYSCALL, E.SEEN_RESTORE, E.EXIT, E.SYSCALL)
    found = statistics(trace_of(rows))
    assert not found.by_trap
    assert (one(found)["loads"], one(found)["followed"]) == (2, 1)


def test_a_trace_without_sme_has_no_statistics_of_it() -> None:
    with pytest.raises(UserError, match="no SME"):
        statistics(trace_of(run(*TRAPPED)), "sme")


def test_sme_has_its_own_uses() -> None:
    rows = run(E.EXIT, (E.USE, 1), (E.USE_SME, 4), E.SYSCALL, E.EXIT, (E.USE, 1), E.SYSCALL)
    trace = trace_of(rows)
    assert one(statistics(trace))["calls_used"] == 2
    assert one(statistics(trace, "sme"))["calls_used"] == 1
    # A trace without events has no statistics.
    found = statistics(trace_of([]))
    assert not found.user.any()
    assert found.most(5) == []
    assert sum(found.classes().values()) == 0


ENTRIES = (E.SYSCALL, E.FAULT, E.INTERRUPT)


def slow(rows: list[Row], task: int) -> tuple[Counter[str], list[tuple[int, int]]]:
    """The counts and gaps of a task, read one row after the other."""
    found, gaps = Counter[str](), list[tuple[int, int]]()
    before: list[E] = []  # every task's last events: an entry follows its use at once
    first: int | None = None
    end: int | None = None
    calls = 0
    open_load = access = False
    for event, whose, ns, arg in rows:
        used = before[-1:] in ([E.USE], [E.USE_SME]) or (
            before[-1:] == [E.SVCR] and before[-2:-1] in ([E.USE], [E.USE_SME])
        )
        before.append(event)
        if whose != task:
            continue
        if event == E.USE:
            found["uses"] += arg
            first = ns if first is None else first
        elif event == E.SEEN_TRAP:
            found["traps"] += 1
            found["followed"] += open_load
            open_load, access = False, True
        elif event == E.SEEN_SMALL_RESTORE:
            found["loads"] += 1
            found["drops"] += access
            open_load, access = True, False
        elif event in ENTRIES and not (event == E.FAULT and arg == SVE_TRAP and used):
            found["intervals"] += 1
            found["calls"] += event == E.SYSCALL
            if first is not None:
                found["intervals_used"] += 1
                found["calls_used"] += event == E.SYSCALL
                if end is not None:
                    gaps.append((first - end, calls))
                end, calls, first = ns, 0, None
            calls += event == E.SYSCALL
    return found, gaps


KINDS = [*ENTRIES, E.EXIT, E.USE, E.USE_SME, E.SVCR, E.SEEN_TRAP, E.SEEN_SMALL_RESTORE, E.DIE]
ARGS = st.sampled_from([1, 2, SVE_TRAP, PAGE_FAULT])
ROW = st.tuples(st.sampled_from(KINDS), st.integers(1, 3), st.integers(1, 1000), ARGS)
USED, TRAP = (E.USE, 1), (E.FAULT, SVE_TRAP)
LOAD = (E.SEEN_SMALL_RESTORE, E.EXIT)


# A trap and its retry are one use in one interval, also with the state of SVCR between them.
@example(run(E.EXIT, *TRAPPED, E.SYSCALL))
@example(run(E.EXIT, USED, (E.SVCR, 1), TRAP, E.EXIT, USED, E.SYSCALL))
# Other faults end an interval.
@example(run(E.EXIT, USED, (E.FAULT, PAGE_FAULT), E.EXIT, USED, E.SYSCALL))
@example(run(TRAP, E.EXIT, E.SYSCALL, E.EXIT, USED))
@example(run((E.SVCR, 1), TRAP, E.EXIT, E.SYSCALL, E.EXIT, USED))
# The first of these loads takes nothing away, the second and the third are followed by a trap.
@example(run(*LOAD, E.SYSCALL, *(*LOAD, *TRAPPED, E.SYSCALL) * 2, *(*LOAD, E.SYSCALL) * 2))
@given(st.lists(ROW, min_size=1, max_size=80))
def test_it_is_what_a_slow_reading_says(steps: list[Row]) -> None:
    ns, rows = 0, []
    for event, task, step, arg in steps:
        ns += step
        rows.append((event, task, ns, arg))
    rows.append((E.SEEN_SMALL_RESTORE, 0, ns, 0))  # so that traps are what follows
    found = statistics(trace_of(rows))
    for task in (1, 2, 3):
        counts, gaps = slow(rows, task)
        assert one(found, task) == {name.name: counts[name.name] for name in fields(TaskCounts)}
        mine = found.gaps.task == task
        pairs = zip(found.gaps.ns[mine], found.gaps.calls[mine], strict=True)
        assert [(int(a), int(b)) for a, b in pairs] == gaps


@pytest.mark.parametrize(
    ("followed", "share"),
    [
        *((0, Share.NEARLY_NONE), (4, Share.NEARLY_NONE), (5, Share.FEW), (45, Share.FEW)),
        *((46, Share.HALF), (50, Share.HALF), (51, Share.MOST), (94, Share.MOST)),
        *((95, Share.NEARLY_ALL), (100, Share.NEARLY_ALL)),
    ],
)
def test_classes_begin_where_the_series_says(followed: int, share: Share) -> None:
    rows: list[Any] = [*TRAPPED, E.SYSCALL]
    for turn in range(100):
        rows += [E.SEEN_SMALL_RESTORE, E.EXIT, *(TRAPPED if turn < followed else ()), E.SYSCALL]
    found = statistics(trace_of(run(*rows)))
    assert {one for one, tasks in found.classes().items() if tasks} == {share}


@given(st.lists(st.integers(-5, 2**62), max_size=50))
def test_every_gap_is_in_the_bin_that_names_it(values: list[int]) -> None:
    numbers = np.array(values, np.int64)
    histogram = decades(numbers, 1000, 10**10)
    assert int(histogram.edges[1]) == 1000
    assert [int(edge) for edge in histogram.edges[1:-1]] == [10**i for i in range(3, 11)]
    edges = histogram.edges.tolist()
    for low, high, count in zip(edges[:-1], edges[1:], histogram.counts, strict=True):
        assert count == sum(low <= value < high for value in values)


@given(st.lists(st.integers(0, 5000), max_size=50))
def test_calls_are_binned_by_doublings(values: list[int]) -> None:
    histogram = doublings(np.array(values, np.int64), 1024)
    assert [int(edge) for edge in histogram.edges[:5]] == [0, 1, 2, 4, 8]
    assert int(histogram.counts.sum()) == len(values)
    assert int(histogram.counts[-1]) == sum(value >= 1024 for value in values)


def test_the_tasks_with_most_followed_loads_come_first() -> None:
    often = [*TRAPPED, E.SYSCALL, *3 * (E.SEEN_SMALL_RESTORE, E.EXIT, *TRAPPED, E.SYSCALL)]
    rows = [*run(E.EXIT, *TRAPPED, E.SYSCALL), *run(*often, task=3), *run(E.SYSCALL, task=OTHER)]
    assert statistics(trace_of(rows)).most(9) == [3, USER]
    assert statistics(trace_of(rows)).most(1) == [3]
