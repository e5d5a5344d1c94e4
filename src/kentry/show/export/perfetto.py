# SPDX-License-Identifier: GPL-2.0-or-later
"""JSON trace events, which Perfetto and chrome://tracing open: a slice a call.

A recording is a process and a case is a thread.  There are no times in it: a microsecond is an
instruction.  The arguments of a slice are what the call costs with all that it calls.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from kentry.results.recording import Recording
from kentry.show.export.common import Export, printable
from kentry.show.export.stacks import CaseStacks, stacks
from kentry.show.frame import kernel_name


def export(recordings: Sequence[Recording]) -> Export:
    """All cases of all recordings."""
    found = stacks(recordings)
    events: list[dict[str, Any]] = []
    for number, one in enumerate(recordings):
        events.append(_name("process", number, 0, printable(kernel_name(one.kernel))))
    for thread, case in enumerate(found.cases, start=1):
        events.append(_name("thread", case.number, thread, case.name))
        events += _slices(case, thread)
    document = {
        "displayTimeUnit": "ns",
        "otherData": {"unit": "1 us is 1 instruction"},
        "traceEvents": events,
    }
    return Export(json.dumps(document) + "\n", found.notes)


def _name(what: str, recording: int, thread: int, name: str) -> dict[str, Any]:
    # Process 0 would be the idle task.
    place = {"pid": recording + 1, "tid": thread}
    return {"ph": "M", "name": f"{what}_name", **place, "args": {"name": name}}


def _slices(case: CaseStacks, thread: int) -> Iterator[dict[str, Any]]:
    sums = {name: case.sums(name) for name in case.metrics}
    for span in case.calls.spans:
        costs = {name: own[span.end] - own[span.start] for name, own in sums.items()}
        yield {
            "ph": "X",
            "name": span.function,
            "cat": "kernel",
            "pid": case.number + 1,
            "tid": thread,
            "ts": span.start,
            "dur": span.end - span.start,
            "args": {name: cost for name, cost in costs.items() if cost},
        }
