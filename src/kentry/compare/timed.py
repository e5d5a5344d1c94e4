# SPDX-License-Identifier: GPL-2.0-or-later
"""Metrics with noise on two kernels: a change with its interval, and whether it can be believed.

Two recordings of one session were measured interleaved, so they are compared group by group and
what the machine did meanwhile is in both sides.  Recordings of two runs are shown, not decided.

Importing this module loads numpy and scipy.
"""

import math
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from kentry.compare.differences import shared_metrics
from kentry.results import caveats
from kentry.results.comparison import CaseComparison, TimedComparison
from kentry.results.recording import CaseResult, NoisyMetric, Recording, TimedProcess
from kentry.stats import CONFIDENCE, THRESHOLD
from kentry.stats.estimators import process_value, trimmed_mean
from kentry.stats.exact import BETTER, SAME, UNDECIDED, WORSE
from kentry.stats.sequential import LOOKS, Look, plan_looks
from kentry.stats.verdict import Estimate, Group, compare_groups, compare_unpaired, holm

# In units that end so, more is better; in all others, less.
_RATE = "/s"
# Boots of each kernel in a round: A B B A.
BOOTS_A_SIDE = 2
# The share of calls timed one by one that is kept: the longest are left out, because an
# interruption only adds time.
_KEPT = 0.95

Processes = Sequence[TimedProcess]


def compare_timed(
    pairs: Sequence[tuple[CaseResult, CaseResult]],
    counted: Mapping[str, CaseComparison],
    old: Recording,
    new: Recording,
    threshold: float | None,
) -> list[TimedComparison]:
    """Every noisy metric that both sides of a case have in one unit.

    Changes up to `threshold`, a fraction, count as none.  `counted` are the rows of the exact
    counts, by case.
    """
    threshold = THRESHOLD if threshold is None else threshold
    session = old.timed_target.get("session")
    paired = bool(session) and session == new.timed_target.get("session")
    # Where the measurement had planned looks: how many, and at which of them it ended.
    look = None
    looks, ended = old.options.get("looks", 0), old.options.get("look", 0)
    if paired and looks >= 2 and 1 <= ended <= looks and new.options.get("look") == ended:
        look = plan_looks(1 - CONFIDENCE, LOOKS if looks == len(LOOKS) else looks)[int(ended) - 1]
    rows = []
    for a, b in pairs:
        known = a.modal_path and b.modal_path
        for metric in shared_metrics(a, b):
            sides = a.noisy[metric], b.noisy[metric]
            row = _compare(a.name, metric, *sides, paired, look, threshold)
            case = counted.get(a.name)
            identical = case.identical_path if case and known else None
            rows.append(_beside_counts(replace(row, identical_path=identical), case))
    return _with_many_rows(rows)


def _compare(
    name: str,
    metric: str,
    old: NoisyMetric,
    new: NoisyMetric,
    paired: bool,
    look: Look | None,
    threshold: float,
) -> TimedComparison:
    plain = TimedComparison(
        name=name,
        metric=metric,
        unit=old.unit,
        old=old.value,
        new=new.value,
        percent=100 * (new.value - old.value) / old.value if old.value else None,
        verdict=UNDECIDED,
        halves=(_half(old.interval), _half(new.interval)),
    )
    if any("interval" in one.absent or not one.samples for one in (old, new)):
        absent = [
            caveats.unsupported(side, metric, ", ".join(one.absent))
            for side, one in (("old", old), ("new", new))
            if one.absent
        ]
        if absent:
            return replace(plain, reason="imported", caveats=tuple(absent))
    rate = old.unit.endswith(_RATE)
    try:
        if groups := pair_groups(old.samples, new.samples) if paired else []:
            found = compare_groups(groups, look=look, threshold=threshold, higher_is_better=rate)
            row = _with_estimate(plain, found)
            # Identical samples are the same without a test.
            return replace(row, verdict=SAME, reason="") if old.samples == new.samples else row
        before, after = (list(values_by_boot(one.samples).values()) for one in (old, new))
        found = compare_unpaired(before, after, threshold=threshold, higher_is_better=rate)
    except ValueError:
        # Values of 0 or less have no logarithm.
        told = (caveats.no_statistics(name, metric),)
        return replace(plain, reason="values not above 0", caveats=told)
    return replace(
        _with_estimate(plain, found),
        paired=False,
        verdict=UNDECIDED,
        reason="measured apart",
        caveats=(caveats.measured_apart(),),
    )


