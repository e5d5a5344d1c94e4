# SPDX-License-Identifier: GPL-2.0-or-later
"""Policies, and replay that does what the kernels' own code does, event by event."""

import re
from collections import Counter
from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kentry.arch.mechanism import COLUMNS
from kentry.boot.task_hooks import Event
from kentry.errors import UserError
from kentry.vector import policies
from kentry.vector.replay import ActCounts, ActPair, check, prepare, prices, replay
from kentry.vector.trace import VectorTrace
from tests.unit.vector.kernel_models import (
    RISCV_TRAP,
    X86,
    Arm64,
    Arm64Flushing,
    Decide,
    Model,
    RiscV,
    Row,
    Thread,
    trace_of,
    traces,
)
from tests.unit.vector.traces import SVE_TRAP


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("drop-on-load", "drop-on-load", None),
        ("timeout:1ms", "timeout", 10**6),
        ("timeout-entry:1s", "timeout-entry", 10**9),
        ("timeout-entry:0.5s", "timeout-entry", 5 * 10**8),
        ("timeout:250us", "timeout", 250_000),
        ("timeout:0s", "timeout", 0),
        ("count:12", "count", 12),
        # The most of each.
        ("count:1000000000", "count", 10**9),
        ("timeout:1000000s", "timeout", 10**15),
        ("count", "count", None),
        (" keep ", "keep", None),
    ],
)
def test_a_policy_is_what_its_text_says(text: str, name: str, value: int | None) -> None:
    assert policies.parse_policy(text) == policies.Policy(policies.POLICIES[name], value)


@pytest.mark.parametrize("name", sorted(policies.POLICIES))
def test_every_policy_is_read_back_as_written(name: str) -> None:
    family = policies.POLICIES[name]
    value = {"": "", policies.TIME: ":20ms"}.get(family.parameter, ":7")
    policy = policies.parse_policy(f"{name}{value}")
    assert policy.family is family
    assert policy.text == f"{name}{value}"


@pytest.mark.parametrize(
    ("text", "datum"),
    [
        *(("drop-on-lode", "drop-on-load"), ("", "''"), ("timeout", "timeout:T")),
        *(("eager:1", "'eager'"), ("timeout:", "'timeout'"), ("timeout:10", "'10'")),
        *(("timeout:-1ms", "'-1ms'"), ("timeout:10 parsecs", "'10 parsecs'")),
        *(("timeout:999999999s", "1000000s"), ("count:many", "'many'"), ("count:-1", "'-1'")),
        *(("count:1.5", "'1.5'"), ("count:99999999999", "'99999999999'")),
        *(("count:1000000001", "'1000000001'"), ("timeout:1000000001ms", "'1000000001ms'")),
        ("fpu-counter:5", "'fpu-counter'"),
    ],
)
def test_text_that_is_no_policy_is_an_error(text: str, datum: str) -> None:
    with pytest.raises(UserError) as caught:
        policies.parse_policy(text)
    assert datum in str(caught.value)


@given(ns=st.integers(0, 10**15))
def test_a_time_is_read_back_as_written(ns: int) -> None:
    assert policies.parse_duration(policies.duration(ns), "timeout") == ns


def test_the_break_even_is_a_trap_and_its_drop_over_a_flush() -> None:
    assert policies.break_even({"trap": 1000.0, "drop": 10.0, "flush": 14.1}) == 71
    assert policies.break_even({"trap": 1.0, "flush": 14.1}) == 0
    for costs in ({"flush": 1.0}, {"trap": 1.0}, {"trap": 1.0, "flush": 0.0}):
        with pytest.raises(UserError):
            policies.break_even(costs)


E = Event
BOOKKEEPING = ("calls", "returns", "open_return")


def acts(counts: ActCounts) -> Counter[tuple[int, str]]:
    """What was done, without what went by."""
    return Counter(
        {
            (int(task), COLUMNS[column]): int(counts.values[task, column])
            for task, column in np.argwhere(counts.values)
            if COLUMNS[column] not in BOOKKEEPING
        }
    )


