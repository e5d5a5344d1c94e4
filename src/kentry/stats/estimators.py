# SPDX-License-Identifier: GPL-2.0-or-later
"""A process's value from its blocks; means with their standard errors and intervals.

Disturbances of a loop only add time, so a low quantile of a process's blocks is nearer to the
cost of the path than their mean.  Differences between processes (their place in memory, their
pages) have either sign, so processes are averaged without the outermost ones.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import special

from kentry.stats import CONFIDENCE

Array = npt.NDArray[np.float64]

# The quantile of a turn's blocks that represents the turn.
PATH_QUANTILE = 0.10
# The share of turns left out on each side when a process's turns are averaged.
TURN_TRIM = 0.25
# The share of processes or groups left out on each side: Yuen's and Wilcox's usual 20 %.
TRIM = 0.20
# Fewer values than this are averaged untrimmed: too few would be left for an interval.
LEAST_TRIMMED = 10
# Drift is judged by the means of this many consecutive stretches of a boot's processes, if there
# are enough processes.
STRETCHES = 6
LEAST_IN_STRETCHES = 30


class Mean(NamedTuple):
    """A trimmed mean with its standard error; arrays where several were made at once."""

    value: Array
    error: Array  # the standard error of `value`, in its unit
    freedom: float  # degrees of freedom of `error`


def trimmed_mean(values: npt.ArrayLike, trim: float = TRIM) -> Array:
    """Averages along the last axis without the `trim` (0 to below 0.5) outermost of each side."""
    ordered = np.sort(np.asarray(values, dtype=np.float64), axis=-1)
    cut = _cut(ordered.shape[-1], trim)
    kept: Array = ordered[..., cut : ordered.shape[-1] - cut].mean(axis=-1)
    return kept


def trimmed(values: npt.ArrayLike) -> Mean:
    """Returns trimmed means along the last axis, with standard errors after Yuen (1974).

    The error comes from the Winsorised values (trimmed values replaced by the outermost kept
    ones), so an outlier that the mean leaves out does not widen the interval.  Both sides are
    replaced by the farther of the two: otherwise values in a few clusters look narrower than they
    are whenever one side has fewer outer values than are trimmed.  ValueError below two values.
    """
    ordered = np.sort(np.asarray(values, dtype=np.float64), axis=-1)
    count = ordered.shape[-1]
    if count < 2:
        raise ValueError("fewer than two values have no spread")
    cut = _cut(count, TRIM) if count >= LEAST_TRIMMED else 0
    kept = count - 2 * cut
    # Differences from one of the values: the spread of equal values is exactly 0.
    middle = ordered[..., count // 2, None]
    inner = ordered[..., cut : count - cut] - middle
    mean = inner.mean(axis=-1)
    outermost = np.maximum(mean - inner[..., 0], inner[..., -1] - mean)
    squares = ((inner - mean[..., None]) ** 2).sum(axis=-1) + 2 * cut * outermost**2
    return Mean(mean + middle[..., 0], np.sqrt(squares / (kept * (kept - 1))), kept - 1)


def trimmed_in_order(values: npt.ArrayLike) -> Mean:
    """Like `trimmed`, for values in the order in which they were measured, one row or several.

    A disturbance that lasts for several groups makes them count for fewer: the error grows by the
    root of the inflation, and the degrees of freedom shrink by it.
    """
    rows = np.atleast_2d(np.asarray(values, dtype=np.float64))
    mean = trimmed(values)
    times = inflation(rows)
    freedom = max(mean.freedom / times, min(mean.freedom, 2.0))
    return Mean(mean.value, mean.error * np.sqrt(times), freedom)


def inflation(rows: Array) -> float:
    """Returns the variance of a mean, in multiples of that of independent values.

    1 + 2 (r1 + r2 + ...) with the autocorrelations averaged over the rows, up to the first that
    independent values reach by chance.  1 for fewer than LEAST_TRIMMED values.
    """
    count = rows.shape[1]
    if count < LEAST_TRIMMED:
        return 1.0
    ordered = np.sort(rows, axis=1)
    cut = _cut(count, TRIM)
    held = np.clip(rows, ordered[:, cut, None], ordered[:, count - cut - 1, None])
    held = held - held.mean(axis=1, keepdims=True)
    variance = (held**2).sum(axis=1)
    held, variance = held[variance > 0], variance[variance > 0]
    chance = 1 / np.sqrt(max(len(held), 1) * count)
    total = 1.0
    for lag in range(1, count // 4 + 1 if len(held) else 0):
        # + 1 / count: a mean taken from the same values pulls them below 0 by that.
        alike = float(((held[:, lag:] * held[:, :-lag]).sum(axis=1) / variance).mean()) + 1 / count
        if alike <= chance:
            break
        total += 2 * alike
    return total


def process_value(values: Sequence[float] | Array, blocks: int) -> float:
    """Reduces a process's blocks (any unit, a number a block) to one number in the same unit.

    `blocks` is how many blocks a turn has; the turns follow each other in `values`.  Each turn is
    represented by PATH_QUANTILE of its blocks, the process by the trimmed mean of its turns.
    An unfinished last turn is left out unless it is the only one.  With blocks=0 (no turns) the
    result is the median of all values.  ValueError without values.
    """
    raw = np.asarray(values, dtype=np.float64)
    if raw.size == 0:
        raise ValueError("a process without values")
    if blocks <= 0:
        return float(np.median(raw))
    whole = raw.size // blocks
    turns = raw[: whole * blocks].reshape(whole, blocks) if whole else raw.reshape(1, -1)
    # numpy.quantile(turns, PATH_QUANTILE, axis=1) has an overhead that every process would pay.
    ordered = np.sort(turns, axis=1)
    rank = PATH_QUANTILE * (turns.shape[1] - 1)
    below = int(rank)
    above = min(below + 1, turns.shape[1] - 1)
    low = ordered[:, below]
    return float(trimmed_mean(low + (rank - below) * (ordered[:, above] - low), TURN_TRIM))


def _cut(count: int, trim: float) -> int:
    """Returns how many values to leave out on each side; 1e-9, so that 0.1 * 30 is 3."""
    return int(trim * count + 1e-9)


class Level(NamedTuple):
    """A case's value with its confidence interval, in the unit of the samples."""

    estimate: float
    low: float
    high: float