def _half(interval: tuple[float, float] | None) -> float | None:
    return None if interval is None else (interval[1] - interval[0]) / 2


def _with_estimate(plain: TimedComparison, found: Estimate) -> TimedComparison:
    """The row with the estimate; old and new in the estimated ratio, about their middle."""
    middle = math.sqrt(plain.old * plain.new)
    if not math.isfinite(found.effect) or found.effect <= -1 or not middle:
        return replace(plain, paired=True, reason=found.reason)
    root = math.sqrt(1 + found.effect)
    return replace(row_of_estimate(plain, found), old=middle / root, new=middle * root)


def row_of_estimate(plain: TimedComparison, found: Estimate) -> TimedComparison:
    """The row with everything that was estimated of an interleaved measurement."""
    low, high = (_percent(end) for end in found.interval)
    return replace(
        plain,
        percent=_percent(found.effect),
        verdict=found.verdict,
        interval=None if low is None or high is None else (low, high),
        confidence=found.confidence,
        floor=_percent(found.floor),
        threshold=_percent(found.threshold),
        detectable=_percent(found.detectable),
        paired=True,
        p=found.p,
        reason=found.reason,
    )


def measured(
    name: str, metric: str, unit: str, values: tuple[float, float], found: Estimate
) -> TimedComparison:
    """The row of two things that were measured interleaved: old, new."""
    old, new = values
    plain = TimedComparison(
        name=name, metric=metric, unit=unit, old=old, new=new, verdict=UNDECIDED
    )
    return row_of_estimate(plain, found)


def _percent(fraction: float) -> float | None:
    """Per cent; None for NaN, which JSON does not have, and for infinity."""
    return 100 * fraction if math.isfinite(fraction) else None


def _beside_counts(row: TimedComparison, case: CaseComparison | None) -> TimedComparison:
    """The row with a caveat where time and executed instructions disagree."""
    # Instructions are executed, not timed: they have no layout, and no sign of their own.
    if row.unit == "instructions" or row.metric.startswith("user") or not row.percent or not case:
        return row
    # Whether the change is beyond its interval and the noise floor.
    clear = row.interval is not None and (row.interval[0] > 0 or row.interval[1] < 0)
    clear = clear and abs(row.percent) > max(row.floor or 0, row.threshold or 0)
    word = "time" if row.metric == "ns" else row.metric
    unsure = f" ({row.reason or UNDECIDED})" if row.verdict == UNDECIDED else ""
    change = f"{row.percent:+.{row.percent_digits}f} %{unsure}"
    better = (row.percent > 0) == row.unit.endswith(_RATE)
    if row.identical_path:
        told = [caveats.layout(row.name, word, change)] if clear else []
    elif (clear or row.interval is None) and case.verdict == (WORSE if better else BETTER):
        share = "" if case.percent is None else f" ({case.percent:+.1f} %)"
        told = [caveats.sign_conflict(row.name, f"{case.delta:+d}{share}", word, change)]
    else:
        told = []
    return replace(row, caveats=(*row.caveats, *told))


def _with_many_rows(rows: Sequence[TimedComparison]) -> list[TimedComparison]:
    """The rows with Holm's correction: a verdict that fails it is undecided.

    The rows of one metric are one table; rows that cannot decide anything do not count.
    """
    tables: dict[str, list[TimedComparison]] = {}
    for row in rows:
        if row.verdict in (BETTER, WORSE) or (row.paired and row.interval):
            tables.setdefault(row.metric, []).append(row)
    corrected = {}
    for table in tables.values():
        if len(table) == 1:
            continue
        reason = f"one of {len(table)} cases: not sure enough"
        for row, p in zip(table, holm([row.p for row in table]), strict=True):
            fails = row.verdict in (BETTER, WORSE) and p > 1 - CONFIDENCE
            corrected[id(row)] = (
                replace(row, verdict=UNDECIDED, reason=reason, p=p) if fails else replace(row, p=p)
            )
    return [corrected.get(id(row), row) for row in rows]


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
