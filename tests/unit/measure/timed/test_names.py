# SPDX-License-Identifier: GPL-2.0-or-later
"""Names of cases in time, and sizes of working sets."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kentry.arch import ARCHES
from kentry.errors import UserError
from kentry.measure.timed.names import (
    COLD_BYTES,
    choose_timed,
    is_one_by_one,
    parse_size,
    plain_name,
    size_name,
    walk_bytes,
)
from kentry.measure.timed.sampling import Settings
from kentry.measure.timed.sweep import names_of, settings_of, sizes_of

X86 = ARCHES["x86_64"]


@pytest.mark.parametrize(
    ("word", "names"),
    [
        ("getppid", ["getppid"]),
        ("getppid@syscall", ["getppid"]),
        ("getppid+vec=each", ["getppid+vec=each"]),
        ("getppid+cache=warm", ["getppid+cache=warm"]),
        ("getppid+cache=cold", ["getppid+cache=cold"]),
        ("getppid+cache=1024K", ["getppid+cache=1M"]),
        ("getppid+cache=256KiB", ["getppid+cache=256K"]),
        ("getppid+cache=1G", ["getppid+cache=1024M"]),
        ("getppid+cache=1000", ["getppid+cache=1000"]),
        ("getppid+extra=1/100", ["getppid+extra=1/100"]),
        ("getppid+extra=1/010", ["getppid+extra=1/10"]),
        ("getppid+vec=1/10+extra=1/7", ["getppid+vec=1/10+extra=1/7"]),
        ("getppid@int80+cache=4K", ["getppid@int80+cache=4K"]),
        ("get[pu]id+extra=1/2", ["getpid+extra=1/2", "getuid+extra=1/2"]),
    ],
)
def test_a_word_stands_for_what_the_probe_is_told(word: str, names: list[str]) -> None:
    assert choose_timed(X86, [word]) == names


def test_cases_come_in_the_order_of_the_words_and_once() -> None:
    words = ["read", "getpid", "read", "getpid+extra=1/10"]
    assert choose_timed(X86, words) == ["read", "getpid", "getpid+extra=1/10"]


def test_no_word_is_every_case_of_no_group() -> None:
    names = choose_timed(X86, [])
    assert "getppid" in names and "getppid@int80" in names
    assert not [name for name in names if "=" in name]


@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        ("getpppid", "Unknown case 'getpppid'"),
        ("getpppid+cache=warm", "Unknown case 'getpppid'"),
        ("getppid+cache=hot", "'hot' is no size of a working set"),
        ("getppid+cache=", "'' is no size of a working set"),
        ("getppid+cache=63", "'63' is no size"),
        ("getppid+cache=2G", "'2G' is no size"),
        ("getppid+cache=-1K", "'-1K' is no size"),
        ("getppid+cache=0x10K", "'0x10K' is no size"),
        ("getppid+extra=1/0", "'+extra=1/0' in 'getppid+extra=1/0' is no share of extra calls"),
        ("getppid+extra=2/3", "'+extra=2/3'"),
        ("getppid+extra=1/10001", "'+extra=1/10001'"),
        ("getppid+extra=", "'+extra='"),
        ("getppid+extra=1/-5", "'+extra=1/-5'"),
        # Only in this order, so that each thing has one name.
        ("getppid+extra=1/2+cache=warm", "Unknown case"),
        ("getppid+cache=warm+vec=each", "Unknown case"),
        ("+cache=warm", "Unknown case"),
        ("", "Unknown case"),
    ],
)
def test_what_makes_no_sense_is_an_error(word: str, sentence: str) -> None:
    with pytest.raises(UserError) as caught:
        choose_timed(X86, [word])
    assert sentence in caught.value.sentence
    assert caught.value.remedy


@given(st.text(alphabet="getppid+cache=warmextr1/0K,vM ", max_size=30))
def test_a_word_is_cases_or_a_user_error(word: str) -> None:
    try:
        names = choose_timed(X86, [word])
    except UserError:
        return
    assert choose_timed(X86, names) == names


@given(st.integers(64, 1 << 30))
def test_a_size_has_a_name_that_says_it(size: int) -> None:
    assert parse_size(size_name(size)) == size


def test_what_is_read_of_a_name() -> None:
    assert plain_name("getppid+vec=each+cache=1M+extra=1/2") == "getppid+vec=each"
    assert [is_one_by_one(name) for name in ("a+cache=warm", "a+extra=1/2", "a")] == [
        True,
        False,
        False,
    ]
    assert walk_bytes("getppid") == walk_bytes("getppid+cache=warm") == 0
    assert walk_bytes("getppid+cache=cold") == COLD_BYTES
    assert walk_bytes("getppid+vec=each+cache=64K") == 64 << 10


# --- sweeps ----------------------------------------------------------------------


def test_a_sweep_goes_from_32_kib_to_256_mib_by_twos() -> None:
    sizes = sizes_of("sweep")
    assert sizes[0] == 32 << 10 and sizes[-1] == 256 << 20
    assert all(b == 2 * a for a, b in pairwise(sizes))


def test_sizes_are_sorted_and_once() -> None:
    assert sizes_of("1M,32K,1024K,") == [32 << 10, 1 << 20]


@pytest.mark.parametrize("text", ["", ",", "sweeps", "32K,big", "32K 64K"])
def test_what_is_no_size_is_an_error(text: str) -> None:
    with pytest.raises(UserError):
        sizes_of(text)


def test_a_sweep_begins_without_a_walk() -> None:
    assert names_of("getppid+vec=each", [32 << 10, 1 << 20]) == [
        "getppid+vec=each+cache=warm",
        "getppid+vec=each+cache=32K",
        "getppid+vec=each+cache=1M",
    ]


def test_a_sweeps_turns_are_fewer_on_the_same_cpu() -> None:
    settings = Settings(cpu=3, seed=9)
    found = settings_of(settings)
    assert (found.cpu, found.seed, found.blocks) == (3, 9, settings.blocks)
    assert found.turns < settings.turns
