# SPDX-License-Identifier: GPL-2.0-or-later
"""A path as calls inside calls: what an icicle chart draws."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kentry.arch import ARCHES, find_arch
from kentry.model.comparison import FunctionDelta
from kentry.model.recording import CaseResult, Instruction, KernelPath, Recording
from kentry.path.phases import parts, split_calls
from kentry.path.symbols import base_name
from kentry.report.numbers import share


class Frame(NamedTuple):
    """A call: `size` instructions in a row from `first` on, with those of what it calls.

    `depth` 0 is the row of the parts.  `kind` is a class: a part's name, or how much of the
    function the other kernel has.
    """

    name: str
    first: int
    size: int
    depth: int
    kind: str
    title: str


class _Placed(NamedTuple):
    function: str
    depth: int
    part: str


def frames(
    recording: Recording, path: KernelPath, changed: Sequence[FunctionDelta] | None = None
) -> list[Frame]:
    """The parts of a path, and below them its calls, in the order of execution.

    With `changed` a function's frames say how it differs from the other kernel.
    """
    deltas = {
        name: one
        for one in changed or ()
        for name, _ in ((*one.renamed.old, *one.renamed.new) if one.renamed else ((one.name, 0),))
    }
    placed = list(_placed(recording.instructions(path), recording.kernel["arch"]))
    found = []
    total = len(placed)
    for first, count, part in _runs([one.part for one in placed]):
        title = f"{part}: {count} of {total} instructions ({share(count, total)})"
        kind = "part" if changed is not None else f"part {part}"
        found.append(Frame(part, first, count, 0, kind, title))
    # A call lasts as long as no instruction is less deep, or as deep and of another function.
    open_calls: list[tuple[str, int, str]] = []
    # Of each open call the instructions that are its own.
    own = [0] * (max((one.depth for one in placed), default=0) + 2)

    def close(down_to: int, end: int) -> Iterator[Frame]:
        while len(open_calls) > down_to:
            depth = len(open_calls)
            function, first, part = open_calls.pop()
            delta = deltas.get(base_name(function))
            title = f"{function}: {end - first} of {total} instructions"
            title += f" ({share(end - first, total)}), {own[depth]} its own, in {part}"
            kind = part
            if changed is not None:
                kind = _change(delta)
                if delta:
                    title += f"; in the whole path {delta.old} -> {delta.new} ({delta.delta:+d})"
            own[depth] = 0
            yield Frame(function, first, end - first, depth, kind, title)

    for place, one in enumerate(placed):
        if len(open_calls) > one.depth and open_calls[one.depth][0] != one.function:
            found += close(one.depth, place)
        found += close(one.depth + 1, place)
        while len(open_calls) <= one.depth:
            open_calls.append((one.function, place, one.part))
        own[one.depth + 1] += 1
    found += close(0, total)
    return sorted(found, key=lambda frame: (frame.depth, frame.first))


def first_modal(recording: Recording, case: CaseResult | None) -> KernelPath | None:
    """The case's modal path if it has instructions and can be read, or None."""
    path = case.modal_path if case else None
    known = path and path.length and recording.kernel["arch"] in ARCHES
    return path if known else None


def _placed(code: Sequence[Instruction], arch: str) -> Iterator[_Placed]:
    for call in split_calls(code):
        for part in parts(call, find_arch(arch)):
            for insn, depth in zip(part.instructions, part.depths, strict=True):
                yield _Placed(insn.function, depth, part.name)


def _runs(names: Sequence[str]) -> Iterator[tuple[int, int, str]]:
    """Equal names in a row: the first's place, how many, the name."""
    first = 0
    for place, name in enumerate(names):
        if place + 1 == len(names) or names[place + 1] != name:
            yield first, place + 1 - first, name
            first = place + 1


def _change(delta: FunctionDelta | None) -> str:
    if delta is None or not delta.delta:
        return "same"
    if not delta.old or not delta.new:
        return "added" if not delta.old else "removed"
    return "worse" if delta.delta > 0 else "better"
