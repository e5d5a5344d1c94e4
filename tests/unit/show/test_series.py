# SPDX-License-Identifier: GPL-2.0-or-later
"""A series, and text for commit messages: read back, derived anew, nothing taken for a diff."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kentry.compare.counted import compare
from kentry.results.document import dump, read_document, to_json
from kentry.results.studies import NO_APPLY, NO_BUILD, Problem, Series
from kentry.show.changelog import comparison_changelog, series_changelog
from kentry.show.series import series_layout, summary_blocks
from kentry.show.text import to_text, written
from kentry.study.series import tabulate
from tests.builders import built, outcome
from tests.unit.show.samples import DISCARD, SHORTER, SYSCALL, changed, check_form, table, unwrapped
from tests.unit.vector.builders import with_events


@given(st.text(max_size=200), st.text(max_size=200))
def test_no_subject_and_no_sentence_makes_it_another_thing(subject: str, sentence: str) -> None:
    series = table(Problem(NO_APPLY, sentence), SHORTER, subjects=[subject, subject])
    check_form(to_text(series_changelog(series)))


@pytest.mark.parametrize(
    "subject",
    [
        "--- a/kernel/fork.c",
        "@@ -1,3 +1,4 @@",
        "diff --git a/x b/x",
        "commit 0123456789 broke it",
        "revert 0123456789abcdef0123456789abcdef01234567",
        "# no comment",
        "change-id: I0123",
    ],
)
def test_words_of_a_patch_stay_words(subject: str) -> None:
    sentence = f"{'word ' * 12}{subject} " * 3
    text = to_text(
        series_changelog(table(Problem(NO_APPLY, sentence), SHORTER, subjects=[subject] * 2))
    )
    check_form(text)
    for line in text.splitlines():
        assert not re.search(r"(?:\s|^)[0-9a-f]{12,40}(?:[\s\"'(\[]|$)", line), line


def test_a_patch_that_failed_ends_the_total() -> None:
    text = to_text(
        series_changelog(table(SHORTER, Problem(NO_BUILD, "fork.c:1: error: no", "the log")))
    )
    assert "Total up to patch 1: getppid 55 -> 53 (-2, -3.6 % of the" in text
    assert "the log" not in text
    text = to_text(series_changelog(table(Problem(NO_APPLY, "hunk 1"))))
    check_form(text)
    assert "Total" not in text


@pytest.mark.parametrize(
    ("subject", "printed"),
    [
        ("arm64: don't call a function that (nearly) does nothing",) * 2,
        ("arm64: an odd ) and ( here", "arm64: an odd ] and [ here"),
        ("", ""),
    ],
)
def test_the_base_is_named_as_git_names_it(subject: str, printed: str) -> None:
    origin = {"kind": "tree", "commit": "0123456789abcdef" + "0" * 24, "subject": subject}
    series = tabulate(
        [outcome(0, "baseline", built(SYSCALL, origin=origin)), outcome(1, "one", built(SHORTER))],
        {},
    )
    text = to_text(series_changelog(series))
    check_form(text)
    assert f'- base: commit 0123456789ab ("{printed}"), Linux 6.12.95' in unwrapped(text)


def test_new_warnings_of_compilers_are_counted_and_named() -> None:
    said = tuple(f"kernel/fork.c:{line}: unused variable 'x' @@ -1 +1 @@" for line in range(7))
    rows = [outcome(0, "b", built(SYSCALL)), outcome(1, "one", built(SHORTER))]
    rows += [replace(outcome(2, "two", built(SHORTER)), warnings={"arm64": said})]
    series = tabulate(rows, {})
    assert [row.warnings for row in series.rows] == [{}, {}, {"arm64": said}]
    text = to_text(series_changelog(series))
    check_form(text)
    assert "new warning: kernel/fork.c:4: unused" in unwrapped(text) and "fork.c:5" not in text
    assert "and 2 more new warnings" in text
    [row] = [line.split() for line in text.splitlines() if line.startswith("2  two")]
    assert row[-1] == "7"
    assert "warnings" not in to_text(series_changelog(tabulate(rows[:2], {})))


def test_a_difference_that_no_single_patch_made_is_noted() -> None:
    one = built(SHORTER, config={"PREEMPT": "n", "HZ": "250"})
    two = built(SHORTER, config={"PREEMPT": "n", "HZ": "1000"})
    outcomes = [outcome(0, "b", built(SYSCALL)), outcome(1, "one", one), outcome(2, "two", two)]
    text = unwrapped(to_text(series_changelog(tabulate(outcomes, {}))))
    for side in ("patch 1", "patch 2", "first to last"):
        assert f"- note: {side}: config differs in " in text


def test_a_base_of_zero_has_no_percentage() -> None:
    new = changed(**{"clock_gettime@vdso": [("entry", 9)]})
    text = to_text(comparison_changelog(compare(built(SYSCALL), built(new))))
    assert "clock_gettime@vdso: 0 -> 9 (+9) worse\n" in text
    assert "\nTotal: Before=0, After=9\n" in text


def test_a_caveat_is_noted_once() -> None:
    base, one, two = built(SYSCALL), built(SHORTER), built(SHORTER)
    for recording in (base, one, two):
        recording.caveats.append({"kind": "y", "text": "of every kernel"})
    for recording in (one, two):
        recording.caveats.append({"kind": "x", "text": "something new"})
    outcomes = [outcome(0, "b", base), outcome(1, "one", one), outcome(2, "two", two)]
    series = tabulate(outcomes, {}, notes=[{"kind": "series", "text": "about the series"}])
    lines = to_text(series_layout(series, functions=False)).splitlines()
    assert [line for line in lines if line.startswith("note: ")][1:] == [
        "note: about the series",
        "note: of every kernel",
        "note: patches 1, 2: something new",
    ]


def test_a_file_has_every_note_of_the_series(tmp_path: Path) -> None:
    one = built(SHORTER, config={"PREEMPT": "n", "HZ": "250"})
    two = built(SHORTER, config={"PREEMPT": "n", "HZ": "1000"})
    base = built(SYSCALL)
    base.caveats.append({"kind": "y", "text": "of the baseline"})
    series = tabulate([outcome(0, "b", base), outcome(1, "x", one), outcome(2, "y", two)], {})
    file = tmp_path / "series.json"
    file.write_text(dump(series))
    again = read_document(file, Series, "")
    assert series.differences and again.differences == series.differences
    assert series_layout(again).caveats == series_layout(series).caveats
    # Files from before have neither.
    for key in ("base_caveats", "differences"):
        old = {name: item for name, item in to_json(series).items() if name != key}
        file.write_text(json.dumps(old))
        read_document(file, Series, "")


def test_the_patch_that_changed_events_names_the_cases() -> None:
    cases = {f"{case}+vec=once": [("f", 5)] for case in ("x", "y", "z")}
    kernels = [
        with_events(
            built(cases, arch="riscv64"), {f"{case}+vec=once": [DISCARD] for case in having}
        )
        for having in ("xyz", "xyz", "z", "")
    ]
    series = tabulate([outcome(n, "s", kernel) for n, kernel in enumerate(kernels)], {})
    event = "discard (syscall) 1 -> 0 per call, in do_trap_ecall_u"
    assert unwrapped(written(summary_blocks(series))).splitlines()[:2] == [
        f"Patch 2: {event}: x+vec=once, y+vec=once",
        f"Patch 3: {event}: z+vec=once",
    ]
