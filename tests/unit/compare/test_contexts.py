# SPDX-License-Identifier: GPL-2.0-or-later
"""What differs between contexts of one kernel is no change between two kernels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kentry.compare.contexts import Change, changes
from kentry.compare.counted import compare, function_rows
from kentry.compare.path_diff import compare_paths
from kentry.path.variation import settles
from kentry.results.comparison import CaseComparison
from kentry.results.recording import MODAL, OTHER, CaseContext, Instruction, KernelPath, Recording
from kentry.stats import exact
from kentry.stats.exact import BETTER, WORSE
from tests.builders import Functions, instructions, recording

Runs = tuple[tuple[int, int], ...]  # of places in the code: the first, and how many


def of_runs(code: list[Instruction], runs: Sequence[Runs], seed: int, case: str) -> Recording:
    """A recording of one case that executed these runs of the code in its contexts."""
    lengths = [sum(times for _, times in one) for one in runs]
    samples = exact.histogram((length, 10) for length in lengths)
    modal = runs[lengths.index(exact.mode(samples))]
    distinct = list(dict.fromkeys([modal, *runs]))
    shares = Counter(code[at].function for first, n in modal for at in range(first, first + n))
    found = replace(recording({case: []}, {case: samples}), code=code)
    found.cases[0] = replace(
        found.cases[0],
        functions=tuple(shares.items()),
        paths=tuple(
            KernelPath(role=OTHER if n else MODAL, times=10, runs=one)
            for n, one in enumerate(distinct)
        ),
        contexts=tuple(
            CaseContext(n, ((length, 10),), distinct.index(one))
            for n, (one, length) in enumerate(zip(runs, lengths, strict=True))
        ),
    )
    found.contexts = [{"seed": seed, "tasks": n} for n in range(len(runs))]
    return found


def in_contexts(contexts: Sequence[Functions], seed: int = 1, case: str = "stat") -> Recording:
    """A recording of one case that took these functions in its contexts."""
    code: list[Instruction] = []
    runs: dict[tuple[tuple[str, int], ...], Runs] = {}
    for functions in contexts:
        if (own := tuple(functions)) not in runs:
            executed = instructions(functions)
            runs[own] = ((len(code), len(executed)),)
            code += executed
    return of_runs(code, [runs[tuple(functions)] for functions in contexts], seed, case)


def stat(lookups: Sequence[int], entry: int = 300, free: int = 50) -> list[Functions]:
    """In each context another number of rounds of 8 instructions, 12 and more."""
    return [
        [("el0_svc", entry), ("kfree", free), *[("__d_lookup_rcu", 8)] * (12 + n)] for n in lookups
    ]


def compared(old: Recording, new: Recording) -> CaseComparison:
    [case] = compare(old, new).cases
    assert sum(row.delta for row in case.functions) == case.delta
    return case


# What a function's calls execute in each context; a number is a single call.
Calls = Sequence[int | list[int]]
NONE: list[int] = []  # of a context in which it is not called
PLACES: Calls = [[20, 30], [24, 30], [20, 30]]


def change(old: Calls, new: Calls, code: Set[str] = frozenset(), *, paired: bool = False) -> Change:
    """The change of f, which has a loop of 8 instructions from 100 on; `code` is what differs."""
    sides = [[[own] if isinstance(own, int) else own for own in side] for side in (old, new)]
    before, after = ({n: {"f": own} for n, own in enumerate(side)} for side in sides)
    bodies = {"f": 8} if max(sum(own) for own in sides[0]) > 99 else {}
    found = changes(before, after, bodies, code, paired=paired)
    assert found.keys() == {"f"}
    return found["f"]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        # Another chain of the same loop, whichever lengths were seen.
        ([100, 108], [100, 108], (0, 0)),
        ([100, 108], [100], (0, 0)),
        ([100, 108], [108, 116], (0, 0)),
        ([100, 108, 116], [108, 132], (0, 0)),
        ([100, 116], [108, 124], (0, 0)),
        # A branch that one slab page takes and another does not.
        ([20, 21], [21], (0, 0)),
        ([20, 80], [80], (0, 0)),
        # The loop's function is longer by one instruction outside the loop, or in it.
        ([100, 108], [101, 109], (1, 1)),
        ([100, 108, 116], [101, 109], (1, 1)),
        ([100, 108], [101, 110], (0, 2)),
        # So is a function with a branch.
        ([20, 21], [21, 22], (1, 1)),
        ([20, 80], [21, 81], (1, 1)),
        ([20, 80], [21], (1, 1)),
        # Many places of an object: each side has seen most of what the other has.
        ([30, 32, 38, 48], [30, 38, 48, 50], (0, 0)),
        ([30, 38, 46, 54], [30, 39, 48, 57], (0, 3)),
        # A function that only one kernel executes.
        ([0], [32, 40, 40], (32, 32)),
        ([32, 40, 40], [0], (-32, -32)),
        ([7], [9], (2, 2)),
        # Two objects, each in one of two places, have more sums than a few contexts show.
        (PLACES, [[20, 37], [20, 30], [24, 30]], (0, 0)),
        # A call more is no context's: the sums are compared.
        (PLACES, [[20, 30, 5], [24, 30, 5], [20, 30, 5]], (5, 5)),
        # One side refilled a slab once, the other twice or elsewhere; every context does.
        ([*[NONE] * 9, 145], [*[NONE] * 8, [145, 145], 218], (0, 0)),
        ([*[NONE] * 9, 145], [150] * 10, (5, 150)),
        # A mapping at the edge of a page table, here in one place and there in another; and where
        # a third of the contexts have it.
        ([40] * 9 + [116], [40] * 9 + [174], (0, 0)),
        ([40] * 6 + [116] * 3, [40] * 6 + [174] * 3, (0, 58)),
        # By sums the places of two or three objects have nothing in common.
        (
            [[24, 20], *[[20, 24]] * 4, [20, 24, 20]],
            [[20, 24], *[[24, 20]] * 4, [20, 20, 20]],
            (0, 0),
        ),
        # A branch that hardly any context took is one longer, and now always taken; or 59 fewer.
        ([80] * 9 + [20], [21] * 10, (-59, 1)),
        # The first boot has a quarter of the contexts.
        ([*[100] * 8, *[NONE] * 24], [*[150] * 8, *[NONE] * 24], (0, 50)),
        # A call that many contexts make is longer: nothing where it is not made, +1 where it is.
        ([*[NONE] * 5, *[100] * 4], [*[NONE] * 5, *[101] * 4], (0, 1)),
        # A slab refill in one context of 32.
        ([*[NONE] * 31, 145], [*[NONE] * 31, 146], (0, 0)),
    ],
)
def test_a_function_is_compared_by_its_counts_in_all_contexts(
    old: Calls, new: Calls, expected: tuple[int, int]
) -> None:
    assert change(old, new) == expected


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        # A constant difference is a change, even where both sets of counts overlap, or a loop goes
        # round once more.
        ([100, 108], [108, 116], (8, 8)),
        (PLACES, [[20, 30, 5], [24, 30, 5], [20, 30, 5]], (5, 5)),
        # A round of one instruction more is +1 where the loop is taken, and nowhere less.
        ([30, 38, 46, 54, 30], [30, 39, 48, 57, 30], (0, 3)),
        ([30, 38, 46, 54, 30], [38, 30, 46, 62, 30], (0, 0)),
        # Two calls that change places have one more together; a branch took the other way in each.
        ([[20, 24], [24, 20]], [[25, 20], [20, 25]], (1, 1)),
        ([20, 80, 50], [80, 20, 20], (-60, 60)),
        # What the same contexts have is the kernel's.
        ([40] * 9 + [116], [40] * 9 + [174], (0, 58)),
        ([*[100] * 8, *[NONE] * 24], [*[150] * 8, *[NONE] * 24], (0, 50)),
        ([*[NONE] * 5, *[100] * 4], [*[NONE] * 5, *[101] * 4], (0, 1)),
    ],
)
def test_the_same_contexts_are_compared_one_by_one(
    old: Calls, new: Calls, expected: tuple[int, int]
) -> None:
    assert change(old, new, paired=True) == expected


CHANGED = frozenset("f")


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        # A helper that only the new kernel has, in half of the contexts, a quarter, all but one.
        ([0] * 8, [0] * 4 + [6] * 4, (0, 6)),
        ([0] * 8, [0] * 6 + [6] * 2, (0, 6)),
        ([0] * 8, [0] + [6] * 7, (0, 6)),
        ([0] * 8, [0] * 7 + [1], (0, 1)),
        ([0] * 4 + [6] * 4, [0] * 8, (-6, 0)),
        # A loop that has another length may have had another number of rounds.
        ([100] * 4 + [124] * 2 + [140] * 2, [100] * 4 + [126] * 4, (-14, 0)),
        ([100] * 4 + [108] * 4, [108] * 4 + [116] * 4, (0, 8)),
        # What all contexts have more, or none.
        ([20] * 4 + [80] * 4, [21] * 4 + [81] * 4, (1, 1)),
        ([20] * 4 + [80] * 4, [20] * 4 + [80] * 4, (0, 0)),
        # What explains counts of unchanged code does not explain these.
        ([20] * 4 + [80] * 4, [80] * 8, (0, 60)),
        ([40] * 7 + [116], [40] * 7 + [174], (0, 58)),
        ([*[NONE] * 31, 145], [*[NONE] * 31, 146], (0, 1)),
    ],
)
def test_contexts_explain_no_difference_of_changed_code(
    old: Calls, new: Calls, expected: tuple[int, int]
) -> None:
    assert change(old, new, CHANGED) == expected
    assert change(new, old, CHANGED) == (-expected[1], -expected[0])


def test_changed_code_is_compared_context_by_context_too() -> None:
    assert change([0] * 6, [0] * 3 + [6] * 3, CHANGED, paired=True) == (0, 6)
    assert change([20, 80, [20, 20]], [21, 81, [21, 21]], CHANGED, paired=True) == (1, 2)


def test_a_change_of_one_instruction_at_least_is_a_verdict() -> None:
    old = in_contexts([[("f", n), ("g", 5)] for n in (20, 22)])
    new = in_contexts([[("f", n), ("g", 3)] for n in (23, 40)], seed=2)
    case = compared(old, new)
    assert (case.change, case.verdict) == (Change(1, 16), WORSE)
    case = compared(new, old)
    assert (case.change, case.verdict) == (Change(-16, -1), BETTER)
    # Two contexts with the same count have one path.
    same = in_contexts([[("f", 20)], [("f", 20)]])
    both = [compare_paths(one, one, ["stat"]).cases[0].caveats for one in (same, old)]
    assert [[note["kind"] for note in notes] for notes in both] == [[], ["one-of-several-paths"]]


# Rounds of a loop in each context; of what never differs nobody can say that it could.
ROUNDS = st.lists(st.integers(0, 5), min_size=6, max_size=16).filter(lambda n: len(set(n)) > 1)


@pytest.mark.slow
@given(ROUNDS, ROUNDS)
def test_one_kernel_in_other_contexts_is_the_same(old: list[int], new: list[int]) -> None:
    case = compared(in_contexts(stat(old)), in_contexts(stat(new), seed=2))
    if all(2 * (len(set(one)) - 1) <= len(one) for one in (old, new)):
        assert (case.verdict, case.delta) == ("same", 0)
    else:
        assert case.verdict == "undecided"


# With four more contexts that have one count, each of them settles.
SETTLES = ROUNDS.map(lambda n: [*n, 0, 0, 0, 0])


@pytest.mark.slow
@given(SETTLES, SETTLES, st.integers(-5, 5))
def test_a_change_elsewhere_is_found_exactly(old: list[int], new: list[int], by: int) -> None:
    case = compared(in_contexts(stat(old)), in_contexts(stat(new, entry=300 + by), seed=2))
    verdict = "worse" if by > 0 else "better" if by < 0 else "same"
    assert (case.verdict, case.delta) == (verdict, by)


def test_both_sides_say_in_how_many_contexts_each_count_was() -> None:
    case = compared(in_contexts(stat([0, 0, 1])), in_contexts(stat([1, 1, 0, 1]), seed=2))
    assert (case.old, case.new, case.verdict, case.identical_path) == (446, 446, "same", True)
    assert case.contexts
    assert case.contexts.old == ((446, 2), (454, 1))
    assert case.contexts.new == ((446, 1), (454, 3))


@pytest.mark.parametrize(("unknown", "is_settled"), [(0, True), (2, True), (3, False), (8, False)])
def test_a_case_settles_where_three_quarters_of_its_contexts_have_a_path(
    unknown: int, is_settled: bool
) -> None:
    case = in_contexts(stat([0] * 4 + [1] * 4)).cases[0]
    without = tuple(CaseContext(one.context, one.samples, None) for one in case.contexts[:unknown])
    # Nor is there another path of that length.
    paths = tuple(path for path in case.paths if path.length != 446)
    known = tuple(
        CaseContext(one.context, one.samples, len(paths) - 1) for one in case.contexts[unknown:]
    )
    assert settles(replace(case, paths=paths, contexts=without + known)) is is_settled


@pytest.mark.parametrize(("values", "is_settled"), [(3, True), (4, False)])
def test_a_case_settles_where_half_as_many_other_counts_as_contexts_were_seen(
    values: int, is_settled: bool
) -> None:
    assert settles(in_contexts(stat([*range(values), 0])).cases[0]) is is_settled


def test_a_case_that_never_settles_is_undecided() -> None:
    restless = in_contexts(stat([0, 1, 2, 3]))
    assert not settles(restless.cases[0])
    case = compared(restless, in_contexts(stat([0, 0, 0, 0], entry=400), seed=2))
    assert case.verdict == "undecided"
    assert [one["kind"] for one in case.caveats] == ["unsettled"]


def test_a_change_that_depends_on_the_context_says_from_what_to_what() -> None:
    def looping(body: int) -> Recording:
        return in_contexts(
            [[("el0_svc", 50), ("__d_lookup_rcu", 30 + body * n)] for n in (0, 1, 0)]
        )

    case = compared(looping(8), looping(9))
    assert case.verdict == "undecided"
    assert [one["kind"] for one in case.caveats] == ["change-by-context"]


def test_one_context_only_is_a_caveat_where_the_path_can_depend_on_it() -> None:
    before = recording({"stat": [("el0_svc", 5), ("__d_lookup_rcu", 9)], "getppid": [("x", 3)]})
    after = recording({"stat": [("el0_svc", 6), ("__d_lookup_rcu", 9)], "getppid": [("x", 4)]})
    [note] = [one for one in compare(before, after).caveats if one["kind"] == "one-context"]
    assert note["text"].split()[0] == "stat"
    several = compare(in_contexts(stat([0, 1])), in_contexts(stat([0, 1]), seed=2))
    assert "one-context" not in [one["kind"] for one in several.caveats]


@pytest.mark.parametrize(
    ("by_function", "seen", "deltas"),
    [
        # The commonest count of the new kernel that the changes can add up to,
        ({"f": (0, 3)}, {300: 9}, {"f": 0, "g": 0}),
        ({"f": (0, 3)}, {302: 9, 300: 1}, {"f": 2, "g": 0}),
        ({"f": (0, 3)}, {303: 9, 300: 1}, {"f": 3, "g": 0}),
        ({"f": (-8, -2), "g": (-290, 0)}, {219: 3, 250: 5, 320: 8}, {"f": -2, "g": -48}),
        # and the least where they can add up to none; g executes no fewer than 0.
        ({"f": (0, 3)}, {304: 9, 300: 1}, {"f": 0, "g": 0}),
        ({"f": (0, 3)}, {299: 9, 300: 1}, {"f": 0, "g": 0}),
        ({"f": (-8, -2), "g": (-290, 0)}, {91: 3, 320: 8}, {"f": -8, "g": -100}),
    ],
)
def test_functions_add_up_to_a_count_that_a_context_has(
    by_function: dict[str, tuple[int, int]], seen: dict[int, int], deltas: dict[str, int]
) -> None:
    changed = {name: Change(*ends) for name, ends in by_function.items()}
    rows = function_rows({"f": 200, "g": 100}, changed, 300, seen)
    assert {row.name: row.delta for row in rows} == deltas
