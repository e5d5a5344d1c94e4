# SPDX-License-Identifier: GPL-2.0-or-later
"""Many comparisons in one table: among a hundred, one at 99 % is wrong by chance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from kentry.stats.exact import BETTER, UNDECIDED, WORSE
from kentry.stats.intervals import CONFIDENCE
from kentry.stats.verdict import Comparison


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Adjusted p of several questions asked at once, in their order (Holm 1979)."""
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    steps = p[order] * np.arange(p.size, 0, -1)
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return tuple(float(value) for value in adjusted)


def apply_holm(
    comparisons: Sequence[Comparison], alpha: float = 1 - CONFIDENCE
) -> tuple[Comparison, ...]:
    """The rows of one table, with adjusted p; differences that do not stand become undecided.

    Intervals stay those of each row alone.
    """
    adjusted = holm([row.p for row in comparisons])
    return tuple(
        _adjusted(row, p, alpha, len(comparisons))
        for row, p in zip(comparisons, adjusted, strict=True)
    )


def _adjusted(row: Comparison, p: float, alpha: float, rows: int) -> Comparison:
    if row.verdict not in (BETTER, WORSE) or p <= alpha:
        return replace(row, p=p)
    reason = f"not sure enough for one of {rows} rows"
    return replace(row, p=p, verdict=UNDECIDED, more=2.0, reason=reason)
