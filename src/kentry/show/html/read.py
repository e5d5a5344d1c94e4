# SPDX-License-Identifier: GPL-2.0-or-later
"""Files of any kind that kentry writes -> the documents of a page."""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct

from kentry.compare.counted import compare
from kentry.errors import RecordingError, UserError
from kentry.results.ablation import Ablation
from kentry.results.bisection import Bisection
from kentry.results.check import Check
from kentry.results.comparison import Comparison
from kentry.results.document import read_document, schema_of, to_json
from kentry.results.log import Log
from kentry.results.path_diff import PathComparison
from kentry.results.recording import Recording, read_recording
from kentry.results.series import Series
from kentry.show.html.comparison import comparison_document
from kentry.show.html.history import bisection_document, log_document
from kentry.show.html.page import Document, page
from kentry.show.html.path_diff import path_diff_document
from kentry.show.html.recording import recording_document
from kentry.show.html.rows import ablation_document, check_document
from kentry.show.html.series import series_document

_Make = Callable[[Any, Mapping[str, Any]], Document]
_RECORDING, _COMPARISON, _REPLAY = "recording", "comparison", "vector-replay"
# By kind: the struct, what makes its document, and the command that writes the file.
_FORMS: dict[str, tuple[type[Struct], _Make, str]] = {
    _COMPARISON: (Comparison, comparison_document, "diff"),
    "bisection": (Bisection, bisection_document, "bisect"),
    "log": (Log, log_document, "log"),
    "path-diff": (PathComparison, path_diff_document, "annotate"),
    "ablation": (Ablation, ablation_document, "ablate"),
    "check": (Check, check_document, "check"),
}
KINDS = (_RECORDING, "series", *_FORMS, _REPLAY)


def report(files: Sequence[Path]) -> str:
    """One page of all files; two recordings are compared, those of a series are part of it.

    RecordingError and UserError as the files are read.
    """
    schemas = [(file, schema_of(file)) for file in files]
    recorded = {file: read_recording(file) for file, schema in schemas if _is_recording(schema)}
    read = [
        recorded[file] if file in recorded else _read(file, schema, [*recorded.values()])
        for file, schema in schemas
    ]
    shown = [own for one in read if isinstance(one, Document) for own in one.recordings]
    read = [one for one in read if one not in shown]
    recordings = [one for one in read if isinstance(one, Recording)]
    notes = []
    documents: list[Document] = []
    if len(recordings) == 2:
        try:
            comparison = compare(recordings[0], recordings[1])
            sides = recordings[0], recordings[1]
            documents.append(comparison_document(comparison, to_json(comparison), sides))
            read = [one for one in read if not isinstance(one, Recording)]
        except UserError as err:
            notes.append(f"The recordings are not compared. {err.sentence}")
    for one in read:
        documents.append(recording_document(one) if isinstance(one, Recording) else one)
    return page(documents, notes)


def _is_recording(schema: str) -> bool:
    """Also of files that are none of kentry's: what is wrong with them a reader says."""
    return not schema.startswith("kentry/") or _kind(schema) == _RECORDING


def _kind(schema: str) -> str:
    return schema.removeprefix("kentry/").rpartition("/")[0]


def _read(file: Path, schema: str, recordings: Sequence[Recording]) -> Document:
    """The document of a file that is no recording."""
    kind = _kind(schema)
    if kind == _REPLAY:
        # It loads numba.
        from kentry.show.html.replay import replay_document
        from kentry.vector.documents import ReplayDocument

        return _document(file, "vector-replay", ReplayDocument, replay_document, "vector replay")
    if kind == "series":
        make = partial(series_document, recordings=recordings)
        return _document(file, kind, Series, make, kind)
    if kind in _FORMS:
        return _document(file, kind, *_FORMS[kind])
    raise UserError(
        f"{file} is of a kind that has no page: {schema}.", f"Kinds: {', '.join(KINDS)}."
    )


def _document(file: Path, kind: str, form: type[Struct], make: _Make, command: str) -> Document:
    remedy = f"Make it again with kentry {command} --json."
    found = read_document(file, form, remedy, printable=kind == _COMPARISON)
    try:
        return make(found, _json(file))
    except ArithmeticError as err:
        raise RecordingError(f"{file} has numbers that cannot be true: {err}.", remedy) from err


def _json(file: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(file.read_bytes())
    return document
