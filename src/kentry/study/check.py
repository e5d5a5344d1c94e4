# SPDX-License-Identifier: GPL-2.0-or-later
"""A recording held against budgets: within, over, or undecided with the reason.

All that a number may be is held against the limit: the counts of every context, or the interval.
"""

import contextlib
import math
from collections.abc import Sequence
from decimal import ROUND_CEILING, Context
from fractions import Fraction
from typing import NamedTuple

from msgspec.structs import replace

from kentry.arch import Arch
from kentry.compare.counted import compare
from kentry.compare.workload import whole_boots
from kentry.count.catalogue import choose, match
from kentry.errors import UserError
from kentry.host.cache import write_atomically
from kentry.results.caveats import unique
from kentry.results.comparison import Comparison, Real
from kentry.results.recording import (
    ABOUT_PATHS,
    INSTRUCTIONS,
    CaseResult,
    Measured,
    Recording,
    read_recording,
    write_recording,
)
from kentry.results.studies import OVER, UNDECIDED, WITHIN, Check, CheckRow, Renewed
from kentry.results.workload import CALLS
from kentry.stats import THRESHOLD, exact
from kentry.study.budgets import ALL, BASELINE, Budget, Budgets

_RATE = "/s"  # the end of units in which more is better, and a budget is the most
# A count that fewer windows of a context have is a rare path's, such as the refill of a slab.
_OFTEN = 1 / 5
# What a kernel that is booted has of each case.
COUNTED = (INSTRUCTIONS, "user_instructions", "firmware_instructions", *ABOUT_PATHS)
_DIGITS = 4  # of a limit made of an interval
_RANKED = (WITHIN, UNDECIDED, OVER)  # the verdict of all rows is that of the one farthest right


class _Asked(NamedTuple):
    """A case and the budget of one of its metrics; or a budget that is of no case, and why."""

    name: str
    budget: Budget
    problem: str = ""


def check(
    budgets: Budgets,
    recording: Recording,
    baseline: Recording | None,
    patterns: Sequence[str] = (),
    expected: Sequence[str] = (),
) -> Check:
    """Each budget of the architecture for cases that `patterns` name; UserError without any."""
    arch = recording.kernel["arch"]
    asked = _asked(budgets.of_arch(arch), [r for r in (recording, baseline) if r], expected)
    left = _chosen(list(dict.fromkeys(row.name for row in asked)), arch, patterns, budgets)
    asked = [row for row in asked if row.name in left]
    comparison = _compared(asked, recording, baseline)
    rows = [_row(row, recording, baseline, comparison) for row in asked]
    notes = list(comparison.caveats if comparison else recording.caveats)
    for wanted in asked:
        if wanted.budget.relative and comparison:
            key = wanted.name, wanted.budget.metric
            for row in comparison.rows:
                notes += row.caveats if (row.name, row.metric) == key else ()
        elif case := recording.case(wanted.name):
            notes += case.caveats
    is_used = any(row.budget.relative for row in asked)
    return Check(
        tool=recording.tool,
        budgets=str(budgets.file),
        measured=Measured.of(recording),
        baseline=Measured.of(baseline) if baseline and is_used else None,
        verdict=max((row.verdict for row in rows), key=_RANKED.index),
        rows=tuple(rows),
        caveats=tuple(unique(notes)),
    )


def find_baseline(budgets: Budgets, arch: str, *, new: bool) -> Recording | None:
    """The recording that budgets of `arch` add to; None if none does, or it is `new`; UserError."""
    relative = [budget for budget in budgets.of_arch(arch) if budget.relative]
    if not relative:
        return None
    if arch not in budgets.baselines:
        raise UserError(
            f"{budgets.file} has '{relative[0].text}' for {relative[0].key} and no baseline for"
            f" {arch}.",
            f'Write above its tables: {BASELINE}.{arch} = "FILE", a recording.',
        )
    file = budgets.baselines[arch]
    if not file.exists():
        if new:
            return None
        raise UserError(f"The baseline {file} does not exist.", "kentry check --update writes it.")
    baseline = read_recording(file)
    if baseline.kernel["arch"] != arch:
        raise UserError(
            f"The baseline {file} is of {baseline.kernel['arch']}, and {budgets.file} names it"
            f" for {arch}.",
            "Name a recording of that architecture.",
        )
    return baseline


