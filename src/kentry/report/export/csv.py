# SPDX-License-Identifier: GPL-2.0-or-later
"""CSV as RFC 4180 has it: a row a sample, or with a summary a row a case and metric."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from kentry.model.case_name import CaseName
from kentry.model.recording import CaseResult, Recording
from kentry.report.export.common import Export, printable
from kentry.stats import exact

NAME = "csv"

# The unit of what is counted: such a metric is its name.
COUNT = "instructions"

SAMPLES = (
    "kernel",
    "arch",
    "case",
    "metric",
    "unit",
    "build",
    "boot",
    "group",
    "slot",
    "calls",
    "block",
    "value",
    "times",
)
SUMMARY = (
    "kernel",
    "arch",
    "case",
    "metric",
    "unit",
    "assume",
    "value",
    "low",
    "high",
    "confidence",
    "floor",
    "detectable",
    "processes",
    "release",
    "build_id",
    "absent",
)
# Raw samples of the clock alone, of calls that were timed one by one.
EMPTY = "-empty"

Row = tuple[Any, ...]


def export(recordings: Sequence[Recording]) -> Export:
    """A row a sample: raw, as in the recording; None is an empty cell."""
    return Export(_text(SAMPLES, (row for one in recordings for row in _sample_rows(one))))


def export_summary(recordings: Sequence[Recording]) -> Export:
    """A row a case and metric."""
    return Export(_text(SUMMARY, (row for one in recordings for row in _summary_rows(one))))


def _text(header: Row, rows: Iterable[Row]) -> str:
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(header)
    for row in rows:
        writer.writerow([printable(one) if isinstance(one, str) else one for one in row])
    return text.getvalue()


def _sample_rows(recording: Recording) -> Iterator[Row]:
    side = (recording.kernel["spec"], recording.kernel["arch"])
    for case in recording.cases:
        for row in (*_counted(case), *_timed(case)):
            yield (*side, case.name, *row)


def _counted(case: CaseResult) -> Iterator[Row]:
    """A row a value, with how many windows had it: a window is so many calls, and no process."""
    calls = CaseName.parse(case.name).calls
    for metric, one in case.metrics.items():
        for value, times in one.samples:
            yield (metric, COUNT, None, None, None, None, calls, None, value, times)


def _timed(case: CaseResult) -> Iterator[Row]:
    """A row a block, in the order of the process."""
    for metric, one in case.noisy.items():
        for process in one.samples:
            place = (process.build, process.boot, process.group, process.slot, process.calls)
            for name, values in ((metric, process.values), (metric + EMPTY, process.empties)):
                for block, value in enumerate(values):
                    yield (name, one.unit, *place, block, value, 1)


def _summary_rows(recording: Recording) -> Iterator[Row]:
    kernel = recording.kernel
    side, behind = (kernel["spec"], kernel["arch"]), (kernel["release"], kernel["build_id"])
    for case in recording.cases:
        for metric, count in case.metrics.items():
            # Less than half of the windows agree: there is no value.
            value = count.value if exact.is_decided(dict(count.samples)) else None
            row = (metric, COUNT, count.assume, value, None, None, None, None, None, None)
            yield (*side, case.name, *row, *behind, None)
        for metric, one in case.noisy.items():
            ends = one.interval or (None, None)
            row = (metric, one.unit, one.assume, one.value, *ends, one.confidence, one.floor)
            lacking = ";".join(one.absent)
            processes = len(one.samples)
            yield (*side, case.name, *row, one.detectable, processes, *behind, lacking)
