# SPDX-License-Identifier: GPL-2.0-or-later
"""What a value of a recording must be: a ValueError where it is not.

A recording may come from anyone: no text in it can move a terminal's cursor, and every number
in it can be calculated with.
"""

from __future__ import annotations

import math
from typing import Any

from kentry.model.recording.model import INSTRUCTIONS, CaseResult, NoisyMetric, TimedProcess
from kentry.stats import exact


def as_count(value: Any) -> int:
    """An integer from 0 on."""
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} is not a count")
    return value


def as_text(value: Any) -> str:
    """Printable text."""
    if not isinstance(value, str) or not value.isprintable():
        raise ValueError(f"{value!r} is not printable text")
    return value


def as_text_or_none(value: Any) -> str | None:
    """Printable text, or that it is not known."""
    return None if value is None else as_text(value)


def as_texts(value: Any) -> dict[str, str]:
    """An object of texts."""
    if not isinstance(value, dict):
        raise ValueError(f"{value!r} is not an object")
    return {as_text(name): as_text(text) for name, text in value.items()}


def as_pairs(value: Any) -> tuple[tuple[int, int], ...]:
    """A list of pairs of counts."""
    return tuple((as_count(first), as_count(second)) for first, second in value)


def as_number(value: Any) -> float:
    """A finite number from 0 on: nothing that is measured here can be less."""
    if _as_finite(value) < 0:
        raise ValueError(f"{value!r} is less than nothing")
    return value  # type: ignore[no-any-return]


def as_number_or_none(value: Any) -> float | None:
    """Likewise, or that it is not known."""
    return None if value is None else as_number(value)


def _as_finite(value: Any) -> float:
    # An integer of JSON may be greater than every float; OverflowError is no ValueError.
    if type(value) is int and abs(value) < 1 << 1000:
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    raise ValueError(f"{str(value)[:40]} is not a finite number")


def as_interval(value: Any) -> tuple[float, float] | None:
    """Two finite numbers, the smaller first, or that they are not known."""
    if value is None:
        return None
    low, high = (_as_finite(end) for end in value)
    if low > high:
        raise ValueError(f"an interval from {low!r} to {high!r}")
    return low, high


def as_confidence(value: Any) -> float | None:
    """A share that is more than none and less than all, or that it is not known."""
    if value is not None and not 0 < _as_finite(value) < 1:
        raise ValueError(f"{value!r} is not a confidence between 0 and 1")
    return None if value is None else float(value)


def check_case(case: CaseResult, instructions: int) -> None:
    """A case must add up: runs inside the code, functions to the path, the mode to the value."""
    for path in case.paths:
        if any(first + count > instructions for first, count in path.runs):
            raise ValueError(f"a path of {case.name} beyond the code")
    for metric in case.metrics.values():
        if metric.value != exact.mode(dict(metric.samples)):
            raise ValueError(f"a value of {case.name} that is not its samples' commonest")
    modal = case.modal_path
    if sum(count for _, count in case.functions) != (modal.length if modal else 0):
        raise ValueError(f"functions of {case.name} that do not add up to its path")
    if case.paths and INSTRUCTIONS not in case.metrics:
        raise ValueError(f"{case.name} has paths without {INSTRUCTIONS}")
    check_metrics(case)


def check_metrics(case: CaseResult) -> None:
    """A case has a number, none of them twice, and each noisy one can be calculated with."""
    if not case.metrics and not case.noisy:
        raise ValueError(f"{case.name} without a metric")
    if both := case.metrics.keys() & case.noisy.keys():
        raise ValueError(f"{case.name} has {min(both)} twice")
    for name, metric in case.noisy.items():
        _check_noisy(f"{name} of {case.name}", metric)


def _check_noisy(what: str, metric: NoisyMetric) -> None:
    as_number(metric.value)
    as_interval(metric.interval)
    as_confidence(metric.confidence)
    as_number_or_none(metric.floor)
    as_number_or_none(metric.detectable)
    if not metric.unit:
        raise ValueError(f"{what} without a unit")
    if not metric.samples and not metric.absent:
        raise ValueError(f"{what} without samples, and nothing that says so")
    if len({one[:4] for one in metric.samples}) < len(metric.samples):
        raise ValueError(f"{what} with two processes of one build, boot, group and slot")
    for one in metric.samples:
        _check_process(what, one)


def _check_process(what: str, process: TimedProcess) -> None:
    for number in (*process[:4], process.blocks):
        as_count(number)
    if as_count(process.calls) < 1:
        raise ValueError(f"{what}: a process of no calls")
    if not process.values:
        raise ValueError(f"{what}: a process without values")
    for value in (*process.values, *process.empties):
        as_number(value)
