# SPDX-License-Identifier: GPL-2.0-or-later
"""A real browser for tests: Debian's Chromium, headless, with its network cut off."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, sync_playwright


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    program = shutil.which("chromium")
    if not program:
        if os.environ.get("KENTRY_TEST_FORCE"):
            pytest.fail("chromium is not installed: scripts/install-packages packages/test.txt")
        pytest.skip("chromium is not installed (to make this a failure: KENTRY_TEST_FORCE=1)")
    with sync_playwright() as playwright:
        # The sandbox does not work as root, in containers.
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        chromium = playwright.chromium.launch(executable_path=program, args=arguments)
        yield chromium
        chromium.close()


def opened(browser: Browser, file: Path, **options: Any) -> tuple[Page, list[str]]:
    """The page, and whatever the browser complained of or tried to load."""
    context = browser.new_context(**options)
    context.set_offline(True)
    page = context.new_page()
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("dialog", lambda dialog: complaints.append(dialog.message))
    page.on(
        "request",
        lambda request: (
            None if request.url.startswith(("file:", "data:")) else complaints.append(request.url)
        ),
    )
    page.goto(file.as_uri())
    return page, complaints


OpenFile = Callable[..., Page]


@pytest.fixture
def open_file(browser: Browser) -> Iterator[OpenFile]:
    """Opens a file as opened() does; pages are closed after the test, and none has complained."""
    made = []

    def page_of(file: Path, **options: Any) -> Page:
        made.append(opened(browser, file, **options))
        return made[-1][0]

    yield page_of
    for page, complaints in made:
        page.context.close()
        assert complaints == []


def open_all(page: Page) -> None:
    page.evaluate("document.querySelectorAll('details').forEach((one) => (one.open = true))")


def violations(page: Page) -> list[tuple[str, str]]:
    """What axe-core finds that a reader cannot use, with everything unfolded."""
    open_all(page)
    found = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
    return [(one["id"], one["nodes"][0]["html"][:200]) for one in found]
