# SPDX-License-Identifier: GPL-2.0-or-later
"""Counts with the contexts that they depend on; metrics beside them in words."""

from __future__ import annotations

import re

from bench.contexts import listed
from msgspec.structs import replace

from kentry.compare.counted import compare
from kentry.compare.path_diff import compare_paths
from kentry.path.annotation import annotate
from kentry.results.comparison import CaseComparison
from kentry.results.document import to_json
from kentry.show.beside import SUM_NOTE, counts_text, metric_sentences
from kentry.show.changelog import comparison_changelog
from kentry.show.comparison import comparison_layout
from kentry.show.export.ci import ktap
from kentry.show.paths import annotation_layout
from kentry.show.recording import recording_layout
from kentry.show.text import to_text, written
from kentry.study.ablation import Trial, tabulate
from tests.builders import recording
from tests.unit.compare.test_contexts import in_contexts, stat


def test_counts_are_the_commonest_first_and_many_are_a_range() -> None:
    assert (
        counts_text([(450, 2), (458, 13), (466, 1)])
        == "458 in 13 of 16 contexts, 450 in 2, 466 in 1"
    )
    assert counts_text([(n, 1) for n in range(8)]) == "0 to 7: 8 counts in 8 contexts"


def test_a_recording_names_the_function_that_varies_and_the_reason() -> None:
    text = to_text(recording_layout(in_contexts(stat([0, 0, 0, 1]))))
    assert re.search(r"^ {4}__d_lookup_rcu \+0 in 3, \+8 in 1: ", text, re.MULTILINE)
    assert "10 x 454" not in text


def test_a_case_that_never_settles_says_so_with_its_range() -> None:
    text = to_text(recording_layout(in_contexts(stat([0, 1, 2, 3]))))
    assert "  stat: 446 to 470, " in text


def test_a_comparison_has_the_counts_of_both_sides() -> None:
    old, new = in_contexts(stat([0, 0, 1])), in_contexts(stat([1, 1, 0], entry=301), seed=2)
    text = to_text(comparison_layout(compare(old, new)))
    assert re.search(r"old 446 in 2 .*454 in 1; new 455 in 2 ", text)
    assert "(+1, +0.2 %) worse" in text


def test_a_new_count_that_no_context_has_is_explained() -> None:
    """The new kernel was seen with longer hash chains only; its entry has one instruction more."""
    old, new = in_contexts(stat([0, 0, 1])), in_contexts(stat([1, 2, 1], entry=301), seed=2)
    found = compare(old, new)
    [row] = found.cases
    assert (row.old, row.new, row.sum_of_contexts) == (446, 447, True)
    assert to_json(row)["sum_of_contexts"] is True
    assert "stat instructions: note: 447 instructions of stat is " in ktap([found]).text
    for layout in (comparison_layout(found), comparison_changelog(found)):
        text = to_text(layout)
        assert len(re.findall(r"\b447\*", text)) == 2 and text.count(SUM_NOTE) == 1
    assert "*" not in to_text(comparison_layout(compare(old, old)))
    ablation = tabulate(old, [Trial("CONFIG_A", False, (), old, new)])
    assert ablation.caveats[0]["text"] == f"CONFIG_A: {row.caveats[-1]['text']}"


def test_the_old_count_is_that_of_the_recording_also_without_its_path() -> None:
    """Then the functions are of a path of another context."""
    old, new = in_contexts(stat([0, 0, 1])), in_contexts(stat([0, 0, 1], entry=301), seed=2)
    [case] = old.cases
    places = tuple(replace(one, path=None if one.value == 446 else 0) for one in case.contexts)
    lost = replace(case, paths=case.paths[1:], functions=(), contexts=places)
    [row] = compare(replace(old, cases=[lost]), new).cases
    assert (row.old, row.new, row.delta) == (case.metrics["instructions"].value, 447, 1)
    assert sum(one.old for one in row.functions) == 454
    assert [one["kind"] for one in row.caveats] == ["unsettled", "functions-of-context"]


def test_two_paths_of_a_case_with_several_say_which_they_are() -> None:
    old, new = in_contexts(stat([0, 0, 1])), in_contexts(stat([1, 1, 0], entry=301), seed=2)
    (found,) = compare_paths(old, new, ["stat"]).cases
    (note,) = (one for one in found.caveats if one["kind"] == "one-of-several-paths")
    assert f"of {found.old} and {found.new} instructions" in note["text"]
    alone = recording({"getppid": [("el0_svc", 5)]})
    assert compare_paths(alone, alone, ["getppid"]).cases[0].caveats == ()


def test_annotate_shows_what_other_contexts_execute() -> None:
    found = in_contexts(stat([0, 0, 1]))
    text = to_text(annotation_layout(annotate(found, [case.name for case in found.cases])))
    assert text.count("\n  + __d_lookup_rcu+0x") == 8


def test_what_a_case_can_have_is_what_its_functions_had() -> None:
    """More rounds of a loop that was seen, and sums that no context had; nothing else."""
    found = in_contexts(
        [
            [("el0_svc", 100), ("kfree", 20), ("__d_lookup_rcu", 8)],
            [("el0_svc", 100), ("kfree", 21), ("__d_lookup_rcu", 8)],
            [("el0_svc", 100), ("kfree", 20), *[("__d_lookup_rcu", 8)] * 2],
        ]
    )
    assert sorted(listed(found.cases[0], found, 149)) == [128, 129, 136, 137, 144, 145]


def sentence(metric: str, old: int, new: int, verdict: str = "better") -> str:
    row = CaseComparison(
        name="read",
        metric=metric,
        old=old,
        new=new,
        verdict=verdict,
        identical_path=False,
        functions=(),
    )
    return " ".join(written(metric_sentences([row])).split())


def test_a_metrics_change_is_said_with_both_sides() -> None:
    assert sentence("loads", 5, 3) == "read: 2 fewer loads (5 -> 3)"
    assert sentence("lines.data", 4, 5) == "read: 1 more cache line of data (4 -> 5)"
    assert sentence("serialising.isb", 1, 3) == "read: 2 more of serialising.isb (1 -> 3)"
    assert sentence("loads", 5, 3, "undecided") == "read: loads undecided"
