# SPDX-License-Identifier: GPL-2.0-or-later
"""Numbers of one thing that differ are an error, when a result is made and when it is read."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from kentry.compare import path_diff
from kentry.compare.counted import compare
from kentry.errors import ContradictionError, RecordingError
from kentry.path import annotation
from kentry.path.calls import parts
from kentry.results.comparison import Comparison, FunctionDelta, PurposeDelta, read_comparison
from kentry.results.document import to_json as to_document
from kentry.results.estimate import Estimate, Limit, Share
from kentry.results.recording import (
    OTHER,
    CaseContext,
    CaseResult,
    KernelPath,
    Metric,
    Recording,
    read_recording,
    to_json,
)
from kentry.results.studies import Added, Cell, ChangePoint
from kentry.study.series import tabulate
from tests.builders import built, outcome, recording


def made() -> Recording:
    """A case that executes 12 instructions in most contexts and 10 in the others."""
    whole = recording({"stat": [("el0_svc", 4), ("vfs_statx", 8)]}, {"stat": {10: 250, 12: 750}})
    [case] = whole.cases
    shares = (Share("el0_svc", 4, 4, 4), Share("vfs_statx", 8, 8, 8))
    limit = Limit("front end", 11.5, "N1UnitL.0", 12, "N1Unit")
    estimate = Estimate(
        "neoverse-n1", "22.1.8", 12, 12, 12, 0, 12, limit, (), shares, (Share("entry", 12, 12, 12),)
    )
    changed = replace(
        case,
        metrics=case.metrics | {name: Metric.of({3: 64}) for name in ("loads", "stores")},
        paths=(
            replace(case.paths[0], rows=((0, "1000", 8, "load"),), accessed=((1, 0, 8, 0),)),
            KernelPath(role=OTHER, times=8, runs=((0, 10),)),
        ),
        contexts=(
            CaseContext(0, ((12, 830),), 0),
            CaseContext(1, ((10, 260), (12, 10)), 1),
        ),
        checked="icount",
        checked_counts=(12, 12),
        estimates=(estimate,),
    )
    return replace(whole, cases=[changed], contexts=[{"seed": 1}, {"seed": 2}])


def with_case(**changes: Any) -> Callable[[CaseResult], CaseResult]:
    return lambda case: replace(case, **changes)


def with_path(number: int, **changes: Any) -> Callable[[CaseResult], CaseResult]:
    def changed(case: CaseResult) -> CaseResult:
        paths = list(case.paths)
        paths[number] = replace(paths[number], **changes)
        return replace(case, paths=tuple(paths))

    return changed


def with_metric(name: str, samples: tuple[tuple[int, int], ...]) -> Callable[..., CaseResult]:
    def changed(case: CaseResult) -> CaseResult:
        value = max(samples, key=lambda pair: pair[1])[0]
        return replace(case, metrics=case.metrics | {name: Metric(value, samples)})

    return changed


CONTEXTS = made().cases[0].contexts
[ESTIMATE] = made().cases[0].estimates
FEWER = replace(ESTIMATE, functions=(Share("el0_svc", 4, 4, 4),))
# How each sum can be wrong, and the numbers that the error has.
BROKEN = {
    "the count": (with_metric("instructions", ((10, 250), (13, 750))), "13 12"),
    "a function": (with_case(functions=(("el0_svc", 4), ("vfs_statx", 7))), "7 8"),
    "a function's name": (with_case(functions=(("el0_svc", 4), ("vfs_lstat", 8))), "0 8"),
    "no functions": (with_case(functions=()), "0 4"),
    "no path": (with_case(paths=(), contexts=()), "4 0"),
    "a context": (
        with_case(contexts=(CONTEXTS[0], CaseContext(1, ((11, 260), (10, 250), (12, 10)), 1))),
        "11 10",
    ),
    "windows of contexts": (
        with_case(contexts=(CaseContext(0, ((12, 700),), 0), CONTEXTS[1])),
        "750 710",
    ),
    "a path": (with_path(0, runs=((0, 11),)), "12 11"),
    "another path": (with_path(1, runs=((0, 11),)), "11 10"),
    "windows of a path": (with_path(0, times=900), "900 840"),
    "accesses by call": (with_path(0, accessed=((1, 0, 4, 0),)), "4 8"),
    "windows of the user's side": (with_metric("user_instructions", ((1, 999),)), "1000 999"),
    "windows of a metric": (with_metric("stores", ((3, 63),)), "64 63"),
    "one value twice": (with_metric("loads", ((3, 32), (3, 32))), ""),
    "the machine's counter": (with_case(checked_counts=(12, 11)), "12 11"),
    "an estimate's functions": (with_case(estimates=(FEWER,)), "4 12"),
    "an estimate's parts": (with_case(estimates=(replace(ESTIMATE, parts=()),)), "0 12"),
}


@pytest.mark.parametrize(("change", "numbers"), BROKEN.values(), ids=BROKEN)
def test_a_recording_that_contradicts_itself_is_neither_made_nor_read(
    change: Callable[[CaseResult], CaseResult], numbers: str, tmp_path: Path
) -> None:
    whole = made()
    with pytest.raises(ContradictionError, match="own numbers disagree: stat") as caught:
        replace(whole, cases=[change(whole.cases[0])])
    assert caught.value.exit_code == 2 and "report" in caught.value.remedy
    words = caught.value.sentence.replace(".", " ").replace(",", " ").split()
    assert all(number in words for number in numbers.split())
    # The same in a file.
    whole.cases[0] = change(whole.cases[0])
    (tmp_path / "r.json").write_text(json.dumps(to_json(whole)))
    with pytest.raises(RecordingError) as of_file:
        read_recording(tmp_path / "r.json")
    assert caught.value.sentence in of_file.value.sentence
    assert "again" in of_file.value.remedy and "report" in of_file.value.remedy


def test_what_is_consistent_is_read_as_it_was_made(tmp_path: Path) -> None:
    (tmp_path / "r.json").write_text(json.dumps(to_json(made())))
    assert to_json(read_recording(tmp_path / "r.json")) == to_json(made())


# --- comparisons ------------------------------------------------------------------------


def compared() -> Comparison:
    old, new = recording({"read": [("a", 5), ("b", 3)]}), recording({"read": [("a", 7), ("b", 2)]})
    return compare(old, new)


ROWS = (FunctionDelta("a", 5, 7), FunctionDelta("b", 3, 2))


@pytest.mark.parametrize(
    "wrong",
    [
        {"functions": ROWS[:1]},
        {"functions": (FunctionDelta("a", 5, 6), ROWS[1])},
        {"functions": (FunctionDelta("a", 6, 8), ROWS[1])},
        {"parts": (PurposeDelta("entry", 8, 8),)},
        {"reasons": (PurposeDelta("timer", 9, 10),)},
        {"new": 10},
        {"old": 7},
    ],
)
def test_a_comparison_whose_rows_do_not_add_up_is_neither_made_nor_read(
    wrong: dict[str, Any], tmp_path: Path
) -> None:
    found = compared()
    [row] = found.cases
    with pytest.raises(ContradictionError, match="disagree: instructions of read"):
        replace(row, **wrong)
    document: Any = to_document(found)
    document["cases"][0] |= {
        key: [to_document(one) for one in value] if isinstance(value, tuple) else value
        for key, value in wrong.items()
    }
    (tmp_path / "c.json").write_text(json.dumps(document))
    with pytest.raises(RecordingError, match="own numbers disagree"):
        read_comparison(tmp_path / "c.json")


def test_rows_of_a_path_diff_and_parts_of_a_path_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = recording({"read": [("a", 5)]}), recording({"read": [("a", 7)]})
    entries = path_diff._entries
    monkeypatch.setattr(path_diff, "_entries", lambda *args: entries(*args)[1:])
    with pytest.raises(ContradictionError, match="read"):
        path_diff.compare_paths(old, new, ["read"])
    monkeypatch.setattr("kentry.path.annotation.parts", lambda *args: parts(*args)[1:])
    with pytest.raises(ContradictionError, match="read"):
        annotation.annotate(old, ["read"])


def test_steps_additions_and_places_are_what_their_functions_are() -> None:
    with pytest.raises(ContradictionError):
        Cell(instructions=9, step=2, windows=1, agreeing=1, functions=ROWS)
    with pytest.raises(ContradictionError):
        Added(8, 10, functions=ROWS)
    with pytest.raises(ContradictionError):
        ChangePoint(
            place=1, before="a", names=("b",), title="", old=8, new=10, delta=2, functions=ROWS
        )
    base, patched = built({"read": [("a", 5)]}), built({"read": [("a", 7)]})
    series = tabulate([outcome(0, "", base), outcome(1, "x", patched)], {})
    with pytest.raises(ContradictionError, match="the steps of read add up to 2, not 3"):
        replace(series, totals={"read": 3})
