# SPDX-License-Identifier: GPL-2.0-or-later
"""What `kentry log` prints: a sparkline, a row where the count changes, its functions."""

import re
from collections.abc import Iterator

from kentry.results.comparison import Real
from kentry.results.log import ChangePoint, Log
from kentry.show.frame import caveat_lines
from kentry.show.functions import SHOWN, function_lines_with_total
from kentry.show.numbers import change, number
from kentry.show.table import Column, Table, ascii_lines, line_width, text_column, wrapped

_NAME = 12
_LEVELS = "▁▂▃▄▅▆▇█"
# For an output that is not UTF-8.
_ASCII_LEVELS = "_.-=+*#@"
_UNKNOWN = "?"
_COMMIT = re.compile("[0-9a-f]{40,64}")


def log_text(log: Log, shown: int | None = SHOWN, *, blocks: bool = True) -> str:
    """The whole report; `blocks` draws the sparkline in block elements instead of ASCII."""
    values = [one.value for one in log.points if one.value is not None]
    first, last = values[0], values[-1]
    lines = wrapped(
        f"{log.origin['what']} ({log.arch}): {log.case}, {len(log.points)} of"
        f" {log.kernels} kernels measured: {number(first)} to {number(last)} {log.unit}"
    )
    table = Table(
        [
            Column("place"),
            text_column("kernel", most=34),
            Column("old"),
            Column("new"),
            Column("delta"),
            text_column("subject", wraps=True),
        ]
    )
    for one in log.changes:
        sides = number(one.old), number(one.new)
        table.row(one.place, _short(one.names[-1]), *sides, f"{one.delta:+.6g}", one.title)
    body = list(table.lines()) if log.changes else ["No change was found."]
    for one in log.changes:
        body += ["", *_change_lines(one, shown)]
    failed = [one for one in log.points if one.value is None]
    if failed:
        names = ", ".join(_short(one.name) for one in failed)
        body += ["", *wrapped(f"Without a value: {names}.")]
    for other in log.others or ():
        known = [one for one in other.values if one is not None]
        ends = f"{number(known[0])} to {number(known[-1])} {other.unit}" if known else "no value"
        body += ["", *wrapped(f"{other.case}: {ends}{'' if other.changes else ', no change'}")]
        for one in other.changes:
            body += ["", *_change_lines(one, shown)]
    head = ascii_lines([*lines, ""])
    line = "".join(sparkline(log, _LEVELS if blocks else _ASCII_LEVELS)) + "\n\n"
    return head + line + ascii_lines([*body, *caveat_lines(log.caveats)])


def sparkline(log: Log, levels: str) -> Iterator[str]:
    """A character a kernel, or a stretch of kernels where there are more than columns.

    A kernel that was not tried has the value of those on both sides where these are the same; the
    last of a stretch that changes stands for it.
    """
    found: dict[int, Real | None] = {one.place: one.value for one in log.points}
    known = {place: value for place, value in found.items() if value is not None}
    low, high = min(known.values()), max(known.values())
    values: list[Real | None] = []
    before: Real | None = None
    places = sorted(known)
    for place in range(log.kernels):
        before = known.get(place, before)
        after = next((known[other] for other in places if other >= place), before)
        values.append(before if before == after and found.get(place, before) is not None else None)
    step = -(-len(values) // line_width())
    for start in range(0, len(values), step):
        part = [one for one in values[start : start + step] if one is not None]
        if not part:
            yield _UNKNOWN
        else:
            share = (part[-1] - low) / (high - low) if high > low else 0
            yield levels[round(share * (len(levels) - 1))]


def _change_lines(one: ChangePoint, shown: int | None) -> Iterator[str]:
    yield from wrapped(
        f"{_short(one.names[-1])} {one.title}: {number(one.old)} -> {number(one.new)},"
        f" {one.delta:+.6g} ({change(one.delta, one.old)})"
    )
    if len(one.names) > 1:
        others = ", ".join(map(_short, one.names[:-1]))
        yield from wrapped(f"or one before it, which has no value: {others}", first="  ")
    if one.functions:
        yield from function_lines_with_total(one.functions, int(one.old), int(one.new), shown)


def _short(name: str) -> str:
    """A spec or a file, or the start of a commit's name."""
    return name[:_NAME] if _COMMIT.fullmatch(name) else name
