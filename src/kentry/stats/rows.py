# SPDX-License-Identifier: GPL-2.0-or-later
"""Many rows in one table: of a hundred verdicts at 99 %, one is wrong by chance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from kentry.stats import CONFIDENCE
from kentry.stats.exact import BETTER, UNDECIDED, WORSE
from kentry.stats.verdict import Estimate


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """The adjusted p of several questions asked at once, in their order (Holm 1979)."""
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    steps = p[order] * np.arange(p.size, 0, -1)
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return tuple(float(value) for value in adjusted)


def apply_holm(rows: Sequence[Estimate], alpha: float = 1 - CONFIDENCE) -> tuple[Estimate, ...]:
    """The rows of one table with adjusted p; a difference that fails the test becomes undecided.

    The intervals stay those of each row alone.
    """
    result = []
    for row, p in zip(rows, holm([row.p for row in rows]), strict=True):
        if row.verdict not in (BETTER, WORSE) or p <= alpha:
            result.append(replace(row, p=p))
        else:
            reason = f"not sure enough for one of {len(rows)} rows"
            result.append(replace(row, p=p, verdict=UNDECIDED, more=2.0, reason=reason))
    return tuple(result)
