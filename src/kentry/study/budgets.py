# SPDX-License-Identifier: GPL-2.0-or-later
"""Budgets: what a case may cost at most, in a TOML file that people write.

docs/reference/formats.md shows one.  A case has one budget for a metric: that of its own name
before a pattern's or group's, then its architecture's before that of all, then the last.
"""

import difflib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from kentry.arch import ARCHES
from kentry.errors import UserError
from kentry.host.cache import read_bytes
from kentry.progress import printable
from kentry.results.recording import INSTRUCTIONS

BASELINE = "baseline"
ALL = "all"  # the table of every architecture
REMEDY = (
    'Write it like: baseline.arm64 = "FILE", then [arm64], then getppid = 312 and read = "+1 %".'
)
_MOST_BYTES = 1 << 20
_MOST = (1 << 63) - 1  # a limit is a number that a recording can have
_MORE = re.compile(r"\+([0-9]{1,18}(?:\.[0-9]{1,9})?) ?(%?)")
_FIRST_MARK = 10**20  # numbers that stand in for values; none is as long as a value can be
Keys = tuple[str, ...]  # a value's place: the keys of its tables, and its own


@dataclass(frozen=True)
class Budget:
    """A case's limit: `number`, or that above the baseline's, perhaps as `percent` of it."""

    table: str
    key: str
    metric: str
    text: str  # as in the file
    number: Fraction
    relative: bool = False
    percent: bool = False
    line: int | None = None


@dataclass(frozen=True)
class Budgets:
    """A file of budgets: `baselines` are the files of recordings, by architecture."""

    file: Path
    text: str
    all: tuple[Budget, ...]
    baselines: Mapping[str, Path]

    def of_arch(self, arch: str) -> list[Budget]:
        """Those of an architecture, in the order of the file; UserError where there are none."""
        chosen = [budget for budget in self.all if budget.table in (arch, ALL)]
        if not chosen:
            raise UserError(
                f"{self.file} has no budget for {arch}.", f"Write one below [{arch}] or [{ALL}]."
            )
        return chosen

    def renewed(self, limits: Mapping[Budget, int | float]) -> str:
        """Return the text of the file with other numbers as limits, and all else as it is."""
        import tomlkit

        document: dict[str, Any] = tomlkit.parse(self.text)
        for budget, limit in limits.items():
            cases = document[budget.table]
            if isinstance(cases[budget.key], dict):
                cases[budget.key][budget.metric] = limit
            else:
                cases[budget.key] = limit
        return tomlkit.dumps(document)


def read_budgets(file: Path) -> Budgets:
    """Read the budgets in `file`; UserError says in one sentence what is wrong."""
    import tomlkit

    data = read_bytes(file, REMEDY, _MOST_BYTES + 1)
    try:
        if len(data) > _MOST_BYTES:
            raise ValueError(f"it is larger than {_MOST_BYTES >> 20} MiB")
        # As bytes, because a file's own line ends are kept when numbers are renewed.
        text = data.decode()
        parsed = tomlkit.parse(text)
        document = parsed.unwrap()
        baselines = _baselines(document.pop(BASELINE, {}), file)
        lines = _lines(parsed)
        budgets = tuple(_budgets(document, lines))
        if not budgets:
            raise ValueError("it has no budget")
    except (ValueError, RecursionError, tomlkit.exceptions.TOMLKitError) as err:
        reason = printable(" ".join(str(err).split())[:300].rstrip("."))
        raise UserError(f"{file} is not a file of budgets: {reason}.", REMEDY) from err
    return Budgets(file, text, budgets, baselines)


def _baselines(value: Any, file: Path) -> dict[str, Path]:
    """Reads the files of recordings, by architecture; ValueError for one outside of the folder."""
    if not isinstance(value, dict):
        raise ValueError(f'{BASELINE} names no architecture; write {BASELINE}.arm64 = "FILE"')
    folder, files = Path(os.path.realpath(file)).parent, {}
    for arch, name in value.items():
        key = f"{BASELINE}.{arch}"
        if arch not in ARCHES:
            raise ValueError(f"{key} is of no architecture; there are {', '.join(ARCHES)}")
        if not isinstance(name, str) or not name or not name.isprintable():
            raise ValueError(f"{key} is not a file's name")
        # Links are followed, so that one cannot lead out of the folder either.
        target = Path(os.path.realpath(folder / name))
        if Path(name).is_absolute() or not target.is_relative_to(folder) or target == folder:
            raise ValueError(f"{key} is not below the folder of this file: {name}")
        files[arch] = file.parent / name
    return files


def _budgets(document: dict[str, Any], lines: Mapping[Keys, int]) -> Iterator[Budget]:
    tables = (*ARCHES, ALL)
    for table, cases in document.items():
        if table not in tables:
            close = difflib.get_close_matches(table, (*tables, BASELINE), n=1)
            meant = f" (did you mean {close[0]}?)" if close else ""
            raise ValueError(
                f"'{table}' is no key{meant}; keys are {BASELINE}, {', '.join(tables)}"
            )
        if not isinstance(cases, dict):
            raise ValueError(f"{table} is not a table of cases; write [{table}]")
        for key, value in cases.items():
            by_metric = value if isinstance(value, dict) else {INSTRUCTIONS: value}
            if not by_metric:
                raise ValueError(f"{table}.{key} has no metric")
            for metric, limit in by_metric.items():
                keys = (table, key, metric) if by_metric is value else (table, key)
                if not all(word and word.isprintable() for word in (key, metric)):
                    raise ValueError(f"{'.'.join(keys)} is not a line of printable text")
                yield Budget(table, key, metric, *_limit(limit, ".".join(keys)), lines.get(keys))


def _limit(value: Any, key: str) -> tuple[str, Fraction, bool, bool]:
    """Returns a value's text, its number, and whether that is added, and in per cent."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        # Neither nan nor inf is in the range.
        if not 0 <= value <= _MOST:
            raise ValueError(f"{key} is not a limit: {value}")
        return str(value), Fraction(str(value)), False, False
    more = _MORE.fullmatch(value) if isinstance(value, str) else None
    if not more:
        shown = value if isinstance(value, str) else type(value).__name__
        raise ValueError(f'{key} is no budget: {shown!r}; write 312, "+2" or "+1 %"')
    percent = bool(more[2])
    return f"+{more[1]}{' %' if percent else ''}", Fraction(more[1]), True, percent


def _lines(document: Any) -> dict[Keys, int]:
    """Find the line of each value, which tomlkit does not tell: a mark takes the value's place."""
    marked: list[tuple[Keys, int]] = []

    def mark(table: dict[str, Any], keys: Keys) -> None:
        for key, value in list(table.items()):
            if isinstance(value, dict):
                mark(value, (*keys, key))
            else:
                newlines = value.as_string().count("\n") if hasattr(value, "as_string") else 0
                table[key] = _FIRST_MARK + len(marked)
                marked.append(((*keys, key), newlines))

    mark(document, ())
    lines, above = {}, 0
    for number, line in enumerate(document.as_string().split("\n"), start=1):
        for digits in re.findall(r"\b10{10}\d{10}\b", line):
            # A comment may have any number in it.
            for keys, newlines in marked[int(digits) - _FIRST_MARK :][:1]:
                lines[keys] = number + above
                above += newlines
    return lines
