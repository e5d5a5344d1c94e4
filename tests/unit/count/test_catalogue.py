# SPDX-License-Identifier: GPL-2.0-or-later
"""Which cases words stand for, in which vector states, and a sentence for what makes no sense."""

import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kentry.arch import ARCHES, Arch
from kentry.arch.processors import MAX, vector_bits
from kentry.boot.exact import ExactOptions
from kentry.commands.measuring import CASE
from kentry.count.catalogue import VECTOR, catalogue, choose, choose_timed, matrix, on_floor
from kentry.errors import UserError
from kentry.kernels.resolve import resolve
from kentry.results.case_name import USES, CaseName, State

ARM, RISCV, X86 = ARCHES["arm64"], ARCHES["riscv64"], ARCHES["x86_64"]
EVERY_ARCH = pytest.mark.parametrize("arch", ARCHES.values(), ids=lambda arch: arch.name)


# --- without a state -----------------------------------------------------


@EVERY_ARCH
def test_nothing_wanted_is_the_default_group(arch: Arch) -> None:
    chosen = choose(arch, [])
    assert chosen == [case.name for case in catalogue(arch) if not case.group]
    assert "getppid" in chosen
    assert not {"read-4k", "signal", "use-after-fork"} & set(chosen)
    assert choose_timed(arch, []) == chosen
    assert not [name for name in chosen if "=" in name]
    # A pattern without a state is no case that needs one.
    assert "use-after-fork" not in choose(arch, ["*"])


@EVERY_ARCH
@pytest.mark.parametrize("group", ["entry", "events", "io", "memory", "process"])
def test_a_groups_word_is_its_cases(arch: Arch, group: str) -> None:
    own = {case.name for case in catalogue(arch) if case.group == group}
    assert len(own) >= 3
    assert set(choose(arch, [group])) == own
    assert set(choose(arch, [group, "getppid"])) == own | {"getppid"}
    assert set(choose_timed(arch, [f"{group}+extra=1/10"])) == {f"{one}+extra=1/10" for one in own}
    assert own <= set(choose(arch, ["*"]))
    assert not own & set(choose(arch, []))
    assert group in CASE["help"]


# --- with a state --------------------------------------------------------


@pytest.mark.parametrize(
    ("arch", "words", "chosen"),
    [
        (RISCV, ["getppid+vec=once"], ["getppid+vec=once"]),
        (RISCV, ["getppid@ecall+vec=once"], ["getppid+vec=once"]),
        (RISCV, ["openat+close+vec=each"], ["openat+close+vec=each"]),
        (RISCV, ["getppid+vec=1/10"], ["getppid+vec=1/10"]),
        (RISCV, ["getppid+vec=*"], [f"getppid+vec={use}" for use in USES]),
        (RISCV, ["getppid+vec=[no]*"], ["getppid+vec=none", "getppid+vec=once"]),
        (RISCV, ["use-after-fork+vec=*"], ["use-after-fork+vec=each"]),
        (RISCV, ["use-after-fork+vec=e*"], ["use-after-fork+vec=each"]),
        (RISCV, ["getp?id+vec=once"], ["getppid+vec=once"]),
        (ARM, ["getppid+za=once"], ["getppid+za=once"]),
        # A case that is a part of what it does has no use in its window.
        (ARM, ["page-fault+vec=*"], [f"page-fault+vec={use}" for use in ("none", "once", "after")]),
        (ARM, ["getppid+ssve=each+vl=512"], ["getppid+ssve=each+vl=512"]),
        (ARM, ["getppid+vec=once+vl=0256"], ["getppid+vec=once+vl=256"]),
        # The cpu model's own length is what a name without one has.
        (ARM, ["getppid+vec=once+vl=128", "getppid+vec=once"], ["getppid+vec=once"]),
        (X86, ["getppid+vec=once+vl=256"], ["getppid+vec=once"]),
        # Entries that have no state are left out where they are not what was named.
        (X86, ["getpid*+vec=once"], ["getpid+vec=once"]),
        (X86, ["clock_gettime*+vec=none"], ["clock_gettime+vec=none"]),
    ],
)
def test_a_word_with_a_state(arch: Arch, words: Sequence[str], chosen: Sequence[str]) -> None:
    assert choose(arch, words) == chosen


def test_cases_come_before_states_and_states_as_they_were_named() -> None:
    words = ["getppid+vec=once", "read", "get?id+vec=[no]*", "getpid", "getppid+vec=once"]
    states = [f"get{one}id+vec={use}" for one in "ptu" for use in ("none", "once")]
    assert choose(RISCV, words) == ["getpid", "read", "getppid+vec=once", *states]


