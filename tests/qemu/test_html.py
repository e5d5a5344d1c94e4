# SPDX-License-Identifier: GPL-2.0-or-later
"""The page of two real kernels, in a real browser."""

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from kentry.cli import main
from tests.browser import browser as browser
from tests.browser import opened

from .conftest import timed

pytestmark = pytest.mark.qemu

CASES = ("getppid", "read")


def test_a_page_of_two_kernels_adds_up_to_the_json(
    browser: Browser, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "out.html"
    words = ["diff", "debian:6.1", "debian:6.12", "--arch", "arm64", "--case", ",".join(CASES)]
    with timed("debian:6.1 and debian:6.12 for arm64"):
        assert main([*words, "-q", "--json", "--html", str(file)]) == 0
        printed = json.loads(capsys.readouterr().out)
    cases = {case["name"]: case for case in printed["cases"]}
    assert set(cases) == set(CASES)
    page, complaints = opened(browser, file)
    tables = page.evaluate(
        """Object.fromEntries([...document.querySelectorAll("table.functions")].map((table) => [
             table.closest("details").querySelector("summary code").textContent,
             [...table.querySelectorAll("tbody tr:not(.same)")].map((row) =>
               [row.querySelector("th").textContent,
                Number(row.querySelector("td.delta").textContent)])]))"""
    )
    sums = page.evaluate(
        "[...document.querySelectorAll('td.sum')].map((one) => Number(one.textContent))"
    )
    frames = page.evaluate(
        """[...document.querySelectorAll("svg.icicle")].map(
             (one) => one.querySelectorAll("svg.frame:not(.part)").length)"""
    )
    differences = page.evaluate(
        """[...document.querySelectorAll("table.paths")].map(
             (one) => one.parentElement.previousElementSibling.textContent)"""
    )
    page.context.close()
    assert complaints == []
    changed = {name: case for name, case in cases.items() if case["delta"]}
    assert changed, "two releases of Debian's kernel differ somewhere"
    assert tables.keys() == changed.keys()
    for name, case in changed.items():
        rows = [[row["name"], row["delta"]] for row in case["functions"] if row["delta"]]
        assert tables[name] == rows
        assert sum(delta for _, delta in tables[name]) == case["delta"]
    assert sums == [case["delta"] for case in changed.values()]
    # Each has both paths as charts, and side by side.
    assert len(frames) == 2 * len(changed)
    assert min(frames) > 5
    counts = [
        {word: int(number) for number, word in re.findall(r"(\d+) (added|removed)", one)}
        for one in differences
    ]
    assert [one.get("added", 0) - one.get("removed", 0) for one in counts] == sums
