# SPDX-License-Identifier: GPL-2.0-or-later
"""The terms of docs/glossary.md, to which a link of this package leads, as tooltips."""

import re
from collections.abc import Callable
from functools import cache
from importlib.resources import files

from markupsafe import Markup, escape

_ROW = re.compile(r"^\| (?!word |-)([^|]+) \| (.+) \|$", re.MULTILINE)
_LINK = re.compile(r"\[([^]]*)\]\([^)]*\)|`")


@cache
def meanings() -> dict[str, str]:
    """Returns each term with its meaning, in plain text; "exact, noisy" are two terms."""
    text = files("kentry.show").joinpath("glossary.md").read_text(encoding="utf-8")
    rows = [(terms, _LINK.sub(r"\1", meaning)) for terms, meaning in _ROW.findall(text)]
    return {term: meaning for terms, meaning in rows for term in terms.split(", ")}


def explainer() -> Callable[[object], Markup]:
    """Returns a function for one page: HTML of a text, each term explained where it comes first."""
    longest_first = sorted(map(re.escape, meanings()), key=len, reverse=True)
    terms = re.compile(rf"(?<![\w-])({'|'.join(longest_first)})(?![\w-])", re.IGNORECASE)
    known = set()

    def explained(text: object) -> Markup:
        html = Markup()
        # A split by a group: texts and terms alternately.
        for at, part in enumerate(terms.split(str(text))):
            term = part.lower()
            if at % 2 and term not in known:
                known.add(term)
                html += Markup('<abbr title="{}">{}</abbr>').format(meanings()[term], part)
            else:
                html += escape(part)
        return html

    return explained
