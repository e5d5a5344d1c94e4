# SPDX-License-Identifier: GPL-2.0-or-later
"""A comparison as a document of a page: verdicts, function deltas that add up, both paths."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import UNSET

from kentry.results.comparison import (
    CaseComparison,
    Comparison,
    TimedComparison,
)
from kentry.results.recording import INSTRUCTIONS, Recording
from kentry.show.comparison import bare_change, timed_unit, timed_values, timed_verdict
from kentry.show.contexts import unseen_text
from kentry.show.html import charts
from kentry.show.html.frames import first_modal, frames
from kentry.show.html.page import Document, kernel_facts, name_of, side_facts
from kentry.show.html.path_diff import recorded_side_by_side
from kentry.show.html.recording import times
from kentry.show.numbers import change, percent
from kentry.stats import exact

Row = CaseComparison | TimedComparison
_ORDER = (exact.WORSE, exact.BETTER, exact.UNDECIDED, exact.SAME)


def comparison_document(
    comparison: Comparison,
    document: Mapping[str, Any],
    sides: tuple[Recording, Recording] | None = None,
) -> Document:
    """The rows; with the recordings of both sides, both paths of each case and their samples.

    `document` is the comparison's JSON.
    """
    rows = comparison.rows
    old, new = document["old"], document["new"]
    found = list(comparison.caveats)
    for row in rows:
        found += [one for one in row.caveats if one not in found]
    counts = {verdict: sum(row.verdict == verdict for row in rows) for verdict in _ORDER}
    summary = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
    if len(rows) > 1:
        summary += f", of {len(rows)}"
    else:
        row = rows[0]
        amount = f"{row.delta:+d}" if isinstance(row, CaseComparison) else bare_change(row)
        summary = f"{row.name}: {row.verdict}, {amount} {row.metric}"
    shown = [_row(row, sides) for row in rows]
    timed = [row for row in rows if isinstance(row, TimedComparison) and row.percent is not None]
    # Two cases of one kernel, for instance.
    specs = " \u2192 ".join(dict.fromkeys(side["kernel"]["spec"] for side in (old, new)))
    return Document(
        template="comparison.html",
        title=f"{specs} ({new['kernel']['arch']})",
        summary=summary,
        json=document,
        values={
            "names": [name_of(side["kernel"]) for side in (old, new)],
            "rows": shown,
            "timed": _timed_chart(timed),
            "has_paths": any(one["paths"] for one in shown),
        },
        caveats=found,
        facts=side_facts(*(kernel_facts(one["kernel"], one["target"]) for one in (old, new))),
    )


def _row(row: Row, sides: tuple[Recording, Recording] | None) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": row.name,
        "metric": row.metric,
        "verdict": row.verdict,
        "delta": row.delta,
        "exact": isinstance(row, CaseComparison),
        "unit": "",
        "change": "",
        "words": row.verdict,
        "limits": [],
        "functions": [],
        "largest": 0,
        "paths": [],
        "path_diff": None,
        "purposes": [],
        "events": [],
        "contexts": None,
        "unseen": "",
        "estimates": (),
        "times": [],
    }
    if isinstance(row, TimedComparison):
        found["sides"] = timed_values(row)
        found["unit"] = timed_unit(row)
        found["change"] = bare_change(row)
        found["words"] = timed_verdict(row)
        found["limits"] = [
            (name, percent(value))
            for name, value in (
                ("noise floor", row.floor),
                ("threshold", row.threshold),
                ("would see", row.detectable),
            )
            if value is not None
        ]
        if sides:
            found["times"] = [
                one
                for side, other in (sides, sides[::-1])
                if (case := side.case(row.name))
                for one in times(case, side.kernel["spec"], other.case(row.name))
                if one["metric"] == row.metric
            ]
        return found
    identical = row.identical_path and row.verdict == exact.SAME
    found |= {
        "sides": (row.old, row.new),
        "unit": "kernel instructions" if row.metric == INSTRUCTIONS else "",
        "change": change(row.delta, row.old) if row.old and row.delta else "",
        "words": f"{row.verdict}, identical path" if identical else row.verdict,
        "functions": [one for one in row.functions if one.delta],
        "largest": max((abs(one.delta) for one in row.functions), default=0),
        "purposes": [
            (name, rows)
            for name, rows in (("part of the path", row.parts), ("reason", row.reasons))
            if rows
        ],
        "events": [one for one in row.events if one.is_change],
        "contexts": None if row.contexts is UNSET else row.contexts,
        "unseen": unseen_text(row),
        "estimates": row.estimates,
    }
    if sides and row.metric == INSTRUCTIONS and not identical:
        found["paths"] = _paths(row, sides)
        found["path_diff"] = recorded_side_by_side(row.name, sides)
    return found


def _paths(row: CaseComparison, sides: tuple[Recording, Recording]) -> list[tuple[str, Any]]:
    """Both icicles on one scale, coloured by what changed, with their kernels' names."""
    paths = [(side, first_modal(side, side.case(row.name))) for side in sides]
    scale = max((path.length for _, path in paths if path), default=0)
    found = []
    for (side, path), word in zip(paths, ("old", "new"), strict=True):
        if path:
            label = f"{row.name}, {word}: {path.length} instructions of {side.kernel['spec']}"
            found.append((label, charts.icicle(frames(side, path, row.functions), scale, label)))
    return found


def _timed_chart(rows: Sequence[TimedComparison]) -> Any:
    if not rows:
        return None
    ranges = [
        charts.Range(
            f"{row.name} {row.metric}",
            row.percent or 0,
            row.interval,
            row.floor,
            row.verdict,
            f"{row.name} {row.metric}: {bare_change(row)} {row.verdict}",
        )
        for row in rows
    ]
    return charts.intervals(ranges, "Changes of time with their intervals", "% of old")
