# SPDX-License-Identifier: GPL-2.0-or-later
"""The layout of a log: a sparkline, a row where the count changes, its functions."""

import re
from bisect import bisect_left
from collections.abc import Iterator

from kentry.results.comparison import Real
from kentry.results.studies import ChangePoint, Log
from kentry.show import charts
from kentry.show.blocks import (
    SHOWN,
    Block,
    Chart,
    Column,
    Deltas,
    Drawn,
    Fold,
    InText,
    Layout,
    OnPage,
    Prose,
    Section,
    Table,
    text_column,
)
from kentry.show.numbers import change, number
from kentry.show.table import line_width

_NAME = 12
# Kernels that the axis of a chart names.
_LABELLED = 6
_LEVELS = "▁▂▃▄▅▆▇█"
# For an output that is not UTF-8.
_ASCII_LEVELS = "_.-=+*#@"
_UNKNOWN = "?"
_COMMIT = re.compile("[0-9a-f]{40,64}")


def log_layout(log: Log, shown: int | None = SHOWN, *, blocks: bool = True) -> Layout:
    """Lays out a log; `blocks` draws the sparkline in block elements instead of ASCII."""
    values = [one.value for one in log.points if one.value is not None]
    ends = f"{number(values[0])} to {number(values[-1])} {log.unit}" if values else "no values"
    measured = f"{len(log.points)} of {log.kernels} kernels measured"
    head = Prose(f"{log.origin['what']} ({log.arch}): {log.case}, {measured}: {ends}")
    levels = _LEVELS if blocks else _ASCII_LEVELS
    body: list[Block] = [_change_table(log) if log.changes else "No change was found."]
    for place, one in enumerate(log.changes, start=1):
        body += ["", _change_fold(one, shown, f"change-{place}")]
    failed = [one for one in log.points if one.value is None]
    if failed:
        names = ", ".join(_short(one.name) for one in failed)
        body += ["", Prose(f"Without a value: {names}.")]
    for other in log.others:
        of_case = [one for one in other.values if one is not None]
        words = "no value"
        if of_case:
            words = f"{number(of_case[0])} to {number(of_case[-1])} {other.unit}"
        body += ["", Prose(f"{other.case}: {words}{'' if other.changes else ', no change'}")]
        for place, one in enumerate(other.changes, start=1):
            body += ["", _change_fold(one, shown, f"{other.case}-change-{place}")]
    return Layout(
        "log",
        f"History of {log.case} ({log.arch})",
        f"{measured}, {ends}, {len(log.changes)} changes",
        [
            InText([head, "", Drawn(lambda: "".join(_sparkline(log, levels))), ""]),
            OnPage([log_chart(log)] if values else []),
            Section("Changes", body),
            OnPage([Section("Kernels", [_kernel_table(log)])]),
        ],
        log.caveats,
        list(log.origin.items()),
    )


def log_chart(log: Log) -> Chart:
    """Draws the values as steps, the changes as large dots."""
    changes = {
        one.place: ("change", f"change-{at}", f"{one.delta:+.6g}")
        for at, one in enumerate(log.changes, start=1)
    }
    points = [
        charts.Point(
            one.place,
            one.value,
            f"{_short(one.name)} {one.title}: {number(one.value)} {log.unit}",
            *changes.get(one.place, ()),
        )
        for one in log.points
        if one.value is not None
    ]
    label = f"{log.case}: {log.unit} of each kernel, oldest first"
    # The releases or the months of a few, because a place says nothing.
    few = log.points[:: -(-len(log.points) // _LABELLED)]
    named = [(one.place, one.date[:7] or one.name.rpartition(":")[2][-_NAME:]) for one in few]
    drawing = charts.line(points, label, "kernel", log.unit, shape="steps", named=named)
    return Chart(drawing, "The large dots are the changes.")


def _change_table(log: Log) -> Table:
    names = [Column("place"), text_column("kernel", most=34)]
    values = [Column("old"), Column("new"), Column("delta")]
    table = Table([*names, *values, text_column("subject", wraps=True)])
    for one in log.changes:
        sides = number(one.old), number(one.new)
        table.row(one.place, _short(one.names[-1]), *sides, f"{one.delta:+.6g}", one.title)
    return table


def _kernel_table(log: Log) -> Table:
    names = [Column("place"), text_column("kernel"), Column(log.unit)]
    table = Table([*names, text_column("date"), text_column("subject")], caption="Oldest first")
    for one in log.points:
        about = ": ".join(filter(None, (one.title, one.problem)))
        table.row(one.place, _short(one.name), number(one.value), one.date[:10], about)
    return table


def _sparkline(log: Log, levels: str) -> Iterator[str]:
    """Yields a character a kernel, or a stretch of kernels where there are more than columns.

    A kernel that was not tried has the value of those on both sides where these are the same; the
    last of a stretch that changes stands for it.
    """
    tried: dict[int, Real | None] = {one.place: one.value for one in log.points}
    known = {place: value for place, value in tried.items() if value is not None}
    low, high = min(known.values()), max(known.values())
    values: list[Real | None] = []
    before: Real | None = None
    places = sorted(known)
    for place in range(log.kernels):
        before = known.get(place, before)
        at = bisect_left(places, place)
        after = known[places[at]] if at < len(places) else before
        values.append(before if before == after and tried.get(place, before) is not None else None)
    step = -(-len(values) // line_width())
    for start in range(0, len(values), step):
        part = [one for one in values[start : start + step] if one is not None]
        if not part:
            yield _UNKNOWN
        else:
            share = (part[-1] - low) / (high - low) if high > low else 0
            yield levels[round(share * (len(levels) - 1))]


def _change_fold(one: ChangePoint, shown: int | None, name: str) -> Fold:
    title = Prose(
        f"{_short(one.names[-1])} {one.title}: {number(one.old)} -> {number(one.new)},"
        f" {one.delta:+.6g} ({change(one.delta, one.old)})"
    )
    blocks: list[Block] = []
    if len(one.names) > 1:
        others = ", ".join(map(_short, one.names[:-1]))
        blocks.append(Prose(f"or one before it, which has no value: {others}", first="  "))
    if one.functions:
        blocks.append(Deltas(one.functions, int(one.old), int(one.new), shown))
    return Fold(title, blocks, name, open=True)


def _short(name: str) -> str:
    """Returns a spec or a file, or the start of a commit's name."""
    return name[:_NAME] if _COMMIT.fullmatch(name) else name