def quantile_t(alpha: float, freedom: float) -> float:
    """Returns what Student's |t| exceeds with probability `alpha`; exact down to 1e-12."""
    return -float(special.stdtrit(freedom, alpha / 2))


def tail_t(value: float, error: float, freedom: float) -> float:
    """Returns the two-sided p of the value being 0, given its standard error."""
    if error == 0:
        return float(value == 0)
    return float(2 * special.stdtr(freedom, -abs(value) / error))


def half_width(mean: Mean, alpha: float) -> Array:
    """Returns half the width of the interval that misses with probability `alpha`."""
    return quantile_t(alpha, mean.freedom) * mean.error


def level_interval(values_by_boot: Sequence[Sequence[float]]) -> Level:
    """Returns a case's value from one number a process, in their order; ValueError without any.

    With several boots, the boots are the sample and the interval is for this kernel on this
    machine.  With one boot, its processes are the sample and the interval is for this boot.  A
    single process has no interval: both bounds are NaN.
    """
    boots = [np.asarray(boot, dtype=np.float64) for boot in values_by_boot if len(boot)]
    if not boots:
        raise ValueError("no process has a value")
    sample = boots[0] if len(boots) == 1 else np.array([float(trimmed_mean(b)) for b in boots])
    if sample.size < 2:
        return Level(float(sample[0]), float("nan"), float("nan"))
    mean = trimmed_in_order(sample)
    half = float(half_width(mean, 1 - CONFIDENCE))
    if sample.size >= LEAST_IN_STRETCHES:
        # The means of stretches show drift that is slower than a process.
        parts = [float(trimmed_mean(part)) for part in np.array_split(sample, STRETCHES)]
        half = max(half, float(half_width(trimmed(parts), 1 - CONFIDENCE)))
    return Level(float(mean.value), float(mean.value) - half, float(mean.value) + half)
