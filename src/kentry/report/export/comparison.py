# SPDX-License-Identifier: GPL-2.0-or-later
"""A file of kentry/comparison/1 (kentry diff --json, kentry stat --compare --json), read back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from kentry.compare.counted import SCHEMA, CaseComparison
from kentry.compare.timed import TimedComparison
from kentry.errors import RecordingError
from kentry.model.recording.checks import (
    as_confidence,
    as_count,
    as_interval,
    as_number,
    as_number_or_none,
    as_text,
)
from kentry.stats.exact import BETTER, SAME, UNDECIDED, WORSE

_KIND = SCHEMA.rpartition("/")[0] + "/"
_VERDICTS = (SAME, BETTER, WORSE, UNDECIDED)
_ERROR_LENGTH = 100
# A change in per cent beyond that is a mistake: no two times are so far apart.
_MOST = 1e18


class ComparisonFile(NamedTuple):
    """Two kernels, as a recording says which they are, and a row a case and metric."""

    old: dict[str, Any]
    new: dict[str, Any]
    rows: tuple[CaseComparison | TimedComparison, ...]
    caveats: tuple[dict[str, str], ...]


def read_comparison(file: Path) -> ComparisonFile | None:
    """The comparison in `file`; None where it is no comparison, whatever else it may be."""
    try:
        document = json.loads(file.read_bytes())
        schema = document["schema"] if isinstance(document, dict) else None
    except (OSError, ValueError, KeyError, RecursionError):
        return None
    if not isinstance(schema, str) or not schema.startswith(_KIND):
        return None
    if schema != SCHEMA:
        raise RecordingError(
            f"{file} has schema {schema!r}; this kentry reads {SCHEMA}.", "Use a newer kentry."
        )
    try:
        return _comparison(document)
    except (KeyError, TypeError, ValueError, AttributeError) as err:
        raise RecordingError(
            f"{file} is not a whole comparison: {type(err).__name__}: {str(err)[:_ERROR_LENGTH]}.",
            "Make it again with kentry diff --json.",
        ) from err


def _comparison(document: dict[str, Any]) -> ComparisonFile:
    rows = tuple(_timed(row) if "unit" in row else _counted(row) for row in document["cases"])
    if not rows:
        raise ValueError("no cases")
    old, new = (_side(document[name]["kernel"]) for name in ("old", "new"))
    return ComparisonFile(old, new, rows, _caveats(document["caveats"]))


def _side(kernel: dict[str, Any]) -> dict[str, Any]:
    return {name: as_text(kernel[name]) for name in ("spec", "arch", "release")}


def _caveats(value: Any) -> tuple[dict[str, str], ...]:
    return tuple({"kind": as_text(one["kind"]), "text": as_text(one["text"])} for one in value)


def _verdict(value: Any) -> str:
    if value not in _VERDICTS:
        raise ValueError(f"{value!r} is no verdict")
    return as_text(value)


def _change(value: Any) -> tuple[float, float] | None:
    """An interval in per cent: of what can be printed."""
    ends = as_interval(value)
    if ends and max(map(abs, ends)) > _MOST:
        raise ValueError(f"a change of more than {_MOST:.0e} %")
    return ends


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{value!r} is neither true nor false")
    return value


def _counted(row: dict[str, Any]) -> CaseComparison:
    return CaseComparison(
        name=as_text(row["name"]),
        old=as_count(row["old"]),
        new=as_count(row["new"]),
        verdict=_verdict(row["verdict"]),
        functions=(),
        identical_path=_flag(row["identical_path"]),
        caveats=_caveats(row["caveats"]),
        metric=as_text(row["metric"]),
    )


def _timed(row: dict[str, Any]) -> TimedComparison:
    percent = row["percent_of_old"]
    identical = row["identical_path"]
    if percent is not None:
        # It may be less than nothing, which an interval's end may be, too.
        _change((percent, percent))
    return TimedComparison(
        name=as_text(row["name"]),
        metric=as_text(row["metric"]),
        unit=as_text(row["unit"]),
        old=as_number(row["old"]),
        new=as_number(row["new"]),
        percent=percent,
        verdict=_verdict(row["verdict"]),
        interval=_change(row["interval"]),
        confidence=as_confidence(row["confidence"]),
        floor=as_number_or_none(row["floor"]),
        threshold=as_number_or_none(row["threshold"]),
        detectable=as_number_or_none(row["detectable"]),
        paired=_flag(row["paired"]),
        identical_path=None if identical is None else _flag(identical),
        reason=as_text(row["reason"]),
        caveats=_caveats(row["caveats"]),
    )
