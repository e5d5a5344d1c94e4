# SPDX-License-Identifier: GPL-2.0-or-later
"""Where two paths differ by purpose: the parts of the path, and the reasons for instructions."""

from collections import Counter
from collections.abc import Sequence

from kentry.compare.contexts import Side
from kentry.path.reasons import NOT_KNOWN, Purpose, purposes
from kentry.results.comparison import PurposeDelta

Deltas = tuple[PurposeDelta, ...]


def purposes_of_both(old: tuple[Side, int], new: tuple[Side, int]) -> tuple[Deltas, Deltas]:
    """Returns the parts in the order of the path, and the reasons, the largest change first.

    A side comes with the count that is compared.  Both add up to the counts; both are empty where a
    path of such a length was not recorded.
    """
    sides = [_purposes(side) for side, _ in (old, new)]
    if [len(side) for side in sides] != [old[1], new[1]]:
        return (), ()
    parts = _deltas([[(purpose.part, "") for purpose in side] for side in sides])
    reasons = _deltas([[(purpose.reason, purpose.source) for purpose in side] for side in sides])
    order = list(dict.fromkeys(purpose.part for side in reversed(sides) for purpose in side))
    return (
        tuple(sorted(parts, key=lambda row: order.index(row.name))),
        tuple(sorted(reasons, key=lambda row: (row.name == NOT_KNOWN, -abs(row.delta), row.name))),
    )


def _purposes(side: Side) -> list[Purpose]:
    path = side.case.modal_path
    return list(purposes(side.recording.instructions(path), side.arch)) if path else []


def _deltas(sides: Sequence[Sequence[tuple[str, str]]]) -> list[PurposeDelta]:
    """Returns a row a name, from each side's names and sources."""
    counts = [Counter(name for name, _ in side) for side in sides]
    sources: dict[str, dict[str, None]] = {}
    for name, source in (pair for side in sides for pair in side):
        sources.setdefault(name, {}).update({source: None} if source else {})
    old, new = counts
    return [
        PurposeDelta(name, old[name], new[name], sources=tuple(own))
        for name, own in sources.items()
    ]
