# SPDX-License-Identifier: GPL-2.0-or-later
"""The page: results below each other, with their JSON, in one file that needs no other.

Texts come from anyone.  All are escaped, the JSON is harmless inside a script element, and by the
page's content security policy a browser runs and loads nothing but its own script and style.
"""

import base64
import gzip
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from itertools import groupby
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from kentry import __version__
from kentry.show.blocks import Cell, Column, Layout
from kentry.show.glossary import explainer
from kentry.show.numbers import number, signed
from kentry.show.paths import hunks
from kentry.show.table import shortened
from kentry.stats import exact

_MARKS = {
    exact.SAME: "=",
    exact.WORSE: "\u25b2",
    exact.BETTER: "\u25bc",
    exact.UNDECIDED: "?",
    "over": "\u25b2",
    "within": "\u2713",
}
# Control characters, half characters, and what hides or reorders other text.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff]"
)
# A name in Hebrew or Arabic is isolated: the numbers beside it stay where they are.
_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]+")
# A longer caveat is shown by its beginning; characters.
_CHIP = 64


def page(
    documents: Sequence[Layout],
    notes: Sequence[str] = (),
    *,
    links: Sequence[tuple[str, str]] = (),
    more: str = "",
) -> str:
    """Returns the whole page; `notes` are sentences about all documents.

    Of a site, `links` are its other pages, each a text and a file; `more` is a script of its own.
    """
    script, style = _part("page.js"), _part("charts.css") + _part("page.css")
    script += _part(more) if more else ""
    variables = {
        "documents": documents,
        "notes": notes,
        "links": links,
        # The page's own files.
        "script": Markup(script),  # noqa: S704
        "style": Markup(style),  # noqa: S704
        "policy": "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:;"
        f" script-src '{_hash(script)}'; style-src '{_hash(style)}'",
        "version": __version__,
        "explained": explainer(),
        # A page of a site that would be as it is stays.
        "written": "" if links else datetime.now(UTC).date().isoformat(),
    }
    return rendered("base.html", variables)


def rendered(template: str, variables: Mapping[str, Any]) -> str:
    """Returns the template with what it shows escaped, and no character that hides another."""
    text = _environment().get_template(template).render(variables) + "\n"
    return _RIGHT_TO_LEFT.sub("\u2068\\g<0>\u2069", _UNSEEN.sub("\ufffd", text))


def embedded(document: Mapping[str, Any]) -> str:
    """Returns JSON, packed, as the text of a script element, which no letter of base64 can end."""
    text = json.dumps(document, allow_nan=False, separators=(",", ":"))
    # Without a time the same result is the same page.
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


def _beginning(text: str) -> str:
    """Returns a short text whole, of others the first clause or as many words as a line has."""
    if len(text) <= _CHIP:
        return text
    clause = re.split(r"[:;] | \(", text, maxsplit=1)[0]
    return f"{shortened(clause, _CHIP).removesuffix('...').rstrip(' ,')}\u2026"


@cache
def _environment() -> Environment:
    # StrictUndefined: a misspelled name is an error and not an empty cell.
    environment = Environment(
        loader=PackageLoader("kentry.show", "html"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: "" if value is None else value,
    )
    environment.filters |= {
        "signed": signed,
        "number": number,
        "embedded": embedded,
        "mark": lambda verdict: _MARKS.get(verdict, ""),
        "kind": lambda block: type(block).__name__,
        # The headings over columns, each with how many columns it has.
        "groups": lambda table: [
            (name, len(list(same)))
            for name, same in groupby(column.group for column in table.columns)
        ],
        # The column that names the rows: the first one of words.
        "row_head": lambda table: next(
            (at for at, column in enumerate(table.columns) if column.left), 0
        ),
        "class_of": _class_of,
        # The rows that a table of functions shows; of parts and reasons those are all.
        "changed": lambda deltas: [
            row for row in deltas.rows if deltas.title or row.old != row.new
        ],
        "change": lambda row: row.new - row.old,
        "hunks": lambda block: block.hunks or list(hunks(block.diff.rows, block.context)),
        "beginning": _beginning,
        # Of a patch or case, which a cell links to; a baseline has no such cell.
        "unchanged": lambda row: (
            any(isinstance(cell, Cell) for cell in row)
            and all(cell.kind in ("", exact.SAME) for cell in row if isinstance(cell, Cell))
        ),
        # A chart whose links lead into its own result; a quote in a text is escaped.
        "linked": lambda drawing, to: Markup(str(drawing).replace('href="#', f'href="#{to}')),  # noqa: S704
    }
    return environment


def _class_of(column: Column, cell: object) -> Markup:
    classes = ["text"] if column.left else []
    classes += [cell.kind] if isinstance(cell, Cell) and cell.kind else []
    return Markup(' class="{}"').format(" ".join(classes)) if classes else Markup("")


def _part(name: str) -> str:
    return files("kentry.show").joinpath("html", name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
