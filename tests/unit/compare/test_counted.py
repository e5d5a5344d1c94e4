# SPDX-License-Identifier: GPL-2.0-or-later
"""Comparisons: verdicts, and functions that add up whatever the paths."""

from collections import Counter
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kentry.compare.contexts import Side, Sides
from kentry.compare.counted import compare, compare_case
from kentry.errors import UserError
from kentry.path.calls import NOT_KNOWN, PARTS
from kentry.results.comparison import CaseComparison, EventDelta
from kentry.results.recording import OTHER, Metric, Recording, VectorEvent, read_recording
from tests import ROOT
from tests.builders import recording
from tests.unit.vector.builders import with_events

NAMES = st.sampled_from(["a", "b", "b.constprop.0", "c.isra.1", "c", "d.part.0.cold"])
PATHS = st.lists(st.tuples(NAMES, st.integers(1, 40)), max_size=8)


@given(PATHS, PATHS)
def test_function_deltas_sum_to_the_delta(
    old: list[tuple[str, int]], new: list[tuple[str, int]]
) -> None:
    case = compare(recording({"x": old}), recording({"x": new})).cases[0]
    assert sum(row.old for row in case.functions) == case.old
    assert sum(row.new for row in case.functions) == case.new
    assert sum(row.delta for row in case.functions) == case.delta
    assert len({row.name for row in case.functions}) == len(case.functions)


@pytest.mark.parametrize(
    ("arch", "old", "new", "identical"),
    [
        ("arm64", "bl <foo>", "bl <foo>", True),
        ("arm64", "bl <foo>", "bl <bar>", False),
        ("arm64", "b.eq <a+0x40>", "b.eq <a+0x48>", True),
        ("arm64", "adrp x0, 0xffff800008d00000", "adrp x0, 0xffff800008d10000", True),
        ("arm64", "mov w0, #1", "mov w0, #2", False),
        ("arm64", "ldr x0, [x1, #0x10]", "ldr x0, [x1, #0x18]", False),
        ("x86_64", "movq %gs:0x7e205f85(%rip), %rsp", "movq %gs:0x7e235f85(%rip), %rsp", True),
        ("x86_64", "movq 0x10(%rdi), %rsp", "movq 0x18(%rdi), %rsp", False),
    ],
)
def test_an_identical_path_may_have_been_linked_elsewhere(
    arch: str, old: str, new: str, identical: bool
) -> None:
    def moved(text: str, by: int) -> Recording:
        found = recording({"x": [("a", 1)]}, kernel={"arch": arch})
        insn = found.code[0]
        found.code[0] = insn._replace(
            address=insn.address + by, code=f"{by:08x}", text=text, offset=insn.offset + by // 2
        )
        return found

    case = compare(moved(old, 0), moved(new, 64)).cases[0]
    assert (case.verdict, case.identical_path) == ("same", identical)


@pytest.mark.parametrize(
    ("kernel", "target", "words"),
    [
        ({"compiler": "clang 19"}, {}, "compiler differs"),
        ({}, {"emulator": "QEMU 10.0.2"}, "emulator differs: QEMU 7.2.22 / QEMU 10.0.2"),
        ({}, {"cpu": "neoverse-n1"}, "cpu model differs"),
        ({}, {"cmdline": "quiet"}, "kernel command line differs"),
        ({"config": {"PREEMPT": "y", "HZ": "1000"}}, {}, "of kernel entry: HZ=250/1000"),
        ({"config": {"HZ": "250"}}, {}, "config differs in 1 built-in option: 1 gone"),
        # The numbers add up.
        ({"config": {"HZ": "9", "A": "y"}}, {}, "3 built-in options: 1 gone, 1 new, 1 changed"),
        ({"config": None}, {}, "one side's config is not known"),
        # The compiler's text in the config is no difference.
        ({"config": {"PREEMPT": "y", "HZ": "250", "CC_VERSION_TEXT": "x"}}, {}, ""),
    ],
)
def test_other_differences_are_caveats(
    kernel: dict[str, object], target: dict[str, object], words: str
) -> None:
    cases = {"x": [("a", 5)]}
    found = compare(recording(cases), recording(cases, kernel=kernel, target=target)).caveats
    assert any(words in caveat["text"] for caveat in found) == bool(words)
    assert words or not found


