# SPDX-License-Identifier: GPL-2.0-or-later
"""What the formats have in common: the result, the names of recordings, numbers as text."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from kentry.compare.timed import OWN
from kentry.model.recording import CaseResult, NoisyMetric, Recording

# A process's number has so many digits: a block is some 50000 ns, read to 1 ns.
SIGNIFICANT = 6
_MOST_DECIMALS = 12
# So many names of what is left out are written out.
_NAMED = 8


class Export(NamedTuple):
    """A text in some format, and a sentence for each thing that the format has no place for."""

    text: str
    notes: tuple[str, ...] = ()


def timed_metrics(case: CaseResult) -> dict[str, NoisyMetric]:
    """The numbers with noise that are a kernel's: not the probe's empty loop."""
    return {metric: one for metric, one in case.noisy.items() if metric not in OWN}


def labels(recordings: Sequence[Recording]) -> list[str]:
    """A name a recording, in few words, and no two alike: which kernel it is of."""
    found = [recording.kernel["release"] or recording.kernel["spec"] for recording in recordings]
    for also in (_with_arch, _with_spec):
        taken = list(found)
        found = [
            also(name, one) if taken.count(name) > 1 else name
            for name, one in zip(taken, recordings, strict=True)
        ]
    return numbered(found, lambda name, number: f"{name} ({number})")


def numbered(names: Iterable[str], word: Callable[[str, int], str]) -> list[str]:
    """The names, those that were there before with a number: none is there twice."""
    found: dict[str, None] = {}
    for name in names:
        number, own = 2, name
        while own in found:
            own, number = word(name, number), number + 1
        found[own] = None
    return list(found)


def _with_arch(name: str, recording: Recording) -> str:
    return f"{name} {recording.kernel['arch']}"


def _with_spec(name: str, recording: Recording) -> str:
    return f"{name} {recording.kernel['spec']}"


def kernel_text(kernel: dict[str, Any]) -> str:
    """Which kernel: "debian:6.12 (arm64): Linux 6.12.95"."""
    release = f"Linux {kernel['release']}" if kernel["release"] else "release not known"
    return f"{kernel['spec']} ({kernel['arch']}): {release}"


def significant(value: float, digits: int = SIGNIFICANT) -> str:
    """So many digits of a number that is not negative, without an exponent."""
    if value <= 0:
        return "0"
    places = digits - 1 - math.floor(math.log10(value))
    text = f"{value:.{min(max(places, 0), _MOST_DECIMALS)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def with_interval(metric: NoisyMetric) -> tuple[str, str]:
    """The value, and its interval in brackets: no digit beyond the interval, "" without one."""
    if metric.interval is None:
        return significant(metric.value), ""
    low, high = metric.interval
    half = high / 2 - low / 2
    if half <= 0:
        return significant(metric.value), f"[{significant(low)}, {significant(high)}]"
    digits = min(max(-math.floor(math.log10(half)), 0), _MOST_DECIMALS)
    return f"{metric.value:.{digits}f}", f"[{low:.{digits}f}, {high:.{digits}f}]"


def level_text(confidence: float) -> str:
    """An interval's level in per cent, as many nines as it takes: it is never 100."""
    for digits in (4, 8, 12):
        text = f"{100 * confidence:.{digits}g}"
        if float(text) < 100:
            break
    return f"{text} %"


def printable(text: str) -> str:
    r"""Text with control characters as escapes: "\x1b", "\n"."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )


def left_out(names: Iterable[str], why: str) -> tuple[str, ...]:
    """The note that these are left out, and why; none where there are none."""
    found = list(dict.fromkeys(names))
    if not found:
        return ()
    more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    return (f"left out, {why}: {', '.join(found[:_NAMED])}{more}",)
