# SPDX-License-Identifier: GPL-2.0-or-later
"""A recording as a document of a page: its cases, and the path and times of each."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from kentry.arch import find_arch
from kentry.path.metrics import part_amounts
from kentry.results.recording import INSTRUCTIONS, CaseResult, NoisyMetric, Recording, to_json
from kentry.show.html import charts
from kentry.show.html.frames import first_modal, frames
from kentry.show.html.page import Document, kernel_facts, name_of
from kentry.show.misses import level_size, miss_rows
from kentry.show.numbers import percent, share, with_interval
from kentry.show.recording import case_caveats

_FIRMWARE = "firmware_instructions"


def recording_document(recording: Recording) -> Document:
    """The cases in a table, then each with its path, what it touches, and its times."""
    cases = [_case(recording, case) for case in recording.cases]
    timed = sum(bool(case.noisy) for case in recording.cases)
    counted = sum(bool(case.metrics) for case in recording.cases)
    # One case is open: the first that has something to look at.
    shown = next((one["name"] for one in cases if one["icicle"] or one["times"]), "")
    words = [
        f"{count} case{'s' if count > 1 else ''} {what}"
        for count, what in ((counted, "counted"), (timed, "timed"))
    ]
    return Document(
        template="recording.html",
        title=name_of(recording.kernel),
        summary=", ".join(one for one in words if not one.startswith("0 ")),
        json=to_json(recording),
        values={"cases": cases, "counted": counted, "timed": timed, "open": shown},
        caveats=[*recording.caveats, *case_caveats(recording.cases)],
        facts=kernel_facts(recording.kernel, recording.target),
    )


def _case(recording: Recording, case: CaseResult) -> dict[str, Any]:
    count, firmware = case.metrics.get(INSTRUCTIONS), case.metrics.get(_FIRMWARE)
    path = first_modal(recording, case)
    found: dict[str, Any] = {
        "name": case.name,
        "count": count,
        "firmware": firmware.value if firmware else 0,
        "metrics": case.metrics,
        "functions": case.functions,
        "interrupted": sum(times for _, times in case.interrupted),
        "estimates": case.estimates,
        "misses": [
            {
                "core": one.core,
                "source": one.source,
                "levels": [(level.name, level_size(level)) for level in one.levels],
                "rows": list(miss_rows(one, with_walks=True)),
            }
            for one in case.misses
        ],
        "times": list(times(case, recording.kernel["spec"])),
        "others": _others(case),
        "icicle": None,
        "parts": {},
        "amounts": {},
    }
    if path:
        code = recording.instructions(path)
        drawn = frames(recording, path)
        parts: Counter[str] = Counter()
        for frame in drawn:
            if not frame.depth:
                parts[frame.name] += frame.size
        label = f"{case.name}: {path.length} instructions from left to right, by call"
        found |= {
            "icicle": charts.icicle(drawn, path.length, label),
            "parts": parts,
            "amounts": part_amounts(code, path.accesses, find_arch(recording.kernel["arch"])),
        }
    return found


def _others(case: CaseResult) -> list[tuple[int, int, str, str]]:
    """Each path as (instructions, windows, share of them all, why), the modal one first."""
    recorded = sum(path.times for path in case.paths)
    return [
        (path.length, path.times, share(path.times, recorded), path.why or path.role)
        for path in case.paths
    ]


def times(
    case: CaseResult, name: str, beside: CaseResult | None = None
) -> Iterator[dict[str, Any]]:
    """The noisy metrics of a case, each with the distribution of its processes.

    `name` is the kernel's.  The charts have one axis with those of `beside`.
    """
    for metric, one in case.noisy.items():
        value, interval = with_interval(one.value, one.interval)
        other = beside.noisy.get(metric) if beside else None
        yield {
            "metric": metric,
            "kernel": name,
            "unit": one.unit,
            "value": value,
            "interval": interval,
            "confidence": one.confidence,
            "floor": percent(100 * one.floor) if one.floor is not None else "-",
            "detectable": percent(100 * one.detectable) if one.detectable is not None else "-",
            "processes": len(one.samples),
            "estimator": one.estimator,
            "absent": ", ".join(one.absent),
            "chart": charts.distribution(
                _values(one),
                *(one.value, one.interval, one.floor),
                f"{name}, {case.name}, {metric}: {value} {one.unit} {interval}",
                one.unit,
                _values(other) if other else (),
            )
            # One published number has no distribution.
            if len(one.samples) > 1
            else None,
        }


def _values(metric: NoisyMetric) -> Sequence[float]:
    # It loads numpy, which counts do not need.
    from kentry.results.samples import value_of

    return [value_of(process) for process in metric.samples]