def done(
    rows: list[Row],
    policy: str = "drop-on-load",
    arch: str = "arm64",
    hz: int | None = None,
    costs: Mapping[str, float] | None = None,
) -> dict[str, int]:
    """The acts of task 1 under a policy."""
    counts = acts(replay(prepare(trace_of(rows, arch, hz=hz)), policy, costs))
    return {column: times for (task, column), times in counts.items() if task == 1}


def always(point: str) -> Decide:
    return lambda where, thread, now: where == point


def never(where: str, thread: Thread, now: int) -> bool:
    return False


def after(ns: int, *points: str) -> Decide:
    return lambda where, thread, now: where in points and now > thread.trapped + ns


def counted(clears: int) -> Decide:
    return lambda where, thread, now: thread.clears >= clears


DECISIONS = {
    "drop-on-load": always("load"),
    "drop-each-syscall": always("call"),
    "keep": never,
    "timeout:2us": after(2000, "load"),
    "timeout-entry:2us": after(2000, "call", "load"),
    "count:0": counted(0),
    "count:2": counted(2),
}


@pytest.mark.parametrize(
    ("model", "made", "decisions"),
    [
        (Arm64, traces("arm64"), DECISIONS),
        (Arm64Flushing, traces("arm64", "7.3.4"), DECISIONS),
        (RiscV, traces("riscv64"), {"discard": never}),
        (RiscV, traces("riscv64", signals=False), DECISIONS),
        (X86, traces("x86_64"), {"eager": never}),
    ],
)
@given(data=st.data())
def test_each_kernel_is_as_its_source_is(
    model: type[Model],
    made: st.SearchStrategy[VectorTrace],
    decisions: Mapping[str, Decide],
    data: st.DataObject,
) -> None:
    trace, policy = data.draw(made), data.draw(st.sampled_from(sorted(decisions)))
    assert acts(replay(prepare(trace), policy)) == model(decisions[policy]).run(trace)


TRAP = [(E.EXIT, 1), (E.USE, 1, 1), (E.FAULT, 1, SVE_TRAP), (E.EXIT, 1), (E.USE, 1, 1)]
CALL = [(E.SYSCALL, 1), (E.EXIT, 1)]
AWAY = [
    (E.SWITCH_BLOCKED, 1, 2),
    (E.EXIT, 2),
    (E.INTERRUPT, 2),
    (E.SWITCH_PREEMPTED, 2, 1),
    (E.EXIT, 1),
]
BLOCKING = [(E.SYSCALL, 1), *AWAY]


def test_eager_needs_no_trap_and_clears_at_each_call() -> None:
    assert done([*TRAP, *BLOCKING], "eager") == {
        "small_restore": 2,
        "small_save": 1,
        "kept_load": 2,
        "open_exit": 1,
        "flush": 1,
    }


def at(ns: int, *row: int) -> Row:
    """A row at a time."""
    return (*row, *(0,) * (3 - len(row)), ns)


def timed(gap_ns: int) -> list[Row]:
    """A trap at 1 ms, a call that blocks and is back `gap_ns` after the trap."""
    return [
        *(at(0, E.EXIT, 1), at(10**6, E.USE, 1, 1), at(10**6, E.FAULT, 1, SVE_TRAP)),
        *(at(10**6, E.EXIT, 1), at(10**6, E.SYSCALL, 1), at(10**6, E.SWITCH_BLOCKED, 1, 2)),
        *(at(10**6 + 1, E.EXIT, 2), at(10**6 + 2, E.INTERRUPT, 2)),
        *(at(10**6 + 3, E.SWITCH_BLOCKED, 2, 1), at(10**6 + gap_ns, E.EXIT, 1)),
    ]


def called(ns: int) -> list[Row]:
    """A trap at 1 ms, a call `ns` after it."""
    return [*timed(10)[:4], at(10**6 + ns, E.SYSCALL, 1), at(10**6 + ns, E.EXIT, 1)]


