# SPDX-License-Identifier: GPL-2.0-or-later
"""What one kernel executed in each context: which path, what of each call, which loops."""

from collections.abc import Mapping, Sequence

import pytest
from msgspec.structs import replace

from kentry.path import variation
from kentry.results.recording import (
    INSTRUCTIONS,
    MODAL,
    OTHER,
    CaseContext,
    CaseResult,
    KernelPath,
    Recording,
)
from tests import builders

# A loop of five instructions, and one of three.
BODY, SHORT = (4, 8, 12, 16, 20), (4, 8, 12)


def run_of(rounds: int, body: Sequence[int] = BODY, more: Sequence[int] = ()) -> list[int]:
    """The offsets that f executes with that many rounds of its loop."""
    return [0, *[offset for _ in range(rounds) for offset in body], *more, 24]


def with_paths(
    paths: Sequence[Sequence[int]], contexts: Mapping[int, int | None]
) -> tuple[CaseResult, Recording]:
    """A case of paths of f by offsets; by context the place of its path, None: not recorded."""
    recording = builders.recording({"stat": [("f", 8)]})
    found = []
    for place, offsets in enumerate(paths):
        runs = tuple((offset // 4, 1) for offset in offsets)
        found.append(KernelPath(role=OTHER if place else MODAL, times=10, runs=runs))
    seen = tuple(
        CaseContext(at, ((len(paths[place or 0]), 10),), place) for at, place in contexts.items()
    )
    return replace(recording.cases[0], paths=tuple(found), contexts=seen), recording


def test_a_context_without_its_own_path_has_that_of_its_length() -> None:
    case, _ = with_paths([run_of(1), run_of(2)], {0: 0, 1: 1, 2: None})
    own = variation.paths_by_context(case)
    assert [own[at].length for at in range(3)] == [7, 12, 7]
    both = variation.distinct_paths(case)
    assert [(path.length, contexts) for path, contexts in both] == [(7, [0, 2]), (12, [1])]
    # From before there were contexts.
    old = replace(case, contexts=())
    assert variation.paths_by_context(old) == {0: case.paths[0]}
    assert variation.paths_by_context(replace(old, paths=())) == {}


@pytest.mark.parametrize(
    ("paths", "body"),
    [
        ([run_of(1), run_of(2)], {"f": 5}),
        ([run_of(3), run_of(1), run_of(7)], {"f": 5}),
        # What is shorter than a load, a comparison, a branch and a step is no loop of a chain.
        ([run_of(1, SHORT), run_of(3, SHORT)], {}),
        ([run_of(1), run_of(2), run_of(2, more=(28,))], {}),
        ([run_of(2)], {}),
    ],
)
def test_a_loop_has_the_rounds_by_which_two_contexts_differ(
    paths: Sequence[Sequence[int]], body: Mapping[str, int]
) -> None:
    case, recording = with_paths(paths, dict(enumerate(range(len(paths)))))
    assert variation.loop_bodies(case, recording, {"f"}) == body
    assert variation.loop_bodies(case, recording, {"g"}) == {}


def test_a_function_varies_if_it_has_several_counts_or_is_not_in_each_context() -> None:
    shares = {0: {"a": 3, "b": 5}, 1: {"a": 4, "b": 5}, 2: {"a": 3, "b": 5, "c": 1}}
    assert variation.varying(shares) == {"a": {3: 2, 4: 1}, "c": {0: 2, 1: 1}}
    assert list(variation.varying(shares)["c"]) == [0, 1]


def test_what_each_call_executes_begins_with_its_functions_first_instruction() -> None:
    recording = builders.recording({"stat": [("f", 3)]})
    # All three instructions, the third again, and the first: the second call.
    [case] = recording.cases
    case = replace(case, paths=(KernelPath(role=MODAL, times=1, runs=((0, 3), (2, 1), (0, 1))),))
    found = variation.calls_by_context(case, recording)
    assert found == {INSTRUCTIONS: {0: {"f": [4, 1]}}}
    assert variation.functions_by_context(case, recording) == {0: {"f": 5}}


def test_accesses_are_of_calls_and_of_no_context_where_they_are_not_known() -> None:
    recording = builders.recording({"stat": [("f", 3)]})
    [case] = recording.cases
    metrics = (INSTRUCTIONS, "loads", "bytes.stored")
    assert variation.calls_by_context(case, recording, metrics) == {
        INSTRUCTIONS: {0: {"f": [3]}},
        "loads": {},
        "bytes.stored": {},
    }
    path = replace(case.paths[0], accessed=((2, 1, 16, 8),))
    found = variation.calls_by_context(replace(case, paths=(path,)), recording, metrics)
    assert (found["loads"], found["bytes.stored"]) == ({0: {"f": [2]}}, {0: {"f": [8]}})
    rows = ((1, "ffff800000000000", 8, "load"), (2, "ffff800000000000", 4, "store"))
    path = replace(case.paths[0], rows=rows)
    found = variation.calls_by_context(replace(case, paths=(path,)), recording, metrics)
    assert (found["loads"], found["bytes.stored"]) == ({0: {"f": [1]}}, {0: {"f": [4]}})


@pytest.mark.parametrize(
    ("counts", "without_path", "settled"),
    [
        ([7, 7, 7, 7], 0, True),
        # Three of four have a path, then two.
        ([7, 7, 7, 7], 1, True),
        ([7, 7, 7, 7], 2, False),
        # Of many contexts, as many others as half of them and no more.
        ([7, 7, 8, 9], 0, True),
        ([7, 8, 9, 10], 0, False),
        # Two contexts say nothing; three do.
        ([7, 8], 0, True),
        ([7, 8, 9], 0, False),
    ],
)
def test_a_case_settles(counts: Sequence[int], without_path: int, settled: bool) -> None:
    lengths = list(dict.fromkeys(counts))
    paths = [list(range(0, 4 * length, 4)) for length in lengths]
    case, _ = with_paths(paths, {at: lengths.index(count) for at, count in enumerate(counts)})
    lost = tuple(CaseContext(len(counts) - 1 - at, ((99, 10),), None) for at in range(without_path))
    kept = case.contexts[: len(case.contexts) - without_path]
    case = replace(case, contexts=(*kept, *lost))
    assert variation.settles(case) == settled
