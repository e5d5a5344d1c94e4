# SPDX-License-Identifier: GPL-2.0-or-later
"""Names of cases: parsed as they were written, and nothing else taken for a state."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kentry.results.case_name import (
    MOST_CALLS,
    NONE,
    ONCE,
    USES,
    CaseName,
    State,
    is_use,
    parse_size,
    size_name,
)

CALLS = st.sampled_from(["getppid", "openat+close", "read-4k", "clock_gettime@vdso", "read@int80"])
EVERY = st.integers(2, MOST_CALLS).map(lambda calls: f"1/{calls}")
STATES = st.builds(
    State,
    st.from_regex(r"(?!(vl|cache|extra)$)[a-z]{1,6}[0-9]{0,3}", fullmatch=True),
    st.sampled_from(USES) | EVERY,
    st.none() | st.integers(1, 65536),
)
NAMES = st.builds(
    CaseName,
    CALLS,
    st.none() | STATES,
    st.none() | st.sampled_from(["warm", "cold", "256K", ""]),
    st.none() | st.sampled_from(["1/100", ""]),
)


@given(NAMES)
def test_a_name_is_parsed_as_it_was_written(name: CaseName) -> None:
    assert CaseName.parse(str(name)) == name


@given(st.text(alphabet="getpid@+vec=1/1lwarmcache+extra\n ", max_size=40))
def test_any_text_is_a_name_that_is_written_back(text: str) -> None:
    assert str(CaseName.parse(text)) == text


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("a+vec=once", CaseName("a", State("vec", ONCE))),
        ("a+za=none+vl=256", CaseName("a", State("za", NONE, 256))),
        ("a+vec=often+cache=4K", CaseName("a", State("vec", "often"), "4K")),
        ("a+vec=", CaseName("a", State("vec", ""))),
        ("a+cache=warm+vec=each", CaseName("a+cache=warm", State("vec", "each"))),
        ("a+extra=1/2+cache=warm", CaseName("a+extra=1/2", None, "warm")),
        ("+cache=warm", CaseName("", None, "warm")),
    ],
)
def test_parts_of_a_name(text: str, name: CaseName) -> None:
    assert CaseName.parse(text) == name
    assert str(name) == text


@pytest.mark.parametrize(
    "text",
    [
        *("getppid", "openat+close", "getppid@int80", "getppid+vec", "getppid+VEC=once", "a=b"),
        *("getppid+vec=once+vl=big", "getppid+vec=once+vl="),
    ],
)
def test_a_name_without_a_state(text: str) -> None:
    assert CaseName.parse(text) == CaseName(text)
    assert CaseName(text).calls == 1


@pytest.mark.parametrize(
    ("use", "calls"),
    [*((use, 1) for use in USES), ("1/2", 2), ("1/10", 10), (f"1/{MOST_CALLS}", 1000)],
)
def test_a_window_has_as_many_calls_as_the_use_says(use: str, calls: int) -> None:
    assert is_use(use)
    assert CaseName.parse(f"pipe+vec={use}+vl=512").calls == calls


@pytest.mark.parametrize(
    # The probe reads bytes from "0" to "9" only, so digits are ASCII.
    "text",
    [
        *("", "on", "Once", "once ", "1/", "1/0", "1/1", "1/1001", "1/10000"),
        *("1/010", "2/10", "1/10.0", "*", "1/1\u0660"),
    ],
)
def test_other_text_is_no_use(text: str) -> None:
    assert not is_use(text)


@given(st.integers(64, 1 << 30))
def test_a_size_is_read_as_it_is_named(size: int) -> None:
    assert parse_size(size_name(size)) == size


def test_the_counted_name_has_neither_cache_nor_extra() -> None:
    name = CaseName.parse("getppid+vec=each+cache=1M+extra=1/2")
    assert str(name.counted) == "getppid+vec=each"
