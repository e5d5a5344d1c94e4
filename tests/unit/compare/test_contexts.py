# SPDX-License-Identifier: GPL-2.0-or-later
"""What differs between contexts of one kernel is no change between two kernels."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kentry.compare.contexts import Change, changes
from kentry.compare.counted import compare, function_rows
from kentry.compare.path_diff import compare_paths
from kentry.path.variation import settles
from kentry.results.comparison import CaseComparison
from kentry.results.recording import (
    INSTRUCTIONS,
    MODAL,
    OTHER,
    CaseContext,
    KernelPath,
    Metric,
    Recording,
)
from kentry.stats import exact
from kentry.stats.exact import BETTER, WORSE
from tests.builders import Functions, instructions, recording


def in_contexts(contexts: Sequence[Functions], seed: int = 1, case: str = "stat") -> Recording:
    """A recording of one case that took another path in each context."""
    values = [sum(count for _, count in functions) for functions in contexts]
    samples = exact.histogram((value, 10) for value in values)
    value = exact.mode(samples)
    found = recording({case: contexts[values.index(value)]})
    paths = [replace(found.cases[0].paths[0], role=MODAL, times=10)]
    sides = {
        f"{one}_instructions": Metric.of({0: 10 * len(values)}) for one in ("user", "firmware")
    }
    places = [0] * len(contexts)
    for index, functions in enumerate(contexts):
        if values[index] != value:
            code = instructions(functions)
            paths.append(KernelPath(role=OTHER, times=10, runs=((len(found.code), len(code)),)))
            found.code += code
            places[index] = len(paths) - 1
    found.cases[0] = replace(
        found.cases[0],
        metrics={INSTRUCTIONS: Metric.of(samples), **sides},
        paths=tuple(paths),
        contexts=tuple(
            CaseContext(index, ((value, 10),), places[index]) for index, value in enumerate(values)
        ),
    )
    found.contexts = [{"seed": seed, "tasks": index} for index in range(len(contexts))]
    return found


def stat(lookups: Sequence[int], entry: int = 300, free: int = 50) -> list[Functions]:
    """In each context another number of rounds of 8 instructions, 12 and more."""
    return [
        [("el0_svc", entry), ("kfree", free), *[("__d_lookup_rcu", 8)] * (12 + n)] for n in lookups
    ]


def compared(old: Recording, new: Recording) -> CaseComparison:
    [case] = compare(old, new).cases
    assert sum(row.delta for row in case.functions) == case.delta
    return case


@pytest.mark.parametrize(
    ("old", "new", "change"),
    [
        # Another chain of the same loop, whichever lengths were seen.
        ({100, 108}, {100, 108}, (0, 0)),
        ({100, 108}, {100}, (0, 0)),
        ({100, 108, 116}, {108, 132}, (0, 0)),
        ({100, 116}, {108, 124}, (0, 0)),
        # A branch that one slab page takes and another does not.
        ({20, 21}, {21}, (0, 0)),
        ({20, 80}, {80}, (0, 0)),
        # The loop's function is longer by one instruction outside the loop, or in it.
        ({100, 108}, {101, 109}, (1, 1)),
        ({100, 108, 116}, {101, 109}, (1, 1)),
        ({100, 108}, {101, 110}, (0, 2)),
        # So is a function with a branch.
        ({20, 21}, {21, 22}, (1, 1)),
        ({20, 80}, {21, 81}, (1, 1)),
        ({20, 80}, {21}, (1, 1)),
        # Many places of an object: each side has seen most of what the other has.
        ({30, 32, 38, 48}, {30, 38, 48, 50}, (0, 0)),
        ({30, 38, 46, 54}, {30, 39, 48, 57}, (0, 3)),
        # A function that only one kernel executes.
        ({0}, {32, 40}, (32, 32)),
        ({32, 40}, {0}, (-32, -32)),
        ({7}, {9}, (2, 2)),
    ],
)
def test_a_function_is_compared_by_its_counts_in_all_contexts(
    old: set[int], new: set[int], change: tuple[int, int]
) -> None:
    sides = [{n: {"f": [count]} for n, count in enumerate(sorted(one))} for one in (old, new)]
    bodies = {"f": 8} if max(old) > 99 else {}
    assert changes(sides[0], sides[1], bodies, paired=False) == {"f": Change(*change)}


def test_context_by_context_a_constant_difference_is_a_change() -> None:
    """Even where both sets of counts overlap, or a loop goes round once more."""
    old = {0: {"f": [100]}, 1: {"f": [108]}}
    new = {0: {"f": [108]}, 1: {"f": [116]}}
    assert changes(old, new, {}, paired=True) == {"f": Change(8, 8)}
    assert changes(old, new, {"f": 8}, paired=False) == {"f": Change(0, 0)}


def test_context_by_context_what_only_grows_is_a_change() -> None:
    """A round of one instruction more is +1 where the loop is taken, and nowhere less."""
    old = {n: {"f": [30 + 8 * n]} for n in range(4)} | {4: {"f": [30]}}
    longer = {n: {"f": [30 + 9 * n]} for n in range(4)} | {4: {"f": [30]}}
    assert changes(old, longer, {}, paired=True) == {"f": Change(0, 3)}
    other = {n: {"f": [count]} for n, count in enumerate((38, 30, 46, 62, 30))}
    assert changes(old, other, {}, paired=True) == {"f": Change(0, 0)}


def test_a_function_is_compared_call_by_call() -> None:
    """Two objects, each in one of two places, have more sums than a few contexts show."""
    old = {0: {"f": [20, 30]}, 1: {"f": [24, 30]}, 2: {"f": [20, 30]}}
    new = {0: {"f": [20, 37]}, 1: {"f": [20, 30]}, 2: {"f": [24, 30]}}
    assert changes(old, new, {}, paired=False) == {"f": Change(0, 0)}
    # A call more is no context's: the sums are compared.
    more = {n: {"f": [*counts["f"], 5]} for n, counts in old.items()}
    assert changes(old, more, {}, paired=False) == {"f": Change(5, 5)}
    assert changes(old, more, {}, paired=True) == {"f": Change(5, 5)}


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


@pytest.mark.parametrize(("seen", "delta"), [(300, 0), (302, 2), (303, 3), (304, 0), (299, 0)])
def test_rows_add_up_to_the_commonest_count_that_they_can(seen: int, delta: int) -> None:
    rows = function_rows({"f": 200, "g": 100}, {"f": Change(0, 3)}, 300, {seen: 9, 300: 1})
    assert {row.name: row.delta for row in rows} == {"f": delta, "g": 0}


def of_calls(*contexts: list[int]) -> dict[int, dict[str, list[int]]]:
    return {n: {"f": counts} for n, counts in enumerate(contexts)}


def test_a_call_that_few_contexts_make_is_no_change() -> None:
    """One side refilled a slab once, the other twice or elsewhere."""
    old, new = of_calls(*[[]] * 9, [145]), of_calls(*[[]] * 8, [145, 145], [218])
    assert changes(old, new, {}, paired=False) == {"f": Change(0, 0)}
    # One that every context makes is a change.
    every = of_calls(*[[150]] * 10)
    assert changes(old, every, {}, paired=False) == {"f": Change(5, 150)}


def test_a_count_that_few_contexts_have_is_no_change_where_nearly_all_have_another() -> None:
    """A mapping at the edge of a page table, here in one place and there in another."""
    old, new = of_calls(*[[40]] * 9, [116]), of_calls(*[[40]] * 9, [174])
    assert changes(old, new, {}, paired=False) == {"f": Change(0, 0)}
    # In the same contexts it is the kernel's.
    assert changes(old, new, {}, paired=True) == {"f": Change(0, 58)}
    # And where a third of the contexts have it.
    old, new = of_calls(*[[40]] * 6, *[[116]] * 3), of_calls(*[[40]] * 6, *[[174]] * 3)
    assert changes(old, new, {}, paired=False) == {"f": Change(0, 58)}


def test_calls_are_compared_where_both_sides_make_as_many() -> None:
    """By sums the places of two or three objects have nothing in common."""
    old, new = of_calls(*[[20, 24]] * 5, [20, 24, 20]), of_calls(*[[24, 20]] * 5, [20, 20, 20])
    new[0] = {"f": [20, 24]}
    old[0] = {"f": [24, 20]}
    assert changes(old, new, {}, paired=False) == {"f": Change(0, 0)}


def test_a_branch_that_hardly_any_context_took_says_little() -> None:
    """One instruction more in it, and now always taken; or 59 fewer in the other."""
    old, new = of_calls(*[[80]] * 9, [20]), of_calls(*[[21]] * 10)
    assert changes(old, new, {}, paired=False) == {"f": Change(-59, 1)}


def test_a_change_of_the_first_boot_alone_is_seen() -> None:
    """It has a quarter of the contexts."""
    old, new = of_calls(*[[100]] * 8, *[[]] * 24), of_calls(*[[150]] * 8, *[[]] * 24)
    for paired in (False, True):
        assert changes(old, new, {}, paired=paired) == {"f": Change(0, 50)}


def test_a_call_that_many_contexts_make_is_compared_there() -> None:
    """It is one instruction longer: nothing where it is not made, +1 where it is."""
    old, new = of_calls(*[[]] * 5, *[[100]] * 4), of_calls(*[[]] * 5, *[[101]] * 4)
    for paired in (False, True):
        assert changes(old, new, {}, paired=paired) == {"f": Change(0, 1)}


CHANGED = frozenset("f")


@pytest.mark.parametrize(
    ("old", "new", "change"),
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
    ],
)
def test_contexts_explain_no_difference_of_changed_code(
    old: list[int], new: list[int], change: tuple[int, int]
) -> None:
    before, after = ({n: {"f": [count]} for n, count in enumerate(one)} for one in (old, new))
    bodies = {"f": 8} if max(old) > 99 else {}
    there, back = Change(*change), Change(-change[1], -change[0])
    assert changes(before, after, bodies, CHANGED, paired=False) == {"f": there}
    assert changes(after, before, bodies, CHANGED, paired=False) == {"f": back}


def test_changed_code_on_a_path_that_few_contexts_take_is_no_context() -> None:
    """A slab refill in one context of 32; in the other kernel it is one instruction longer."""
    old, new = of_calls(*[[]] * 31, [145]), of_calls(*[[]] * 31, [146])
    assert changes(old, new, {}, paired=False) == {"f": Change(0, 0)}
    assert changes(old, new, {}, CHANGED, paired=False) == {"f": Change(0, 1)}


def test_changed_code_is_compared_context_by_context_too() -> None:
    old, new = of_calls(*[[0]] * 6), of_calls(*[[0]] * 3, *[[6]] * 3)
    assert changes(old, new, {}, CHANGED, paired=True) == {"f": Change(0, 6)}
    old, new = of_calls([20], [80], [20, 20]), of_calls([21], [81], [21, 21])
    assert changes(old, new, {}, CHANGED, paired=True) == {"f": Change(1, 2)}


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
    ("seen", "new"),
    [
        # The commonest count of the new kernel that the changes can add up to,
        ({9: 3, 7: 5, 20: 8}, 7),
        # and the least where they can add up to none; g executes no fewer than 0.
        ({1: 3, 20: 8}, 2),
    ],
)
def test_a_change_that_depends_on_the_context_gives_a_count_that_one_has(
    seen: dict[int, int], new: int
) -> None:
    changes_of = {"f": Change(-8, -2), "g": Change(-9, 0)}
    rows = function_rows({"f": 10, "g": 5}, changes_of, 15, seen)
    assert sum(row.old for row in rows) == 15
    assert sum(row.new for row in rows) == new
    assert all(row.new >= 0 for row in rows)
