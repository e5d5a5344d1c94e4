# SPDX-License-Identifier: GPL-2.0-or-later
"""How far a metric of a case is apart on two kernels, exact or with noise."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from kentry.compare.counted import compare
from kentry.errors import UserError
from kentry.results.comparison import Comparison, FunctionDelta, Real
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

    @property
    def changed(self) -> tuple[FunctionDelta, ...]:
        """The functions that differ."""
        return tuple(row for row in self.functions if row.delta)


def value(recording: Recording, case: str, metric: str) -> Real:
    """The metric's value; UserError where the recording has none."""
    result = _case(recording, case)
    measured = result.metrics.get(metric) or result.noisy.get(metric)
    if measured is None:
        names = ", ".join([*result.metrics, *result.noisy])
        raise UserError(f"{case} has no metric '{metric}'.", f"It has {names}.")
    return measured.value


@dataclass(frozen=True)
class Pair:
    """Two recordings and the cases in question, which are compared once."""

    old: Recording
    new: Recording
    cases: Sequence[str]

    @cached_property
    def comparison(self) -> Comparison:
        """The comparison of all cases."""
        return compare(self.old, self.new, list(self.cases))

    def difference(self, case: str, metric: str = INSTRUCTIONS) -> Difference:
        """The difference of one metric; UserError where a side does not have it."""
        delta = value(self.new, case, metric) - value(self.old, case, metric)
        before, after = _case(self.old, case).metrics, _case(self.new, case).metrics
        if metric not in before or metric not in after:
            return self._noisy(case, metric)
        if metric == INSTRUCTIONS:
            row = next(one for one in self.comparison.cases if one.name == case)
            known = None if row.verdict == UNDECIDED else row.delta
            return Difference(row.delta, known, known, row.functions)
        verdict = exact.verdict(dict(before[metric].samples), dict(after[metric].samples))
        known_delta = None if verdict == UNDECIDED else delta
        return Difference(delta, known_delta, known_delta)

    def _noisy(self, case: str, metric: str) -> Difference:
        """The interval of a noisy change, which recordings made apart have, too."""
        for row in self.comparison.timed:
            if (row.name, row.metric) == (case, metric):
                low, high = row.interval or (None, None)
                if low is None or high is None:
                    return Difference(row.delta, None, None)
                return Difference(row.delta, row.old * low / 100, row.old * high / 100)
        raise UserError(
            f"The two recordings have no {metric} of {case} in one unit.", "Use one unit."
        )


def _case(recording: Recording, name: str) -> CaseResult:
    if result := recording.case(name):
        return result
    names = ", ".join(one.name for one in recording.cases)
    raise UserError(f"The recording has no case {name}.", f"It has {names}.")