def test_nothing_in_common_is_an_error() -> None:
    with pytest.raises(UserError, match="no case"):
        compare(recording({"x": [("a", 5)]}), recording({"y": [("a", 5)]}))


# --- vector events -------------------------------------------------------

CASE = "getppid+vec=once"
DISCARD = VectorEvent("discard", "syscall", "do_trap_ecall_u", 1)
SAVE = VectorEvent("save", "switch", "__switch_to", 1)
RESTORE = VectorEvent("restore", "switch", "ret_from_exception", 1)


def with_one(*events: VectorEvent, markers: Mapping[str, str] | None = None) -> Recording:
    """A riscv64 kernel with one case, in whose window these events happen."""
    found = recording({CASE: [("do_trap_ecall_u", 5)]}, kernel={"arch": "riscv64"})
    return with_events(found, {CASE: events}, markers)


def without_paths(found: Recording) -> Recording:
    return replace(found, cases=[replace(one, paths=(), functions=()) for one in found.cases])


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (with_one(), with_one(), []),
        # By what they are and why; the largest change first.
        (
            with_one(DISCARD, SAVE, RESTORE),
            with_one(SAVE, replace(RESTORE, times=3), replace(SAVE, cause="user copy", times=2)),
            [
                ("restore", "switch", 1, 3, True),
                ("save", "user copy", 0, 2, True),
                ("discard", "syscall", 1, 0, True),
                ("save", "switch", 1, 1, False),
            ],
        ),
        # As many in another function.
        (
            with_one(DISCARD),
            with_one(replace(DISCARD, function="x")),
            [("discard", "syscall", 1, 1, False)],
        ),
        # Without a marker of it, it is not known.
        (with_one(DISCARD), with_one(markers={}), [("discard", "syscall", 1, None, False)]),
        (
            with_one(markers={"trap": "entry of f"}),
            with_one(DISCARD),
            [("discard", "syscall", None, 1, False)],
        ),
        # Where a path is missing nothing is known.
        (with_one(DISCARD), without_paths(with_one()), []),
        (without_paths(with_one()), with_one(DISCARD), []),
    ],
)
def test_events_are_compared_by_what_they_are_and_why(
    old: Recording, new: Recording, expected: list[tuple[str, str, int | None, int | None, bool]]
) -> None:
    [case] = compare(old, new).cases
    events = [(one.name, one.cause, one.old, one.new, one.is_change) for one in case.events]
    assert events == expected


def test_the_functions_of_an_event_are_added_up_and_the_new_kernels_come_first() -> None:
    old = with_one(replace(DISCARD, function="a"), replace(DISCARD, function="b", times=2))
    new = with_one(replace(DISCARD, function="c"), replace(DISCARD, function="b"))
    [case] = compare(old, new).cases
    assert case.events == (EventDelta("discard", "syscall", 3, 2, ("c", "b", "a")),)


def test_events_are_compared_where_all_paths_agree_on_them() -> None:
    new = with_one(DISCARD)
    [case] = new.cases
    path = replace(case.paths[0], role=OTHER)
    case = replace(case, metrics={"instructions": Metric.of({5: 1, 6: 1, 7: 1})}, functions=())
    for other, events in ((path, [(0, 1)]), (replace(path, events=()), [])):
        new.cases = [replace(case, paths=(path, other))]
        [row] = compare(with_one(), new).cases
        assert [(one.old, one.new) for one in row.events] == events


def test_two_states_of_a_recording_are_compared_like_two_kernels() -> None:
    states = recording({"x+vec=none": [("f", 5)], "x+vec=once": [("f", 5), ("g", 2)]})
    states = with_events(states, {"x+vec=once": [DISCARD]})
    none, once = states.cases
    case = compare_case(Sides(Side(none, states), Side(once, states)))
    assert (case.old, case.new, case.delta) == (5, 7, 2)
    assert [(row.name, row.delta) for row in case.functions if row.delta] == [("g", 2)]
    assert [(one.name, one.old, one.new) for one in case.events] == [("discard", 0, 1)]


# --- the floor: parts and reasons ---------------------------------------------------


def read(name: str) -> Recording:
    return read_recording(ROOT / "tests" / "golden" / name)


FLOOR, LINUX = read("floor-arm64.json"), read("arm64-6.12.json")


