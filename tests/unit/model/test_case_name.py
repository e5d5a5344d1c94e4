# SPDX-License-Identifier: GPL-2.0-or-later
"""The vector state in a case's name: read back as written, and nothing else taken for one."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kentry.model.case_name import (
    MOST_CALLS,
    NONE,
    ONCE,
    USES,
    State,
    base_of,
    calls_of,
    is_use,
    split,
    state_of,
)

BASES = st.sampled_from(["getppid", "openat+close", "read-4k", "clock_gettime@vdso", "read@int80"])
EVERY = st.integers(2, MOST_CALLS).map(lambda calls: f"1/{calls}")
STATES = st.builds(
    State,
    st.from_regex(r"[a-z]{1,6}[0-9]{0,3}", fullmatch=True),
    st.sampled_from(USES) | EVERY,
    st.none() | st.integers(1, 65536),
)


@given(BASES, STATES)
def test_a_name_is_read_as_it_was_written(base: str, state: State) -> None:
    name = f"{base}{state}"
    length = str(state.length) if state.length else None
    assert split(name) == (base, state.unit, state.use, length)
    assert state_of(name) == state
    assert base_of(name) == base
    assert calls_of(name) == state.calls


def test_how_it_is_written() -> None:
    assert str(State("vec", ONCE)) == "+vec=once"
    assert str(State("za", NONE, 256)) == "+za=none+vl=256"


@pytest.mark.parametrize(
    "name", ["getppid", "openat+close", "getppid@int80", "getppid+vec", "getppid+VEC=once", "a=b"]
)
def test_a_name_without_a_state(name: str) -> None:
    assert split(name) is None
    assert state_of(name) is None
    assert base_of(name) == name
    assert calls_of(name) == 1


def test_what_is_written_is_kept_for_who_explains_it() -> None:
    assert split("getppid+vec=often+vl=big") == ("getppid", "vec", "often", "big")
    assert split("getppid+vec=+vl=") == ("getppid", "vec", "", "")
    assert state_of("getppid+vec=once+vl=big") == State("vec", "once")


@example(1)
@example(2)
@example(1000)
@example(1001)
@given(st.integers(0, 20_000))
def test_once_every_so_many_calls_is_a_use_from_2_to_1000(calls: int) -> None:
    assert is_use(f"1/{calls}") == (2 <= calls <= MOST_CALLS)


@pytest.mark.parametrize(
    ("use", "calls"),
    [("none", 1), ("once", 1), ("each", 1), ("after", 1), ("1/2", 2), ("1/10", 10)],
)
def test_a_window_is_as_many_calls_as_the_use_says(use: str, calls: int) -> None:
    assert is_use(use)
    assert State("vec", use).calls == calls
    assert calls_of(f"pipe+vec={use}+vl=512") == calls


@pytest.mark.parametrize("text", ["", "on", "Once", "once ", "1/", "1/010", "2/10", "1/10.0", "*"])
def test_what_is_no_use(text: str) -> None:
    assert not is_use(text)


def test_digits_are_ascii() -> None:
    # The probe reads bytes from "0" to "9" only.
    assert not is_use("1/1\u0660")
