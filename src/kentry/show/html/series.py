# SPDX-License-Identifier: GPL-2.0-or-later
"""A series as a document of a page: the table, a waterfall, and what each patch changes."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any

from kentry.results import caveats
from kentry.results.recording import INSTRUCTIONS, Recording
from kentry.results.series import Cell, PatchRow, Series
from kentry.show.html import charts
from kentry.show.html.page import Document, kernel_facts
from kentry.show.html.path_diff import recorded_side_by_side
from kentry.show.numbers import signed

# Beside this one, cases that take the same steps are not shown again.
_PREFERRED = "getppid"
# More patches are a line: their bars would be too narrow to see.
_BARS = 150


def series_document(
    series: Series, document: Mapping[str, Any], recordings: Sequence[Recording] = ()
) -> Document:
    """A row a patch; columns that take the same steps in every row are shown once.

    `recordings` may be those of its rows, as kentry series --output writes them, and others.
    """
    measured = _measured(series, recordings)
    groups = _groups(series)
    patches = [row for row in series.rows if row.patch]
    bad = [row for row in patches if row.problems]
    cosmetic = [row for row in patches if row.identical_path]
    words = [
        f"{name}: {first} \u2192 {first + series.totals[name]} ({signed(series.totals[name])})"
        for name in _named(series, groups)
        if (first := _first(series, name)) is not None
    ] or ["no count changed"]
    words += [f"{len(patches)} patches"]
    words += [f"{len(cosmetic)} cosmetic"] if cosmetic else []
    words += [f"{len(bad)} without all numbers"] if bad else []
    facts = list(series.origin.items())
    for arch, side in series.base.items():
        own = kernel_facts(side.kernel, side.target)
        several = len(series.base) > 1
        facts += [(f"{name}, {arch}" if several else name, value) for name, value in own]
    found = [caveats.not_time(), *series.caveats]
    for row in series.rows:
        found += [one for one in row.caveats if one not in found]
    shown = [_row(row, series, groups, measured) for row in series.rows]
    has_paths = any(change["path_diff"] for row in shown for change in row["changes"])
    return Document(
        template="series.html",
        title=f"Series on {series.origin.get('base', 'a base')}",
        summary=", ".join(words),
        json=document,
        values={
            "rows": shown,
            "groups": [
                {
                    "name": shown,
                    "others": others,
                    "total": series.totals.get(shown, 0),
                    "chart": _waterfall(series, shown),
                }
                for shown, others in groups.items()
            ],
        },
        caveats=found,
        facts=facts,
        recordings=[*measured.values()] if has_paths else [],
    )


# By commit and architecture.
_Measured = Mapping[tuple[str, str], Recording]


def _measured(series: Series, recordings: Sequence[Recording]) -> _Measured:
    """Those of the recordings that are the series' rows."""
    found: dict[tuple[str, str], Recording] = {}
    base, *patches = series.rows
    by_commit = {row.commit: row for row in patches if row.commit}
    for one in recordings:
        arch, origin = one.kernel["arch"], one.kernel["origin"]
        first = series.base.get(arch)
        if first is None or first.target != one.target:
            continue
        row = by_commit.get(origin.get("patched_commit", origin.get("commit")))
        # A patch to comments leaves the image as it was.
        if row is None and first.kernel.get("image_sha256") == one.kernel["image_sha256"]:
            row = base
        if row and _is_of(row, arch, series, one):
            found.setdefault((row.commit, arch), one)
    return found


def _is_of(row: PatchRow, arch: str, series: Series, recording: Recording) -> bool:
    """Whether a recording has the row's counts, and no case that the series does not have.

    Of a case that depends on the context a row's count may be one that no context has.
    """
    cells = {one.case: row.cases.get(one.name) for one in series.columns if one.arch == arch}
    for case in recording.cases:
        cell = cells.get(case.name)
        if cell is None or INSTRUCTIONS not in case.metrics:
            return False
        if case.metrics[INSTRUCTIONS].value != cell.instructions and len(case.values) < 2:
            return False
    return True


