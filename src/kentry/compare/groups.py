# SPDX-License-Identifier: GPL-2.0-or-later
"""The processes of a noisy metric: one number each, by boot, and as groups of old and new.

Importing this module loads numpy.
"""

from __future__ import annotations

from collections.abc import Sequence

from kentry.model.recording import TimedProcess
from kentry.stats.estimators import process_value, trimmed_mean
from kentry.stats.verdict import Group

# Boots of each kernel in a round: A B B A.
BOOTS_A_SIDE = 2
# The share of calls timed one by one that is kept: the longest are left out, because an
# interruption only adds time.
_KEPT = 0.95

Processes = Sequence[TimedProcess]


def process_values(processes: Processes) -> list[float]:
    """A value a process, per call, in the samples' unit.

    Calls timed one by one (no blocks, but empties) have the time of reading the clock subtracted.
    Their value is a mean, not a median: the clock's step may be as long as a call, and then a
    median is a multiple of it.
    """
    return [
        process_value(one.values, one.blocks) / one.calls
        if one.blocks or not one.empties
        else (_mean_of_kept(one.values) - _mean_of_kept(one.empties)) / one.calls
        for one in processes
    ]


def _mean_of_kept(values: Sequence[float]) -> float:
    kept = sorted(values)[: max(1, int(_KEPT * len(values)))]
    return sum(kept) / len(kept)


def values_by_boot(processes: Processes) -> dict[int, list[float]]:
    """The values of each boot's processes, boots in ascending order."""
    boots: dict[int, list[TimedProcess]] = {}
    for one in processes:
        boots.setdefault(one.boot, []).append(one)
    return {boot: process_values(boots[boot]) for boot in sorted(boots)}


def values_by_group(processes: Processes) -> dict[tuple[int, int], list[float]]:
    """The values of the processes of each (boot, group), in the order of their slots."""
    groups: dict[tuple[int, int], list[TimedProcess]] = {}
    for one in processes:
        groups.setdefault((one.boot, one.group), []).append(one)
    by_slot = {key: sorted(group, key=lambda one: one.slot) for key, group in groups.items()}
    return {key: process_values(group) for key, group in by_slot.items()}


def pair_groups(old: Processes, new: Processes) -> list[Group]:
    """What ran interleaved: processes of one group, or boots of one round.

    Two kernels have no boot in common; a round has two boots of each, and a boot is one value.
    """
    if not {one.boot for one in old} & {one.boot for one in new}:
        rounds, others = _rounds(old), _rounds(new)
        return [
            Group(number, tuple(rounds[number]), tuple(others[number]))
            for number in sorted(rounds)
            if len(rounds[number]) == len(others.get(number, ())) == BOOTS_A_SIDE
        ]
    before, after = values_by_group(old), values_by_group(new)
    return [
        Group(key[0], tuple(values), tuple(after[key]))
        for key, values in before.items()
        if key in after
    ]


def whole_groups(groups: Sequence[Group]) -> list[Group]:
    """The groups with as many old as new values, all above 0: others have no ratio."""
    return [
        group
        for group in groups
        if len(group.old) == len(group.new) and min(*group.old, *group.new) > 0
    ]


def _rounds(processes: Processes) -> dict[int, list[float]]:
    """The boots' values of each round, swapped in every other round: drift is no null contrast."""
    rounds: dict[int, list[float]] = {}
    for boot, values in values_by_boot(processes).items():
        rounds.setdefault(boot // (2 * BOOTS_A_SIDE), []).append(float(trimmed_mean(values)))
    return {number: values[:: -1 if number % 2 else 1] for number, values in rounds.items()}
