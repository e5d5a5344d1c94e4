# SPDX-License-Identifier: GPL-2.0-or-later
"""Exact metrics beside instructions: verdicts, and shares of functions that add up."""

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from kentry.compare.contexts import Change
from kentry.compare.counted import ALL, compare
from kentry.errors import UserError
from kentry.path.variation import by_call
from kentry.results.recording import OF_LAYOUT, Access, Metric, Recording
from tests.builders import recording
from tests.unit.compare.test_contexts import in_contexts, stat

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
        case, metrics=metrics, paths=(replace(path, rows=tuple(one.row for one in accesses)),)
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
    assert (row.new, row.functions, row.change) == (7, (), (4, 4))


def test_windows_that_do_not_agree_are_undecided() -> None:
    old, new = with_accesses({"a": 3}), with_accesses({"a": 3}, loads={3: 64, 4: 64})
    [row] = compare(old, new, ["read"], ["loads"]).metrics
    assert (row.verdict, row.change) == ("undecided", None)


def test_all_are_those_of_both_and_instructions_are_a_row_already() -> None:
    old, new = with_accesses({"a": 3}), with_accesses({"a": 3}, serialising={1: 128})
    rows = compare(old, new, ["read"], [ALL]).metrics
    found = [row.metric for row in rows]
    assert found == ["loads", *OF_LAYOUT, "lines.data"]
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
    assert "loads, lines.code" in caught.value.remedy


def test_a_recording_from_before_metrics_has_instructions_alone() -> None:
    old = recording({"read": [("a", 3)]})
    assert compare(old, old).cases
    with pytest.raises(UserError) as caught:
        compare(old, old, None, ["loads"])
    assert "kentry record" in caught.value.remedy


def counted(
    lookups: list[int], seed: int = 1, more: int = 0, lines: tuple[int, ...] = (40,)
) -> Recording:
    """Another number of lookups in each context; the entry's code has `more` loads more.

    Every other instruction of a call loads; each context's windows touched one of `lines`.
    """
    made = in_contexts(stat(lookups), seed)
    if more:
        made.code = [
            one._replace(text="ldr x0, [x1]")
            if (one.function, one.offset) == ("el0_svc", 8)
            else one
            for one in made.code
        ]
    [case] = made.cases
    paths = []
    for path in case.paths:
        calls, positions = by_call(path.indexes, made.code)
        loads = [
            positions.count(n) // 2 + more * (name == "el0_svc") for n, name in enumerate(calls)
        ]
        paths.append(replace(path, accessed=tuple((n, 0, 8 * n, 0) for n in loads)))
    contexts = tuple(
        replace(one, data={"lines.data": ((lines[at % len(lines)], 10),)})
        for at, one in enumerate(case.contexts)
    )
    total = sum(row[0] for row in paths[0].accessed or ())
    metrics = {"loads": Metric.of({total: 10}), "lines.data": Metric.of({lines[0]: 10})}
    changed = replace(case, paths=tuple(paths), contexts=contexts, metrics=case.metrics | metrics)
    return replace(made, cases=[changed])


@pytest.mark.parametrize("paired", [True, False])
@pytest.mark.parametrize("more", [0, 1])
def test_a_metric_is_compared_function_by_function_and_context_by_context(
    paired: bool, more: int
) -> None:
    old = counted([0, 0, 1, 2])
    new = counted([0, 0, 1, 2] if paired else [1, 1, 0, 1], 1 if paired else 2, more)
    [row] = compare(old, new, ["stat"], ["loads"]).metrics
    assert (row.delta, row.verdict) == (more, "worse" if more else "same")
    assert row.contexts and len(row.contexts.new) == len({0, 1, 2} if paired else {0, 1})
    assert {one.name: one.delta for one in row.functions if one.delta} == (
        {"el0_svc": more} if more else {}
    )
    assert row.change == (more, more)


def test_a_metric_of_a_recording_from_before_its_contexts_is_undecided() -> None:
    new = counted([1, 1, 0, 1], seed=2)
    bare = [replace(path, accessed=UNSET) for path in new.cases[0].paths]
    before = replace(new, cases=[replace(new.cases[0], paths=tuple(bare))])
    [row] = compare(counted([0, 0, 1, 2]), before, ["stat"], ["loads"]).metrics
    assert row.verdict == "undecided"
    assert [one["kind"] for one in row.caveats] == ["one-context"]


@pytest.mark.parametrize(
    ("more", "old", "new", "seed", "change"),
    [
        # On an identical path data lies elsewhere, and nothing changed.
        (0, (40, 41), (42,), 2, Change(0, 0)),
        # Context by context there are as many more.
        (1, (40, 41), (41, 42), 1, Change(1, 1)),
        (1, (40, 41), (43, 44), 2, Change(2, 4)),
        (1, (40, 41), (41, 43), 2, Change(0, 3)),
        (1, (40, 42), (41,), 2, Change(-1, 1)),
    ],
)
def test_where_data_lies_is_no_change(
    more: int, old: tuple[int, ...], new: tuple[int, ...], seed: int, change: Change
) -> None:
    before, after = counted([0, 0], lines=old), counted([0, 0], seed, more, new)
    [row] = compare(before, after, ["stat"], ["lines.data"]).metrics
    verdicts = {Change(0, 0): "same", Change(0, 3): "undecided", Change(-1, 1): "undecided"}
    assert row.verdict == verdicts.get(change, "worse")
    assert row.change == change
    assert row.verdict != "same" or row.delta == 0


def test_data_of_contexts_that_only_one_side_met_lies_elsewhere() -> None:
    before, after = counted([0, 0, 1], lines=(40, 42)), counted([2, 2, 3], 2, lines=(41,))
    [row] = compare(before, after, ["stat"], ["lines.data"]).metrics
    assert (row.verdict, row.delta) == ("same", 0)