def _groups(series: Series) -> dict[str, list[str]]:
    """Each shown column with the others of the same architecture, base and steps."""
    found: dict[tuple[object, ...], list[str]] = {}
    for column in series.columns:
        steps = [
            row.cases[column.name].step if column.name in row.cases else None for row in series.rows
        ]
        found.setdefault((column.arch, *steps), []).append(column.name)
    arches = {column.name: column.arch for column in series.columns}
    cases = {column.name: column.case for column in series.columns}
    groups = [sorted(names, key=lambda name: cases[name] != _PREFERRED) for names in found.values()]
    order = list(dict.fromkeys(arches.values()))
    groups.sort(key=lambda names: (order.index(arches[names[0]]), cases[names[0]] != _PREFERRED))
    return {shown: others for shown, *others in groups}


def _named(series: Series, groups: Iterable[str]) -> list[str]:
    """The first column of each architecture that changes: those of the summary."""
    arches = {column.name: column.arch for column in series.columns}
    first: dict[str, str] = {}
    for name in groups:
        if series.totals.get(name):
            first.setdefault(arches[name], name)
    return list(first.values())


def _row(
    row: PatchRow, series: Series, groups: Mapping[str, list[str]], measured: _Measured
) -> dict[str, Any]:
    return {
        "patch": row.patch,
        "subject": row.subject,
        "commit": row.commit,
        "status": row.status,
        "identical": row.identical_path,
        "problems": row.problems,
        "caveats": row.caveats,
        "cells": [row.cases.get(name) for name in groups],
        "arches": [one.arch for name in groups for one in series.columns if one.name == name],
        "changes": _changes(row, series, measured),
    }


def _changes(row: PatchRow, series: Series, measured: _Measured) -> list[dict[str, Any]]:
    """What the patch changes, once for the columns in which it is the same."""
    found: dict[tuple[object, ...], list[tuple[str, Cell]]] = {}
    for name, cell in row.cases.items():
        metrics = {key: one.step for key, one in cell.metrics.items() if one and one.step}
        if row.patch and (cell.step or cell.functions or cell.events or metrics):
            # The rows of functions that did not change are not in the file.
            key = (cell.step, cell.functions, cell.events, tuple(metrics.items()))
            found.setdefault(key, []).append((name, cell))
    return [
        {
            "names": [name for name, _ in cells],
            "cell": cells[0][1],
            "old": cells[0][1].instructions - cells[0][1].step,
            "one": len({cell.instructions for _, cell in cells}) == 1,
            "path_diff": _path_diff(row, cells[0][0], series, measured),
            "largest": max((abs(one.delta) for one in cells[0][1].functions), default=0),
            "metrics": {key: one.step for key, one in cells[0][1].metrics.items() if one},
            "estimates": [(name, one) for name, cell in cells for one in cell.estimates],
        }
        for cells in found.values()
    ]


def _path_diff(
    row: PatchRow, name: str, series: Series, measured: _Measured
) -> dict[str, Any] | None:
    """The path of a column before the patch and after it; None without both recordings."""
    before = [one for one in series.rows[: series.rows.index(row)] if name in one.cases]
    for column in series.columns:
        if column.name == name and before:
            old, new = (measured.get((one.commit, column.arch)) for one in (before[-1], row))
            return recorded_side_by_side(column.case, (old, new)) if old and new else None
    return None


def _first(series: Series, name: str) -> int | None:
    """The count before the first step."""
    first = next((row.cases[name] for row in series.rows if name in row.cases), None)
    return first.instructions - first.step if first else None


def _waterfall(series: Series, name: str) -> Any:
    """None where no patch changes the count."""
    base = _first(series, name)
    if base is None or not any(row.cases[name].step for row in series.rows if name in row.cases):
        return None
    bars = []
    for row in series.rows:
        cell = row.cases.get(name)
        if not row.patch:
            continue
        step = cell.step if cell else 0
        words = f"{step:+d} to {cell.instructions}" if cell else row.status
        bars.append(
            charts.Bar(
                str(row.patch),
                step,
                f"Patch {row.patch}, {row.subject}: {words}",
                f"patch-{row.patch}",
                cell is not None,
            )
        )
    label = f"{name}: kernel instructions, patch by patch"
    if len(bars) <= _BARS:
        return charts.waterfall(base, bars, label)
    totals = accumulate((bar.step for bar in bars), initial=base)
    points = [charts.Point(place, total, str(total)) for place, total in enumerate(totals)]
    return charts.line(points, label, "patch", "instructions", shape="steps")
