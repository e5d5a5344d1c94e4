# SPDX-License-Identifier: GPL-2.0-or-later
"""What each patch of a series changes in the executed paths, from the recordings of its rows."""

from collections.abc import Mapping, Sequence

from kentry.compare.path_diff import modal_paths
from kentry.results.annotation import PathDiff
from kentry.results.recording import INSTRUCTIONS, Recording
from kentry.results.studies import PatchRow, Series

# By commit and architecture.
_Measured = Mapping[tuple[str, str], Recording]


def recordings_of(series: Series, recordings: Sequence[Recording]) -> _Measured:
    """Returns those of the recordings that are the series' rows."""
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


def paths_of(series: Series, measured: _Measured) -> dict[tuple[int, str], PathDiff]:
    """Returns by patch and column the difference of the paths before the patch and after it.

    Of columns in which a patch changes the same the first one is compared.
    """
    arches = {column.name: (column.case, column.arch) for column in series.columns}
    last: dict[str, PatchRow] = {}
    found = {}
    for row in series.rows:
        for (name, *_), _ in row.changes:
            case, arch = arches.get(name, (name, ""))
            before = last.get(name)
            old = before and measured.get((before.commit, arch))
            new = measured.get((row.commit, arch))
            if old and new and (pair := modal_paths(case, old, new)):
                found[row.patch, name] = pair.diff
        last |= dict.fromkeys(row.cases, row)
    return found
