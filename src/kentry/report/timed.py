# SPDX-License-Identifier: GPL-2.0-or-later
"""A change of a noisy metric as text: no digit beyond its interval, and every share's base."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kentry.compare.counted import Comparison
from kentry.model.case_name import CaseName
from kentry.model.comparison import TimedComparison
from kentry.model.recording import Recording, TimedProcess
from kentry.report.plain import wrapped
from kentry.stats import CONFIDENCE
from kentry.stats.exact import SAME, UNDECIDED

# Digits of a number without an interval, which is as it was imported.
_AS_GIVEN = 6


def timed_values(row: TimedComparison) -> tuple[str, str]:
    """Old and new, with as many digits as the interval has."""
    old, new = row.value_digits
    return _value(row.old, old), _value(row.new, new)


def _value(value: float, digits: int | None) -> str:
    if digits is None:
        return f"{value:.{_AS_GIVEN}g}"
    return f"{round(value, digits):.{max(0, digits)}f}"


def timed_unit(row: TimedComparison) -> str:
    """Its unit and whose, user's or kernel's; a call's, where the count beside is of several."""
    unit = row.metric.replace("-", " ") if row.metric.endswith(f"-{row.unit}") else row.unit
    return f"{unit} a call" if CaseName.parse(row.name).calls > 1 else unit


def timed_change(row: TimedComparison) -> str:
    """The change with its interval and that one's level: '-1.7 % [-2.0, -1.3], 99 %'."""
    # A look's own interval is wider; that all of them hold has the plan's confidence.
    level = "" if row.confidence is None else f", {100 * min(row.confidence, CONFIDENCE):.3g} %"
    return f"{bare_change(row)}{level if row.interval else ''}"


def bare_change(row: TimedComparison) -> str:
    """The change in per cent of old, and its interval: '-1.7 % [-2.0, -1.3]'."""
    if row.percent is None:
        return f"{row.delta:+.{_AS_GIVEN}g}"
    digits = row.percent_digits
    text = f"{row.percent:+.{digits}f} %"
    if row.interval is None:
        return f"{text}, no interval"
    low, high = row.interval
    return f"{text} [{low:+.{digits}f}, {high:+.{digits}f}]"


def share(percent: float | None, digits: int) -> str:
    """A share in per cent with these decimals, or as many as it takes not to be a zero."""
    assert percent is not None
    text = f"{percent:.{digits}f}"
    return f"{text} %" if float(text) or not percent else f"{percent:.1g} %"


def timed_verdict(row: TimedComparison) -> str:
    """The verdict with what belongs to it: why not, what would have been seen, layout."""
    if row.verdict == UNDECIDED:
        return f"{UNDECIDED}: {row.reason}" if row.reason else UNDECIDED
    if row.verdict == SAME and row.detectable:
        return f"{SAME}, would see {row.detectable:.2g} %"
    return f"{row.verdict}, layout" if row.is_layout else row.verdict


# --- where and how it was timed ------------------------------------------


def timing_lines(comparison: Comparison, width: int) -> list[str]:
    """What the times were measured on; nothing where there are none."""
    if not comparison.timed:
        return []
    facts = timing_facts(comparison, named=True)
    return [line for fact in facts for line in wrapped(fact, width, then="    ")]


def timing_facts(comparison: Comparison, *, named: bool = False) -> list[str]:
    """A sentence a fact: the machine, and how many processes in which order.

    Its name, with `named`, is for those who know it.
    """
    if not comparison.timed:
        return []
    sides = {"old": comparison.old, "new": comparison.new}
    machines = {side: _machine(one, named) for side, one in sides.items()}
    if machines["old"] == machines["new"]:
        facts = [f"timed on {machines['old']}"]
    else:
        facts = [f"timed on ({side}): {machine}" for side, machine in machines.items()]
    return [*facts, *_order(comparison)]


def _machine(recording: Recording, named: bool) -> str:
    """Where the times are from, as the recording's target says it."""
    target = recording.timed_target
    kind = "elsewhere (imported)" if target["kind"] == "import" else str(target["kind"])
    return ", ".join(
        [
            kind,
            *(
                f"{word}{target[key]}"
                for key, word in (
                    ("host", ""),
                    ("cpu_model", ""),
                    ("microcode", "microcode "),
                    ("clock", "clock "),
                )
                if target.get(key) and (named or key != "host")
            ),
        ]
    )


def _order(comparison: Comparison) -> Iterator[str]:
    """How many processes, and whether the two kernels were measured in turns."""
    turns = [row for row in comparison.timed if row.paired]
    if turns:
        samples, others = (_samples(side, turns[0]) for side in (comparison.old, comparison.new))
        groups = len({(one.boot, one.group) for one in samples})
        boots = {one.boot for one in samples}
        in_boots = f"{len(boots)} boots" if len(boots) > 1 else "one boot"
        if boots & {one.boot for one in others}:
            yield f"old and new in turns: {groups} groups of processes in {in_boots}"
        else:
            yield f"old and new in turns: {in_boots} of each"
    estimators = {
        metric.estimator
        for row in comparison.timed
        for side in (comparison.old, comparison.new)
        if (case := side.case(row.name)) and (metric := case.noisy[row.metric]).estimator
    }
    if len(estimators) == 1:
        yield f"value: {next(iter(estimators))}"


def _samples(recording: Recording, row: TimedComparison) -> tuple[TimedProcess, ...]:
    case = recording.case(row.name)
    assert case
    return case.noisy[row.metric].samples


# --- the changelog's form ------------------------------------------------


def changelog_times(rows: Sequence[TimedComparison], width: int) -> Iterator[str]:
    """A line a case and metric: both values, the change with its base and interval, the verdict."""
    metrics: dict[str, list[TimedComparison]] = {}
    for row in rows:
        metrics.setdefault(row.metric, []).append(row)
    for number, (metric, table) in enumerate(metrics.items()):
        if number:
            yield ""
        yield from wrapped(_heading(metric, table), width, then="")
        yield ""
        yield from _table(table, width)


def _heading(metric: str, table: Sequence[TimedComparison]) -> str:
    unit = table[0].unit
    what = f"Time of a call in {unit}" if metric == unit == "ns" else f"{metric} a call, {unit}"
    if unit.endswith("/s"):
        what = f"{metric}, {unit}"
    confidences = {row.confidence for row in table if row.confidence is not None and row.interval}
    interval = ""
    if confidences:
        level = f"{100 * min(confidences):.3g} % " if len(confidences) == 1 else ""
        interval = f" [its {level}interval]"
    return f"{what}, in the old and the new kernel; change in % of old{interval}:"


def _table(table: Sequence[TimedComparison], width: int) -> Iterator[str]:
    values = [timed_values(row) for row in table]
    name = max(len(row.name) for row in table) + 1
    number = max(len(value) for pair in values for value in pair)
    for row, (old, new) in zip(table, values, strict=True):
        label = f"{row.name}:"
        change = f"({bare_change(row)}) {timed_verdict(row)}"
        line = f"  {label:<{name}} {old:>{number}} -> {new:>{number}} {change}"
        if len(line) <= width:
            yield line
        else:
            yield f"  {label} {old} -> {new}"
            yield from wrapped(change, width, "    ", "    ")