@pytest.mark.parametrize(
    ("rows", "policy", "hz", "acts"),
    [
        (timed(2_000_000), "timeout:2ms", None, "flush kept_load"),
        (timed(2_000_001), "timeout:2ms", None, "flush drop"),
        # The trap is in jiffy 0 of 4 ms, so a time of 5 ms (two jiffies) is over in jiffy 3.
        (timed(10_999_999), "timeout:5ms", 250, "flush kept_load"),
        (timed(11_000_000), "timeout:5ms", 250, "flush drop"),
        (timed(10_999_999), "timeout:5ms", None, "flush drop"),
        (called(2_000_000), "timeout-entry:2ms", None, "flush"),
        (called(2_000_001), "timeout-entry:2ms", None, "drop"),
        (called(2_000_001), "timeout:2ms", None, "flush"),
    ],
)
def test_a_timeout_is_over_when_its_time_is_exceeded(
    rows: list[Row], policy: str, hz: int | None, acts: str
) -> None:
    found = done(rows, policy, hz=hz).keys()
    assert found & {"flush", "drop", "kept_load"} == set(acts.split())


def test_a_time_from_the_last_use_begins_anew() -> None:
    rows = [
        *(at(0, E.EXIT, 1), at(10**6, E.USE, 1, 1), at(10**6, E.FAULT, 1, RISCV_TRAP)),
        *(at(10**6, E.EXIT, 1), at(4 * 10**6, E.USE, 1, 1)),
        *(at(5 * 10**6, E.SYSCALL, 1), at(5 * 10**6, E.EXIT, 1)),
    ]
    assert "drop" in done(rows, "timeout-entry:2ms", "riscv64")
    assert "drop" not in done(rows, "timeout-from-use:2ms", "riscv64")
    # So does a count.
    rows = [*VTRAP, *CALL, *CALL, (E.USE, 1, 1), *CALL, *CALL]
    assert "drop" in done(rows, "count:2", "riscv64")
    assert "drop" not in done(rows, "count-from-use:2", "riscv64")


def test_a_kept_load_counts_as_a_clear() -> None:
    assert "drop" in done([*TRAP, *BLOCKING, *CALL], "count:2")
    assert "drop" not in done([*TRAP, *BLOCKING], "count:2")
    # The second clear is the call's, so the load is where it drops.
    assert "drop" in done([*TRAP, *CALL, *BLOCKING], "count:2")
    # A count left out is the break-even of the costs.
    rows = [*TRAP, *CALL, *CALL, *CALL]
    assert done(rows, "count", costs={"trap": 29.0, "flush": 10.0})["flush"] == 2
    with pytest.raises(UserError, match="'count'"):
        done(rows, "count")


VTRAP = [(E.EXIT, 1), (E.USE, 1, 1), (E.FAULT, 1, RISCV_TRAP), (E.EXIT, 1), (E.USE, 1, 1)]


def test_riscv_loads_even_what_the_registers_still_hold() -> None:
    rows = [*VTRAP, (E.SYSCALL, 1), (E.SWITCH_BLOCKED, 1, 0), (E.SWITCH_BLOCKED, 0, 1), (E.EXIT, 1)]
    assert done(rows, "discard", "riscv64")["restore"] == 2
    assert done(rows, "owner-elision", "riscv64")["restore"] == 1
    # Behind another task with vectors it loads in any case.
    other = [(E.EXIT, 2), (E.USE, 2, 1), (E.INTERRUPT, 2), (E.SWITCH_BLOCKED, 2, 1), (E.EXIT, 1)]
    rows = [*VTRAP, (E.SYSCALL, 1), (E.SWITCH_BLOCKED, 1, 2), *other]
    assert done(rows, "owner-elision", "riscv64")["restore"] == 2


def test_initial_state_is_neither_saved_nor_cleared_again() -> None:
    assert done([*VTRAP, *CALL, *BLOCKING], "initial-tracking", "riscv64") == {
        "trap": 1,
        "restore": 1,
        "flush": 1,
        "initial_restore": 1,
    }
    used = [*VTRAP, *CALL, (E.USE, 1, 1), *BLOCKING]
    assert done(used, "initial-tracking", "riscv64")["flush"] == 2
    # Preserved state is saved only if used.
    assert done([*VTRAP, *CALL, *BLOCKING, *BLOCKING], "preserve", "riscv64") == {
        "trap": 1,
        "save": 1,
        "restore": 3,
    }


