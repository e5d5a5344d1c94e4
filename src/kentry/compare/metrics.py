# SPDX-License-Identifier: GPL-2.0-or-later
"""The exact metrics beside instructions on two kernels: verdicts, and shares of functions."""

from collections import Counter
from collections.abc import Iterable, Sequence

from kentry.arch import find_arch
from kentry.errors import UserError
from kentry.path import metrics
from kentry.path.symbols import base_name
from kentry.results import caveats
from kentry.results.comparison import CaseComparison, FunctionDelta
from kentry.results.recording import ABOUT_PATHS, INSTRUCTIONS, CaseResult, Recording
from kentry.stats import exact

# Stands for every metric.
ALL = "all"


def compare_metrics(
    old: Recording,
    new: Recording,
    pairs: Sequence[tuple[CaseResult, CaseResult]],
    wanted: Sequence[str],
) -> tuple[CaseComparison, ...]:
    """Compares each metric that both sides of a case have; instructions are left out.

    UserError for a metric that no case has on both sides.
    """
    chosen = choose_metrics(pairs, wanted)
    shares = {
        id(case): _Shares(case, side) for a, b in pairs for case, side in ((a, old), (b, new))
    }
    return tuple(
        _row(pair, metric, shares[id(pair[0])], shares[id(pair[1])])
        for pair in pairs
        for metric in chosen
        if _has(pair, metric)
    )


def choose_metrics(groups: Sequence[Sequence[CaseResult]], wanted: Sequence[str]) -> list[str]:
    """Returns the metrics asked for, ALL being every one that all cases of a group have.

    Instructions are left out.  UserError for a metric that no group has.
    """
    known = [metric for metric in ABOUT_PATHS if any(_has(group, metric) for group in groups)]
    known += sorted(
        {
            metric
            for group in groups
            for case in group
            for metric in case.metrics
            if metric.startswith(f"{metrics.SERIALISING}.") and _has(group, metric)
        }
    )
    if ALL in wanted:
        return known
    for name in wanted:
        if name not in (*known, INSTRUCTIONS):
            have = ", ".join([INSTRUCTIONS, *known])
            raise UserError(
                f"No case has a metric '{name}' that can be compared.",
                f"There are {have}. Recordings of an older kentry have instructions alone: make"
                " them again with kentry record.",
            )
    return [name for name in dict.fromkeys(wanted) if name != INSTRUCTIONS]


def _has(group: Sequence[CaseResult], metric: str) -> bool:
    """Tells whether all have the metric; a case that never executed an instruction has it, too."""
    total = metric.partition(".")[0] if metric.startswith(metrics.SERIALISING) else metric
    return all(total in case.metrics for case in group)


class _Shares:
    """The shares of a case's functions in its modal path, by metric; read once for all metrics."""

    def __init__(self, case: CaseResult, recording: Recording) -> None:
        path = case.modal_path
        code = recording.instructions(path) if path else []
        accesses = path.accesses if path else None
        arch = find_arch(recording.kernel["arch"])
        self._functions = [base_name(insn.function) for insn in code]
        self._amounts = metrics.amounts(code, accesses, arch)
        # See path/metrics.py; empty where no accesses are known.
        self.unreported = Counter[str]()
        if accesses is not None:
            self.unreported = metrics.unreported(code, accesses, arch)

    def of(self, metric: str) -> Counter[str]:
        """Empty where no path is known, or where the metric is no sum over instructions."""
        return metrics.shares(self._amounts.get(metric, Counter()), self._functions)


def _row(
    pair: tuple[CaseResult, CaseResult], metric: str, old: _Shares, new: _Shares
) -> CaseComparison:
    samples = [
        dict(own.metrics[metric].samples) if metric in own.metrics else {0: 1} for own in pair
    ]
    values = [exact.mode(own) for own in samples]
    missing = old.unreported | new.unreported if metric in metrics.OF_ACCESSES else {}
    words = ", ".join(f"{name} ({times} times)" for name, times in sorted(missing.items()))
    return CaseComparison(
        name=pair[0].name,
        metric=metric,
        old=values[0],
        new=values[1],
        verdict=exact.verdict(*samples),
        identical_path=False,
        functions=_functions(values, old.of(metric), new.of(metric)),
        caveats=(caveats.unreported_accesses(pair[0].name, words),) if words else (),
    )


def _functions(
    values: Sequence[int], old: Counter[str], new: Counter[str]
) -> tuple[FunctionDelta, ...]:
    """Returns the shares of functions; none where they do not add up to the values."""
    return function_deltas(old, new) if [old.total(), new.total()] == values else ()


def function_deltas(old: Counter[str], new: Counter[str]) -> tuple[FunctionDelta, ...]:
    """Returns every function of either side."""
    return by_size(FunctionDelta(name, old[name], new[name]) for name in {**old, **new})


def by_size(rows: Iterable[FunctionDelta]) -> tuple[FunctionDelta, ...]:
    """Returns the functions that changed most first."""
    return tuple(sorted(rows, key=lambda row: row.place))
