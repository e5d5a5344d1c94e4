# SPDX-License-Identifier: GPL-2.0-or-later
"""Metrics with noise on two kernels: a change with its interval, and whether it can be believed.

Two recordings of one session were measured in turns, so they are compared group by group and
what the machine did meanwhile is in both.  Recordings of two runs are shown, not decided.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from kentry.model import caveats
from kentry.model.caveats import Caveat
from kentry.model.comparison import TimedComparison
from kentry.model.recording import CaseResult, NoisyMetric, Recording, TimedProcess
from kentry.stats.exact import BETTER, SAME, UNDECIDED, WORSE

if TYPE_CHECKING:
    from kentry.stats.noisy import Estimate as Found
    from kentry.stats.noisy import Group, Look

# Metrics of the probe itself, not of a kernel.
OWN = frozenset({"loop_ns", "user-cycles", "user-instructions", "user-branches"})
# Units of which more is better; of all others less is.
_RATES = ("/s",)
# What a cpu executes rather than how long it takes: it has no layout, and no sign of its own.
_EXECUTED = ("instructions",)
# Metrics of the user side begin with it.
_USER = "user"
# A metric's name where it says no more than the unit of time.
_WORDS = {"ns": "time"}

# What of a measurement's plan is in a recording's options: looks planned, and the one it ended at.
_LOOKS, _LOOK = "looks", "look"


class Counted(NamedTuple):
    """What the exact side says of the same case; `identical` is None where paths are not known."""

    delta: int = 0
    percent: float | None = None
    verdict: str = UNDECIDED
    identical: bool | None = None


class Plan(NamedTuple):
    """How two recordings were measured together, and what is no change: `threshold`, a fraction."""

    paired: bool
    look: Look | None
    threshold: float


def plan_of(old: Recording, new: Recording, threshold: float | None = None) -> Plan:
    """What both recordings say of it; the usual threshold, unless another is given."""
    from kentry.stats.noisy import THRESHOLD

    paired = is_paired(old, new)
    look = _look(old, new) if paired else None
    return Plan(paired, look, THRESHOLD if threshold is None else threshold)


def compare_noisy(
    old: CaseResult, new: CaseResult, counted: Counted, plan: Plan
) -> list[TimedComparison]:
    """Every noisy metric that both sides have in one unit, in the old one's order."""
    return [
        _judged(_compared(old.name, metric, old.noisy[metric], new.noisy[metric], plan), counted)
        for metric in shared_metrics(old, new)
    ]


def shared_metrics(old: CaseResult, new: CaseResult) -> list[str]:
    """Those with noise that both have in one unit."""
    return [
        metric
        for metric, before in old.noisy.items()
        if metric in new.noisy and new.noisy[metric].unit == before.unit and metric not in OWN
    ]


def is_paired(old: Recording, new: Recording) -> bool:
    """Whether the two were measured interleaved."""
    session = old.timed_target.get("session")
    return bool(session) and session == new.timed_target.get("session")


def with_many_rows(rows: Sequence[TimedComparison]) -> list[TimedComparison]:
    """The rows of one table: what does not stand among so many questions at once is undecided.

    Those of one metric are a table; numbers that decide nothing do not count as questions.
    """
    asked: dict[str, list[TimedComparison]] = {}
    for row in rows:
        if row.verdict in (BETTER, WORSE) or (row.paired and row.interval):
            asked.setdefault(row.metric, []).append(row)
    sure = {
        id(row): adjusted
        for table in asked.values()
        for row, adjusted in zip(table, _holm(table), strict=True)
    }
    return [sure.get(id(row), row) for row in rows]


def _holm(table: Sequence[TimedComparison]) -> list[TimedComparison]:
    if len(table) == 1:
        return list(table)
    from kentry.stats.noisy import CONFIDENCE, holm

    return [
        replace(row, verdict=UNDECIDED, reason=f"one of {len(table)} cases: not sure enough", p=p)
        if row.verdict in (BETTER, WORSE) and p > 1 - CONFIDENCE
        else replace(row, p=p)
        for row, p in zip(table, holm([row.p for row in table]), strict=True)
    ]


