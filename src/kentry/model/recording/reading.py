# SPDX-License-Identifier: GPL-2.0-or-later
"""A recording's file -> Recording; what is read is what the schema says, or it is refused."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kentry.errors import RecordingError
from kentry.model.recording.checks import (
    as_confidence,
    as_count,
    as_interval,
    as_number,
    as_number_or_none,
    as_pairs,
    as_text,
    as_text_or_none,
    as_texts,
    check_case,
)
from kentry.model.recording.model import (
    EXACT,
    KIND,
    NOISY,
    VERSION,
    CaseResult,
    Event,
    Instruction,
    KernelPath,
    Metric,
    NoisyMetric,
    Recording,
    TimedProcess,
)

_AGAIN = "Make it again with kentry record."
# Of what went wrong inside a file, so many characters are shown.
_ERROR_LENGTH = 100


def read_recording(file: Path) -> Recording:
    """The recording in `file`; RecordingError says what is wrong with it otherwise."""
    document = _read_document(file)
    _check_schema(document, file)
    try:
        return _from_json(document)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as err:
        raise RecordingError(
            f"{file} is not a whole recording: {type(err).__name__}: {str(err)[:_ERROR_LENGTH]}.",
            _AGAIN,
        ) from err


def _read_document(file: Path) -> dict[str, Any]:
    try:
        document = json.loads(file.read_bytes(), parse_constant=_refuse, object_pairs_hook=_object)
    except OSError as err:
        raise RecordingError(
            f"{file} cannot be read: {err.strerror}.",
            "Name a recording's file, or a kernel's spec.",
        ) from err
    except (ValueError, RecursionError) as err:
        raise RecordingError(
            f"{file} is not a recording, or is cut short: {str(err)[:_ERROR_LENGTH]}.", _AGAIN
        ) from err
    if not isinstance(document, dict):
        raise RecordingError(f"{file} is JSON, but not a recording.", _AGAIN)
    return document


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not a number")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name stands twice in one object")
    return found


def _check_schema(document: dict[str, Any], file: Path) -> None:
    schema = document.get("schema")
    if not isinstance(schema, str) or not schema.startswith(KIND):
        raise RecordingError(
            f"{file} is not a recording: its schema is {schema!r}, not {KIND}{VERSION}.",
            "kentry record SPEC -o FILE makes one.",
        )
    version = schema.removeprefix(KIND)
    if not re.fullmatch(r"[1-9][0-9]{0,8}", version) or int(version) > VERSION:
        raise RecordingError(
            f"{file} has schema {schema!r}; this kentry reads up to {KIND}{VERSION}.",
            "Use a newer kentry.",
        )


def _caveats(value: Any) -> list[dict[str, str]]:
    return [{"kind": as_text(one["kind"]), "text": as_text(one["text"])} for one in value]


def _event(value: Any) -> Event:
    return Event(
        as_text(value["name"]),
        as_text(value["cause"]),
        as_text(value["function"]),
        as_count(value["times"]),
    )


def _config(value: Any) -> dict[str, str] | None:
    return None if value is None else as_texts(value)


# In the order of the file.
_KERNEL: dict[str, Callable[[Any], Any]] = {
    "spec": as_text,
    "arch": as_text,
    "release": as_text,
    "build_id": as_text_or_none,
    "banner": as_text,
    "compiler": as_text,
    "config_sha256": as_text_or_none,
    "config": _config,
    "image_sha256": as_text_or_none,
    "symbols_from": as_text,
    "origin": as_texts,
}


def _kernel(value: Any) -> dict[str, Any]:
    return {name: read(value[name]) for name, read in _KERNEL.items()}


def _target(value: Any) -> dict[str, Any]:
    for item in value.values():
        if type(item) not in (int, bool):
            as_text(item)
    as_text(value["kind"]), as_text(value.get("emulator", ""))
    return dict(value)


def _from_json(document: dict[str, Any]) -> Recording:
    names = [as_text(name) for name in document["code"]["functions"]]
    code = [
        Instruction(
            int(as_text(address), 16),
            as_text(insn),
            as_text(text),
            names[as_count(place)],
            as_count(offset),
        )
        for address, insn, text, place, offset in document["code"]["instructions"]
    ]
    cases = [_case_from_json(case) for case in document["cases"]]
    if not cases or len({case.name for case in cases}) < len(cases):
        raise ValueError("no cases, or two of one name")
    for case in cases:
        check_case(case, len(code))
    return Recording(
        kernel=_kernel(document["kernel"]),
        target=_target(document["target"]),
        options={as_text(name): as_count(value) for name, value in document["options"].items()},
        code=code,
        cases=cases,
        caveats=_caveats(document["caveats"]),
        markers=as_texts(document["markers"]) if "markers" in document else None,
        tool=as_texts(document["tool"]),
    )


def _case_from_json(case: dict[str, Any]) -> CaseResult:
    metrics = {as_text(name): metric for name, metric in case["metrics"].items()}
    return CaseResult(
        name=as_text(case["name"]),
        metrics={name: _metric(one) for name, one in metrics.items() if not _is_noisy(one)},
        interrupted=as_pairs(case["interrupted"]),
        functions=tuple(
            (as_text(row["name"]), as_count(row["instructions"])) for row in case["functions"]
        ),
        paths=tuple(
            KernelPath(
                as_count(path["times"]),
                as_text(path["role"]),
                as_pairs(path["runs"]),
                as_text(path["why"]),
                tuple(_event(event) for event in path.get("events", ())),
            )
            for path in case["paths"]
        ),
        caveats=tuple(_caveats(case["caveats"])),
        noisy={name: _noisy(one) for name, one in metrics.items() if _is_noisy(one)},
    )


def _is_noisy(metric: dict[str, Any]) -> bool:
    assume = as_text(metric["assume"])
    if assume not in (EXACT, NOISY):
        raise ValueError(f"a metric that is assumed {assume!r}")
    return assume == NOISY


def _metric(metric: dict[str, Any]) -> Metric:
    return Metric(as_count(metric["value"]), as_pairs(metric["samples"]))


def _noisy(metric: dict[str, Any]) -> NoisyMetric:
    return NoisyMetric(
        value=as_number(metric["value"]),
        unit=as_text(metric["unit"]),
        samples=tuple(_process(one) for one in metric["samples"]),
        interval=as_interval(metric["interval"]),
        confidence=as_confidence(metric["confidence"]),
        floor=as_number_or_none(metric["floor"]),
        detectable=as_number_or_none(metric["detectable"]),
        estimator=as_text(metric["estimator"]),
        absent=tuple(as_text(word) for word in metric["absent"]),
    )


def _process(one: dict[str, Any]) -> TimedProcess:
    return TimedProcess(
        build=one["build"],
        boot=one["boot"],
        group=one["group"],
        slot=one["slot"],
        calls=one["calls"],
        values=tuple(one["values"]),
        blocks=one["blocks"],
        empties=tuple(one.get("empties", ())),
    )