@pytest.mark.parametrize(
    ("policy", "arch"),
    [
        ("preserve", "arm64"),
        ("initial-tracking", "x86_64"),
        ("owner-elision", "arm64"),
        ("discard", "arm64"),
        ("timeout-from-use:1s", "arm64"),
        ("count-from-use:3", "arm64"),
        ("timeout:1s", "x86_64"),
    ],
)
def test_a_policy_that_an_architecture_cannot_have(policy: str, arch: str) -> None:
    with pytest.raises(UserError, match=policy.split(":")[0]) as raised:
        done(TRAP, policy, arch)
    # The remedy names those that it can have.
    assert "eager" in raised.value.remedy and policy.split(":")[0] not in re.split(
        r"[ ,.:\[]+", raised.value.remedy
    )


def test_a_trap_that_slept_makes_the_state_in_memory() -> None:
    rows = [
        *((E.EXIT, 1), (E.SEEN_SMALL_RESTORE, 1), (E.USE, 1, 1), (E.FAULT, 1, SVE_TRAP)),
        *((E.SEEN_TRAP, 1), (E.SEEN_SMALL_SAVE, 1), (E.SWITCH_BLOCKED, 1, 2)),
        *((E.SEEN_SMALL_RESTORE, 2), (E.EXIT, 2), (E.INTERRUPT, 2), (E.SEEN_SMALL_SAVE, 2)),
        *((E.SWITCH_PREEMPTED, 2, 1), (E.SEEN_RESTORE, 1), (E.EXIT, 1)),
    ]
    assert check(trace_of(rows)).exact
    flushed = [*rows[:5], (E.SEEN_FLUSH, 1), (E.SEEN_SAVE, 1), *rows[6:]]
    assert check(trace_of(flushed)).exact


def test_a_load_before_another_switch_is_one_of_its_own() -> None:
    rows = [
        *((E.SEEN_SMALL_RESTORE, 1), (E.EXIT, 1), (E.USE, 1, 1), (E.FAULT, 1, SVE_TRAP)),
        *((E.SEEN_TRAP, 1), (E.SEEN_FLUSH, 1), (E.EXIT, 1), (E.SYSCALL, 1), (E.SEEN_FLUSH, 1)),
        *((E.SEEN_SMALL_SAVE, 1), (E.SWITCH_BLOCKED, 1, 2), (E.SEEN_SMALL_RESTORE, 2)),
        *((E.EXIT, 2), (E.INTERRUPT, 2), (E.SEEN_SMALL_SAVE, 2), (E.SWITCH_PREEMPTED, 2, 1)),
        *((E.SEEN_SMALL_RESTORE, 1), (E.SEEN_SMALL_SAVE, 1), (E.SWITCH_PREEMPTED, 1, 2)),
        *((E.SEEN_SMALL_RESTORE, 2), (E.EXIT, 2), (E.INTERRUPT, 2), (E.SEEN_SMALL_SAVE, 2)),
        *((E.SWITCH_PREEMPTED, 2, 1), (E.SEEN_SMALL_RESTORE, 1), (E.EXIT, 1)),
    ]
    verdict = check(trace_of(rows))
    assert verdict.exact
    assert {act: (pair.replayed, pair.seen) for act, pair in verdict.acts.items()} == {
        "trap": (1, 1),
        "flush": (2, 2),
        "small_save": (4, 4),
        "small_restore": (5, 5),
    }


def test_a_trace_that_begins_in_user_mode_begins_with_live_state() -> None:
    rows = [(E.SYSCALL, 1), (E.SEEN_SMALL_SAVE, 1), (E.SWITCH_BLOCKED, 1, 0)]
    assert check(trace_of(rows)).exact
    rows = [(E.USE, 1, 1), (E.SYSCALL, 1), (E.SEEN_FLUSH, 1), (E.EXIT, 1)]
    assert check(trace_of(rows)).exact
    assert done(rows) == {"flush": 1}


