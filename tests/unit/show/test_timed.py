# SPDX-License-Identifier: GPL-2.0-or-later
"""Times as text: under their counts, no digit beyond the interval, fit for a commit message."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from kentry.compare.counted import compare
from kentry.count.joining import with_times
from kentry.results.comparison import Comparison, TimedComparison
from kentry.results.recording import Recording
from kentry.show.changelog import comparison_changelog
from kentry.show.comparison import comparison_layout, timed_change, timed_values, timed_verdict
from kentry.show.text import to_text
from tests.builders import imported, recording, timed
from tests.unit.show.samples import check_form

OLD, NEW = (0, 3), (1, 2)


def both(instructions: int, ns: float, slots: tuple[int, ...], name: str = "getppid") -> Recording:
    counts = recording({name: [("el0_svc", instructions)]})
    return with_times(counts, timed({name: ns}, slots))


def row_of(old: float, percent: float, half: float | None, **more: Any) -> TimedComparison:
    interval = None if half is None else (percent - half, percent + half)
    row = TimedComparison(
        name="getppid",
        metric="ns",
        unit="ns",
        old=old,
        new=old * (1 + percent / 100),
        percent=percent,
        verdict="better",
        interval=interval,
        confidence=0.99,
    )
    return structs.replace(row, **more)


@pytest.mark.parametrize(
    ("row", "values", "change"),
    [
        (row_of(78.4, 3.0, 4.0), ("78", "81"), "+3 % [-1, +7], 99 %"),
        (row_of(78.4, -0.31, 0.05), ("78.40", "78.16"), "-0.31 % [-0.36, -0.26], 99 %"),
        (row_of(123456, 1.0, 0.4), ("123500", "124700"), "+1.0 % [+0.6, +1.4], 99 %"),
        (row_of(80.125, -1.0, None), ("80.125", "79.3238"), "-1.0 %, no interval"),
        (
            TimedComparison(name="x", metric="ns", unit="ns", old=0, new=3, verdict="undecided"),
            ("0", "3"),
            "+3",
        ),
    ],
)
def test_digits_end_where_the_interval_says(
    row: TimedComparison, values: tuple[str, str], change: str
) -> None:
    assert timed_values(row) == values
    assert timed_change(row) == change


@given(st.floats(1, 1e6), st.floats(-50, 50), st.floats(0.001, 40))
def test_what_is_printed_is_within_the_interval_of_what_is_meant(
    old: float, percent: float, half: float
) -> None:
    row = row_of(old, percent, half)
    before, after = map(float, timed_values(row))
    # Four decimals are the most.
    bound = max(half / 100 * old, 0.5e-4) + 1e-9
    assert abs(before - row.old) <= bound
    assert abs(after - row.new) <= bound
    told, low, high = map(float, re.findall(r"[+-][\d.]+", timed_change(row)))
    assert abs(told - percent) <= max(half, 0.5) + 1e-9
    assert low <= told <= high


def test_a_verdict_says_what_belongs_to_it() -> None:
    assert timed_verdict(row_of(78, -2, 0.3)) == "better"
    same = row_of(78, 0.02, 0.1, verdict="same", detectable=0.31)
    assert timed_verdict(same) == "same, would see 0.31 %"
    apart = row_of(78, 0.02, 0.1, verdict="undecided", reason="measured apart")
    assert timed_verdict(apart) == "undecided: measured apart"
    layout = row_of(78, -2, 0.3, caveats=({"kind": "layout", "text": ""},))
    assert timed_verdict(layout) == "better, layout"


def comparisons() -> list[Comparison]:
    long = "clock_gettime@int80+vec=1/1000+vl=2048"
    apart = timed({"getppid": 78.4}, target={"session": "0b"})
    return [
        compare(both(250, 78.4, OLD), both(239, 77.1, NEW)),
        compare(both(250, 78.4, OLD), both(250, 80.0, NEW)),
        compare(both(250, 78.4, OLD), both(241, 79.3, NEW)),
        compare(both(250, 123456.0, OLD, long), both(241, 125000.0, NEW, long)),
        compare(timed({"getppid": 78.4}), apart),
        compare(imported({"getppid": 80.1}), apart),
        compare(imported({"x": 1.5}, "ops/s", "ia64"), imported({"x": 1.6}, "ops/s", "ia64")),
    ]


def test_the_whole_texts(golden: Callable[[str, str], None]) -> None:
    found = comparisons()
    golden("diff-timed.txt", "\n".join(to_text(comparison_layout(one)) for one in found))
    messages = [to_text(comparison_changelog(one)) for one in found]
    for text in messages:
        check_form(text)
    golden("diff-timed-changelog.txt", "\n".join(messages))
