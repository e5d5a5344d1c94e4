# SPDX-License-Identifier: GPL-2.0-or-later
"""Files of any kind that kentry writes -> the documents of a page."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from kentry.compare.counted import compare
from kentry.errors import RecordingError, UserError
from kentry.model.ablation import AblationFile
from kentry.model.bisection import BisectionFile
from kentry.model.check import CheckFile
from kentry.model.comparison import read_comparison
from kentry.model.document import read_document, schema_of
from kentry.model.log import LogFile
from kentry.model.path_diff import PathDiffFile
from kentry.model.recording import Recording, read_recording
from kentry.model.series import SeriesFile
from kentry.report.html.comparison import comparison_document, saved_document
from kentry.report.html.history import bisection_document, log_document
from kentry.report.html.page import Document, page
from kentry.report.html.path_diff import path_diff_document
from kentry.report.html.recording import recording_document
from kentry.report.html.rows import ablation_document, check_document
from kentry.report.html.series import series_document

_Make = Callable[[Any, Mapping[str, Any]], Document]
_RECORDING, _COMPARISON, _REPLAY = "recording", "comparison", "vector-replay"
# By kind: the struct, what makes its document, and the command that writes the file.
_FORMS: dict[str, tuple[type[Struct], _Make, str]] = {
    "series": (SeriesFile, series_document, "series"),
    "bisection": (BisectionFile, bisection_document, "bisect"),
    "log": (LogFile, log_document, "log"),
    "path-diff": (PathDiffFile, path_diff_document, "annotate"),
    "ablation": (AblationFile, ablation_document, "ablate"),
    "check": (CheckFile, check_document, "check"),
}
KINDS = (_RECORDING, _COMPARISON, *_FORMS, _REPLAY)


def report(files: Sequence[Path]) -> str:
    """One page of all files; two recordings are compared.

    RecordingError and UserError as the files are read.
    """
    read = [_read(file) for file in files]
    recordings = [one for one in read if isinstance(one, Recording)]
    notes = []
    documents: list[Document] = []
    if len(recordings) == 2:
        try:
            documents.append(comparison_document(compare(recordings[0], recordings[1])))
            read = [one for one in read if not isinstance(one, Recording)]
        except UserError as err:
            notes.append(f"The recordings are not compared. {err.sentence}")
    for one in read:
        documents.append(recording_document(one) if isinstance(one, Recording) else one)
    return page(documents, notes)


def _read(file: Path) -> Document | Recording:
    schema = schema_of(file)
    kind = schema.removeprefix("kentry/").rpartition("/")[0]
    if kind == _COMPARISON:
        saved = read_comparison(file)
        assert saved
        return saved_document(saved, _json(file))
    if kind == _REPLAY:
        # It loads numba.
        from kentry.report.html.replay import replay_document
        from kentry.vector.documents import ReplayDocument

        return _document(file, "vector-replay", ReplayDocument, replay_document, "vector replay")
    if kind in _FORMS:
        return _document(file, kind, *_FORMS[kind])
    if schema.startswith("kentry/") and kind != _RECORDING:
        raise UserError(
            f"{file} is of a kind that has no page: {schema}.", f"Kinds: {', '.join(KINDS)}."
        )
    return read_recording(file)


def _document(file: Path, kind: str, form: type[Struct], make: _Make, command: str) -> Document:
    remedy = f"Make it again with kentry {command} --json."
    found = read_document(file, form, lambda one: one, f"kentry/{kind}/1", remedy, printable=False)
    try:
        return make(found, _json(file))
    except ArithmeticError as err:
        raise RecordingError(f"{file} has numbers that cannot be true: {err}.", remedy) from err


def _json(file: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(file.read_bytes())
    return document
