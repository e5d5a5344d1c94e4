# SPDX-License-Identifier: GPL-2.0-or-later
"""The page: results below each other, with their JSON, in one file that needs no other.

Names of kernels, functions, patches and files come from anyone.  Every text is escaped, the JSON
is harmless inside a script element, and a content security policy with the hashes of the page's
own script and style keeps a browser from running or loading anything else.
"""

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from kentry import __version__
from kentry.results.caveats import Caveat
from kentry.results.recording import Recording
from kentry.show.frame import kernel_name
from kentry.show.numbers import number, share, signed
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
# In a script element only these could end it, or begin a comment.
_IN_SCRIPT = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}


@dataclass(frozen=True)
class Document:
    """One result: the template that lays it out, its values there, and its JSON.

    `place` keeps the ids of several documents apart; the page sets it.  `recordings` are those of
    the page's files whose paths are in it.
    """

    template: str
    title: str
    summary: str
    json: Mapping[str, Any]
    values: Mapping[str, Any]
    caveats: Sequence[Caveat] = ()
    facts: Sequence[tuple[str, str]] = field(default=())
    recordings: Sequence[Recording] = ()


def page(documents: Sequence[Document], notes: Sequence[str] = ()) -> str:
    """The whole page; `notes` are sentences about all documents."""
    script, style = _part("page.js"), _part("page.css")
    words = {
        "documents": documents,
        "notes": notes,
        # The page's own files.
        "script": Markup(script),  # noqa: S704
        "style": Markup(style),  # noqa: S704
        "policy": "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:;"
        f" script-src '{_hash(script)}'; style-src '{_hash(style)}'",
        "version": __version__,
    }
    text = _environment().get_template("base.html").render(words) + "\n"
    return _UNSEEN.sub("\ufffd", text)


def embedded(document: Mapping[str, Any]) -> Markup:
    """JSON as the text of a script element, which nothing in it can end."""
    text = json.dumps(document, allow_nan=False, separators=(",", ":"))
    return Markup(text.translate(_IN_SCRIPT))  # noqa: S704


def name_of(kernel: Mapping[str, Any]) -> str:
    """Which kernel; of a file that lacks what it should say, what it does say."""
    origin = kernel.get("origin")
    whole = {"spec": "?", "arch": "?", "release": "", **kernel}
    return kernel_name({**whole, "origin": origin if isinstance(origin, dict) else {}})


def kernel_facts(kernel: Mapping[str, Any], target: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What was measured on what, as (name, value)."""
    facts = [("kernel", name_of(kernel))]
    facts += [(key.replace("_", " "), str(kernel[key])) for key in _OF_KERNEL if kernel.get(key)]
    facts += [(key.replace("_", " "), str(target[key])) for key in _OF_TARGET if target.get(key)]
    return facts


_OF_KERNEL = ("compiler", "build_id", "config_sha256", "image_sha256")
_OF_TARGET = ("kind", "emulator", "machine", "cpu", "accelerator", "cpu_model", "host", "cmdline")


def side_facts(
    old: Sequence[tuple[str, str]], new: Sequence[tuple[str, str]]
) -> list[tuple[str, str]]:
    """The facts of both sides: once where they are the same."""
    before, after = dict(old), dict(new)
    facts = []
    for name in dict.fromkeys([*before, *after]):
        values = before.get(name, "not known"), after.get(name, "not known")
        if values[0] == values[1]:
            facts.append((name, values[0]))
        else:
            facts += [(f"{name}, old", values[0]), (f"{name}, new", values[1])]
    return facts


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
    }
    environment.globals["share"] = share
    return environment


def _part(name: str) -> str:
    return files("kentry.show.html").joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
