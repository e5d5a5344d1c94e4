# SPDX-License-Identifier: GPL-2.0-or-later
"""CSV as in RFC 4180: a row a sample."""

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from kentry.results.recording import CaseResult, Recording
from kentry.show.export.common import Export, printable

# The unit of what is counted, but for the metrics that are none of instructions.
COUNT = "instructions"

_SAMPLES = "kernel,arch,case,metric,unit,build,boot,group,slot,calls,block,value,times"
# Behind the metric of samples of the clock alone, of calls that were timed one by one.
EMPTY = "-empty"

Row = tuple[object, ...]


def export(recordings: Sequence[Recording]) -> Export:
    """Write a row a sample: raw, as in the recording; None is an empty cell."""
    rows: list[Row] = []
    for kernel, case in _cases(recordings):
        side = (kernel["spec"], kernel["arch"], case.name)
        # A row a value of a count, with the windows that had it: these have no process.
        none = (None, None, None, None)
        for metric, count in case.metrics.items():
            for value, times in count.samples:
                rows.append(
                    (*side, metric, _unit(metric), *none, case.parsed.calls, None, value, times)
                )
        # A row a block, in the order of the process.
        for metric, one in case.noisy.items():
            for process in one.samples:
                place = (process.build, process.boot, process.group, process.slot, process.calls)
                for name, values in ((metric, process.values), (metric + EMPTY, process.empties)):
                    for block, taken in enumerate(values):
                        rows.append((*side, name, one.unit, *place, block, taken, 1))
    return _export(_SAMPLES, rows)


def _unit(metric: str) -> str:
    """Return the unit of an exact metric: that of most is what their name begins with."""
    kind = metric.partition(".")[0]
    if kind in ("lines", "pages", "bytes"):
        return kind
    return "bytes" if metric.endswith(".bytes") else COUNT


def _cases(recordings: Sequence[Recording]) -> Iterator[tuple[dict[str, Any], CaseResult]]:
    """Yield every case with its kernel."""
    for recording in recordings:
        yield from ((recording.kernel, case) for case in recording.cases)


def _export(header: str, rows: Iterable[Row]) -> Export:
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(header.split(","))
    for row in rows:
        writer.writerow([printable(one) if isinstance(one, str) else one for one in row])
    return Export(text.getvalue())