def test_a_pattern_of_both_is_every_state_that_makes_sense() -> None:
    chosen = choose(X86, ["*+vec=*"])
    assert set(chosen) == {
        f"{case.name}+vec={use}"
        for case in catalogue(X86)
        if "@" not in case.name
        for use in case.uses or USES
    }
    assert len(chosen) == len(set(chosen))


@pytest.mark.parametrize(
    ("words", "length", "chosen"),
    [
        (["getppid+vec=once"], 256, ["getppid+vec=once+vl=256"]),
        (["getppid+vec=once"], 128, ["getppid+vec=once"]),
        (["getppid+vec=once+vl=512"], 256, ["getppid+vec=once+vl=512"]),
        (["getppid+vec=once+vl=128"], 256, ["getppid+vec=once"]),
        (["getppid", "getpid+vec=none"], 256, ["getppid", "getpid+vec=none+vl=256"]),
    ],
)
def test_the_length_is_that_of_a_name_without_one(
    words: list[str], length: int, chosen: list[str]
) -> None:
    assert choose(RISCV, words, length) == chosen
    with pytest.raises(UserError, match="V of 2048 bits"):
        choose(RISCV, ["getppid+vec=once"], 2048)


@EVERY_ARCH
@given(st.data())
def test_what_is_chosen_is_chosen_again_by_its_name(arch: Arch, data: st.DataObject) -> None:
    unit = data.draw(st.sampled_from(arch.vector.units))
    use = data.draw(st.sampled_from(USES) | st.integers(2, 1000).map(lambda calls: f"1/{calls}"))
    length = data.draw(st.sampled_from([None, *unit.lengths]))
    [name] = choose(arch, [f"getppid{State(unit.name, use, length)}"])
    assert choose(arch, [name]) == [name]
    state = CaseName.parse(name).state
    assert state and (state.unit, state.use) == (unit.name, use)
    assert vector_bits(arch, MAX, state.unit, state.length) == (length or unit.lengths[0])


# --- what is not to be had -----------------------------------------------


@pytest.mark.parametrize(
    ("arch", "word", "sentence", "remedy"),
    [
        (RISCV, "use-after-fork", "needs a vector state", "use-after-fork+vec=each."),
        (RISCV, "getppid+za=once", "riscv64 has no vector unit 'za'", "vec= (V)."),
        (
            ARM,
            "getppid+sve=once",
            "no vector unit 'sve'",
            "vec= (SVE), ssve= (streaming SVE (SME))",
        ),
        (X86, "getppid+amx=once", "cannot be measured: QEMU's .* no AMX", "vec= (AVX2)."),
        (X86, "getppid+avx512=once", "cannot be measured: .* no AVX-512", "vec= (AVX2)."),
        (X86, "getppid+vec=once+vl=512", "no AVX2 of 512 bits: .* AVX-512", "Lengths: 256."),
        (X86, "getppid+vec=once+vl=128", "no AVX2 of 128 bits: .* SSE's", "Lengths: 256."),
        (RISCV, "getppid+vec=once+vl=100", r"V of 100 bits\.", "Lengths: 128, 256, 512, 1024."),
        (RISCV, "getppid+vec=once+vl=0", r"V of 0 bits\.", "Lengths: 128, 256, 512, 1024."),
        (RISCV, "getppid+vec=once+vl=big", "'big' is no vector length", "vl=256."),
        (RISCV, "getppid+vec=once+vl=", "'' is no vector length", "vl=256."),
        (RISCV, "getppid+vec=often", "'often' in .* is no use", "none, once, each, after, or 1/K"),
        (RISCV, "getppid+vec=1/1001", "'1/1001' in .* is no use", "(2 to 1000)"),
        (RISCV, "getppid+vec=1/*", r"'1/\*' in .* is no use", "1/K"),
        (RISCV, "use-after-fork+vec=once", "'once': .* with each only", "use-after-fork+vec=each."),
        (RISCV, "use-after-fork+vec=1/10", "'1/10': .* with each only", "+vec=each."),
        (X86, "getppid@int80+vec=once", "'once': it enters the kernel in another", "Take getppid."),
        (ARM, "clock_gettime@vdso+vec=each", "'each': it enters", "Take clock_gettime."),
        (ARM, "page-fault+vec=each", "page-fault .* 'each'", "page-fault+vec=none."),
        (X86, "*@int80+vec=once", r"No case .* '\*@int80\+vec=once'", ""),
        (RISCV, "use-after-fork+vec=[na]*", "No case .* 'use-after-fork", ""),
        (RISCV, "getpppid+vec=once", "'getpppid' on riscv64. .* getppid", "process, vector, work."),
        (RISCV, "nothing*+vec=once", r"Unknown case 'nothing\*' on riscv64", ""),
        (RISCV, "getppid@int80+vec=once", "Unknown case 'getppid@int80' on riscv64", ""),
        (RISCV, "getppid+vec=once+vec=once", r"Unknown case 'getppid\+vec=once' on riscv64", ""),
    ],
)
def test_a_state_that_makes_no_sense(arch: Arch, word: str, sentence: str, remedy: str) -> None:
    with pytest.raises(UserError, match=sentence) as caught:
        choose(arch, ["getpid", word])
    assert remedy in caught.value.remedy


