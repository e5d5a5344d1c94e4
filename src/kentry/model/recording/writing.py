# SPDX-License-Identifier: GPL-2.0-or-later
"""Recording -> its file: JSON, a line an item."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kentry.arch import find_arch
from kentry.host.cache import write_atomically
from kentry.model.recording.checks import check_metrics
from kentry.model.recording.model import KIND, VERSION, CaseResult, NoisyMetric, Recording

_DUMP_DEPTH = 3


def to_json(recording: Recording) -> dict[str, Any]:
    """The recording as the file has it."""
    for case in recording.cases:
        check_metrics(case)
    functions: dict[str, int] = {}
    rows = [
        [
            f"{insn.address:016x}",
            insn.code,
            insn.text,
            functions.setdefault(insn.function, len(functions)),
            insn.offset,
        ]
        for insn in recording.code
    ]
    return {
        "schema": f"{KIND}{VERSION}",
        "tool": recording.tool,
        "kernel": recording.kernel,
        "target": recording.target,
        "options": recording.options,
        "caveats": recording.caveats,
        **({} if recording.markers is None else {"markers": recording.markers}),
        "cases": [_case_to_json(case, recording.kernel["arch"]) for case in recording.cases],
        "code": {"functions": list(functions), "instructions": rows},
    }


def _case_to_json(case: CaseResult, arch: str) -> dict[str, Any]:
    return {
        "name": case.name,
        "metrics": {
            name: {
                "value": metric.value,
                "assume": metric.assume,
                "samples": [list(sample) for sample in metric.samples],
            }
            for name, metric in case.metrics.items()
        }
        | {name: _noisy_to_json(metric) for name, metric in case.noisy.items()},
        "interrupted": [list(sample) for sample in case.interrupted],
        "functions": [{"name": name, "instructions": count} for name, count in case.functions],
        **_vector_to_json(case, arch),
        "paths": [
            {
                "role": path.role,
                "times": path.times,
                "instructions": path.length,
                "why": path.why,
                "runs": [list(run) for run in path.runs],
                **({"events": [event._asdict() for event in path.events]} if path.events else {}),
            }
            for path in case.paths
        ],
        "caveats": list(case.caveats),
    }


def _noisy_to_json(metric: NoisyMetric) -> dict[str, Any]:
    return {
        "value": metric.value,
        "unit": metric.unit,
        "assume": metric.assume,
        "interval": None if metric.interval is None else list(metric.interval),
        "confidence": metric.confidence,
        "floor": metric.floor,
        "detectable": metric.detectable,
        "estimator": metric.estimator,
        "absent": list(metric.absent),
        "samples": [
            {
                "build": one.build,
                "boot": one.boot,
                "group": one.group,
                "slot": one.slot,
                "calls": one.calls,
                "blocks": one.blocks,
                "values": list(one.values),
                **({"empties": list(one.empties)} if one.empties else {}),
            }
            for one in metric.samples
        ],
    }


def _vector_to_json(case: CaseResult, arch: str) -> dict[str, Any]:
    """What a reader would else have to take out of the name and the modal path.

    Only a case with a vector state needs to know its architecture: an imported one may be of any.
    """
    state = case.parsed.state
    if state is None:
        return {}
    found: dict[str, Any] = {
        "vector": {
            "unit": state.unit,
            "use": state.use,
            "vl": find_arch(arch).vector.bits(state.unit, state.length),
            "calls": state.calls,
        }
    }
    if case.events is not None:
        found["events"] = [event._asdict() for event in case.events]
    return found


def write_recording(recording: Recording, file: Path) -> None:
    """Writes the file, whole or not at all."""
    write_atomically(file, dump(to_json(recording)))


def dump(document: dict[str, Any]) -> str:
    """JSON as kentry writes it: a line an item down to this depth, so that text diffs help."""
    return _dump(document, 0) + "\n"


def _dump(value: Any, depth: int) -> str:
    if depth == _DUMP_DEPTH or not isinstance(value, dict | list) or not value:
        return json.dumps(value, allow_nan=False)
    indent = " " * (depth + 1)
    if isinstance(value, dict):
        rows = [f"{json.dumps(key)}: {_dump(item, depth + 1)}" for key, item in value.items()]
        opening, closing = "{}"
    else:
        rows = [_dump(item, depth + 1) for item in value]
        opening, closing = "[]"
    body = ",\n".join(indent + row for row in rows)
    return f"{opening}\n{body}\n{' ' * depth}{closing}"