def test_what_is_loaded_in_a_call_is_saved_as_a_whole() -> None:
    trap = [(E.EXIT, 1), (E.USE, 1, 1), (E.FAULT, 1, SVE_TRAP), (E.SEEN_TRAP, 1), (E.EXIT, 1)]
    away = [*BLOCKING[:-1], (E.SEEN_SMALL_RESTORE, 1), (E.SWITCH_PREEMPTED, 1, 2)]
    assert done([*trap, *away], "keep")["save"] == 1
    assert done([*trap, *away], "drop-on-load")["small_save"] == 2
    # So it is behind a sigreturn, which loads in the call.
    signalled = [*TRAP, (E.INTERRUPT, 1), (E.SIGNAL, 1), (E.EXIT, 1)]
    returned = [*signalled, (E.SYSCALL, 1), (E.SIGRETURN, 1), (E.SWITCH_PREEMPTED, 1, 2)]
    assert done(returned, "keep")["save"] == 2


def test_a_difference_says_which_act_of_which_task() -> None:
    rows = [(E.EXIT, 1), (E.USE, 1, 1), (E.SYSCALL, 1), (E.SEEN_TRAP, 1), (E.SEEN_TRAP, 1)]
    verdict = check(trace_of(rows))
    assert not verdict.exact
    traps = [one for one in verdict.differences if one.act == "trap"]
    assert [(one.task, one.replayed, one.seen) for one in traps] == [(1, 1, 2)]
    assert verdict.acts["trap"] == ActPair(1, 2)


SME = [
    *((E.EXIT, 1), (E.USE_SME, 1, 1), (E.FAULT, 1, 0x1D), (E.EXIT, 1)),
    *((E.USE_SME, 1, 3), (E.SVCR, 1, 2), (E.SYSCALL, 1)),
]


def sme(rows: list[Row], policy: str) -> dict[str, int]:
    counts = replay(prepare(trace_of(rows, release="7.3.4"), "sme"), policy)
    return {name: value for name, value in counts.total().items() if value}


def test_za_is_saved_while_it_is_on_and_forbids_a_drop() -> None:
    found = sme([*SME, *AWAY, *CALL], "drop-each-syscall")
    assert (found["za_save"], found["za_restore"]) == (1, 1)
    assert "drop" not in found
    assert found["smstop"] == found["calls"] == 2
    # A child has the ZA of its parent.
    rows = [*SME, (E.FORK, 1, 3), (E.SWITCH_PREEMPTED, 1, 3), (E.EXIT, 3)]
    counts = replay(prepare(trace_of(rows, release="7.3.4"), "sme"), "keep")
    assert counts.of("za_restore").tolist() == [0, 0, 0, 1]


def test_sme_access_is_dropped_once_svcr_says_that_nothing_is_live() -> None:
    off = [(E.EXIT, 1), (E.USE_SME, 1, 1), (E.SVCR, 1, 0), (E.SYSCALL, 1), (E.EXIT, 1)]
    assert sme([*SME, *off], "drop-each-syscall")["drop"] == 1
    kept = sme([*SME, *off, *CALL * 5], "keep")
    assert kept["open_return"] == 8
    assert sme([*SME, *off, *CALL * 5], "drop-each-syscall")["open_return"] == 2


def test_a_unit_that_the_architecture_or_the_cpu_does_not_have_is_an_error() -> None:
    with pytest.raises(UserError, match="'sme' of riscv64"):
        prepare(trace_of(VTRAP, "riscv64"), "sme")
    with pytest.raises(UserError, match="SME"):
        prepare(trace_of(TRAP), "sme")


def test_a_cost_is_the_sum_over_acts_and_one_without_a_cost_is_named() -> None:
    counts = replay(prepare(trace_of([*TRAP, *CALL, *CALL])), "keep")
    costs = {"trap": 100.0, "flush": 3.0, "small_restore": 20.0, "syscall": 7.0}
    assert counts.cost(costs).tolist() == [0.0, 100.0 + 2 * 3.0 + 20.0]
    with pytest.raises(UserError, match="'small_restore'"):
        counts.cost({"trap": 1.0, "flush": 1.0})
    # A kept load costs a flush unless the table has a figure.
    assert prices({"flush": 5.0})[COLUMNS.index("kept_load")] == 5.0
    assert prices({"flush": 5.0, "kept_load": 2.0})[COLUMNS.index("kept_load")] == 2.0