def on_floor(old: Recording, new: Recording) -> CaseComparison:
    return compare(old, new, ["getppid"]).cases[0]


def test_reasons_are_in_order_of_their_change_and_the_unknown_one_is_the_last() -> None:
    # Functions that no rule names: most instructions have no reason then.
    odd = [insn._replace(function="odd") if insn.offset % 8 else insn for insn in LINUX.code]
    cases = [
        replace(case, functions=tuple(Counter(odd[i].function for i in path.indexes).items()))
        for case in LINUX.cases
        if (path := case.modal_path)
    ]
    *known, unknown = on_floor(FLOOR, replace(LINUX, code=odd, cases=cases)).reasons
    assert unknown.name == NOT_KNOWN
    assert unknown.delta > known[-1].delta
    assert [abs(row.delta) for row in known] == sorted((abs(r.delta) for r in known), reverse=True)


def test_either_side_may_be_the_floor() -> None:
    there, back = on_floor(FLOOR, LINUX).reasons, on_floor(LINUX, FLOOR).reasons
    assert {row.name: -row.delta for row in there} == {row.name: row.delta for row in back}


def test_two_kernels_of_linux_have_parts_alone_and_a_side_without_a_path_neither() -> None:
    lost = on_floor(FLOOR, without_paths(LINUX))
    assert not lost.parts and not lost.reasons
    case = on_floor(read("arm64-6.1.json"), LINUX)
    assert [part.name for part in case.parts] == list(PARTS)
    assert sum(part.delta for part in case.parts) == case.delta
    assert sum(part.old for part in case.parts) == case.old
    assert not case.reasons


PROBES = {"probe": "1a" * 32, "plugin": "2b" * 32}
OTHER_PROBE, OTHER_PLUGIN = PROBES | {"probe": "3c" * 32}, PROBES | {"plugin": "4d" * 32}


@pytest.mark.parametrize(
    ("old", "new", "texts"),
    [
        (PROBES, PROBES, []),
        ({}, {}, []),
        (PROBES, OTHER_PROBE, ["hash of the probe differs: 1a1a1a1a1a1a / 3c3c3c3c3c3c"]),
        (OTHER_PLUGIN, PROBES, ["hash of the plugin differs: 4d4d4d4d4d4d / 2b2b2b2b2b2b"]),
        (PROBES, {}, ["the new recording does not say which probe and plugin made it"]),
        ({}, PROBES, ["the old recording does not say which probe and plugin made it"]),
        ({"probe": 5}, {"probe": 5}, []),
    ],
)
def test_two_probes_and_two_plugins_are_caveats(
    old: Mapping[str, object], new: Mapping[str, object], texts: list[str]
) -> None:
    a, b = (recording({"x": [("a", 1)]}, target=one) for one in (old, new))
    assert [caveat["text"] for caveat in compare(a, b).caveats] == texts


def test_a_recording_of_the_cache_says_which_probe_made_it() -> None:
    """As those before targets did."""
    old = replace(recording({"x": [("a", 1)]}), made_for=PROBES)
    assert not compare(old, recording({"x": [("a", 1)]}, target=PROBES)).caveats


def test_config_compiler_and_absent_cases_are_no_caveats() -> None:
    for old, new in ((FLOOR, LINUX), (LINUX, FLOOR)):
        kinds = {caveat["kind"] for caveat in compare(old, new).caveats}
        assert not {kind for kind in kinds if "config" in kind or "only" in kind}
        assert not any("compiler" in caveat["text"] for caveat in compare(old, new).caveats)


def test_processors_are_compared_by_name_where_both_sides_have_one() -> None:
    def differing(old: dict[str, str], new: dict[str, str]) -> list[str]:
        a, b = (recording({"x": [("f", 9)]}, target=target) for target in (old, new))
        found = (caveat["text"] for caveat in compare(a, b).caveats)
        return [text for text in found if text.startswith(("cpu", "processor"))]

    named = {"processor": "rpi5", "cpu": "cortex-a76"}
    assert differing(named, {**named, "cpu": "cortex-a76,x=on"}) == []
    assert differing(named, {**named, "processor": "max"}) == ["processor differs: rpi5 / max"]
    assert differing(named, {"cpu": "max"}) == ["cpu model differs: cortex-a76 / max"]