def _look(old: Recording, new: Recording) -> Look | None:
    """The look at which the measurement ended, where it was looked at before its end."""
    looks, look = old.options.get(_LOOKS, 0), old.options.get(_LOOK, 0)
    if looks < 2 or not 1 <= look <= looks or new.options.get(_LOOK) != look:
        return None
    from kentry.stats.noisy import CONFIDENCE, LOOKS, plan_looks

    planned = LOOKS if looks == len(LOOKS) else looks
    return plan_looks(1 - CONFIDENCE, planned)[int(look) - 1]


def _compared(
    name: str, metric: str, old: NoisyMetric, new: NoisyMetric, plan: Plan
) -> TimedComparison:
    plain = TimedComparison(
        name=name,
        metric=metric,
        unit=old.unit,
        old=old.value,
        new=new.value,
        percent=_percent(old.value, new.value),
        verdict=UNDECIDED,
        halves=(_half(old.interval), _half(new.interval)),
    )
    if absent := _unsupported(metric, old, new):
        return replace(plain, reason="imported", caveats=tuple(absent))
    better_more = old.unit.endswith(_RATES)
    try:
        from kentry.compare.groups import pair_groups

        if groups := pair_groups(old.samples, new.samples) if plan.paired else []:
            row = _with(plain, _of_groups(groups, better_more, plan), paired=True)
            # The very same samples: nothing is the same but what is.
            alike = old.samples == new.samples
            return replace(row, verdict=SAME, reason="") if alike else row
        apart = _with(plain, _of_runs(old.samples, new.samples, better_more, plan), paired=False)
    except ValueError:
        # A logarithm has no value of 0 or less.
        told = (caveats.no_statistics(name, metric),)
        return replace(plain, reason="values not above 0", caveats=told)
    return replace(
        apart, verdict=UNDECIDED, reason="measured apart", caveats=(caveats.measured_apart(),)
    )


def _percent(old: float, new: float) -> float | None:
    return 100 * (new - old) / old if old else None


def _unsupported(metric: str, old: NoisyMetric, new: NoisyMetric) -> list[Caveat]:
    """What imported numbers lack, where that is the interval; nothing can then be calculated."""
    sides = (("old", old), ("new", new))
    if not any("interval" in one.absent or not one.samples for _, one in sides):
        return []
    return [
        caveats.unsupported(side, metric, list(one.absent)) for side, one in sides if one.absent
    ]


def _of_groups(groups: Sequence[Group], better_more: bool, plan: Plan) -> Found:
    from kentry.stats.noisy import compare_groups

    return compare_groups(
        groups, look=plan.look, threshold=plan.threshold, higher_is_better=better_more
    )


def _of_runs(
    old: Sequence[TimedProcess], new: Sequence[TimedProcess], better_more: bool, plan: Plan
) -> Found:
    from kentry.compare.groups import values_by_boot
    from kentry.stats.noisy import compare_unpaired

    return compare_unpaired(
        list(values_by_boot(old).values()),
        list(values_by_boot(new).values()),
        threshold=plan.threshold,
        higher_is_better=better_more,
    )


def _with(plain: TimedComparison, found: Found, *, paired: bool) -> TimedComparison:
    """The row with what was found; old and new in the ratio that was found, about their middle."""
    effect = found.effect
    middle = math.sqrt(plain.old * plain.new)
    if not math.isfinite(effect) or effect <= -1 or not middle:
        return replace(plain, paired=paired, reason=found.reason)
    root = math.sqrt(1 + effect)
    return replace(_as_found(plain, found, paired=paired), old=middle / root, new=middle * root)