# --- a matrix -----------------------------------------------------------


@EVERY_ARCH
def test_a_matrix_is_every_case_it_matters_to_in_every_state(arch: Arch) -> None:
    words = matrix(arch, VECTOR)
    assert choose(arch, words) == words
    cases = dict.fromkeys(name.partition("+vec=")[0] for name in words)
    assert {"getppid", "getpid", "pipe", "sched_yield", "signal", "fork+exit"} <= set(cases)
    assert "use-after-fork" in cases
    assert not any("@" in name for name in cases)
    assert words == [
        f"{case}+vec={use}"
        for case in cases
        for use in (("each",) if case in ("first-use", "use-after-fork") else (*USES, "1/10"))
    ]
    assert words == matrix(arch, "vec")


def test_a_matrix_of_another_unit() -> None:
    words = choose(ARM, matrix(ARM, "za"), 512)
    assert words == [
        f"{name}+vl=512" for name in (word.replace("+vec=", "+za=") for word in matrix(ARM, VECTOR))
    ]
    for arch, unit, sentence in ((RISCV, "za", "unit 'za'"), (X86, "amx", "has no AMX")):
        with pytest.raises(UserError, match=sentence):
            matrix(arch, unit)


# --- cases in time ------------------------------------------------------


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
        ("getppid+cache=1024K:code", ["getppid+cache=1M:code"]),
        ("getppid+vec=each+cache=cold:code", ["getppid+vec=each+cache=cold:code"]),
        ("getppid+extra=1/100", ["getppid+extra=1/100"]),
        ("getppid+extra=1/010", ["getppid+extra=1/10"]),
        ("getppid+vec=1/10+extra=1/7", ["getppid+vec=1/10+extra=1/7"]),
        ("getppid@int80+cache=4K", ["getppid@int80+cache=4K"]),
        ("get[pu]id+extra=1/2", ["getpid+extra=1/2", "getuid+extra=1/2"]),
        ("get?id@int80", ["getpid@int80", "gettid@int80", "getuid@int80"]),
    ],
)
def test_a_word_stands_for_what_the_probe_is_told(word: str, names: list[str]) -> None:
    assert choose_timed(X86, [word]) == names


def test_cases_come_in_the_order_of_the_words_and_once() -> None:
    words = ["read", "getpid", "read", "getpid+extra=1/10"]
    assert choose_timed(X86, words) == ["read", "getpid", "getpid+extra=1/10"]


@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        ("getpppid", "Unknown case 'getpppid'"),
        ("getpppid+cache=warm", "Unknown case 'getpppid'"),
        ("getppid+cache=hot", "'hot' is no size of a working set"),
        ("getppid+cache=", "'' is no size of a working set"),
        ("getppid+cache=63", "'63' is no size"),
        ("getppid+cache=63:code", "'63' is no size"),
        ("getppid+cache=warm:code", "'warm:code' is no size"),
        ("getppid+cache=4K:data", "'4K:data' is no size"),
        ("getppid+cache=:code", "'' is no size"),
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


# --- the floor ----------------------------------------------------------


def test_the_floor_has_two_cases_in_one_context() -> None:
    options = on_floor(ExactOptions(cases=tuple(choose(ARM, ()))), ARM)
    assert (set(options.cases), options.rounds) == ({"getpid", "getppid"}, 1)
    assert on_floor(ExactOptions(cases=("getppid",)), ARM).cases == ("getppid",)
    # One that it lacks is refused by name.
    for cases in (("read",), ("getppid", "read"), ("getppid+vec=once",)):
        with pytest.raises(UserError, match=re.escape(cases[-1])) as raised:
            on_floor(ExactOptions(cases=cases), ARM)
        assert "getppid" in raised.value.remedy


def test_the_floor_has_nothing_to_randomise_and_is_refused_where_nothing_is_counted() -> None:
    with pytest.raises(UserError, match="randomise"):
        on_floor(ExactOptions(cases=("getppid",), randomise=True), ARM)
    with pytest.raises(UserError, match="getppid"):
        resolve("floor:", ARM, lambda fraction, now: None)
