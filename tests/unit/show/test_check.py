# SPDX-License-Identifier: GPL-2.0-or-later
"""A check as text, KTAP, JUnit and workflow commands, read back by the rules of each format."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from msgspec.structs import replace

from kentry.results.comparison import Real
from kentry.results.recording import Measured
from kentry.results.studies import (
    OVER,
    UNDECIDED,
    WITHIN,
    Check,
    CheckRow,
    Verdict,
    verdict_of,
)
from kentry.show.check import check_layout, row_sentence, summary
from kentry.show.export.ci import check_github, check_junit
from kentry.show.export.ktap import check_ktap
from kentry.show.text import to_text
from tests.builders import recording

EVIL = 'a<b>&"\r\n::error::x,y:%25#\x1b[2J\x00\ufffe'


def row(verdict: Verdict, name: str = "getppid", reason: str = "", high: Real = 312) -> CheckRow:
    return CheckRow(
        name=name,
        metric="instructions",
        unit="instructions",
        table="arm64",
        key=name,
        line=4,
        budget="310",
        limit=310,
        value=None if reason else 312,
        low=None if reason else 312,
        high=None if reason else high,
        verdict=verdict,
        reason=reason,
    )


def made(*rows: CheckRow, file: str = "ci/budgets.toml") -> Check:
    found = recording({"getppid": [("el0_svc", 312)]})
    return Check(
        tool=found.tool,
        budgets=file,
        measured=Measured.of(found),
        baseline=None,
        verdict=verdict_of(row.verdict for row in rows),
        rows=rows,
        caveats=({"kind": "x", "text": "a note"},),
    )


ALL = made(
    row(OVER), row(UNDECIDED, "stat", "no such case"), row(WITHIN, "read"), row(WITHIN, "read")
)


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ([row(WITHIN)], "The budget holds."),
        ([row(WITHIN)] * 3, "All 3 budgets hold."),
        ([row(OVER)], "Of 1 budget: 1 over."),
        (ALL.rows, "Of 4 budgets: 1 over, 1 undecided, 2 within."),
    ],
)
def test_the_summary_counts_what_does_not_hold(rows: list[CheckRow], sentence: str) -> None:
    assert summary(made(*rows)) == sentence


def test_the_whole_is_over_before_it_is_undecided() -> None:
    assert made(row(UNDECIDED, reason="x"), row(OVER)).verdict == OVER
    assert made(row(UNDECIDED, reason="x"), row(WITHIN)).verdict == UNDECIDED
    assert made(row(WITHIN)).verdict == WITHIN


def test_a_range_shows_both_ends() -> None:
    assert row_sentence(row(OVER, high=320)) == "312..320 instructions, at most 310: over by 2"


def test_ktap_has_a_test_for_each_row() -> None:
    lines = check_ktap(ALL).splitlines()
    assert lines[:2] == ["KTAP version 1", "1..4"]
    results = [line for line in lines[2:] if not line.startswith("#")]
    assert results == [
        "not ok 1 getppid instructions",
        "ok 2 stat instructions # SKIP undecided: no such case",
        "ok 3 read instructions",
        "ok 4 read instructions (2)",
    ]
    assert "# note: a note" in lines


def test_ktap_has_no_line_that_a_name_made() -> None:
    found = made(row(OVER, EVIL), row(UNDECIDED, EVIL, EVIL), file=EVIL)
    lines = check_ktap(replace(found, caveats=())).splitlines()
    assert len([line for line in lines if re.match("(not )?ok ", line)]) == 2
    assert all(line.startswith(("#", "ok ", "not ok ", "KTAP", "1..")) for line in lines)
    assert all(line.isprintable() for line in lines)
    assert lines[-1].count("#") == 1 and " # SKIP undecided" in lines[-1]


def test_junit_counts_its_tests() -> None:
    suites = ElementTree.fromstring(check_junit(ALL))
    [suite] = suites
    for node in (suites, suite):
        counts = {name: node.get(name) for name in ("tests", "failures", "skipped", "errors")}
        assert counts == {"tests": "4", "failures": "1", "skipped": "1", "errors": "0"}
    cases = suite.findall("testcase")
    names = [case.get("name") for case in cases]
    assert len(set(names)) == 4
    failure, skipped = cases[0].find("failure"), cases[1].find("skipped")
    assert failure is not None and failure.get("message") == (
        "312 instructions, at most 310: over by 2"
    )
    assert skipped is not None and "no such case" in (skipped.get("message") or "")
    assert [len(case.findall("failure") + case.findall("skipped")) for case in cases] == [
        1,
        1,
        0,
        0,
    ]


def test_junit_is_xml_whatever_a_name_is() -> None:
    found = made(row(OVER, EVIL), row(UNDECIDED, EVIL, EVIL), file=EVIL)
    suite = ElementTree.fromstring(check_junit(found))[0]
    assert [case.tag for case in suite] == ["testcase", "testcase", "system-out"]
    name = suite[0].get("name") or ""
    assert name.startswith('a<b>&"') and "\x1b" not in name and "\x00" not in name


def commands(text: str) -> list[tuple[str, dict[str, str], str]]:
    """What a runner takes text for: src/Runner.Common/ActionCommand.cs of actions/runner."""
    found = []
    for line in re.split(r"\r\n|\r|\n", text):
        match = re.fullmatch(r"\s*::([a-z-]+)(?: ([^:]*(?::(?!:)[^:]*)*))?::(.*)", line, re.DOTALL)
        assert match or not line, line
        if match:
            words = dict(pair.split("=", 1) for pair in (match[2] or "").split(",") if pair)
            properties = {
                name: value.replace("%0D", "\r")
                .replace("%0A", "\n")
                .replace("%3A", ":")
                .replace("%2C", ",")
                .replace("%25", "%")
                for name, value in words.items()
            }
            data = match[3].replace("%0D", "\r").replace("%0A", "\n").replace("%25", "%")
            found.append((match[1], properties, data))
    return found


def test_github_shows_what_does_not_hold_at_its_line() -> None:
    found = commands(check_github(ALL))
    place = {"file": "ci/budgets.toml", "line": "4", "title": "kentry check"}
    assert [(command, words) for command, words, _ in found] == [
        ("error", place),
        ("warning", place),
        ("notice", {"title": "kentry check"}),
    ]
    assert found[0][2] == "getppid instructions: 312 instructions, at most 310: over by 2"
    assert found[-1][2].endswith("Of 4 budgets: 1 over, 1 undecided, 2 within.")


def test_github_says_that_all_budgets_hold() -> None:
    [(command, _, text)] = commands(check_github(made(row(WITHIN))))
    assert (command, text.rpartition(": ")[2]) == ("notice", "The budget holds.")


def test_github_escapes_what_a_name_has() -> None:
    found = commands(check_github(made(row(OVER, EVIL), file="a,b:c%2C\n::x.toml")))
    assert [command for command, _, _ in found] == ["error", "notice"]
    assert found[0][1]["file"] == "a,b:c%2C\n::x.toml"
    assert found[0][2].startswith(EVIL)


def test_the_text_is_ascii_without_control_characters() -> None:
    text = to_text(check_layout(made(row(OVER, EVIL), row(UNDECIDED, "x", EVIL))))
    assert text.isascii()
    assert all(line.isprintable() for line in text.splitlines())
    assert max(map(len, text.splitlines())) <= 100