def cases_to_measure(
    budgets: Budgets, baseline: Recording | None, arch: Arch, patterns: Sequence[str]
) -> Sequence[str]:
    """The cases with a budget that `patterns` name, by the baseline or by all cases; UserError."""
    names: list[str] = []
    for budget in budgets.of_arch(arch.name):
        if budget.metric not in COUNTED:
            raise UserError(
                f"{budgets.file} limits {budget.metric} of {budget.key}, and a kernel that kentry"
                f" boots has {', '.join(COUNTED)}.",
                "Keep budgets for times in another file, and check a recording of times with it.",
            )
        matched: Sequence[str] = ()
        if budget.relative and baseline:
            # A case that is new is in no baseline.
            with contextlib.suppress(UserError):
                matched = match([case.name for case in baseline.cases], arch.name, [budget.key])
        names += matched or choose(arch, [budget.key])
    return _chosen(choose(arch, list(dict.fromkeys(names))), arch.name, patterns, budgets)


def _chosen(
    names: Sequence[str], arch: str, patterns: Sequence[str], budgets: Budgets
) -> Sequence[str]:
    """Returns those of the cases with a budget that the user chose; UserError where none has."""
    try:
        return match(names, arch, patterns) if patterns else names
    except UserError as err:
        raise UserError(
            f"{budgets.file} has no budget for a case of --case {','.join(patterns)}.",
            f"It has some for {', '.join(names)}.",
        ) from err


def _asked(
    budgets: Sequence[Budget], sides: Sequence[Recording], expected: Sequence[str]
) -> list[_Asked]:
    """Lists each case with its own budget, in the file's order; `sides`: recording and baseline."""
    known = dict.fromkeys([*expected, *(case.name for side in sides for case in side.cases)])
    asked: list[_Asked] = []
    for budget in budgets:
        try:
            names = match(list(known), sides[0].kernel["arch"], [budget.key])
        except UserError:
            asked.append(_Asked(budget.key, budget, "the recording has no such case"))
            continue
        if names != [budget.key]:
            # A pattern is of the cases that have the metric, or should have it.
            some = sides if budget.relative else sides[:1]
            names = [
                name
                for name in names
                if name in expected or any(_has(side.case(name), budget.metric) for side in some)
            ]
            if not names:
                problem = f"the recording has no {budget.metric} of such a case"
                asked.append(_Asked(budget.key, budget, problem))
        asked += [_Asked(name, budget) for name in names]

    # The last one is a case's own: that of its name, of its architecture, further down.
    ranked = sorted(
        (row for row in asked if not row.problem),
        key=lambda row: (row.name == row.budget.key, row.budget.table != ALL),
    )
    own = {(row.name, row.budget.metric): row.budget for row in ranked}
    return [row for row in asked if row.problem or own[row.name, row.budget.metric] is row.budget]


def _has(case: CaseResult | None, metric: str) -> bool:
    return case is not None and (metric in case.metrics or metric in case.noisy)


def _compared(
    asked: Sequence[_Asked], recording: Recording, baseline: Recording | None
) -> Comparison | None:
    """The comparison with the baseline of what has a budget against it; None where nothing has."""
    both = [
        (row.name, row.budget.metric)
        for row in asked
        if row.budget.relative
        and baseline
        and all(_has(side.case(row.name), row.budget.metric) for side in (baseline, recording))
    ]
    # Of metrics that are not compared, or only in two units, each row says so.
    with contextlib.suppress(UserError):
        if baseline and both:
            names, metrics = (list(dict.fromkeys(own)) for own in zip(*both, strict=True))
            of_paths = [metric for metric in metrics if metric.startswith(ABOUT_PATHS)]
            return compare(baseline, recording, names, of_paths)
    return None


