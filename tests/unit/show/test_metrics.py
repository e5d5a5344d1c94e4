# SPDX-License-Identifier: GPL-2.0-or-later
"""Metrics in words, and the tables of a series and a path."""

from kentry.results.comparison import CaseComparison
from kentry.show.counts import metric_sentences, part_table
from kentry.show.text import written


def row(metric: str, old: int, new: int, verdict: str = "") -> CaseComparison:
    found = verdict or ("same" if old == new else "worse" if new > old else "better")
    return CaseComparison(
        name="read",
        metric=metric,
        old=old,
        new=new,
        verdict=found,
        identical_path=False,
        functions=(),
    )


def sentence(*rows: CaseComparison) -> str:
    return " ".join(written(metric_sentences(rows)).split())


def test_one_is_singular_and_the_sides_are_in_brackets() -> None:
    assert sentence(row("loads", 5, 3), row("lines.data", 4, 5)) == (
        "read: 2 fewer loads (5 -> 3); 1 more cache line of data (4 -> 5)"
    )


def test_what_did_not_change_is_named_with_its_value() -> None:
    assert sentence(row("stores", 3, 3)) == "read: the same: stores 3"


def test_an_undecided_metric_is_no_change() -> None:
    assert "undecided" in sentence(row("loads", 5, 3, "undecided"))
    assert "fewer" not in sentence(row("loads", 5, 3, "undecided"))


def test_a_metric_without_words_of_its_own_is_named() -> None:
    assert sentence(row("serialising.isb", 1, 3)) == "read: 2 more of serialising.isb (1 -> 3)"


def test_parts_add_up_in_each_row() -> None:
    parts = part_table({"loads": {"entry": 2, "exit": 3}, "calls": {"entry": 1, "exit": 0}})
    assert [line.split() for line in written([parts]).splitlines()] == [
        ["metric", "entry", "exit", "sum"],
        ["loads", "2", "3", "5"],
        ["calls", "1", "0", "1"],
    ]
