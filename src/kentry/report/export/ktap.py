# SPDX-License-Identifier: GPL-2.0-or-later
"""KTAP version 1 (Documentation/dev-tools/ktap.rst): what the kernel's test runners read.

KTAP has no place for a number, so numbers are diagnostics, directly before the test's result.  Of
a recording a case is a test, which passes because it was measured; of a comparison a row is, which
fails if it is worse.  Several files are a test each, with theirs as subtests.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kentry.model.case_name import CaseName
from kentry.model.comparison import CaseComparison, SavedComparison, TimedComparison
from kentry.model.recording import CaseResult, Metric, NoisyMetric, Recording
from kentry.report.export.common import (
    Export,
    kernel_text,
    labels,
    level_text,
    numbered,
    printable,
    significant,
    timed_metrics,
    with_interval,
)
from kentry.report.timed import bare_change, timed_values
from kentry.stats import exact

NAME = "ktap"

_INDENT = "  "


class _Test(NamedTuple):
    """A result line, what stands before it, and why it decides nothing: "" where it does."""

    name: str
    passed: bool
    diagnostics: tuple[str, ...]
    skipped: str = ""
    subtests: tuple[_Test, ...] = ()


def export(inputs: Sequence[Recording | SavedComparison]) -> Export:
    """The files' tests: of one file at the top, of several below a test each."""
    names = _file_names(inputs)
    files = [_of_file(one, name) for one, name in zip(inputs, names, strict=True)]
    if len(files) == 1:
        lines = list(_block(files[0].subtests, files[0].diagnostics))
    else:
        lines = list(_block(files, ()))
    return Export("\n".join(lines) + "\n")


def _file_names(inputs: Sequence[Recording | SavedComparison]) -> list[str]:
    """What each file's test is called."""
    recordings = iter(labels([one for one in inputs if isinstance(one, Recording)]))
    names = [
        next(recordings)
        if isinstance(one, Recording)
        else f"{one.old['spec']} to {one.new['spec']}"
        for one in inputs
    ]
    return numbered(names, lambda name, number: f"{name} ({number})")


# --- lines ---------------------------------------------------------------


def _block(tests: Sequence[_Test], about: Sequence[str]) -> Iterator[str]:
    """Version, plan, what is to be said of all, then test after test."""
    yield "KTAP version 1"
    yield f"1..{len(tests)}"
    yield from (f"# {text}" for text in about)
    for number, test in enumerate(tests, start=1):
        if test.subtests:
            block = _block(test.subtests, test.diagnostics)
            yield from (f"{_INDENT}{line}" for line in block)
        else:
            yield from (f"# {text}" for text in test.diagnostics)
        result = "ok" if test.passed else "not ok"
        skip = f" # SKIP {test.skipped}" if test.skipped else ""
        yield f"{result} {number} {_description(test.name)}{skip}"


def _description(name: str) -> str:
    """A test's name, in which "#" would begin a directive."""
    return printable(name).replace("#", "_")


# --- what is tested ------------------------------------------------------


def _of_file(one: Recording | SavedComparison, name: str) -> _Test:
    tests = _recorded(one) if isinstance(one, Recording) else _compared(one)
    about = _about_recording(one) if isinstance(one, Recording) else _about_comparison(one)
    return _Test(name, all(test.passed for test in tests), tuple(about), subtests=tuple(tests))


def _about_recording(recording: Recording) -> Iterator[str]:
    yield kernel_text(recording.kernel)
    yield from (f"note: {caveat['text']}" for caveat in recording.caveats)


def _about_comparison(comparison: SavedComparison) -> Iterator[str]:
    yield f"old: {kernel_text(comparison.old)}"
    yield f"new: {kernel_text(comparison.new)}"
    yield from (f"note: {caveat['text']}" for caveat in comparison.caveats)


def _recorded(recording: Recording) -> list[_Test]:
    return [
        _Test(case.name, True, tuple(_diagnostics(case)), _no_value(case))
        for case in recording.cases
    ]


def _no_value(case: CaseResult) -> str:
    """Why a case has no value, where it has no other."""
    decided = [exact.is_decided(dict(one.samples)) for one in case.metrics.values()]
    if case.noisy or all(decided):
        return ""
    return "undecided: less than half of the windows agree"


def _diagnostics(case: CaseResult) -> Iterator[str]:
    name = printable(case.name)
    for metric, count in case.metrics.items():
        yield f"{name}: {metric}: {_count_text(case, count)}"
    for metric, one in timed_metrics(case).items():
        yield f"{name}: {metric}: {_noisy_text(one)}"


def _count_text(case: CaseResult, metric: Metric) -> str:
    samples = dict(metric.samples)
    windows = f"{samples[metric.value]} of {sum(samples.values())} windows"
    calls = CaseName.parse(case.name).calls
    return f"{metric.value}, exact, {windows}" + (f" of {calls} calls" if calls > 1 else "")


def _noisy_text(metric: NoisyMetric) -> str:
    """Value, unit, interval and its level, the floor, and from how many processes."""
    value, interval = with_interval(metric)
    level = f" at {level_text(metric.confidence)}" if metric.confidence else ""
    words = [f"{value} {metric.unit}", f"interval {interval}{level}" if interval else "no interval"]
    if metric.floor is not None:
        words.append(f"floor {_percent(100 * metric.floor)}")
    words.append(f"{len(metric.samples)} processes")
    return ", ".join(words)


def _percent(share: float) -> str:
    """A share in per cent, two digits of it."""
    return f"{significant(share, 2)} %"


def _compared(comparison: SavedComparison) -> list[_Test]:
    return [_row(row) for row in comparison.rows]


def _row(row: CaseComparison | TimedComparison) -> _Test:
    name = f"{row.name} {row.metric}"
    change = _counted_change(row) if isinstance(row, CaseComparison) else _timed_change(row)
    about = (f"{name}: {change}", *(f"{name}: note: {caveat['text']}" for caveat in row.caveats))
    skipped = _undecided(row)
    return _Test(name, bool(skipped) or row.verdict != exact.WORSE, about, skipped)


def _undecided(row: CaseComparison | TimedComparison) -> str:
    """Why a row decides nothing; as kentry diff's exit code, a change by layout decides nothing."""
    reason = "less than half of the windows agree"
    if isinstance(row, TimedComparison):
        if row.is_layout:
            return f"{exact.UNDECIDED}: same instructions, so by layout or noise"
        # "#" is for directives alone.
        reason = row.reason.replace("#", "_")
    if row.verdict != exact.UNDECIDED:
        return ""
    return f"{exact.UNDECIDED}: {reason}" if reason else exact.UNDECIDED


def _counted_change(row: CaseComparison) -> str:
    share = "" if row.percent is None else f", {row.percent:+.2f} % of old"
    path = ", identical path" if row.identical_path else ""
    return f"{row.old} -> {row.new} ({row.delta:+d}{share}), exact, {row.verdict}{path}"


def _timed_change(row: TimedComparison) -> str:
    old, new = timed_values(row)
    change = bare_change(row).replace(" %", " % of old", 1)
    level = f" at {level_text(row.confidence)}" if row.interval and row.confidence else ""
    words = [f"{old} -> {new} {row.unit}", change + level]
    for word, share in (("floor", row.floor), ("threshold", row.threshold)):
        if share is not None:
            words.append(f"{word} {_percent(share)}")
    return ", ".join([*words, row.verdict])
