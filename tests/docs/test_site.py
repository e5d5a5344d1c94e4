# SPDX-License-Identifier: GPL-2.0-or-later
"""The documentation as a site: whole, and opened from its folder without a server."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Literal
from urllib.parse import unquote, urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, ViewportSize

from tests import ROOT
from tests.browser import browser, opened

from .test_docs import docs

__all__ = ["browser"]
pytestmark = pytest.mark.slow


class Links(HTMLParser):
    """What a page links to or loads, and the names of its places."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.places: set[str] = set()
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("href", "src") and value:
                self.targets.append(value)
            if name in ("id", "name") and value:
                self.places.add(value)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    mkdocs = [str(Path(sys.executable).parent / "mkdocs"), "build", "-q", "--strict"]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    subprocess.run(["make", "-s", "site-pages"], cwd=ROOT, check=True)
    done = subprocess.run(
        [*mkdocs, "-d", str(folder)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return folder


def test_each_page_of_the_documentation_is_in_the_site_and_no_link_is_broken(site: Path) -> None:
    pages = {page: Links(page) for page in site.rglob("*.html") if page.name != "404.html"}
    for page in docs.pages():
        place = page.relative_to(ROOT).with_suffix(".html")
        assert site / re.sub(r"README\.html$", "index.html", str(place)) in pages
    for page, links in pages.items():
        for target in links.targets:
            url = urlsplit(target)
            assert url.scheme in ("", "http", "https", "data", "mailto"), target
            if url.scheme:
                continue
            file = (page.parent / unquote(url.path)).resolve() if url.path else page
            assert file.exists(), f"{page}: {target}"
            if url.fragment and file in pages:
                assert unquote(url.fragment) in pages[file].places, f"{page}: {target}"


def test_it_is_searched_and_read_without_a_server(site: Path, browser: Browser) -> None:
    page, complaints = opened(browser, site / "index.html")
    page.get_by_placeholder("Search").first.click()
    page.keyboard.type("noise floor")
    found = page.locator(".md-search-result__item a", has_text=re.compile("noise floor", re.I))
    found.first.click(timeout=60_000)
    page.wait_for_url(re.compile(r"^file:.*/docs/.*\.html"))
    page.goto((site / "docs" / "methods.html").as_uri())
    tooltips = page.locator("abbr[title]").all_inner_texts()
    assert "window" in [one.lower() for one in tooltips]
    assert len(tooltips) == len(set(tooltips))
    assert complaints == []


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (400, "dark")])
def test_axe_finds_nothing_in_our_text(
    site: Path, browser: Browser, width: int, scheme: Literal["light", "dark"]
) -> None:
    for name in ("index", "docs/howto/index", "docs/reference/programs", "docs/glossary"):
        screen: ViewportSize = {"width": width, "height": 900}
        page, _ = opened(browser, site / f"{name}.html", viewport=screen, color_scheme=scheme)
        # The frame around it is the theme's.
        violations = Axe().run(page, context="article").response["violations"]
        assert [(one["id"], one["nodes"][0]["html"][:200]) for one in violations] == []
        page.context.close()
