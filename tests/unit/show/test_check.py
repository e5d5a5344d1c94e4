# SPDX-License-Identifier: GPL-2.0-or-later
"""A check as text, KTAP, JUnit, workflow commands and b4's JSON, read back as each is read."""

from __future__ import annotations

import json
import re
import sys
from email.message import EmailMessage
from pathlib import Path
from xml.etree import ElementTree

import pytest
from b4.review import checks
from kcidb_io.schema import V5_3
from msgspec.structs import replace

from kentry.results.comparison import Real
from kentry.results.recording import Measured
from kentry.results.studies import OVER, UNDECIDED, WITHIN, Check, CheckRow, Verdict
from kentry.show.export.ci import check_b4, check_github, check_junit, check_kcidb, check_ktap
from kentry.show.studies import check_layout, row_sentence, summary
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
        verdict=max((row.verdict for row in rows), key=(WITHIN, UNDECIDED, OVER).index),
        rows=rows,
        caveats=({"kind": "x", "text": "a note"},),
    )


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ([row(WITHIN)], "The budget holds."),
        ([row(WITHIN)] * 3, "All 3 budgets hold."),
        ([row(OVER)], "Of 1 budget: 1 over."),
        (
            [row(OVER), row(UNDECIDED, "stat", "no such case"), *[row(WITHIN)] * 2],
            "Of 4 budgets: 1 over, 1 undecided, 2 within.",
        ),
    ],
)
def test_the_summary_counts_what_does_not_hold(rows: list[CheckRow], sentence: str) -> None:
    assert summary(made(*rows)) == sentence


def test_a_range_shows_both_ends() -> None:
    assert row_sentence(row(OVER, high=320)) == "312..320 instructions, at most 310: over by 2"


def test_ktap_has_no_line_that_a_name_made() -> None:
    found = made(row(OVER, EVIL), row(UNDECIDED, EVIL, EVIL), file=EVIL)
    lines = check_ktap(replace(found, caveats=())).splitlines()
    assert len([line for line in lines if re.match("(not )?ok ", line)]) == 2
    assert all(line.startswith(("#", "ok ", "not ok ", "KTAP", "1..")) for line in lines)
    assert all(line.isprintable() for line in lines)
    assert lines[-1].count("#") == 1 and " # SKIP undecided" in lines[-1]


def test_junit_is_xml_whatever_a_name_is() -> None:
    found = made(row(OVER, EVIL), row(UNDECIDED, EVIL, EVIL), file=EVIL)
    suite = ElementTree.fromstring(check_junit(found))[0]
    assert [case.tag for case in suite] == ["testcase", "testcase", "system-out"]
    name = suite[0].get("name") or ""
    assert name.startswith('a<b>&"') and "\x1b" not in name and "\x00" not in name


def test_github_escapes_what_a_name_has() -> None:
    """As a runner reads it: src/Runner.Common/ActionCommand.cs of actions/runner."""
    text = check_github(made(row(OVER, EVIL), file="a,b:c%2C\n::x.toml"))
    lines = re.split(r"\r\n|\r|\n", text)
    assert [line.split(" ")[0] for line in lines] == ["::error", "::notice", ""]
    match = re.fullmatch(r"::error file=([^:,]*),line=4,title=kentry check::(.*)", lines[0])
    assert match
    found = []
    for value in match.groups():
        for code, char in (("0D", "\r"), ("0A", "\n"), ("3A", ":"), ("2C", ","), ("25", "%")):
            value = value.replace(f"%{code}", char)
        found.append(value)
    assert found[0] == "a,b:c%2C\n::x.toml"
    assert found[1].startswith(EVIL)


def test_the_text_is_ascii_without_control_characters() -> None:
    text = to_text(check_layout(made(row(OVER, EVIL), row(UNDECIDED, "x", EVIL))))
    assert text.isascii()
    assert all(line.isprintable() for line in text.splitlines())
    assert max(map(len, text.splitlines())) <= 100


@pytest.mark.parametrize(
    ("verdict", "status"), [(WITHIN, "pass"), (UNDECIDED, "warn"), (OVER, "fail")]
)
def test_b4_reads_one_result_of_a_series(verdict: Verdict, status: str, tmp_path: Path) -> None:
    """By b4's own code, which gives the cover letter to the command and runs it in the tree."""
    (tmp_path / "result").write_text(check_b4(made(row(verdict, EVIL), row(WITHIN))))
    # As kentry check does, it does not read the letter, and exits with the verdict.
    script = "import sys; sys.stdout.write(open('result').read()); sys.exit(1)"
    (tmp_path / "checks.py").write_text(script)
    cover = EmailMessage()
    cover["Subject"] = "[PATCH 0/2] entry: count less"
    cover.set_content("x" * (1 << 20))
    command = f"{sys.executable} checks.py"
    [result] = checks.run_series_checks(("cover@example.org", cover), [command], str(tmp_path))
    assert (result["tool"], result["status"]) == ("kentry", status)
    assert result["summary"].isprintable()
    assert ("over" in result["details"].split()) == (verdict == OVER)


def test_kcidb_takes_each_number_with_its_status() -> None:
    """By kcidb-io, which KernelCI validates and upgrades submissions with."""
    rows = (row(OVER, EVIL), row(WITHIN), row(UNDECIDED, "stat", "no such case"))
    document = V5_3.validate(json.loads(check_kcidb(made(*rows), "our_ci")))
    assert V5_3.count(document) == 5
    [build] = document["builds"]
    assert build["checkout_id"] == document["checkouts"][0]["id"] == build["id"]
    tests = document["tests"]
    assert {test["build_id"] for test in tests} == {build["id"]}
    assert len({test["id"] for test in tests}) == 3
    assert [test["status"] for test in tests] == ["FAIL", "PASS", "MISS"]
    assert [test["path"] for test in tests[1:]] == [
        "kentry.getppid.instructions",
        "kentry.stat.instructions",
    ]
    assert [test.get("number") for test in tests[1:]] == [
        {"value": 312, "unit": "instructions"},
        None,
    ]
