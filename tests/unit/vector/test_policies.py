# SPDX-License-Identifier: GPL-2.0-or-later
"""Policies are read back as written; what is none says what there is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kentry.errors import UserError
from kentry.vector.policies import (
    POLICIES,
    Count,
    DropOnLoad,
    FpuCounter,
    Randomised,
    Timed,
    Timeout,
    TimeoutEntry,
    break_even,
    duration,
    known_policies,
    parse_duration,
    parse_policy,
)


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        ("drop-on-load", DropOnLoad()),
        ("timeout:1ms", Timeout(10**6)),
        ("timeout:10ms", Timeout(10**7)),
        ("timeout-entry:1s", TimeoutEntry(10**9)),
        ("timeout-entry:0.5s", TimeoutEntry(5 * 10**8)),
        ("timeout:250us", Timeout(250_000)),
        ("timeout:0s", Timeout(0)),
        ("count:12", Count(12)),
        ("count", Count(None)),
        ("randomised:8", Randomised(8)),
        ("fpu-counter:5", FpuCounter(5)),
        (" keep ", POLICIES["keep"]()),
    ],
)
def test_a_policy_is_what_its_text_says(text: str, policy: object) -> None:
    assert parse_policy(text) == policy


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_every_policy_is_read_back_as_written(name: str) -> None:
    kind = POLICIES[name]
    policy = parse_policy(f"{name}:20ms" if issubclass(kind, Timed) else _with_count(name))
    assert type(policy) is kind
    assert parse_policy(policy.text) == policy


def _with_count(name: str) -> str:
    return f"{name}:7" if "N" in POLICIES[name].parameter else name


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("drop-on-lode", "no policy 'drop-on-lode'. Did you mean drop-on-load?"),
        ("", "no policy ''"),
        ("timeout", "'timeout' needs a parameter. Write timeout:T."),
        ("fpu-counter", "'fpu-counter' needs a parameter. Write fpu-counter:N."),
        ("eager:1", "'eager' takes no parameter"),
        ("timeout:", "'' is no time for the policy 'timeout'"),
        ("timeout:10", "'10' is no time"),
        ("timeout:-1ms", "'-1ms' is no time"),
        ("timeout:10 parsecs", "is no time"),
        ("timeout:999999999s", "is no time"),
        ("count:many", "'many' is no count for the policy 'count'"),
        ("count:-1", "'-1' is no count"),
        ("count:1.5", "'1.5' is no count"),
        ("count:99999999999", "is no count"),
    ],
)
def test_what_is_no_policy(text: str, words: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_policy(text)
    assert words in str(caught.value)


def test_an_unknown_name_lists_the_known() -> None:
    with pytest.raises(UserError) as caught:
        parse_policy("nonsense")
    for name in POLICIES:
        assert name in str(caught.value)
    assert "timeout:T" in known_policies() and "count[:N]" in known_policies()


@given(ns=st.integers(0, 10**15))
def test_a_time_is_read_back_as_written(ns: int) -> None:
    assert parse_duration(duration(ns), "timeout") == ns


def test_times_are_short() -> None:
    assert [duration(ns) for ns in (0, 5, 5000, 10**7, 10**9, 1_500_000_000)] == [
        *("0ns", "5ns", "5us", "10ms", "1s", "1500ms")
    ]


def test_the_break_even_is_a_trap_and_its_drop_over_a_flush() -> None:
    assert break_even({"trap": 1000.0, "drop": 10.0, "flush": 14.1}) == 71
    assert break_even({"trap": 1.0, "flush": 14.1}) == 0


@pytest.mark.parametrize(
    ("costs", "words"),
    [
        ({"flush": 1.0}, "no cost of a trap"),
        ({"trap": 1.0}, "no cost of a flush"),
        ({"trap": 1.0, "flush": 0.0}, "flush costs nothing"),
    ],
)
def test_no_break_even_without_costs(costs: dict[str, float], words: str) -> None:
    with pytest.raises(UserError, match=words):
        break_even(costs)
