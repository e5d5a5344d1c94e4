# SPDX-License-Identifier: GPL-2.0-or-later
"""Speedscope's own JSON: a profile for each case of each recording, in the order of execution.

A function opens and closes at a number of instructions, so a profile is as long as the count.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from kentry import __version__
from kentry.results.recording import Recording
from kentry.show.export.common import Export, printable
from kentry.show.export.stacks import CaseStacks, stacks
from kentry.show.frame import kernel_name

# What names the format; speedscope compares it and loads nothing from there.
_FORMAT = "https://www.speedscope.app/file-format-schema.json"


def export(recordings: Sequence[Recording]) -> Export:
    """Write all cases of all recordings; a case's recordings follow each other."""
    of_all = stacks(recordings)
    frames: dict[str, int] = {}
    profiles = [_profile(case, len(recordings) > 1, frames) for case in of_all.cases]
    document = {
        "$schema": _FORMAT,
        "exporter": f"kentry {__version__}",
        "name": "; ".join(printable(kernel_name(one.kernel)) for one in recordings),
        "activeProfileIndex": 0,
        "shared": {"frames": [{"name": name} for name in frames]},
        "profiles": profiles,
    }
    return Export(json.dumps(document) + "\n", of_all.notes)


def _profile(case: CaseStacks, several: bool, frames: dict[str, int]) -> dict[str, Any]:
    return {
        "type": "evented",
        "name": f"{case.name} ({case.label})" if several else case.name,
        "unit": "none",
        "startValue": 0,
        "endValue": len(case.path),
        "events": list(_events(case, frames)),
    }


def _events(case: CaseStacks, frames: dict[str, int]) -> Iterator[dict[str, Any]]:
    """Close functions before others open at the same place, the innermost first."""
    running: list[int] = []
    spans = case.calls.spans
    for index, span in enumerate(spans):
        yield from _closed(case, running, frames, span.start)
        running.append(index)
        frame = frames.setdefault(span.function, len(frames))
        yield {"type": "O", "frame": frame, "at": span.start}
    yield from _closed(case, running, frames, len(case.path))


def _closed(
    case: CaseStacks, running: list[int], frames: dict[str, int], at: int
) -> Iterator[dict[str, Any]]:
    while running and case.calls.spans[running[-1]].end <= at:
        span = case.calls.spans[running.pop()]
        yield {"type": "C", "frame": frames[span.function], "at": span.end}
