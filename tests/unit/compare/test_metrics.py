# SPDX-License-Identifier: GPL-2.0-or-later
"""Exact metrics beside instructions: verdicts, and shares of functions that add up."""

import pytest
from msgspec.structs import replace

from kentry.compare.counted import ALL, compare
from kentry.errors import UserError
from kentry.results.recording import Access, Metric, Recording
from tests.builders import recording

BASE = 0xFFFF000000001000


def with_accesses(lines: dict[str, int], **samples: dict[int, int]) -> Recording:
    """A path of functions that each load from so many lines, one an instruction."""
    made = recording({"read": list(lines.items())})
    [case] = made.cases
    accesses = tuple(Access(at, BASE + 64 * at, 8, False) for at in range(sum(lines.values())))
    metrics = dict(case.metrics)
    metrics["loads"] = metrics["lines.data"] = Metric.of({len(accesses): 128})
    metrics |= {name.replace("_", "."): Metric.of(own) for name, own in samples.items()}
    [path] = case.paths
    changed = replace(
        case,
        metrics=metrics,
        paths=(replace(path, rows=tuple(one.row for one in accesses)),),
    )
    return replace(made, cases=[changed])


def test_a_metric_has_a_verdict_and_functions_that_add_up() -> None:
    old, new = with_accesses({"a": 3, "b": 2}), with_accesses({"a": 1, "b.constprop.0": 2, "c": 1})
    [row] = compare(old, new, ["read"], ["lines.data"]).metrics
    assert (row.name, row.metric, row.old, row.new) == ("read", "lines.data", 5, 4)
    assert row.verdict == "better"
    assert {(one.name, one.old, one.new) for one in row.functions} == {
        ("a", 3, 1),
        ("b", 2, 2),
        ("c", 0, 1),
    }
    assert sum(one.delta for one in row.functions) == row.delta


def test_functions_that_do_not_add_up_are_left_out() -> None:
    old, new = with_accesses({"a": 3}), with_accesses({"a": 2}, loads={7: 128})
    [row] = compare(old, new, ["read"], ["loads"]).metrics
    assert (row.new, row.functions) == (7, ())


def test_windows_that_do_not_agree_are_undecided() -> None:
    old, new = with_accesses({"a": 3}), with_accesses({"a": 3}, loads={3: 60, 4: 60})
    [row] = compare(old, new, ["read"], ["loads"]).metrics
    assert row.verdict == "undecided"


def test_all_are_those_of_both_and_instructions_are_a_row_already() -> None:
    old, new = with_accesses({"a": 3}), with_accesses({"a": 3}, serialising={1: 128})
    rows = compare(old, new, ["read"], [ALL]).metrics
    assert [row.metric for row in rows] == ["loads", "lines.data"]
    assert compare(old, new, ["read"], ["instructions"]).metrics == []


def test_an_instruction_that_one_side_never_executed_is_none_there() -> None:
    old = with_accesses({"a": 3}, serialising={0: 128})
    new = with_accesses({"a": 3}, serialising={2: 128}, serialising_isb={2: 128})
    [row] = compare(old, new, ["read"], ["serialising.isb"]).metrics
    assert (row.old, row.new, row.verdict) == (0, 2, "worse")


@pytest.mark.parametrize("name", ["lods", "stores"])
def test_a_metric_that_is_not_there_is_a_mistake(name: str) -> None:
    old = with_accesses({"a": 3})
    with pytest.raises(UserError) as caught:
        compare(old, old, ["read"], [name])
    assert name in caught.value.sentence
    assert "loads, lines.data" in caught.value.remedy


def test_a_recording_from_before_metrics_has_instructions_alone() -> None:
    old = recording({"read": [("a", 3)]})
    assert compare(old, old).cases
    with pytest.raises(UserError) as caught:
        compare(old, old, None, ["loads"])
    assert "kentry record" in caught.value.remedy
