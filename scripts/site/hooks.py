# SPDX-License-Identifier: GPL-2.0-or-later
"""What mkdocs cannot do by itself for the site: its chapters, its reports and its tooltips.

mkdocs.yml names this file as a hook.  The report pages that `make docs` made are in build/reports,
each in a folder with the name of its page; the page gets a link to them below the command.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from kentry.show.glossary import meanings

ROOT = Path(__file__).parents[2]
REPORTS = ROOT / "build" / "reports"
_BLOCK = re.compile(r"^```console.*?^```$", re.DOTALL | re.MULTILINE)
_REPORT = re.compile(r"(?<!\S)[\w.-]+\.html(?!\S)")
_TOOLTIP = re.compile(r'<abbr title="[^"]*">(.*?)</abbr>')


def on_config(config: Any) -> Any:
    """Sets the chapters; a folder's README.md is the page of the chapter itself."""
    config.nav = [
        "README.md",
        "docs/tutorial.md",
        {"How-tos": _chapter("docs/howto")},
        {
            "Reference": [
                *_chapter("docs/reference"),
                "docs/methods.md",
                "docs/SECURITY.md",
                "docs/glossary.md",
            ]
        },
        {"Cases": _chapter("docs/cases")},
        {"Examples": _chapter("examples")},
        "docs/gallery.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
    ]
    return config


def _chapter(folder: str) -> list[str]:
    pages = [page.relative_to(ROOT).as_posix() for page in sorted((ROOT / folder).rglob("*.md"))]
    return sorted(pages, key=f"{folder}/README.md".__ne__)


def on_files(files: Files, config: Any) -> Files:
    """Adds the report pages, beside the pages that quote them, and this folder's own files."""
    for file in sorted(REPORTS.rglob("*.html")):
        place = file.relative_to(REPORTS).as_posix()
        files.append(File(place, str(REPORTS), config.site_dir, use_directory_urls=False))
    for name in ("iframe-worker.js", "site.css", "tables.js"):
        text = Path(__file__).with_name(name).read_text(encoding="utf-8")
        files.append(File.generated(config, f"assets/{name}", content=text))
    return files


def on_page_markdown(markdown: str, page: Page, files: Files, **_: Any) -> str:
    """Links the reports that the page's commands wrote, and hands abbr the glossary's terms."""
    folder = Path(page.file.src_uri).with_suffix("")

    def linked(block: re.Match[str]) -> str:
        names = dict.fromkeys(_REPORT.findall(block[0]))
        there = [name for name in names if (REPORTS / folder / name).is_file()]
        links = (f"[Open {name}]({folder.name}/{name})" for name in there)
        # "slow" is for scripts/docs.py.
        return "\n\n".join([block[0].replace("```console slow", "```console", 1), *links])

    markdown = _BLOCK.sub(linked, markdown)
    if page.file.src_uri == "docs/glossary.md":
        return markdown
    # As the extension abbr reads them.
    lines = [f"*[{term}]: {meaning}" for term, meaning in meanings().items()]
    return "\n".join([markdown, "", *lines, ""])


def on_page_content(html: str, **_: Any) -> str:
    """Leaves the tooltip of a term where it stands first on the page."""
    seen: set[str] = set()

    def first(tooltip: re.Match[str]) -> str:
        known = tooltip[1] in seen
        seen.add(tooltip[1])
        return tooltip[1] if known else tooltip[0]

    return _TOOLTIP.sub(first, html)
