# SPDX-License-Identifier: GPL-2.0-or-later
"""Budgets and what is held against them: within, over, or undecided with a reason."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from kentry.results.document import dump
from kentry.results.recording import INSTRUCTIONS, CaseContext, Metric, Recording
from kentry.results.studies import Check, CheckRow
from kentry.study.budgets import read_budgets
from kentry.study.check import check, new_limits
from tests.builders import imported, recording, timed, validate
from tests.unit.compare.test_contexts import in_contexts, stat
from tests.unit.compare.test_timed import NEW, OLD, both


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "budgets.toml"


def checked(file: Path, lines: str, found: Recording, baseline: Recording | None = None) -> Check:
    """The check of these lines of [arm64]."""
    file.write_text(f"[arm64]\n{lines}\n" if not lines.startswith("[") else lines)
    result = check(read_budgets(file), found, baseline)
    validate(json.loads(dump(result)), "check-1")
    return result


def only(result: Check) -> CheckRow:
    [row] = result.rows
    assert row.verdict == result.verdict
    assert bool(row.reason) == (row.verdict == "undecided")
    return row


def verdict(file: Path, lines: str, *sides: Recording) -> str:
    return only(checked(file, lines, *sides)).verdict


def counted(**cases: int) -> Recording:
    return recording({name: [("f", count)] for name, count in cases.items()})


# --- limits --------------------------------------------------------------


@pytest.mark.parametrize(("limit", "expected"), [(249, "over"), (250, "within"), (251, "within")])
def test_a_count_is_within_its_limit_up_to_the_last_instruction(
    file: Path, limit: int, expected: str
) -> None:
    row = only(checked(file, f"getppid = {limit}", counted(getppid=250)))
    assert (row.verdict, row.limit, row.value) == (expected, limit, 250)
    assert row.low == row.high == 250
    assert (row.line, row.unit) == (2, "instructions")


@pytest.mark.parametrize(
    ("limit", "expected"),
    # 12 rounds of 8, and more: 446, 454 and 470 instructions.
    [(445, "over"), (446, "undecided"), (454, "undecided"), (469, "undecided"), (470, "within")],
)
def test_every_count_of_the_contexts_is_held_against_the_limit(
    file: Path, limit: int, expected: str
) -> None:
    found = in_contexts(stat([0] * 8 + [1] * 4 + [3]))
    row = only(checked(file, f"stat = {limit}", found))
    assert row.verdict == expected
    assert dict(row.counts) == {446: 8, 454: 4, 470: 1}
    assert (row.value, row.low, row.high) == (446, 446, 470)


@pytest.mark.parametrize(
    ("samples", "most"),
    [
        # A fifth of the windows is not rare, and less is.
        (((446, 4), (447, 3), (460, 2), (500, 1)), 460),
        # Here every count is rare but one, and that is not half of them.
        (((446, 4), *((447 + n, 1) for n in range(6))), 452),
        # A majority decides.
        (((446, 6), (500, 4)), 446),
    ],
)
def test_in_a_context_without_a_majority_every_count_is_one_but_rare_ones(
    file: Path, samples: tuple[tuple[int, int], ...], most: int
) -> None:
    found = in_contexts(stat([0, 0, 0]))
    own = found.cases[0].contexts
    spread = CaseContext(1, samples, own[1].path)
    found.cases[0] = replace(found.cases[0], contexts=(own[0], spread, own[2]))
    assert only(checked(file, "stat = 999", found)).high == most
    assert verdict(file, f"stat = {most}", found) == "within"
    assert verdict(file, f"stat = {most - 1}", found) == ("over" if most == 446 else "undecided")
    assert verdict(file, "stat = 445", found) == "over"


def test_without_a_majority_all_counts_decide(file: Path) -> None:
    found = [verdict(file, f"x = {n}", VAGUE) for n in (53, 54, 55)]
    assert found == ["over", "undecided", "within"]


def test_other_exact_metrics_have_limits(file: Path) -> None:
    line = "getppid = { user_instructions = 1, firmware_instructions = 0, instructions = 249 }"
    result = checked(file, line, counted(getppid=250))
    assert [row.verdict for row in result.rows] == ["within", "within", "over"]
    assert result.verdict == "over"


def test_a_time_is_within_or_over_with_its_whole_interval(file: Path) -> None:
    found = timed({"getppid": 80.0}, groups=2)
    low, high = found.cases[0].noisy["ns"].interval or (0, 0)
    for limit, expected in (
        (low - 0.01, "over"),
        ((low + high) / 2, "undecided"),
        (high + 0.01, "within"),
    ):
        row = only(checked(file, f"getppid = {{ ns = {limit} }}", found))
        assert (row.verdict, row.low, row.high, row.unit) == (expected, low, high, "ns")


@pytest.mark.parametrize("limit", ["1", "1e9", '"+5 %"'])
@pytest.mark.parametrize(("unit", "metric"), [("ns", "ns"), ("ops/s", "ops_per_s")])
def test_a_number_without_an_interval_and_a_rate_decide_nothing(
    file: Path, limit: str, unit: str, metric: str
) -> None:
    """Of a rate more is better, so the most of it says nothing."""
    sides = [imported({"getppid": 5e6}, unit)] * 2
    row = only(checked(file, f"getppid = {{ {metric} = {limit} }}", *sides))
    assert (row.verdict, row.value) == ("undecided", 5e6)
    assert unit == "ns" or row.limit is None


# --- above a baseline -----------------------------------------------------


@pytest.mark.parametrize(
    ("budget", "new", "expected"),
    [
        ("+0", 1000, "within"),
        ("+0", 1001, "over"),
        ("+0", 990, "within"),
        ("+2", 1002, "within"),
        ("+2", 1003, "over"),
        ("+1 %", 1010, "within"),
        ("+1 %", 1011, "over"),
        ("+0.15 %", 1001, "within"),
        ("+0.15 %", 1002, "over"),
    ],
)
def test_a_count_is_held_against_the_baseline(
    file: Path, budget: str, new: int, expected: str
) -> None:
    row = only(checked(file, f'x = "{budget}"', counted(x=new), counted(x=1000)))
    assert (row.verdict, row.baseline, row.value) == (expected, 1000, new)
    assert (row.high is not None and row.high <= (row.limit or 0)) == (expected == "within")


VAGUE = recording({"x": [("f", 54)]}, {"x": {54: 3, 55: 3}})
SHORT, LONG = stat([0, 0, 1, 2]), (0, 0, 0, 2, 3, 5)


@pytest.mark.parametrize(
    ("line", "new", "old", "expected"),
    [
        # The new kernel was seen in contexts with longer hash chains, and is the same.
        ('stat = "+0"', in_contexts(stat(LONG), seed=2), in_contexts(SHORT), "within"),
        ('stat = "+0"', in_contexts(stat(LONG, entry=301), seed=2), in_contexts(SHORT), "over"),
        ('stat = "+1"', in_contexts(stat(LONG, entry=301), seed=2), in_contexts(SHORT), "within"),
        # A case that never settles.
        ('stat = "+9999"', *[in_contexts(stat([0, 2, 3, 5]))] * 2, "undecided"),
        # No majority on a side, and no count on one.
        ('x = "+99"', VAGUE, counted(x=54), "undecided"),
        ('x = "+99"', counted(x=54), VAGUE, "undecided"),
        ('x = "+0"', timed({"x": 80.0}, metric="instructions"), counted(x=250), "undecided"),
        ('x = "+0"', counted(x=250), timed({"x": 80.0}, metric="instructions"), "undecided"),
    ],
)
def test_a_change_of_a_count(
    file: Path, line: str, new: Recording, old: Recording, expected: str
) -> None:
    assert verdict(file, line, new, old) == expected


def test_a_count_that_no_context_has_is_named(file: Path) -> None:
    old, new = in_contexts(stat([0, 0, 1])), in_contexts(stat([1, 2, 1], entry=301), seed=2)
    found = checked(file, 'stat = "+0"', new, old)
    assert only(found).value == 447
    assert "sum-of-contexts" in {one["kind"] for one in found.caveats}


def of_branch(counts: Sequence[int], seed: int) -> Recording:
    """One function that executes another number of instructions in each context."""
    return in_contexts([[("f", 100), ("g", count)] for count in counts], seed, "x")


def test_a_change_that_depends_on_the_context_may_be_undecided(file: Path) -> None:
    # From -59 to +1: docs/methods.md#contexts.
    old, new = of_branch([80, 80, 80, 20], 1), of_branch([21, 21, 21, 21], 2)
    row = only(checked(file, 'x = "+0"', new, old))
    assert row.verdict == "undecided"
    assert row.low is not None and row.high is not None and row.limit is not None
    assert row.low <= row.limit < row.high
    assert verdict(file, 'x = "+1"', new, old) == "within"


def test_a_part_of_a_count_by_context_is_of_each_of_its_counts(file: Path) -> None:
    """10 more are 1 % of 1000 and less of 1096: within only where they are in both."""
    old = in_contexts([[("f", 1000), ("g", count)] for count in (0, 0, 96)], 1, "x")
    new = in_contexts([[("f", 1010), ("g", count)] for count in (0, 0, 96)], 1, "x")
    assert verdict(file, 'x = "+1 %"', new, old) == "within"
    assert verdict(file, 'x = "+0.95 %"', new, old) == "undecided"
    assert verdict(file, 'x = "+0.9 %"', new, old) == "over"


@pytest.mark.parametrize(
    ("old", "new", "budget", "expected"),
    [
        (80.0, 80.0, "+0", "within"),
        (80.0, 79.0, "+0", "within"),
        (80.0, 78.4, "+2 %", "within"),
        (80.0, 82.4, "+0", "over"),
        (80.0, 82.4, "+1 %", "over"),
        (80.0, 82.4, "+5 %", "within"),
        (80.0, 82.4, "+3 %", "undecided"),
        (80.0, 82.4, "+1", "over"),
        (80.0, 82.4, "+4", "within"),
    ],
)
def test_interleaved_times_have_the_budget_as_threshold(
    file: Path, old: float, new: float, budget: str, expected: str
) -> None:
    sides = timed({"x": new}, NEW), timed({"x": old}, OLD)
    row = only(checked(file, f'x = {{ ns = "{budget}" }}', *sides))
    assert row.verdict == expected
    assert row.limit is not None and row.baseline is not None and row.limit > row.baseline


def test_one_of_many_times_is_over_only_beyond_chance(file: Path) -> None:
    """What is enough of one case is not enough of the worst of ten."""
    old = {f"c{number}": 80.0 for number in range(10)}
    new = old | {"c0": 80.0 * 1.0042}
    for names, expected in ((["c0"], "over"), (list(old), "undecided")):
        sides = [
            timed({name: side[name] for name in names}, slots, groups=10)
            for side, slots in ((new, NEW), (old, OLD))
        ]
        rows = checked(file, '"c*" = { ns = "+0" }', *sides).rows
        assert {row.name: row.verdict for row in rows}["c0"] == expected


def test_times_measured_apart_are_undecided(file: Path) -> None:
    sides = timed({"x": 99.0}, NEW, target={"session": "ff"}), timed({"x": 80.0}, OLD)
    row = only(checked(file, 'x = { ns = "+1 %" }', *sides))
    assert (row.verdict, row.reason) == ("undecided", "measured apart")


def test_a_time_that_changed_where_the_code_did_not_is_undecided(file: Path) -> None:
    line = 'getppid = { instructions = "+0", ns = "+0" }'
    result = checked(file, line, both(250, 82.4, NEW), both(250, 80.0, OLD))
    assert [row.verdict for row in result.rows] == ["within", "undecided"]
    result = checked(file, line, both(251, 82.4, NEW), both(250, 80.0, OLD))
    assert [row.verdict for row in result.rows] == ["over", "over"]


# --- what is not there ------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        "getpppid = 1",
        '"get*" = { cycles = 1 }',
        '"clone*" = 1',
        "x = { cycles = 1 }",
        'x = { cycles = "+1" }',
        'nothing = "+1"',
    ],
)
def test_what_the_recording_lacks_is_undecided_with_the_reason(file: Path, line: str) -> None:
    sides = counted(x=1, getppid=2), counted(x=1, getppid=2)
    row = only(checked(file, line, *sides))
    assert (row.verdict, row.value, row.low) == ("undecided", None, None)


@pytest.mark.parametrize(
    ("new", "old", "expected"),
    [
        ({"x": 1}, {"x": 1, "y": 1}, [("x", "within", 1), ("y", "undecided", None)]),
        ({"x": 1, "y": 7}, {"x": 1}, [("x", "within", 1), ("y", "undecided", 7)]),
    ],
)
def test_a_case_of_one_side_is_not_passed_over(
    file: Path, new: dict[str, int], old: dict[str, int], expected: list[object]
) -> None:
    rows = checked(file, '"*" = "+0"', counted(**new), counted(**old)).rows
    assert [(row.name, row.verdict, row.value) for row in rows] == expected


def test_a_pattern_is_of_the_cases_that_have_the_metric(file: Path) -> None:
    found = both(250, 80.0, NEW)
    found.cases.append(counted(y=5).cases[0])
    result = checked(file, '"*" = { ns = 100 }', found)
    assert [row.name for row in result.rows] == ["getppid"]


# --- which budget ------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # A name before a pattern, wherever they stand.
        ('[arm64]\nx = 1\n"*" = 2', {"x": "1", "y": "2"}),
        ('[arm64]\n"*" = 2\n[all]\nx = 1', {"x": "1", "y": "2"}),
        # Then the architecture's own table, then the one further down.
        ('[arm64]\n"*" = 1\n[all]\n"?" = 2', {"x": "1", "y": "1"}),
        ("[all]\nx = 2\n[arm64]\nx = 1", {"x": "1"}),
        ('[arm64]\n"*" = 1\n"x*" = 2', {"x": "2", "y": "1"}),
        # Another metric is another budget; another architecture is none.
        ('[arm64]\n"*" = { user_instructions = 3 }\nx = 1\n[riscv64]\ny = 9', None),
    ],
)
def test_a_case_has_one_budget_for_a_metric(
    file: Path, text: str, expected: Mapping[str, str] | None
) -> None:
    rows = checked(file, text, counted(x=5, y=5)).rows
    found = [(row.name, row.metric, row.budget) for row in rows]
    if expected is None:
        assert sorted(found) == [
            ("x", "instructions", "1"),
            ("x", "user_instructions", "3"),
            ("y", "user_instructions", "3"),
        ]
    else:
        assert {name: budget for name, _, budget in found} == expected
        assert len(found) == len(expected)


# --- new limits ---------------------------------------------------------------


COUNTS = in_contexts(stat([0] * 8 + [1] * 4 + [3]))
COUNTS.cases += counted(x=250, y=300).cases
TIMES = timed({"x": 80.0}, groups=2)
TIMES.cases[0] = replace(
    TIMES.cases[0], noisy={"ns": replace(TIMES.cases[0].noisy["ns"], interval=(79.1, 80.4321))}
)
TIMES.cases += imported({"y": 100.0}).cases


@pytest.mark.parametrize(
    ("lines", "measured", "limits"),
    [
        # The most that was measured; of a time the end of the interval, rounded up.
        (
            'stat = 1\nx = 300\n"[xy]" = 9\nno = 3\ngone = "+3"',
            COUNTS,
            {"stat": 470, "x": 250, "[xy]": 300},
        ),
        ("x = { ns = 1 }", TIMES, {"x": 80.44}),
        # Of several cases, all have to be known; no architecture lowers the limit of all.
        ('"?" = { ns = 1 }', TIMES, {}),
        ("[all]\nx = 300\ny = 3", counted(x=250, y=5), {"y": 5}),
    ],
)
def test_a_new_limit_is_the_most_that_was_measured(
    file: Path, lines: str, measured: Recording, limits: dict[str, float]
) -> None:
    result = checked(file, lines, measured)
    new = new_limits(read_budgets(file), result)
    assert {budget.key: limit for budget, limit in new.items()} == limits
    file.write_text(read_budgets(file).renewed(new))
    # What was measured is within what was written.
    again = check(read_budgets(file), measured, None)
    assert {row.verdict for row in again.rows if row.key in limits} <= {"within"}


def test_firmware_is_held_against_the_baseline(file: Path) -> None:
    old, new = counted(x=250), counted(x=250)
    case = new.cases[0]
    more = Metric.of({7: 1000})
    new.cases[0] = replace(case, metrics={**case.metrics, "firmware_instructions": more})
    line = 'x = { instructions = "+0", firmware_instructions = "+6" }'
    assert [row.verdict for row in checked(file, line, new, old).rows] == ["within", "over"]
    assert INSTRUCTIONS in case.metrics
