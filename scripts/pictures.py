# SPDX-License-Identifier: GPL-2.0-or-later
"""Takes the pictures of the documentation: a browser shows what a page's commands wrote.

The pictures NAME.png and NAME-dark.png are of NAME.html, or of NAME.ansi: text in the colours of a
terminal.  NAME.png#PLACE shows the page from that place on.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Literal

from PIL import Image
from playwright.sync_api import BrowserContext, FloatRect, Page, sync_playwright
from rich.console import Console
from rich.terminal_theme import DEFAULT_TERMINAL_THEME, MONOKAI
from rich.text import Text

# Pixels.  What is longer than a screen is left out from a block's beginning on.
WIDE, HIGH = 1200, 1400
# Lines of a terminal on a screen.
LINES = 56
# Few colours make small files: of text and its edges, of frames and marks.
COLOURS = 128

# Of the page's own: others' are in another folder.
_PICTURE = re.compile(r'<img alt="[^"]*" src="(?!\.\./)([^"#]+\.png)(#[^"]+)?">')
_DARK = "-dark"
# Where the last block ends that fits on a screen: no line of text or chart stands across it.
_LAST_EDGE = """(high) => {
  const box = (one) => one.getBoundingClientRect();
  const all = (names) => [...document.querySelectorAll(names)].map(box).filter((own) => own.height);
  const parts = all("h1, h2, h3, p, li, tr, pre, svg, summary, figcaption, button");
  const edges = all("section, details, h2, h3").map((own) => own.top - 4);
  edges.push(...all("table, figure, pre, p, ul").map((own) => own.bottom + 8));
  edges.push(box(document.body).bottom);
  const whole = (y) => parts.every((own) => own.top >= y || own.bottom <= y);
  return Math.ceil(Math.max(...edges.filter((y) => y <= high && whole(y))));
}"""
_TERMINAL = """<!doctype html><meta charset="utf-8"><style>
body {{ margin: 0; padding: 16px 24px; background: {background}; color: {foreground} }}
pre {{ margin: 0; font: 18px/24px monospace }}
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
    schemes: tuple[Literal["light", "dark"], ...] = ("light", "dark")
    with _browser() as browser:
        for (source, place, picture), scheme in product(found, schemes):
            screen = browser.new_page()
            screen.emulate_media(color_scheme=scheme)
            if source.suffix == ".ansi":
                screen.set_content(_as_html(source.read_text(encoding="utf-8"), scheme))
            else:
                screen.goto(source.as_uri() + place)
            picture.parent.mkdir(exist_ok=True)
            seen = _small(screen.screenshot(clip=_seen(screen)))
            picture.with_stem(picture.stem + _DARK * (scheme == "dark")).write_bytes(seen)


def _as_html(text: str, scheme: str) -> str:
    lines = text.splitlines()
    if len(lines) > LINES:
        # Up to the last blank line.
        lines = lines[: max(at for at in range(LINES) if not lines[at])]
    console = Console(record=True, file=io.StringIO(), width=max(map(len, lines)))
    console.print(Text.from_ansi("\n".join(lines)))
    theme = MONOKAI if scheme == "dark" else DEFAULT_TERMINAL_THEME
    return console.export_html(theme=theme, code_format=_TERMINAL)


@contextmanager
def _browser() -> Iterator[BrowserContext]:
    program = shutil.which("chromium")
    if not program:
        sys.exit("chromium is not installed: scripts/install-packages packages/test.txt")
    with sync_playwright() as playwright:
        # The sandbox does not work as root, in containers.
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        chromium = playwright.chromium.launch(executable_path=program, args=arguments)
        yield chromium.new_context(viewport={"width": WIDE, "height": HIGH}, offline=True)
        chromium.close()


def _seen(screen: Page) -> FloatRect:
    """What the screen shows: whole blocks, without the empty part below a short page."""
    return {"x": 0, "y": 0, "width": WIDE, "height": screen.evaluate(_LAST_EDGE, HIGH)}


def _small(png: bytes) -> bytes:
    smaller = io.BytesIO()
    # Coverage keeps a colour that only a dot has.
    picture = Image.open(io.BytesIO(png)).convert("RGB")
    picture = picture.quantize(COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    picture.save(smaller, "PNG", optimize=True)
    return smaller.getvalue()
