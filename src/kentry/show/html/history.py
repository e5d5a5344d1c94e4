# SPDX-License-Identifier: GPL-2.0-or-later
"""A history as a document of a page: the commits of a bisection, or the kernels of a log."""

import re
from collections.abc import Mapping
from typing import Any

from kentry.results.bisection import Bisection
from kentry.results.log import ChangePoint, Log
from kentry.show.bisection import step_words
from kentry.show.html import charts
from kentry.show.html.page import Document
from kentry.show.numbers import change, number

_NAME = 12
_COMMIT = re.compile("[0-9a-f]{40,64}")


def bisection_document(found: Bisection, document: Mapping[str, Any]) -> Document:
    """The commits found with their functions, what was tried, and how the search went."""
    culprits = [_change(one, one.parent.value, one.value) for one in found.culprits]
    names = {one.commit for one in found.culprits}
    points = [
        charts.Point(
            place,
            step.value,
            f"{step.commit[:_NAME]} {step.subject}: {number(step.value)} {found.unit}",
            "change" if step.commit in names else "point",
        )
        for place, step in enumerate(found.steps, start=1)
        if step.value is not None
    ]
    ends = (("good", found.good), ("bad", found.bad))
    levels = [(one.value, name) for name, one in ends if one.value is not None]
    label = f"{found.case}: {found.unit} of the commits in the order in which they were tried"
    if found.culprits:
        summary = "; ".join(f'{one.commit[:_NAME]} ("{one.subject}")' for one in found.culprits)
    else:
        summary = "No commit was found." if not found.suspects else "Several commits are suspect."
    return Document(
        template="history.html",
        title=f"Bisection of {found.case} ({found.arch})",
        summary=f"{summary}, {found.explained:+.6g} {found.unit}" if found.culprits else summary,
        json=document,
        values={
            "chart": charts.line(
                points, label, "commit tried", found.unit, shape="dots", levels=levels
            )
            if points
            else None,
            "caption": "Each dot is a commit that was tried; the lines are good and bad.",
            "ends": ends,
            "delta": found.delta,
            "explained": found.explained,
            "unit": found.unit,
            "changes": culprits,
            "suspects": found.suspects,
            "steps": [(step, step_words(step, "run" in found.origin)) for step in found.steps],
            "points": (),
            "commits": found.commits,
        },
        caveats=found.caveats,
        facts=list(found.origin.items()),
    )


def log_document(log: Log, document: Mapping[str, Any]) -> Document:
    """The values of a history with the places where they change."""
    places = {one.place: number for number, one in enumerate(log.changes, start=1)}
    points = [
        charts.Point(
            one.place,
            one.value,
            f"{_short(one.name)} {one.title}: {number(one.value)} {log.unit}",
            "change" if one.place in places else "point",
            f"change-{places[one.place]}" if one.place in places else "",
        )
        for one in log.points
        if one.value is not None
    ]
    label = f"{log.case}: {log.unit} of each kernel, oldest first"
    values = [one.value for one in log.points if one.value is not None]
    ends = f"{number(values[0])} to {number(values[-1])} {log.unit}" if values else "no values"
    chart = charts.line(points, label, "kernel", log.unit, shape="steps") if points else None
    return Document(
        template="history.html",
        title=f"History of {log.case} ({log.arch})",
        summary=f"{len(log.points)} of {log.kernels} kernels measured, {ends},"
        f" {len(log.changes)} changes",
        json=document,
        values={
            "chart": chart,
            "caption": "The large dots are the changes.",
            "ends": (),
            "delta": None,
            "explained": sum(one.delta for one in log.changes),
            "unit": log.unit,
            "changes": [_change(one, one.old, one.new) for one in log.changes],
            "suspects": (),
            "steps": (),
            "points": [(one, _short(one.name)) for one in log.points],
            "commits": log.kernels,
        },
        caveats=log.caveats,
        facts=list(log.origin.items()),
    )


def _change(one: Any, old: float | None, new: float) -> dict[str, Any]:
    """A commit of a bisection or a place of a log, as the template shows both."""
    log = isinstance(one, ChangePoint)
    return {
        "name": _short(one.names[-1]) if log else one.commit[:_NAME],
        "title": one.title if log else one.subject,
        "who": "" if log else f"{one.author}, {one.date[:10]}",
        "others": [_short(name) for name in one.names[:-1]] if log else [],
        "old": old,
        "new": new,
        "delta": one.delta,
        "percent": change(one.delta, old) if old else "",
        "share": None if log else one.share,
        "compiled": None if log else one.compiled,
        "functions": one.functions,
        "largest": max((abs(row.delta) for row in one.functions), default=0),
        "doubts": () if log else one.doubts,
    }


def _short(name: str) -> str:
    return name[:_NAME] if _COMMIT.fullmatch(name) else name