def _row(
    asked: _Asked, recording: Recording, baseline: Recording | None, comparison: Comparison | None
) -> CheckRow:
    """Returns what was measured, held against the budget."""
    budget, metric, case = asked.budget, asked.budget.metric, recording.case(asked.name)
    row = CheckRow(
        name=asked.name,
        metric=metric,
        table=budget.table,
        key=budget.key,
        line=budget.line,
        budget=budget.text,
        limit=None if budget.relative else _plain(budget.number),
        verdict=UNDECIDED,
    )
    if asked.problem or case is None:
        return replace(row, reason=asked.problem or "the recording has no such case")
    if not _has(case, metric):
        return replace(row, reason=f"the recording has no {metric} of this case")
    noisy = case.noisy.get(metric)
    unit, value = (noisy.unit, noisy.value) if noisy else (INSTRUCTIONS, case.metrics[metric].value)
    unit = CALLS if metric == CALLS else unit
    row = replace(row, unit=unit, value=value)
    if noisy and unit.endswith(_RATE):
        reason = f"more {unit} is better, but a budget is an upper limit"
        return replace(row, limit=None, reason=reason)
    if not budget.relative:
        # Within or over if the whole interval is, or every count.
        if not noisy:
            row, ends = replace(row, counts=_by_context(case, metric)), _counts(case, metric)
            between = "its counts are on both sides of the limit"
            return _judged(row, min(ends), max(ends), budget.number, budget.number, between)
        if noisy.interval is None:
            return replace(row, reason="it has no interval")
        low, high = map(_fraction, noisy.interval)
        between = "the limit is in the interval"
        return _judged(row, low, high, budget.number, budget.number, between)
    before = baseline.case(asked.name) if baseline else None
    if not baseline or not before:
        return replace(row, reason="the baseline has no such case")
    if not _has(before, metric):
        return replace(row, reason=f"the baseline has no {metric} of this case")
    if recording.program and (change := whole_boots(before, case, metric)):
        old = _fraction((before.noisy.get(metric) or before.metrics[metric]).value)
        most = old + _allowance(budget, old)
        row = replace(row, limit=_plain(most), baseline=_plain(old))
        low, high = (old + _fraction(end) for end in change)
        return _judged(row, low, high, most, most, "boots differ by more than the budget leaves")
    if noisy:
        return _relative_time(row, budget, (before, case), (baseline, recording), comparison)
    if metric not in before.metrics:
        return replace(row, reason=f"the baseline's {metric} of this case is no count")
    return _relative_count(row, budget, (before, case), comparison)


def _relative_count(
    row: CheckRow,
    budget: Budget,
    cases: tuple[CaseResult, CaseResult],
    comparison: Comparison | None,
) -> CheckRow:
    """Within or over if the change is in every context; a part of the old count is of each."""
    a, b = (case.metrics[budget.metric] for case in cases)
    old, new = a.value, b.value
    change = (new - old, new - old) if a.is_decided and b.is_decided else None
    if comparison and (compared := comparison.counted(row.name, budget.metric)):
        # Where the count depends on the context, both are those of one context.
        old, new, change = compared.old, compared.new, compared.change
    base = _counts(cases[0], budget.metric)
    least, most = (old + math.floor(_allowance(budget, count)) for count in (min(base), max(base)))
    counts = _by_context(cases[1], budget.metric)
    row = replace(row, limit=least, baseline=old, value=new, counts=counts)
    if change is None:
        return replace(row, reason="too few of its windows or contexts agree on a count")
    between = "the change is within the budget in some contexts only"
    return _judged(row, old + change[0], old + change[1], least, most, between)


def _relative_time(
    row: CheckRow,
    budget: Budget,
    cases: tuple[CaseResult, CaseResult],
    sides: tuple[Recording, Recording],
    comparison: Comparison | None,
) -> CheckRow:
    """Returns the comparison's verdict, with what the budget allows as the threshold."""
    timed = {(row.name, row.metric): row for row in (comparison.timed if comparison else ())}
    compared = timed.get((row.name, row.metric))
    if compared is None or not compared.old:
        # Of the probe itself, of two units, or nothing.
        return replace(row, reason=f"the two recordings' {row.metric} cannot be compared")
    old = _fraction(compared.old)
    share = max(_allowance(budget, old) / old, _fraction(THRESHOLD))
    row = replace(row, limit=_plain(old * (1 + share)), baseline=compared.old, value=compared.new)
    if compared.interval:
        ends = (_plain(_fraction(compared.old * (1 + end / 100))) for end in compared.interval)
        row = replace(row, **dict(zip(("low", "high"), ends, strict=True)))
    if compared.verdict in (exact.SAME, exact.BETTER):
        return replace(row, verdict=WITHIN)
    # It loads numpy and scipy, which exact counts do not need.
    from kentry.compare.timed import compare_timed

    again = compare_timed([cases], {}, *sides, float(share))
    wide = next(timing for timing in again if timing.metric == row.metric)
    if wide.verdict == exact.SAME:
        return replace(row, verdict=WITHIN)
    if wide.verdict != exact.WORSE or compared.verdict != exact.WORSE:
        return replace(row, reason=wide.reason or compared.reason)
    # As for kentry diff's exit code.
    if compared.is_layout:
        return replace(row, reason="the same instructions, so by layout or noise")
    return replace(row, verdict=OVER)


def _judged(
    row: CheckRow,
    low: Fraction | int,
    high: Fraction | int,
    least: Fraction | int,
    most: Fraction | int,
    between: str,
) -> CheckRow:
    """The verdict of what is from `low` to `high`; the limit is, by context, `least` to `most`."""
    verdict = WITHIN if high <= least else OVER if low > most else UNDECIDED
    reason = between if verdict == UNDECIDED else ""
    return replace(row, verdict=verdict, reason=reason, low=_plain(low), high=_plain(high))


def _allowance(budget: Budget, base: int | Fraction) -> Fraction:
    """Returns what a relative budget allows above `base`."""
    return budget.number * base / 100 if budget.percent else budget.number


def _counts(case: CaseResult, metric: str) -> set[int]:
    """The commonest count of every context; of a context without a majority all but rare ones."""
    own = [case.metrics[metric].samples]
    if metric == INSTRUCTIONS and case.contexts:
        own = [context.samples for context in case.contexts]
    counts: set[int] = set()
    for samples in map(dict, own):
        windows = sum(samples.values())
        often = {count for count, times in samples.items() if times >= _OFTEN * windows}
        if exact.is_decided(samples):
            counts.add(exact.mode(samples))
        elif 2 * sum(samples[count] for count in often) > windows:
            counts |= often
        else:
            counts |= set(samples)
    return counts


def _by_context(case: CaseResult, metric: str) -> tuple[tuple[int, int], ...]:
    several = metric == INSTRUCTIONS and len(case.values) > 1
    return tuple(case.values.items()) if several else ()


def _fraction(value: float) -> Fraction:
    """Returns the number as it is written: 0.0025 is 1/400."""
    return Fraction(str(value))


def _plain(value: Fraction | int) -> Real:
    return int(value) if value.denominator == 1 else float(value)


def renew(
    budgets: Budgets, result: Check, recording: Recording, baseline: Recording | None
) -> Check:
    """Writes the baseline, if any, and the limits; nothing, and UserError, if a number is lost."""
    limits = new_limits(budgets, result)
    text = budgets.renewed(limits)
    changes = [
        Renewed(
            file=str(budgets.file),
            name=budget.key,
            metric=budget.metric,
            old=_plain(budget.number),
            new=limit,
        )
        for budget, limit in limits.items()
        if budget.number != limit
    ]
    written = []
    if any(budget.relative for budget in budgets.of_arch(recording.kernel["arch"])):
        file = budgets.baselines[recording.kernel["arch"]]
        relative = [row for row in result.rows if row.budget.startswith("+")]
        for row in relative:
            if row.value is None and baseline and _has(baseline.case(row.name), row.metric):
                raise UserError(
                    f"{file} has {row.metric} of {row.name}, which would be lost: {row.reason}.",
                    "Record it too, or take its budget out of the file.",
                )
        write_recording(recording, file)
        written.append(str(file))
        changes += [
            Renewed(
                file=str(file), name=row.name, metric=row.metric, old=row.baseline, new=row.value
            )
            for row in relative
            if row.value is not None and row.value != row.baseline
        ]
    if text != budgets.text:
        write_atomically(budgets.file, text)
        written.append(str(budgets.file))
    return replace(result, changes=tuple(changes), written=tuple(written))


def new_limits(budgets: Budgets, check: Check) -> dict[Budget, Real]:
    """Returns the most that was measured for each limit; one of all architectures only grows."""
    limits: dict[Budget, Real] = {}
    for budget in budgets.of_arch(check.measured.kernel["arch"]):
        rows = [
            row
            for row in check.rows
            if (row.table, row.key, row.metric) == (budget.table, budget.key, budget.metric)
        ]
        highs = [row.high for row in rows if row.high is not None]
        if rows and not budget.relative and len(highs) == len(rows):
            # A count as it is, the end of an interval up to four digits.
            to_digits = Context(_DIGITS, ROUND_CEILING).create_decimal
            limit = max(
                high if isinstance(high, int) else _plain(Fraction(to_digits(str(high))))
                for high in highs
            )
            if budget.table != ALL or limit > budget.number:
                limits[budget] = limit
    return limits
