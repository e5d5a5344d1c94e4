# SPDX-License-Identifier: GPL-2.0-or-later
"""Files of any kind that kentry writes -> the documents of a page."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from msgspec import Struct

from kentry.compare.counted import added_by_states, compare, with_paths_and_samples
from kentry.compare.path_diff import modal_paths
from kentry.errors import RecordingError, UserError
from kentry.results.annotation import PathComparison, PathDiff
from kentry.results.comparison import Comparison
from kentry.results.document import read_document, schema_of, to_json
from kentry.results.recording import INSTRUCTIONS, Recording, read_recording
from kentry.results.recording import to_json as recording_to_json
from kentry.results.studies import Ablation, Bisection, Check, Log, PatchRow, Series
from kentry.results.workload import Workload
from kentry.results.workload_comparison import WorkloadComparison
from kentry.show.blocks import Layout
from kentry.show.comparison import comparison_layout
from kentry.show.page import page
from kentry.show.paths import path_layout
from kentry.show.recording import recording_layout
from kentry.show.series import series_layout
from kentry.show.studies import ablation_layout, bisection_layout, check_layout, log_layout
from kentry.show.workload import workload_layout
from kentry.show.workload_comparison import workload_comparison_layout

# What a document is made of, if not its file's JSON.
_Make = Callable[[Any], Layout]
# The recordings of a series, by commit and architecture.
_ByRow = Mapping[tuple[str, str], Recording]

_RECORDING, _COMPARISON, _REPLAY = "recording", "comparison", "vector-replay"
# By kind: the struct, what makes its document, and the command that writes the file.
_FORMS: dict[str, tuple[type[Struct], _Make, str]] = {
    _COMPARISON: (Comparison, comparison_layout, "diff"),
    "workload-comparison": (WorkloadComparison, workload_comparison_layout, "diff"),
    "bisection": (Bisection, bisection_layout, "bisect"),
    "log": (Log, log_layout, "log"),
    "path-diff": (PathComparison, path_layout, "annotate"),
    "ablation": (Ablation, ablation_layout, "ablate"),
    "check": (Check, check_layout, "check"),
    "workload": (Workload, workload_layout, "run"),
}
KINDS = (_RECORDING, "series", *_FORMS, _REPLAY)


def report(
    files: Sequence[Path], write: Callable[[Sequence[Layout], Sequence[str]], str] = page
) -> str:
    """One page of all files, each result once; two recordings are compared, but for a series'."""
    schemas = [(file, schema_of(file)) for file in files]
    # Files that are none of kentry's, too: what is wrong with them a reader says.
    recorded = {
        file: read_recording(file)
        for file, schema in schemas
        if not schema.startswith("kentry/") or _kind(schema) == _RECORDING
    }
    # Recordings that a series shows have no part of their own.
    shown: list[Recording] = []
    read: list[Recording | Layout] = [
        recorded[file] if file in recorded else _read(file, schema, [*recorded.values()], shown)
        for file, schema in schemas
    ]
    read = [layout for layout in read if layout not in shown]
    recordings = [document for document in read if isinstance(document, Recording)]
    apart = [one for at, one in enumerate(recordings) if one not in recordings[:at]]
    # A recording that is named twice, and no other, is compared with itself.
    recordings = apart if len(apart) > 1 else recordings[:2]
    notes = []
    documents: list[Layout] = []
    if len(recordings) == 2:
        try:
            old, new = recordings
            comparison = with_paths_and_samples(compare(old, new), old, new)
            documents.append(replace(comparison_layout(comparison), json=to_json(comparison)))
            read = [document for document in read if not isinstance(document, Recording)]
        except UserError as err:
            notes.append(f"The recordings are not compared. {err.sentence}")
    for document in read:
        if isinstance(document, Recording):
            layout = recording_layout(document, added=added_by_states(document))
            document = replace(layout, json=recording_to_json(document))
        # A folder of rows has the series that may be named beside it.
        if all(document.json != other.json for other in documents):
            documents.append(document)
    return write(documents, notes)


def _kind(schema: str) -> str:
    return schema.removeprefix("kentry/").rpartition("/")[0]


def _read(
    file: Path, schema: str, recordings: Sequence[Recording], shown: list[Recording]
) -> Layout:
    def of_series(series: Series) -> Layout:
        measured = _recordings_of(series, recordings)
        if paths := _paths_of(series, measured):
            shown.extend(measured.values())
        return series_layout(series, paths=paths)

    kind, forms = _kind(schema), _FORMS | {"series": (Series, of_series, "series")}
    if kind == _REPLAY:
        # It loads numpy.
        from kentry.show.vector import replay_layout
        from kentry.vector.documents import ReplayDocument

        forms[kind] = ReplayDocument, replay_layout, "vector replay"
    if kind not in forms:
        raise UserError(
            f"{file} is of a kind that has no page: {schema}.", f"Kinds: {', '.join(KINDS)}."
        )
    form, make, command = forms[kind]
    remedy = f"Make it again with kentry {command} --json."
    document = read_document(file, form, remedy, printable=kind == _COMPARISON)
    try:
        return replace(make(document), json=json.loads(file.read_bytes()))
    except KeyError as err:
        raise RecordingError(f"{file} is not a whole {kind}: it lacks {err}.", remedy) from err
    except (ArithmeticError, IndexError, ValueError, TypeError, AttributeError) as err:
        # Not all of a document is typed: its origin and options differ from kind to kind.
        raise RecordingError(f"{file} has values that cannot be true: {err}.", remedy) from err


def _recordings_of(series: Series, recordings: Sequence[Recording]) -> _ByRow:
    by_row: dict[tuple[str, str], Recording] = {}
    base, *patches = series.rows
    by_commit = {row.commit: row for row in patches if row.commit}
    for recording in recordings:
        arch, origin = recording.kernel["arch"], recording.kernel["origin"]
        first = series.base.get(arch)
        if first is None or first.target != recording.target:
            continue
        row = by_commit.get(origin.get("patched_commit", origin.get("commit")))
        # A patch to comments leaves the image as it was.
        if row is None and first.kernel.get("image_sha256") == recording.kernel["image_sha256"]:
            row = base
        if row and _is_of(row, arch, series, recording):
            by_row.setdefault((row.commit, arch), recording)
    return by_row


def _is_of(row: PatchRow, arch: str, series: Series, recording: Recording) -> bool:
    """Whether it has the row's counts, but for cases with several, and no case beyond those."""
    cells = {col.case: row.cases.get(col.name) for col in series.columns if col.arch == arch}
    for case in recording.cases:
        cell = cells.get(case.name)
        if cell is None or INSTRUCTIONS not in case.metrics:
            return False
        if case.metrics[INSTRUCTIONS].value != cell.instructions and len(case.values) < 2:
            return False
    return True


def _paths_of(series: Series, measured: _ByRow) -> dict[tuple[int, str], PathDiff]:
    """By patch and first column of its change, the difference of the paths before and after."""
    arches = {column.name: (column.case, column.arch) for column in series.columns}
    last: dict[str, PatchRow] = {}
    paths = {}
    for row in series.rows:
        for (name, *_), _ in row.changes:
            case, arch = arches.get(name, (name, ""))
            before = last.get(name)
            old = before and measured.get((before.commit, arch))
            new = measured.get((row.commit, arch))
            if old and new and (pair := modal_paths(case, old, new)):
                paths[row.patch, name] = pair.diff
        last |= dict.fromkeys(row.cases, row)
    return paths
