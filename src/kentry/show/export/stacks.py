# SPDX-License-Identifier: GPL-2.0-or-later
"""What the formats of profilers are made of: each case's modal path, with its calls."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from kentry.arch import find_arch
from kentry.errors import UserError
from kentry.path.calls import Span, Spans, spans
from kentry.results.recording import INSTRUCTIONS, Instruction, Recording
from kentry.show.export.common import labels, printable

# Cases that are named in a note; further ones are counted.
_NAMED = 8


class CaseStacks(NamedTuple):
    """A case's modal path and the recording's number and label; every name is printable."""

    number: int
    label: str
    name: str
    path: Sequence[Instruction]
    calls: Spans

    def frames(self, position: int) -> list[tuple[int, Span]]:
        """List the stack, innermost first: each function with the position that it has reached."""
        frames = []
        at: int | None = position
        index: int | None = self.calls.inner[position]
        while index is not None and at is not None:
            span = self.calls.spans[index]
            frames.append((at, span))
            at, index = span.site, span.caller
        return frames

    def stack(self, position: int) -> tuple[str, ...]:
        """Return the case, then the names of the functions, the outermost first."""
        return (self.name, *(span.function for _, span in reversed(self.frames(position))))


class Stacks(NamedTuple):
    """The cases that have a path, a case's recordings side by side, and a note on the others."""

    cases: tuple[CaseStacks, ...]
    notes: tuple[str, ...]

    def in_common(self) -> Stacks:
        """Return only the cases that each recording has; UserError if there is none."""
        sides: dict[int, set[str]] = {}
        for case in self.cases:
            sides.setdefault(case.number, set()).add(case.name)
        common = set.intersection(*sides.values())
        if not common:
            raise UserError(
                "The recordings have no case in common.", "Export them one by one instead."
            )
        alone = sorted(set().union(*sides.values()) - common)
        note = f"left out, not in both recordings: {_listed(alone)}"
        return Stacks(
            tuple(case for case in self.cases if case.name in common),
            (*self.notes, *([note] if alone else [])),
        )


def stacks(recordings: Sequence[Recording]) -> Stacks:
    """Make the stacks of the recordings; UserError where one has no path at all."""
    cases: list[CaseStacks] = []
    notes: list[str] = []
    for number, (recording, label) in enumerate(zip(recordings, labels(recordings), strict=True)):
        own = list(_cases(recording, number, label))
        if not own:
            raise UserError(
                f"The recording of {recording.kernel['spec']} has no paths, and stacks are made of"
                " them.",
                "Make one with kentry record --paths 1 or more.",
            )
        cases += own
        notes += _notes(recording, label, {case.name for case in own})
    order = {name: place for place, name in enumerate(dict.fromkeys(case.name for case in cases))}
    return Stacks(tuple(sorted(cases, key=lambda case: order[case.name])), tuple(notes))


def _cases(recording: Recording, number: int, label: str) -> Iterator[CaseStacks]:
    for case in recording.cases:
        if (modal := case.modal_path) and modal.length:
            arch = find_arch(recording.kernel["arch"])
            code = recording.instructions(modal)
            path = [insn._replace(function=_named(insn.function)) for insn in code]
            yield CaseStacks(
                number,
                _named(label),
                _named(case.name),
                path,
                spans(path, arch),
            )


def _notes(recording: Recording, label: str, present: Iterable[str]) -> Iterator[str]:
    """Yield what is not in the export, or is not the number that kentry prints."""
    absent = [name for case in recording.cases if (name := _named(case.name)) not in present]
    if absent:
        yield f"left out of {label}, no kernel path: {_listed(absent)}"
    for case in recording.cases:
        count, modal = case.metrics.get(INSTRUCTIONS), case.modal_path
        if count and modal and modal.length and modal.length != count.value:
            yield (
                f"{_named(case.name)} of {label}: the commonest path has {modal.length}"
                f" instructions, the commonest count is {count.value}"
            )


def _named(name: str) -> str:
    """Return the name as a format can have it: no reader takes an empty one."""
    return printable(name).strip() or "[unknown]"


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{', '.join(names[:_NAMED])}{more}"
