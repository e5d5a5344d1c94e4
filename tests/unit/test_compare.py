# SPDX-License-Identifier: GPL-2.0-or-later
"""Comparisons: verdicts, and functions that add up whatever the paths."""

import json
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kentry.compare import compare, to_json
from kentry.errors import UserError
from kentry.recording import Recording
from tests.builders import recording

SCHEMA = json.loads((Path(__file__).parents[2] / "schema" / "comparison-1.schema.json").read_text())
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


@given(PATHS)
def test_nothing_changed_is_the_same_and_an_identical_path(path: list[tuple[str, int]]) -> None:
    case = compare(recording({"x": path}), recording({"x": path})).cases[0]
    assert (case.verdict, case.delta, case.identical_path) == ("same", 0, True)


def test_as_many_instructions_need_not_be_the_same_ones() -> None:
    case = compare(recording({"x": [("a", 5)]}), recording({"x": [("b", 5)]})).cases[0]
    assert (case.verdict, case.identical_path) == ("same", False)


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


def test_one_instruction_more_is_worse() -> None:
    case = compare(recording({"x": [("a", 5)]}), recording({"x": [("a", 6)]})).cases[0]
    assert (case.verdict, case.delta, case.percent) == ("worse", 1, 20.0)


def test_a_base_of_zero_has_no_percentage() -> None:
    case = compare(recording({"x": []}), recording({"x": [("a", 6)]})).cases[0]
    assert case.percent is None


def test_it_is_as_the_schema_says() -> None:
    comparison = compare(
        recording({"x": [("a", 5)], "gone": [("a", 1)]}),
        recording({"x": [("a", 6)], "came": [("a", 1)]}),
    )
    document = to_json(comparison)
    jsonschema.validate(document, SCHEMA)
    texts = [caveat["text"] for caveat in document["caveats"]]
    assert "gone was measured only in the old recording" in texts
    assert "came was measured only in the new recording" in texts


def test_a_spread_without_a_majority_is_undecided() -> None:
    old = recording({"x": [("a", 5)]}, samples={"x": {5: 400, 6: 300, 7: 300}})
    assert compare(old, recording({"x": [("a", 6)]})).cases[0].verdict == "undecided"


@pytest.mark.parametrize(
    ("kernel", "target", "words"),
    [
        ({"compiler": "clang 19"}, {}, "compiler differs"),
        ({}, {"emulator": "QEMU 10.0.2"}, "emulator differs: QEMU 7.2.22 / QEMU 10.0.2"),
        ({}, {"cpu": "neoverse-n1"}, "cpu model differs"),
        ({}, {"cmdline": "quiet"}, "kernel command line differs"),
        ({"config": {"PREEMPT": "y", "HZ": "1000"}}, {}, "of kernel entry: HZ=250/1000"),
        ({"config": {"HZ": "250"}}, {}, "config differs in 1 built-in options: 1 only old"),
        ({"config": None}, {}, "one side's config is not known"),
    ],
)
def test_what_else_differs_is_a_caveat(
    kernel: dict[str, object], target: dict[str, object], words: str
) -> None:
    cases = {"x": [("a", 5)]}
    found = compare(recording(cases), recording(cases, kernel=kernel, target=target)).caveats
    assert any(words in caveat["text"] for caveat in found)


def test_how_the_compiler_is_spelled_in_the_config_is_no_difference() -> None:
    cases = {"x": [("a", 5)]}
    new = recording(cases, kernel={"config": {"PREEMPT": "y", "HZ": "250", "CC_VERSION_TEXT": "x"}})
    assert not compare(recording(cases), new).caveats


def test_nothing_in_common_is_an_error() -> None:
    with pytest.raises(UserError, match="no case in common"):
        compare(recording({"x": [("a", 5)]}), recording({"y": [("a", 5)]}))
