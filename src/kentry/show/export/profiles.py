# SPDX-License-Identifier: GPL-2.0-or-later
"""Formats of profilers, made of each case's modal path: folded stacks and speedscope."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from kentry import __version__
from kentry.arch import find_arch
from kentry.errors import UserError
from kentry.path.calls import Span, Spans, spans
from kentry.results.caveats import some
from kentry.results.recording import Instruction, Recording
from kentry.show.export.common import NAMED, Export, labels, printable
from kentry.show.provenance import kernel_name

# ";" ends a function, a blank ends the stack, and "#" begins a comment.
_NOT_FOLDED = re.compile(r"[;\s#]")
# What names the format; speedscope compares it and loads nothing from there.
_SPEEDSCOPE = "https://www.speedscope.app/file-format-schema.json"


class CaseStacks(NamedTuple):
    """A case's modal path and the recording's number and label; every name is printable."""

    number: int
    label: str
    name: str
    path: Sequence[Instruction]
    calls: Spans

    def stack(self, position: int) -> tuple[str, ...]:
        """Return the case, then the names of the functions, the outermost first."""
        names: list[str] = []
        index: int | None = self.calls.inner[position]
        while index is not None:
            span = self.calls.spans[index]
            names.append(span.function)
            index = span.caller
        return (self.name, *reversed(names))


def stacks(recordings: Sequence[Recording]) -> tuple[list[CaseStacks], tuple[str, ...]]:
    """Make the cases with a path, side by side, and notes; UserError if a recording has none."""
    cases: list[CaseStacks] = []
    notes: list[str] = []
    for number, (recording, label) in enumerate(zip(recordings, labels(recordings), strict=True)):
        own, absent, arch = [], [], find_arch(recording.kernel["arch"])
        for case in recording.cases:
            name, modal = _named(case.name), case.modal_path
            if not modal or not modal.length:
                absent.append(name)
                continue
            code = recording.instructions(modal)
            path = [insn._replace(function=_named(insn.function)) for insn in code]
            own.append(CaseStacks(number, _named(label), name, path, spans(path, arch)))
        if not own:
            raise UserError(
                f"The recording of {recording.kernel['spec']} has no paths, and stacks are made of"
                " them.",
                "Make one with kentry record --paths 1 or more.",
            )
        cases += own
        if absent:
            notes.append(f"left out of {label}, no kernel path: {some(absent, NAMED)}")
    order = list(dict.fromkeys(case.name for case in cases))
    return sorted(cases, key=lambda case: order.index(case.name)), tuple(notes)


def _named(name: str) -> str:
    return printable(name).strip() or "[unknown]"


def folded(recordings: Sequence[Recording]) -> Export:
    """Write a line a stack, and its count, for flamegraph.pl and inferno-flamegraph.

    Of two recordings' common cases each line has two counts, as difffolded.pl writes them.
    """
    cases, notes = stacks(recordings)
    sides = [{case.name for case in cases if case.number == n} for n in range(len(recordings))]
    common = set.intersection(*sides)
    if not common:
        raise UserError("The recordings have no case in common.", "Export them one by one instead.")
    if alone := sorted(set().union(*sides) - common):
        notes = (*notes, f"left out, not in both recordings: {some(alone, NAMED)}")
    counts = [Counter[str]() for _ in recordings]
    for case in cases:
        for position in range(len(case.path) if case.name in common else 0):
            frames = (_NOT_FOLDED.sub("_", word) for word in case.stack(position))
            counts[case.number][";".join(frames)] += 1
    # In the order of execution, the first recording's stacks first.
    every = dict.fromkeys(stack for count in counts for stack in count)
    lines = [" ".join([stack, *(str(count[stack]) for count in counts)]) for stack in every]
    return Export("\n".join(lines) + "\n", notes)


def speedscope(recordings: Sequence[Recording]) -> Export:
    """Write a profile for each case of each recording, as long as its count of instructions."""
    cases, notes = stacks(recordings)
    frames: dict[str, int] = {}
    profiles = [
        {
            "type": "evented",
            "name": f"{case.name} ({case.label})" if len(recordings) > 1 else case.name,
            "unit": "none",
            "startValue": 0,
            "endValue": len(case.path),
            "events": list(_events(case, frames)),
        }
        for case in cases
    ]
    document = {
        "$schema": _SPEEDSCOPE,
        "exporter": f"kentry {__version__}",
        "name": "; ".join(printable(kernel_name(recording.kernel)) for recording in recordings),
        "activeProfileIndex": 0,
        "shared": {"frames": [{"name": name} for name in frames]},
        "profiles": profiles,
    }
    return Export(json.dumps(document) + "\n", notes)


def _events(case: CaseStacks, frames: dict[str, int]) -> Iterator[dict[str, Any]]:
    """Close functions before others open at the same place, the innermost first."""
    running: list[Span] = []
    for span in (*case.calls.spans, None):
        start = span.start if span else len(case.path)
        while running and running[-1].end <= start:
            ended = running.pop()
            yield {"type": "C", "frame": frames[ended.function], "at": ended.end}
        if span:
            running.append(span)
            frame = frames.setdefault(span.function, len(frames))
            yield {"type": "O", "frame": frame, "at": span.start}
