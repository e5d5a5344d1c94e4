# SPDX-License-Identifier: GPL-2.0-or-later
"""One path on two kernels: where its code lies on each, and what moved."""

from collections import Counter
from collections.abc import Sequence

from msgspec import UNSET, UnsetType

from kentry.arch import Arch
from kentry.path.metrics import amounts_of_code
from kentry.results.comparison import LayoutChange, MovedFunction
from kentry.results.recording import OF_LAYOUT, Instruction

# Bytes: no metric of layout depends on whole pages.
_PAGE = 4096


def layout_change(
    old: Sequence[Instruction], new: Sequence[Instruction], arch: Arch
) -> LayoutChange | UnsetType:
    """Returns what moved between two paths of the same instructions; UNSET where that is nothing.

    Whole pages that most of the path moved by are taken out: together nothing has moved.
    """
    distances = Counter(
        (after.function, after.address - before.address)
        for before, after in zip(old, new, strict=True)
    )
    common: Counter[int] = Counter()
    for (_, by), times in distances.items():
        common[by] += times
    [(most, _)] = common.most_common(1) or [(0, 0)]
    pages = int(most / _PAGE) * _PAGE
    moved = [
        MovedFunction(name, times, by - pages)
        for (name, by), times in distances.items()
        if by != pages
    ]
    if not moved:
        return UNSET
    sides = [amounts_of_code(path, arch) for path in (old, new)]
    return LayoutChange(
        moved=tuple(sorted(moved, key=lambda row: (-row.instructions, row.name, row.by))),
        whole_pages=pages,
        metrics={name: (sides[0][name].total(), sides[1][name].total()) for name in OF_LAYOUT},
    )
