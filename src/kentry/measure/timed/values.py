# SPDX-License-Identifier: GPL-2.0-or-later
"""Raw samples -> the one number of a process, of a boot, and the groups that are compared."""

from __future__ import annotations

from collections.abc import Sequence

from kentry.model.recording import TimedProcess
from kentry.stats.estimators import trimmed_mean
from kentry.stats.noisy import Group, process_value

# Boots of each kernel in a round: A B B A.
BOOTS_A_SIDE = 2


# Of calls timed one by one the longest are left out: what interrupts only ever adds.
_KEPT = 0.95


def process_values(processes: Sequence[TimedProcess]) -> list[float]:
    """A value a process, per call, in the samples' unit.

    Of calls timed one by one (no blocks, but empties) what the clock's own reading took is off.
    """
    return [_value(one) for one in processes]


def _value(one: TimedProcess) -> float:
    if one.blocks or not one.empties:
        return process_value(one.values, one.blocks) / one.calls
    return (_without_longest(one.values) - _without_longest(one.empties)) / one.calls


def _without_longest(values: Sequence[float]) -> float:
    """The mean of all but the longest.

    A mean, since a clock's steps may be as long as a call: medians of such times are multiples of
    a step, whatever the call takes, and means are not.
    """
    ordered = sorted(values)
    kept = ordered[: max(1, int(_KEPT * len(ordered)))]
    return sum(kept) / len(kept)


def groups_of_boots(old: Sequence[TimedProcess], new: Sequence[TimedProcess]) -> list[Group]:
    """The same from processes, whose boots are numbered through all rounds."""
    sides = [_by_round(old), _by_round(new)]
    return [
        Group(number, tuple(sides[0][number]), tuple(sides[1][number]))
        for number in sorted(sides[0])
        if len(sides[0][number]) == len(sides[1].get(number, ())) == BOOTS_A_SIDE
    ]


def _by_round(processes: Sequence[TimedProcess]) -> dict[int, list[float]]:
    """Each round's boots, the earlier first in every other round: a drift is no null contrast."""
    boots: dict[int, list[TimedProcess]] = {}
    for one in processes:
        boots.setdefault(one.boot, []).append(one)
    rounds: dict[int, list[float]] = {}
    for boot in sorted(boots):
        value = float(trimmed_mean(process_values(boots[boot])))
        rounds.setdefault(boot // (2 * BOOTS_A_SIDE), []).append(value)
    return {number: values[:: -1 if number % 2 else 1] for number, values in rounds.items()}
