# SPDX-License-Identifier: GPL-2.0-or-later
"""Where the same instructions lie on two kernels, of which one has functions at other places."""

import re
from collections.abc import Mapping
from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET
from msgspec.structs import replace

from kentry.arch import find_arch
from kentry.compare.counted import ALL, compare
from kentry.compare.path_diff import compare_paths
from kentry.path.metrics import amounts_of_code
from kentry.results.comparison import CaseComparison, LayoutChange
from kentry.results.recording import (
    OF_LAYOUT,
    CaseContext,
    Instruction,
    KernelPath,
    Recording,
    read_recording,
)
from kentry.show.comparison import comparison_layout
from kentry.show.export.ci import ktap
from kentry.show.paths import path_layout
from kentry.show.text import to_text
from kentry.stats.exact import BETTER, SAME, WORSE
from tests import ROOT
from tests.builders import imported, recording

# Instructions of 4 bytes.  a fills a line, b the first 60 bytes of another; c has 60 bytes, of
# which the first four are the last of a line.
FUNCTIONS = {"x": [("a", 16), ("b", 15), ("c", 15)]}


def moved(old: Recording, by: Mapping[str, int]) -> Recording:
    """The recording of a kernel in which functions lie further on, by a number of bytes each."""
    code = [insn._replace(address=insn.address + by.get(insn.function, 0)) for insn in old.code]
    return replace(old, code=code)


def compared(by: Mapping[str, int]) -> CaseComparison:
    old = recording(FUNCTIONS)
    [row] = compare(old, moved(old, by)).cases
    assert (row.verdict, row.identical_path, row.delta) == (SAME, True, 0)
    return row


def layout(by: Mapping[str, int]) -> LayoutChange:
    found = compared(by).layout
    assert found
    return found


def test_what_moved_and_what_that_changes() -> None:
    found = layout({"b": 64, "c": 8})
    assert {one.name: (one.instructions, one.by) for one in found.moved} == {
        "b": (15, 64),
        "c": (15, 8),
    }
    assert {name: pair for name, pair in found.metrics.items() if pair[0] != pair[1]} == {
        "lines.code": (4, 3),
        "lines.code.32": (7, 6),
        "lines.code.128": (4, 3),
        "fetches.16": (13, 12),
        "fetches.32": (7, 6),
        "fetches.64": (4, 3),
        "functions.straddling": (1, 0),
    }


def test_two_paths_beside_each_other_say_the_same() -> None:
    old = recording(FUNCTIONS)
    new = moved(old, {"b": 64, "c": 8})
    found = compare_paths(old, new, ["x"])
    assert found.cases[0].layout == layout({"b": 64, "c": 8})
    texts = [to_text(one) for one in (path_layout(found), comparison_layout(compare(old, new)))]
    lines = [
        re.findall(r"^  (?:x: same instructions|moved ).*", text, re.MULTILINE) for text in texts
    ]
    assert len(lines[0]) == 3 and lines[0] == lines[1]
    assert "moved" not in to_text(path_layout(compare_paths(old, old, ["x"])))


def test_whole_pages_that_the_path_moved_by_are_nothing() -> None:
    assert compared({"a": 8192, "b": 8192, "c": 8192}).layout is UNSET
    assert compared({}).layout is UNSET
    for sign in (1, -1):
        found = layout(dict.fromkeys("abc", sign * (4096 + 16)))
        assert found.whole_pages == sign * 4096
        assert {one.by for one in found.moved} == {sign * 16}
    # Less than a page stays, also where all moved by it.
    assert {one.by for one in layout(dict.fromkeys("abc", -64)).moved} == {-64}
    assert [one.name for one in layout({"a": 4096, "b": 4096}).moved] == ["c"]


ROWS = st.lists(st.tuples(st.integers(0, 400), st.sampled_from(("1f2003d5", "0f1f40", "c3"))))


@given(ROWS)
def test_windows_are_entered_byte_by_byte(rows: list[tuple[int, str]]) -> None:
    path = [Instruction(at, code, "", "f", 0) for at, code in rows]
    found = amounts_of_code(path, find_arch("x86_64"))
    touched = [byte for at, code in rows for byte in range(at, at + len(code) // 2)]
    for size in (16, 32, 64):
        entered = [window for window, _ in groupby(byte // size for byte in touched)]
        assert found[f"fetches.{size}"].total() == len(entered)


def test_a_recording_from_before_has_the_metrics_that_follow_from_its_path() -> None:
    old = read_recording(ROOT / "tests/golden/arm64-6.12.json")
    assert not {"fetches.32", "functions.straddling"} & old.cases[0].metrics.keys()
    new = moved(old, {insn.function: 8 for insn in old.code[::2]})
    found = compare(old, new, ["getppid"], [ALL])
    rows = {row.metric: row for row in found.metrics}
    assert rows.keys() >= set(OF_LAYOUT)
    [case] = found.cases
    assert case.layout
    for name, (before, after) in case.layout.metrics.items():
        row = rows[name]
        assert (row.old, row.new) == (before, after)
        assert sum(one.delta for one in row.functions) == after - before


def test_more_windows_fail_nothing() -> None:
    old = recording(FUNCTIONS)
    new = moved(old, {"c": 8})
    for sides, verdict in (((new, old), WORSE), ((old, new), BETTER)):
        found = compare(*sides, metrics=["fetches.32"])
        assert [row.verdict for row in found.metrics] == [verdict]
        assert not re.search("^ *not ok", ktap([found]).text, re.MULTILINE)


def test_of_several_paths_that_are_the_same_the_modal_one_is_shown() -> None:
    base = recording({"x": [("a", 16), ("c", 8)], "y": [("b", 4)]})
    [x, y] = base.cases
    other = replace(y.paths[0], role="other")
    contexts = (CaseContext(0, ((4, 90),), 1), CaseContext(1, ((24, 1000),), 0))
    case = replace(x, paths=(x.paths[0], other), contexts=contexts)
    old = replace(base, cases=[case], contexts=[{"seed": 1}, {"seed": 2}])
    [row] = compare(old, moved(old, {"a": 8, "b": 8})).cases
    assert row.verdict == SAME
    assert row.layout
    assert [one.name for one in row.layout.moved] == ["a"]


@pytest.mark.parametrize("paths", [(), (KernelPath(role="other", times=1, runs=((0, 3),)),)])
def test_without_a_path_nothing_is_said(paths: tuple[KernelPath, ...]) -> None:
    old = recording(FUNCTIONS)
    old = replace(old, cases=[replace(old.cases[0], paths=paths, functions=())])
    [row] = compare(old, moved(old, {"a": 8})).cases
    assert row.layout is UNSET


def test_the_floor_and_imported_numbers_have_no_layout() -> None:
    floor = read_recording(ROOT / "tests/golden/floor-arm64.json")
    assert {row.layout for row in compare(floor, floor).cases} == {UNSET}
    numbers = imported({"x": 5.0})
    assert not compare(numbers, numbers).cases
