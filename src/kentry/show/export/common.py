# SPDX-License-Identifier: GPL-2.0-or-later
"""What the formats have in common: the result, and names that are told apart."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kentry.results.recording import PROBE_METRICS, CaseResult, NoisyMetric, Recording
from kentry.results.studies import Check, CheckRow

# Cases that are named in a note; further ones are counted.
NAMED = 8


class Export(NamedTuple):
    """A text in some format, and a sentence for each thing that the format has no place for."""

    text: str
    notes: tuple[str, ...] = ()


def timed_metrics(case: CaseResult) -> dict[str, NoisyMetric]:
    """Leave out of a case's numbers with noise those of the probe's empty loop."""
    return {metric: values for metric, values in case.noisy.items() if metric not in PROBE_METRICS}


def labels(recordings: Sequence[Recording]) -> list[str]:
    """Name each recording differently: by release, and if needed architecture and spec."""
    names = [recording.kernel["release"] or recording.kernel["spec"] for recording in recordings]
    for key in ("arch", "spec"):
        names = [
            f"{name} {recording.kernel[key]}" if names.count(name) > 1 else name
            for name, recording in zip(names, recordings, strict=True)
        ]
    return numbered(names)


def numbered(names: Iterable[str], pattern: str = "{} ({})") -> list[str]:
    """Make the names different: the pattern adds a number to those that were there before."""
    different: dict[str, None] = {}
    for name in names:
        number, own = 2, name
        while own in different:
            own, number = pattern.format(name, number), number + 1
        different[own] = None
    return list(different)


def named_rows(check: Check) -> list[tuple[CheckRow, str]]:
    """Returns each row with a name that no other has: by case and metric."""
    names = numbered(f"{row.name} {row.metric}" for row in check.rows)
    return list(zip(check.rows, names, strict=True))


def printable(text: str) -> str:
    r"""Write control characters as escapes: "\x1b", "\n"."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )
