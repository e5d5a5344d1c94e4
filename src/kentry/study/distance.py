# SPDX-License-Identifier: GPL-2.0-or-later
"""How far one metric of one case is apart on two kernels, exact or with noise."""

from dataclasses import dataclass

from kentry.compare.counted import compare
from kentry.errors import UserError
from kentry.results.comparison import FunctionDelta, Real
from kentry.results.recording import INSTRUCTIONS, CaseResult, Recording
from kentry.stats import exact
from kentry.stats.exact import UNDECIDED


@dataclass(frozen=True)
class Difference:
    """New less old in the metric's unit.

    `low` and `high` are the ends of its interval; an exact difference is all three.  None where it
    cannot be told: a case that never settles, a metric with too few samples.  `functions` are
    those of an exact difference of instructions.
    """

    delta: Real
    low: Real | None
    high: Real | None
    functions: tuple[FunctionDelta, ...] = ()

    @property
    def is_sure(self) -> bool:
        """Whether there surely is one."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)

    @property
    def is_none(self) -> bool:
        """Whether there surely is none."""
        return self.low == self.high == 0


def value(recording: Recording, case: str, metric: str) -> Real:
    """The metric's value; UserError where the recording has none."""
    one = _case(recording, case)
    found = one.metrics.get(metric) or one.noisy.get(metric)
    if found is None:
        names = ", ".join([*one.metrics, *one.noisy])
        raise UserError(f"{case} has no metric '{metric}'.", f"It has {names}.")
    return found.value


def difference(old: Recording, new: Recording, case: str, metric: str) -> Difference:
    """The difference of one metric; UserError where a side does not have it."""
    delta = value(new, case, metric) - value(old, case, metric)
    before, after = _case(old, case), _case(new, case)
    if metric not in before.metrics or metric not in after.metrics:
        return _noisy(old, new, case, metric)
    if metric == INSTRUCTIONS:
        [row] = compare(old, new, [case]).cases
        known = None if row.verdict == UNDECIDED else row.delta
        return Difference(row.delta, known, known, row.functions)
    verdict = exact.verdict(
        dict(before.metrics[metric].samples), dict(after.metrics[metric].samples)
    )
    known_delta = None if verdict == UNDECIDED else delta
    return Difference(delta, known_delta, known_delta)


def _case(recording: Recording, name: str) -> CaseResult:
    if found := recording.case(name):
        return found
    names = ", ".join(one.name for one in recording.cases)
    raise UserError(f"The recording has no case {name}.", f"It has {names}.")


def _noisy(old: Recording, new: Recording, case: str, metric: str) -> Difference:
    """The interval of a noisy change; recordings made apart have one too, though no verdict."""
    for row in compare(old, new, [case]).timed:
        if row.metric == metric:
            low, high = row.interval or (None, None)
            if low is None or high is None:
                return Difference(row.delta, None, None)
            return Difference(row.delta, row.old * low / 100, row.old * high / 100)
    raise UserError(f"The two recordings have no {metric} of {case} in one unit.", "Use one unit.")
