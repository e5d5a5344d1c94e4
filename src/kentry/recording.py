# SPDX-License-Identifier: GPL-2.0-or-later
"""Recording: one file, everything measured on one kernel, with where it came from.

The format is kentry/recording/1 (schema/recording-1.schema.json, docs/formats.md).  This
module turns it into objects and back, and refuses what it does not understand.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from kentry import __version__
from kentry.arch import find_arch
from kentry.cache import write_atomically
from kentry.errors import RecordingError
from kentry.stats import exact
from kentry.vector.state import calls_of, state_of
from kentry.vector.unit import VectorSide

KIND = "kentry/recording/"
VERSION = 1

# What a path was among its case's windows.
MODAL = "modal"
OTHER = "other"

EXACT = "exact"
INSTRUCTIONS = "instructions"

_DUMP_DEPTH = 3

_AGAIN = "Make it again with kentry record."
# Of what went wrong inside a file, so many characters are shown.
_ERROR_LENGTH = 100


class Instruction(NamedTuple):
    """One kernel instruction: address without KASLR, bytes in memory order, text, place.

    A tuple, because a recording has thousands and a dataclass takes thrice as long to make.
    """

    address: int
    code: str
    text: str
    function: str
    offset: int


class Event(NamedTuple):
    """Something done to vector state `times` times in a window: what, why, in which function."""

    name: str
    cause: str
    function: str
    times: int


@dataclass(frozen=True)
class KernelPath:
    """A distinct path: `times` windows took it; `runs` are (first, count) into the code.

    `events` is empty where none were looked for, too: Recording.markers says which were.
    """

    times: int
    role: str
    runs: tuple[tuple[int, int], ...]
    why: str = ""
    events: tuple[Event, ...] = ()

    @property
    def length(self) -> int:
        """How many instructions it has."""
        return sum(count for _, count in self.runs)


@dataclass(frozen=True)
class Metric:
    """A number of a case: its commonest value and every sample, as (value, windows)."""

    value: int
    samples: tuple[tuple[int, int], ...]
    assume: str = EXACT

    @staticmethod
    def of(samples: dict[int, int]) -> Metric:
        """The metric of a histogram that is not empty."""
        return Metric(exact.mode(samples), tuple(samples.items()))


@dataclass(frozen=True)
class CaseResult:
    """What was measured of one case.

    `metrics` maps instructions, user_instructions and firmware_instructions (and others
    to come) to their values.  `interrupted` are the windows an interrupt fell into, set
    apart: (kernel instructions, windows).  `functions` add up to the modal path's length.
    """

    name: str
    metrics: dict[str, Metric]
    interrupted: tuple[tuple[int, int], ...]
    functions: tuple[tuple[str, int], ...]
    paths: tuple[KernelPath, ...]
    caveats: tuple[dict[str, str], ...] = ()

    @property
    def modal_path(self) -> KernelPath | None:
        """The commonest clean path; None where none was recorded."""
        return next((path for path in self.paths if path.role == MODAL), None)

    @property
    def events(self) -> tuple[Event, ...] | None:
        """Those of the modal path; None where it was not recorded.

        Where less than half of the windows agree on a count, those of every path, if they agree.
        """
        if self.modal_path:
            return self.modal_path.events
        undecided = not exact.is_decided(dict(self.metrics[INSTRUCTIONS].samples))
        if undecided and len({frozenset(path.events) for path in self.paths}) == 1:
            return self.paths[0].events
        return None

    @property
    def calls(self) -> int:
        """How many calls a window is."""
        return calls_of(self.name)


@dataclass
class Recording:
    """A recording; `kernel`, `target` and `options` are as in the file.

    `markers` are, by event, how the kernel's vector events were known; None where they were not
    looked for, which only cases with a vector state need.
    """

    kernel: dict[str, Any]
    target: dict[str, Any]
    options: dict[str, Any]
    code: list[Instruction]
    cases: list[CaseResult]
    caveats: list[dict[str, str]] = field(default_factory=list)
    markers: dict[str, str] | None = None
    tool: dict[str, str] = field(default_factory=lambda: {"name": "kentry", "version": __version__})

    def case(self, name: str) -> CaseResult | None:
        """The case of that name, if it was measured."""
        return next((case for case in self.cases if case.name == name), None)

    def instructions(self, path: KernelPath) -> list[Instruction]:
        """The path, instruction by instruction."""
        return [self.code[i] for first, count in path.runs for i in range(first, first + count)]


def to_json(recording: Recording) -> dict[str, Any]:
    """The recording as the file has it."""
    side = find_arch(recording.kernel["arch"]).vector
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
        "cases": [_case_to_json(case, side) for case in recording.cases],
        "code": {"functions": list(functions), "instructions": rows},
    }


def _case_to_json(case: CaseResult, side: VectorSide) -> dict[str, Any]:
    return {
        "name": case.name,
        "metrics": {
            name: {
                "value": metric.value,
                "assume": metric.assume,
                "samples": [list(sample) for sample in metric.samples],
            }
            for name, metric in case.metrics.items()
        },
        "interrupted": [list(sample) for sample in case.interrupted],
        "functions": [{"name": name, "instructions": count} for name, count in case.functions],
        **_vector_to_json(case, side),
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


def _vector_to_json(case: CaseResult, side: VectorSide) -> dict[str, Any]:
    """What a reader would else have to take out of the name and the modal path."""
    state = state_of(case.name)
    if state is None:
        return {}
    found: dict[str, Any] = {
        "vector": {
            "unit": state.unit,
            "use": state.use,
            "vl": side.bits(state),
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
        document = json.loads(file.read_bytes(), parse_constant=_refuse)
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


# A recording may come from anyone: what is read below is what the schema says, or a
# ValueError; and no text in it can move a terminal's cursor.


def _count(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} is not a count")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.isprintable():
        raise ValueError(f"{value!r} is not printable text")
    return value


def _text_or_none(value: Any) -> str | None:
    return None if value is None else _text(value)


def _texts(value: Any) -> dict[str, str]:
    if not isinstance(value, dict):
        raise ValueError(f"{value!r} is not an object")
    return {_text(name): _text(text) for name, text in value.items()}


def _pairs(value: Any) -> tuple[tuple[int, int], ...]:
    return tuple((_count(first), _count(second)) for first, second in value)


def _caveats(value: Any) -> list[dict[str, str]]:
    return [{"kind": _text(one["kind"]), "text": _text(one["text"])} for one in value]


def _event(value: Any) -> Event:
    return Event(
        _text(value["name"]),
        _text(value["cause"]),
        _text(value["function"]),
        _count(value["times"]),
    )


def _config(value: Any) -> dict[str, str] | None:
    return None if value is None else _texts(value)


# In the order of the file.
_KERNEL: dict[str, Callable[[Any], Any]] = {
    "spec": _text,
    "arch": _text,
    "release": _text,
    "build_id": _text_or_none,
    "banner": _text,
    "compiler": _text,
    "config_sha256": _text_or_none,
    "config": _config,
    "image_sha256": _text,
    "symbols_from": _text,
    "origin": _texts,
}


def _kernel(value: Any) -> dict[str, Any]:
    return {name: read(value[name]) for name, read in _KERNEL.items()}


def _target(value: Any) -> dict[str, Any]:
    for item in value.values():
        if type(item) not in (int, bool):
            _text(item)
    _text(value["kind"]), _text(value["emulator"])
    return dict(value)


def _from_json(document: dict[str, Any]) -> Recording:
    names = [_text(name) for name in document["code"]["functions"]]
    code = [
        Instruction(
            int(_text(address), 16), _text(insn), _text(text), names[_count(place)], _count(offset)
        )
        for address, insn, text, place, offset in document["code"]["instructions"]
    ]
    cases = [_case_from_json(case) for case in document["cases"]]
    if not cases or len({case.name for case in cases}) < len(cases):
        raise ValueError("no cases, or two of one name")
    for case in cases:
        _check_case(case, len(code))
    return Recording(
        kernel=_kernel(document["kernel"]),
        target=_target(document["target"]),
        options={_text(name): _count(value) for name, value in document["options"].items()},
        code=code,
        cases=cases,
        caveats=_caveats(document["caveats"]),
        markers=_texts(document["markers"]) if "markers" in document else None,
        tool=_texts(document["tool"]),
    )


def _check_case(case: CaseResult, instructions: int) -> None:
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
    if INSTRUCTIONS not in case.metrics:
        raise ValueError(f"{case.name} without {INSTRUCTIONS}")


def _case_from_json(case: dict[str, Any]) -> CaseResult:
    return CaseResult(
        name=_text(case["name"]),
        metrics={
            _text(name): Metric(
                _count(metric["value"]), _pairs(metric["samples"]), _text(metric["assume"])
            )
            for name, metric in case["metrics"].items()
        },
        interrupted=_pairs(case["interrupted"]),
        functions=tuple(
            (_text(row["name"]), _count(row["instructions"])) for row in case["functions"]
        ),
        paths=tuple(
            KernelPath(
                _count(path["times"]),
                _text(path["role"]),
                _pairs(path["runs"]),
                _text(path["why"]),
                tuple(_event(event) for event in path.get("events", ())),
            )
            for path in case["paths"]
        ),
        caveats=tuple(_caveats(case["caveats"])),
    )
