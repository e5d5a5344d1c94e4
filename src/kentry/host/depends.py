# SPDX-License-Identifier: GPL-2.0-or-later
"""What packages depend on, chosen as apt chooses where nothing is installed."""

import operator
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from kentry.errors import FetchError
from kentry.host.fetch import REMEDY

# A package of a list: its fields, and the suite, as "Suite".
Stanza = dict[str, str]

_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "<<": operator.lt,
    "<=": operator.le,
    "=": operator.eq,
    ">=": operator.ge,
    ">>": operator.gt,
}


def stanza_at(text: bytes, suite: str, position: int) -> Stanza:
    """Return the package of a list in which `position` is."""
    start, end = text.rfind(b"\n\n", 0, position) + 1, text.find(b"\n\n", position)
    lines = re.sub(rb"\n[ \t]+", b" ", text[start : end if end > 0 else None]).decode().split("\n")
    return {"Suite": suite} | dict(line.split(": ", 1) for line in lines if ": " in line)


class Lists:
    """The packages of several suites; those of `target` are preferred, and backports last."""

    def __init__(self, texts: Mapping[str, bytes], target: str) -> None:
        self._texts = texts
        self._target = target
        self._places: dict[str, list[tuple[str, int]]] = defaultdict(list)
        self._providers: dict[str, dict[str, None]] = defaultdict(dict)
        for suite, text in texts.items():
            for match in re.finditer(rb"^Package: (.+)\n", text, re.MULTILINE):
                self._places[match[1].decode()].append((suite, match.start()))
            for match in re.finditer(rb"^Provides: (.+)\n", text, re.MULTILINE):
                package = stanza_at(text, suite, match.start())["Package"]
                for name in re.findall(r"(?:^|,)\s*([^\s,]+)", match[1].decode()):
                    self._providers[name][package] = None
        self.best = cache(self._best)

    def _best(self, name: str) -> Stanza | None:
        """Return the version of a package that is to be taken, None where there is no such."""
        from debian.debian_support import Version

        def order(stanza: Stanza) -> tuple[bool, bool, Version]:
            suite = stanza["Suite"]
            return (suite == self._target, "-backports" not in suite, Version(stanza["Version"]))

        found = (stanza_at(self._texts[suite], suite, place) for suite, place in self._places[name])
        return max(found, key=order, default=None)

    def closure(self, names: Sequence[str]) -> list[Stanza]:
        """Return the packages and what they depend on; KeyError names what cannot be had."""
        chosen: dict[str, Stanza] = {}
        for name in names:
            # A name that one package provides is that package's.
            others = [*self._providers.get(name, ())]
            stanza = self.best(name) or (self.best(others[0]) if len(others) == 1 else None)
            if not stanza:
                raise KeyError(name)
            chosen[stanza["Package"]] = stanza
        for stanza in list(chosen.values()):
            self._add_needs(stanza, chosen)
        return list(chosen.values())

    def _add_needs(self, stanza: Stanza, chosen: dict[str, Stanza]) -> None:
        """Add to `chosen` what a package needs: of alternatives what is there, or the first."""
        added = []
        for field in ("Pre-Depends", "Depends"):
            for group in _relations(stanza.get(field, "")):
                named = [
                    (name, it)
                    for it in group
                    for name in (it["name"], *self._providers.get(it["name"], ()))
                ]
                if any(name in chosen and _is_met(it, chosen[name]) for name, it in named):
                    continue
                able = (self.best(name) for name, it in named if _is_met(it, self.best(name)))
                if not (needed := next(able, None)):
                    raise FetchError(
                        f"{stanza['Package']} needs {group[0]['name']}, which the lists of"
                        f" {', '.join(self._texts)} have not.",
                        REMEDY,
                    )
                chosen[needed["Package"]] = needed
                added.append(needed)
        for needed in added:
            self._add_needs(needed, chosen)


def _relations(text: str) -> list[list[Any]]:
    from debian.deb822 import PkgRelation

    return PkgRelation.parse_relations(text) if text else []


def _is_met(wanted: Any, stanza: Stanza | None) -> bool:
    """Return whether a package is, or provides, what is wanted."""
    from debian.debian_support import Version

    if not stanza:
        return False
    had = [(stanza["Package"], ("=", stanza["Version"]))]
    had += [(it["name"], it["version"]) for (it,) in _relations(stanza.get("Provides", ""))]
    for name, version in had:
        if name == wanted["name"]:
            if not wanted["version"]:
                return True
            compare, least = wanted["version"]
            if version and _OPERATORS[compare](Version(version[1]), Version(least)):
                return True
    return False
