# SPDX-License-Identifier: GPL-2.0-or-later
"""Processes' samples as values, and as groups of old and new; loads numpy and scipy."""

from collections import defaultdict
from collections.abc import Sequence

from kentry.results.comparison import Distribution
from kentry.results.recording import NoisyMetric, TimedProcess
from kentry.stats import CONFIDENCE, THRESHOLD
from kentry.stats.estimators import process_value, trimmed_mean
from kentry.stats.sequential import Look
from kentry.stats.verdict import Effect, Group, apply_holm, compare_groups

# Boots of each kernel in a round: A B B A.
BOOTS_A_SIDE = 2
# The share kept of calls timed one by one, the shortest: an interruption only adds time.
_KEPT = 0.95


Processes = Sequence[TimedProcess]


def value_of(process: TimedProcess) -> float:
    """A process's value per call; the clock's reading is subtracted from calls timed singly."""
    # Theirs is a mean: the clock's step may be as long as a call, and a median a multiple of it.
    if process.blocks or not process.empties:
        return process_value(process.values, process.blocks) / process.calls
    return (_mean_of_kept(process.values) - _mean_of_kept(process.empties)) / process.calls


def distribution(metric: NoisyMetric) -> Distribution:
    """Returns a noisy metric with the value of each process in place of its samples."""
    fields = [name for name in Distribution.__struct_fields__ if name != "values"]
    values = tuple(map(value_of, metric.samples))
    return Distribution(values=values, **{name: getattr(metric, name) for name in fields})


def _mean_of_kept(values: Sequence[float]) -> float:
    kept = sorted(values)[: max(1, int(_KEPT * len(values)))]
    return sum(kept) / len(kept)


def values_by_boot(processes: Processes) -> dict[int, list[float]]:
    """Returns the values of each boot's processes, boots in ascending order."""
    boots = defaultdict(list)
    for process in processes:
        boots[process.boot].append(value_of(process))
    return dict(sorted(boots.items()))


def values_by_group(processes: Processes) -> dict[tuple[int, int], list[float]]:
    """Returns the values of the processes of each (boot, group), in the order of their slots."""
    groups = defaultdict(list)
    for process in sorted(processes, key=lambda process: process.slot):
        groups[process.boot, process.group].append(value_of(process))
    return dict(groups)


def pair_groups(old: Processes, new: Processes) -> list[Group]:
    """Pairs what ran interleaved: processes of one group, or boots of one round."""
    # Two kernels have no boot in common; a round has two boots of each, and a boot is one value.
    # Groups of unequal numbers of values, or with one of 0 or less, have no ratio: left out.
    if not {process.boot for process in old} & {process.boot for process in new}:
        before, after = _rounds(old), _rounds(new)
    else:
        before, after = values_by_group(old), values_by_group(new)
    return [
        Group(key[0], tuple(values), tuple(after[key]))
        for key, values in before.items()
        if len(values) == len(after.get(key, ())) and min(*values, *after[key]) > 0
    ]


def _rounds(processes: Processes) -> dict[tuple[int, int], list[float]]:
    """Whole rounds' boots by (round, 0), every other in reverse: a drift is no null contrast."""
    rounds = defaultdict(list)
    for boot, values in values_by_boot(processes).items():
        rounds[boot // (2 * BOOTS_A_SIDE)].append(float(trimmed_mean(values)))
    return {
        (number, 0): values[:: -1 if number % 2 else 1]
        for number, values in rounds.items()
        if len(values) == BOOTS_A_SIDE
    }


def estimate_rows(
    sides: Sequence[tuple[Processes, Processes]],
    confidence: float = CONFIDENCE,
    *,
    threshold: float = THRESHOLD,
    look: Look | None = None,
    higher_is_better: bool = False,
) -> list[Effect | None]:
    """Estimates each row's change with Holm's correction; None where nothing ran interleaved."""
    rows = [pair_groups(old, new) for old, new in sides]
    estimates = [
        compare_groups(
            groups,
            confidence=confidence,
            threshold=threshold,
            look=look,
            higher_is_better=higher_is_better,
        )
        for groups in rows
        if groups
    ]
    corrected = iter(apply_holm(estimates, 1 - confidence))
    return [next(corrected) if groups else None for groups in rows]
