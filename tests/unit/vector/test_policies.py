# SPDX-License-Identifier: GPL-2.0-or-later
"""Policies are read back as written; what is none says what there is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kentry.errors import UserError
from kentry.vector.policies import (
    POLICIES,
    TIME,
    Policy,
    break_even,
    duration,
    parse_duration,
    parse_policy,
)


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
        ("count", "count", None),
        (" keep ", "keep", None),
    ],
)
def test_a_policy_is_what_its_text_says(text: str, name: str, value: int | None) -> None:
    assert parse_policy(text) == Policy(POLICIES[name], value)


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_every_policy_is_read_back_as_written(name: str) -> None:
    family = POLICIES[name]
    value = {"": "", TIME: ":20ms"}.get(family.parameter, ":7")
    policy = parse_policy(f"{name}{value}")
    assert policy.family is family
    assert policy.text == f"{name}{value}"


@pytest.mark.parametrize(
    ("text", "datum"),
    [
        ("drop-on-lode", "drop-on-load"),
        ("", "''"),
        ("timeout", "timeout:T"),
        ("eager:1", "'eager'"),
        ("timeout:", "'timeout'"),
        ("timeout:10", "'10'"),
        ("timeout:-1ms", "'-1ms'"),
        ("timeout:10 parsecs", "'10 parsecs'"),
        ("timeout:999999999s", "'999999999s'"),
        ("count:many", "'many'"),
        ("count:-1", "'-1'"),
        ("count:1.5", "'1.5'"),
        ("count:99999999999", "'99999999999'"),
        ("fpu-counter:5", "'fpu-counter'"),
    ],
)
def test_text_that_is_no_policy_is_an_error(text: str, datum: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_policy(text)
    assert datum in str(caught.value)


@given(ns=st.integers(0, 10**15))
def test_a_time_is_read_back_as_written(ns: int) -> None:
    assert parse_duration(duration(ns), "timeout") == ns


def test_the_break_even_is_a_trap_and_its_drop_over_a_flush() -> None:
    assert break_even({"trap": 1000.0, "drop": 10.0, "flush": 14.1}) == 71
    assert break_even({"trap": 1.0, "flush": 14.1}) == 0


@pytest.mark.parametrize(
    "costs", [{"flush": 1.0}, {"trap": 1.0}, {"trap": 1.0, "flush": 0.0}], ids=str
)
def test_there_is_no_break_even_without_costs(costs: dict[str, float]) -> None:
    with pytest.raises(UserError):
        break_even(costs)
