# SPDX-License-Identifier: GPL-2.0-or-later
"""The site of a history in a real browser, from its folder and without a server."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from kentry.cli import main
from tests.browser import OpenFile, violations
from tests.browser import browser as browser
from tests.browser import open_file as open_file
from tests.unit.compare.test_contexts import in_contexts
from tests.unit.show.pages import HOSTILE
from tests.unit.study.test_history import DAYS, package, stored

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two lines of three kernels; one function has a hostile name."""
    folder = tmp_path_factory.mktemp("history")
    recordings = [
        package(
            f"6.12.{at}-1",
            {"read": [("a", 10), (HOSTILE, 10 + at)], "write": [("a", 9)]},
            DAYS[at],
            cpu=cpu,
        )
        for cpu in ("max", "cortex-a76")
        for at in range(3)
    ]
    place = stored(folder, recordings)
    assert main(["history", place, "-o", str(folder / "site")]) == 0
    return folder / "site"


def test_every_page_can_be_read_and_nothing_complains(open_file: OpenFile, site: Path) -> None:
    for file in site.glob("*.html"):
        page = open_file(file, viewport={"width": 400, "height": 900})
        assert violations(page) == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_two_kernels_are_compared_and_the_address_names_them(
    open_file: OpenFile, site: Path
) -> None:
    page = open_file(site / "compare.html")
    page.wait_for_selector("#answer table")
    page.select_option("select >> nth=0", "0")
    page.select_option("select >> nth=1", "2")
    rows = page.locator("#answer > .wide tbody tr").all_inner_texts()
    assert [row.split() for row in rows] == [
        ["read", "20", "22", "+2"],
        ["write", "9", "9", "0"],
    ]
    page.click("#answer summary")
    cells = page.locator("#answer details tbody tr > *").all_inner_texts()
    assert cells == [HOSTILE, "10", "12", "+2"]
    # By their names: a kernel that is added before them changes no address.
    assert parse_qs(urlsplit(page.url).fragment) == {
        "old": ["arm64 cortex-a76, gcc 12: debian:6.12.0-1"],
        "new": ["arm64 cortex-a76, gcc 12: debian:6.12.2-1"],
    }
    again = open_file(site / "compare.html")
    again.goto(page.url)
    again.wait_for_selector("#answer details")
    assert again.locator("#answer summary").inner_text() == "read +2"


def test_a_count_of_zero_is_one_and_a_case_of_one_side_is_named(
    open_file: OpenFile, tmp_path: Path
) -> None:
    old = package("6.12.1-1", {"vdso": [], "lost": [("a", 3)]})
    new = package("6.12.2-1", {"vdso": [("a", 4)]}, DAYS[1])
    place = stored(tmp_path, [old, new])
    assert main(["history", place, "-o", str(tmp_path / "site")]) == 0
    page = open_file(tmp_path / "site" / "compare.html")
    page.wait_for_selector("#answer details")
    assert page.locator("#answer > .wide tbody tr").inner_text().split() == ["vdso", "0", "4", "+4"]
    assert page.locator("#answer > .note").inner_text().endswith(" lost.")
    page.click("#answer summary")
    assert page.locator("#answer details tbody tr").inner_text().split() == ["a", "-", "4", "+4"]


def test_a_count_that_depends_on_the_context_is_no_sure_change(
    open_file: OpenFile, tmp_path: Path
) -> None:
    recordings = []
    for version, counts in (("6.12.1", (20, 20, 28)), ("6.12.2", (28, 28, 20))):
        own = in_contexts([[("a", count)] for count in counts])
        own.kernel = {**own.kernel, "release": version, "spec": version}
        recordings.append(own)
    place = stored(tmp_path, recordings)
    assert main(["history", place, "-o", str(tmp_path / "site")]) == 0
    page = open_file(tmp_path / "site" / "compare.html")
    page.wait_for_selector("#answer table")
    assert page.locator("#answer > .wide tbody td.worse").count() == 0
    assert page.locator("#answer > .note").count() == 1


def test_a_change_leads_from_the_overview_to_its_functions(open_file: OpenFile, site: Path) -> None:
    page = open_file(site / "index.html")
    page.click("text=debian:6.12.2-1 >> nth=0")
    page.wait_for_selector("details[open]")
    assert page.locator("details[open] tbody tr").count() == 1
    assert page.locator("details[open] tfoot").inner_text().split() == ["all", "+1"]
    page.click("text=Compare two kernels")
    page.wait_for_selector("#answer table")
