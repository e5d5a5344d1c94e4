# SPDX-License-Identifier: GPL-2.0-or-later
"""A file of each kind that kentry report reads, and pages read back."""

import base64
import gzip
import json
from collections.abc import Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from kentry.commands.pages import report
from kentry.compare.counted import compare
from kentry.compare.path_diff import compare_paths
from kentry.compare.workload import compare_workloads
from kentry.results import recording
from kentry.results.document import dump, to_json
from kentry.results.workload import read_workload
from tests import ROOT
from tests.builders import timed
from tests.golden import test_golden

GOLDEN = ROOT / "tests" / "golden"
OLD, NEW = GOLDEN / "arm64-6.1.json", GOLDEN / "arm64-6.12.json"

# What a name can hold: markup, the end of a script, an attribute, a scheme, a template, controls.
HOSTILE = (
    "</script><script>document.title='taken'</script>"
    '<img src=x onerror="document.title=\'taken\'">\'" onmouseover="x" {{ 7*7 }} javascript:x()&lt;'
)


# The keys of texts that anyone may have written.
FREE = frozenset(
    (
        *("name", "subject", "text", "detail", "sentence", "spec", "release", "compiler", "title"),
        *("author", "problem", "reason", "what", "tree", "host", "emulator", "cmdline", "source"),
    )
)


def hostile(kind: str, file: Path) -> str:
    """The JSON of a file of that kind, hostile in each free text."""
    # Of a workload's row, `what` is one of a few words.
    keys = FREE - {"what"} if kind.startswith("workload") else FREE

    def replaced(document: Any) -> Any:
        if isinstance(document, list):
            return [replaced(one) for one in document]
        if not isinstance(document, dict):
            return document
        is_placed = {"code", "text", "offset"} <= document.keys()
        lines = {"source_lines": [[HOSTILE, 1, HOSTILE]]} if is_placed else {}
        return lines | {
            key: HOSTILE + value if key in keys and isinstance(value, str) else replaced(value)
            for key, value in document.items()
        }

    document = replaced(json.loads(file.read_text()))
    for named in (document.get("code", {}), document if kind == "workload" else {}):
        if "functions" in named:
            named["functions"] = [HOSTILE + name for name in named["functions"]]
    return json.dumps(document)


def files(folder: Path) -> dict[str, list[Path]]:
    """By kind, the files of a page; all but the replay, which takes seconds to make."""
    old, new = recording.read_recording(OLD), recording.read_recording(NEW)
    before, after = (read_workload(GOLDEN / f"workload{end}.json") for end in ("-6.1", ""))
    documents: dict[str, Mapping[str, Any]] = {
        "comparison": to_json(compare(old, new)),
        "path-diff": to_json(compare_paths(old, new, ["getppid"])),
        "series": to_json(test_golden.a_series()),
        "uneven-series": to_json(test_golden.an_uneven_series()),
        "bisection": to_json(test_golden.a_bisection()),
        "log": to_json(test_golden.a_log()),
        "ablation": to_json(test_golden.an_ablation()),
        "check": json.loads((GOLDEN / "check.json").read_text()),
        "workload": to_json(after),
        "workload-comparison": to_json(compare_workloads([before], [after])),
        "timed": recording.to_json(timed({"getppid": 80.0, "read": 200.0})),
        "timed-new": recording.to_json(timed({"getppid": 82.0, "read": 199.0}, (1, 2))),
    }
    found = {}
    for name, document in documents.items():
        file = folder / f"{name}.json"
        file.write_text(dump(dict(document)))
        found[name] = [file]
    found["timed-comparison"] = [*found["timed"], *found.pop("timed-new")]
    return found | {"recording": [NEW], "two-recordings": [OLD, NEW]}


def unpacked(text: str) -> Any:
    """The JSON that a page has, from the text of its script element."""
    return json.loads(gzip.decompress(base64.b64decode(text, validate=True)))


class Page(HTMLParser):
    """What a page has: the JSON, the texts of cells by class, the tags, the attributes."""

    def __init__(self, source: str | list[Path]) -> None:
        super().__init__()
        self.json: list[dict[str, Any]] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.cells: list[tuple[str, str]] = []
        self._script = ""
        self._cell: tuple[str, str] | None = None
        self.feed(source if isinstance(source, str) else report(source))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag == "script":
            self._script = dict(attrs).get("type") or "script"
        if tag in ("td", "th"):
            self._cell = (dict(attrs).get("class") or "", "")

    def handle_endtag(self, tag: str) -> None:
        if tag == "script":
            self._script = ""
        if tag in ("td", "th") and self._cell:
            self.cells.append(self._cell)
            self._cell = None

    def handle_data(self, data: str) -> None:
        if self._script == "application/gzip":
            self.json.append(unpacked(data))
        elif not self._script:
            self.text += data
        if self._cell:
            self._cell = (self._cell[0], self._cell[1] + data)
