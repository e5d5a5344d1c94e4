# SPDX-License-Identifier: GPL-2.0-or-later
"""A path as calls inside calls: what an icicle chart draws."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kentry.arch import Arch
from kentry.path.calls import parts, spans, split_calls
from kentry.path.symbols import base_name
from kentry.results.comparison import FunctionDelta
from kentry.results.recording import Instruction
from kentry.show.numbers import share


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


def frames(
    code: Sequence[Instruction], arch: Arch, changed: Sequence[FunctionDelta] | None = None
) -> list[Frame]:
    """Returns the parts of a path, and below them its calls, in the order of execution.

    With `changed` a function's frames say how it differs from the other kernel.
    """
    deltas = {
        name: one
        for one in changed or ()
        for name, _ in ((*one.renamed.old, *one.renamed.new) if one.renamed else ((one.name, 0),))
    }
    names = [
        part.name
        for call in split_calls(code)
        for part in parts(call, arch)
        for _ in part.instructions
    ]
    found, total = [], len(code)
    for first, count, part in _runs(names):
        title = f"{part}: {count} of {total} instructions ({share(count, total)})"
        kind = "part" if changed is not None else f"part {part}"
        found.append(Frame(part, first, count, 0, kind, title))
    calls = spans(code, arch)
    own = Counter(calls.inner)
    depths: list[int] = []
    for index, one in enumerate(calls.spans):
        depths.append(1 if one.caller is None else depths[one.caller] + 1)
        size, kind = one.end - one.start, names[one.start]
        title = f"{one.function}: {size} of {total} instructions"
        title += f" ({share(size, total)}), {own[index]} its own, in {kind}"
        if changed is not None:
            delta = deltas.get(base_name(one.function))
            kind = _change(delta)
            if delta:
                title += f"; in the whole path {delta.old} -> {delta.new} ({delta.delta:+d})"
        found.append(Frame(one.function, one.start, size, depths[index], kind, title))
    return sorted(found, key=lambda frame: (frame.depth, frame.first))


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
