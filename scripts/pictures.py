# SPDX-License-Identifier: GPL-2.0-or-later
"""Takes the pictures of the documentation: a browser shows what a page's commands wrote.

A picture NAME.png is of NAME.html, or of NAME.ansi: text in the colours of a terminal.
NAME.png#PLACE shows the page from that place on.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from PIL import Image
from playwright.sync_api import BrowserContext, FloatRect, Page, sync_playwright
from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

# Pixels.  What is longer than a screen is cut off.
WIDE, HIGH = 1200, 1000
# Few colours make small files: of text and its edges, of frames and marks.
COLOURS = 128

_PICTURE = re.compile(r"!\[[^\]]*\]\(([^)#]+\.png)(#[^)]+)?\)")
_TERMINAL = """<!doctype html><meta charset="utf-8"><style>
body {{ margin: 0; padding: 16px 24px; background: {background}; color: {foreground} }}
pre {{ margin: 0; font: 18px/1.35 monospace }}
{stylesheet}</style><pre>{code}</pre>"""


def pictures_of(page: Path) -> dict[Path, str]:
    """The PNG files that a page of the documentation shows, each with the place in its source."""
    found = _PICTURE.findall(page.read_text(encoding="utf-8"))
    return {page.parent / name: place for name, place in found}


def take(page: Path, folder: Path) -> None:
    """Takes those of the page's pictures whose NAME.html or NAME.ansi is in the folder."""
    found = [
        (source, place, picture)
        for picture, place in pictures_of(page).items()
        for source in (folder / f"{picture.stem}.html", folder / f"{picture.stem}.ansi")
        if source.is_file()
    ]
    if not found:
        return
    with _browser() as browser:
        for source, place, picture in found:
            screen = browser.new_page()
            if source.suffix == ".ansi":
                screen.set_content(_as_html(source.read_text(encoding="utf-8")))
            else:
                screen.goto(source.as_uri() + place)
            picture.parent.mkdir(exist_ok=True)
            picture.write_bytes(_small(screen.screenshot(clip=_seen(screen))))


def _as_html(text: str) -> str:
    console = Console(record=True, file=io.StringIO(), width=max(map(len, text.splitlines())))
    console.print(Text.from_ansi(text))
    return console.export_html(theme=MONOKAI, code_format=_TERMINAL)


@contextmanager
def _browser() -> Iterator[BrowserContext]:
    program = shutil.which("chromium")
    if not program:
        sys.exit("chromium is not installed: scripts/install-packages packages/test.txt")
    with sync_playwright() as playwright:
        # The sandbox does not work as root, in containers.
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        chromium = playwright.chromium.launch(executable_path=program, args=arguments)
        context = chromium.new_context(
            viewport={"width": WIDE, "height": HIGH}, color_scheme="light", offline=True
        )
        yield context
        chromium.close()


def _seen(screen: Page) -> FloatRect:
    """What the screen shows, without the empty part below a short page."""
    content = screen.evaluate("Math.ceil(document.body.getBoundingClientRect().bottom)")
    return {"x": 0, "y": 0, "width": WIDE, "height": min(HIGH, content)}


def _small(png: bytes) -> bytes:
    smaller = io.BytesIO()
    # Coverage keeps a colour that only a dot has.
    picture = Image.open(io.BytesIO(png)).convert("RGB")
    picture = picture.quantize(COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    picture.save(smaller, "PNG", optimize=True)
    return smaller.getvalue()