def _as_found(plain: TimedComparison, found: Found, *, paired: bool) -> TimedComparison:
    """The row with all that was found of its change."""
    return replace(
        plain,
        percent=_known(found.effect),
        verdict=found.verdict,
        interval=_interval(found.interval),
        confidence=found.confidence,
        floor=_known(found.floor),
        threshold=_known(found.threshold),
        detectable=_known(found.detectable),
        paired=paired,
        p=found.p,
        reason=found.reason,
    )


def measured(
    name: str, metric: str, unit: str, values: tuple[float, float], found: Found
) -> TimedComparison:
    """A row of two things that were measured by turns and judged as they were: old, new."""
    old, new = values
    plain = TimedComparison(
        name=name, metric=metric, unit=unit, old=old, new=new, verdict=UNDECIDED
    )
    return _as_found(plain, found, paired=True)


def _interval(ends: tuple[float, float]) -> tuple[float, float] | None:
    low, high = (_known(end) for end in ends)
    return None if low is None or high is None else (low, high)


def _known(share: float) -> float | None:
    """A fraction as per cent; None for NaN, which JSON has not, and what no run could see."""
    return 100 * share if math.isfinite(share) else None


def _judged(row: TimedComparison, counted: Counted) -> TimedComparison:
    """The row beside what was executed: its path, and where the two disagree."""
    row = replace(row, identical_path=counted.identical)
    if row.unit in _EXECUTED or row.metric.startswith(_USER) or not row.percent:
        return row
    word, change = _WORDS.get(row.metric, row.metric), change_text(row)
    if counted.identical:
        told = [caveats.layout(row.name, word, change)] if _is_difference(row) else []
    elif _conflict(row, counted):
        share = "" if counted.percent is None else f" ({counted.percent:+.1f} %)"
        told = [caveats.sign_conflict(row.name, f"{counted.delta:+d}{share}", word, change)]
    else:
        told = []
    return replace(row, caveats=(*row.caveats, *told))


def change_text(row: TimedComparison) -> str:
    """The change in per cent, no digit beyond its interval, and whether it is decided."""
    assert row.percent is not None
    unsure = f" ({row.reason or UNDECIDED})" if row.verdict == UNDECIDED else ""
    return f"{row.percent:+.{percent_digits(row)}f} %{unsure}"


def _is_difference(row: TimedComparison) -> bool:
    """Whether the change is beyond its interval and the floor, decided or measured apart."""
    if row.interval is None or row.percent is None:
        return False
    low, high = row.interval
    return (low > 0 or high < 0) and abs(row.percent) > max(row.floor or 0, row.threshold or 0)


def _conflict(row: TimedComparison, counted: Counted) -> bool:
    """Whether one side is better and the other worse; a number without interval has a sign too."""
    assert row.percent is not None
    if row.interval is not None and not _is_difference(row):
        return False
    better = (row.percent > 0) == row.unit.endswith(_RATES)
    return counted.verdict == (WORSE if better else BETTER)


# --- digits --------------------------------------------------------------

# Of a number without interval, so many decimals of its change.
_WITHOUT = 1
_MOST_DIGITS = 4
# Counters of an emulated cpu have none but that of rounding.
_NO_SPREAD = 1e-6


def _half(interval: tuple[float, float] | None) -> float | None:
    return None if interval is None else (interval[1] - interval[0]) / 2


def percent_digits(row: TimedComparison) -> int:
    """Decimals of the change in per cent: up to the first digit of half its interval."""
    half = _half(row.interval)
    return _WITHOUT if half is None else max(0, _digits(half))


def value_digits(row: TimedComparison) -> tuple[int | None, int | None]:
    """Decimals of old and of new, less than 0 for tens; None where there is no interval.

    They are those of the change's interval, or without one of each value's own.
    """
    half = _half(row.interval)
    if half is not None:
        digits = _digits(half / 100 * row.old)
        return digits, digits
    old, new = (None if own is None else _digits(own) for own in row.halves)
    return old, new


def _digits(half: float) -> int:
    if half < _NO_SPREAD:
        return _WITHOUT
    return min(_MOST_DIGITS, -math.floor(math.log10(half)))
