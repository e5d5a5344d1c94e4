# SPDX-License-Identifier: GPL-2.0-or-later
"""CSV as in RFC 4180: a row a sample, or with a summary a row a case and metric."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence

from kentry.model.recording import Recording
from kentry.report.export.common import Export, printable

NAME = "csv"

# The unit of what is counted.
COUNT = "instructions"

_SAMPLES = "kernel,arch,case,metric,unit,build,boot,group,slot,calls,block,value,times"
_SUMMARY = (
    "kernel,arch,case,metric,unit,assume,value,low,high,confidence,floor,detectable,processes,"
    "release,build_id,absent"
)
# Behind the metric of samples of the clock alone, of calls that were timed one by one.
EMPTY = "-empty"

Row = tuple[object, ...]


def export(recordings: Sequence[Recording]) -> Export:
    """A row a sample: raw, as in the recording; None is an empty cell."""
    return Export(_text(_SAMPLES, (row for one in recordings for row in _sample_rows(one))))


def export_summary(recordings: Sequence[Recording]) -> Export:
    """A row a case and metric."""
    return Export(_text(_SUMMARY, (row for one in recordings for row in _summary_rows(one))))


def _text(header: str, rows: Iterable[Row]) -> str:
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(header.split(","))
    for row in rows:
        writer.writerow([printable(one) if isinstance(one, str) else one for one in row])
    return text.getvalue()


def _sample_rows(recording: Recording) -> Iterator[Row]:
    side = (recording.kernel["spec"], recording.kernel["arch"])
    for case in recording.cases:
        # A row a value of a count, with the windows that had it: these have no process.
        calls = case.parsed.calls
        for metric, count in case.metrics.items():
            for value, times in count.samples:
                none = (None, None, None, None)
                yield (*side, case.name, metric, COUNT, *none, calls, None, value, times)
        # A row a block, in the order of the process.
        for metric, one in case.noisy.items():
            for process in one.samples:
                place = (process.build, process.boot, process.group, process.slot, process.calls)
                for name, values in ((metric, process.values), (metric + EMPTY, process.empties)):
                    for block, taken in enumerate(values):
                        yield (*side, case.name, name, one.unit, *place, block, taken, 1)


def _summary_rows(recording: Recording) -> Iterator[Row]:
    kernel = recording.kernel
    side, behind = (kernel["spec"], kernel["arch"]), (kernel["release"], kernel["build_id"])
    for case in recording.cases:
        for metric, count in case.metrics.items():
            # An undecided count has no value.
            value = count.value if count.is_decided else None
            row = (metric, COUNT, count.assume, value, None, None, None, None, None, None)
            yield (*side, case.name, *row, *behind, None)
        for metric, one in case.noisy.items():
            ends = one.interval or (None, None)
            row = (metric, one.unit, one.assume, one.value, *ends, one.confidence, one.floor)
            more = (one.detectable, len(one.samples))
            yield (*side, case.name, *row, *more, *behind, ";".join(one.absent))
