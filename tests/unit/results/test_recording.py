# SPDX-License-Identifier: GPL-2.0-or-later
"""The recording's file: schema, round trip, and every way not to be one."""

import copy
import json
import random
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from msgspec import structs
from msgspec.structs import replace

from kentry.errors import RecordingError, UserError
from kentry.results.document import dump
from kentry.results.recording import (
    OTHER,
    CaseResult,
    KernelPath,
    Metric,
    Recording,
    SourceLine,
    VectorEvent,
    read_recording,
    to_json,
    write_recording,
)
from tests import ROOT
from tests.builders import imported, recording, timed, validate
from tests.unit.vector.builders import MARKERS, with_events

SAMPLE = recording(
    {"getppid": [("el0_svc", 40), ("__arm64_sys_getppid", 14)], "clock_gettime@vdso": []}
)


EVENTS = (
    VectorEvent("discard", "syscall", "do_trap_ecall_u", 10),
    VectorEvent("save", "user copy", "kernel_vector_begin", 1),
)
STATES = with_events(
    recording(
        {
            "getppid": [("do_trap_ecall_u", 3)],
            "getppid+vec=none": [("do_trap_ecall_u", 3)],
            "getppid+vec=once+vl=256": [("do_trap_ecall_u", 4)],
            "getppid+vec=1/10": [("do_trap_ecall_u", 40), ("kernel_vector_begin", 2)],
        },
        kernel={"arch": "riscv64"},
    ),
    {"getppid+vec=1/10": EVENTS},
)


TIMES = timed({"getppid": 78.4, "getppid+vec=1/10+extra=1/20": 80.0}, groups=2)
NS = TIMES.cases[0].noisy["ns"]
# Calls that were timed one by one keep what their clock took.
SINGLY = replace(NS, samples=(replace(NS.samples[0], blocks=0, empties=(20, 21.5)),))
LINES = recording({"getppid": [("el0_svc", 40)]})
# The second instruction was inlined, and those from the third on are of no known line.
INNER, OUTER = SourceLine("include/a.h", 7, "inner"), SourceLine("init/main.c", 9, "el0_svc")
LINES.code[0] = LINES.code[0]._replace(source_lines=(OUTER,))
LINES.code[1] = LINES.code[1]._replace(source_lines=(INNER, OUTER))
TABLES = recording({"getppid": [("el0_svc", 40)]})
TABLES.code[1] = TABLES.code[1]._replace(tables=(".altinstructions", "__jump_table"))
TABLES.code[3] = TABLES.code[3]._replace(tables=("__jump_table",))
WHOLE = {
    "counts": SAMPLE,
    "source lines": LINES,
    "tables": TABLES,
    "states": STATES,
    "no markers": replace(STATES, markers={}),
    "unit that is not known": recording({"getppid+x9=once": [("f", 1)]}),
    "times": TIMES,
    "empties": replace(TIMES, cases=[replace(TIMES.cases[0], noisy={"ns": SINGLY})]),
    "imported": imported({"getpid": 254.0, "getpid+cache=cold": 300.0}, "cycles", "ia64"),
}


@pytest.mark.parametrize("name", WHOLE)
def test_a_recording_is_as_the_schema_says_and_read_as_it_was_written(
    name: str, tmp_path: Path
) -> None:
    found, file = WHOLE[name], tmp_path / "r.json"
    validate(to_json(found), "recording-1")
    write_recording(found, file)
    assert read_recording(file) == found
    document = json.loads(file.read_text())
    assert len(document.pop("checksum")) == 64
    assert document == to_json(found)
    assert [entry.name for entry in tmp_path.iterdir()] == ["r.json"]


def test_every_flipped_bit_is_refused(tmp_path: Path) -> None:
    file, damaged = tmp_path / "r.json", tmp_path / "damaged.json"
    write_recording(SAMPLE, file)
    content = file.read_bytes()
    drawn = random.Random(30)
    # Of the whole file, and of the name of the checksum itself.
    name = content.index(b"checksum")
    bits = [drawn.randrange(8 * len(content)) for _ in range(200)]
    for bit in (*bits, *range(8 * name, 8 * (name + len("checksum")))):
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        damaged.write_bytes(flipped)
        with pytest.raises(RecordingError) as caught:
            read_recording(damaged)
        assert (caught.value.exit_code, bool(caught.value.remedy)) == (2, True)


def test_a_checksum_is_of_the_content_and_not_of_its_form(tmp_path: Path) -> None:
    file = tmp_path / "r.json"
    write_recording(SAMPLE, file)
    document = json.loads(file.read_text())
    file.write_text(json.dumps(dict(reversed(document.items())), indent=7))
    assert read_recording(file) == SAMPLE
    file.write_text(json.dumps({name: document[name] for name in document if name != "checksum"}))
    assert read_recording(file) == SAMPLE


@pytest.mark.parametrize(("windows", "again"), [(32, True), (128, False), (1000, False)])
def test_a_recording_with_many_paths_is_not_to_be_made_again_for_more(
    windows: int, again: bool
) -> None:
    found = replace(SAMPLE, options={"path_windows": windows})
    assert ("--paths 128" in found.path_remedy) == again


def test_a_truncated_file_is_an_error(tmp_path: Path) -> None:
    text = dump(to_json(SAMPLE))
    file = tmp_path / "cut.json"
    for length in range(0, len(text) - 2, 97):
        file.write_text(text[:length])
        with pytest.raises(RecordingError, match="cut short"):
            read_recording(file)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[]", "not a recording"),
        ("{}", "its schema is None"),
        ('{"schema": "kentry/comparison/1"}', "its schema is 'kentry/comparison/1'"),
        ('{"schema": "kentry/recording/2"}', "reads up to kentry/recording/1"),
        ('{"schema": "kentry/recording/x"}', "reads up to kentry/recording/1"),
        ('{"schema": "kentry/recording/1"}', "not a whole recording"),
        ("\x00\x01\x02", "not a recording"),
        ("[" * 200_000, "cut short"),
        ('{"schema": NaN}', "cut short"),
        ('{"schema": "kentry/recording/²"}', "reads up to"),
    ],
)
def test_a_foreign_file_gets_one_sentence(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "foreign.json"
    file.write_text(text)
    with pytest.raises(RecordingError, match=words) as caught:
        read_recording(file)
    assert caught.value.exit_code == 2


CONTROL = "gcc\x1b]0;owned\x07"
CASE, VECTOR, METRIC = ("cases", 0), ("cases", 3), ("cases", 0, "metrics", "ns")
COUNT = ("cases", 0, "metrics", "instructions")
PROCESS = (*METRIC, "samples", 0)

SCHEMA_ALONE = [
    (SAMPLE, (*COUNT, "value"), 54.5),
    (SAMPLE, (*COUNT, "samples"), [[54.5, 1]]),
    (SAMPLE, (*COUNT, "samples"), []),
    (SAMPLE, ("schema",), "kentry/recording/2"),
    (STATES, (*VECTOR, "events", 0, "windows"), 1),
    (STATES, (*VECTOR, "vector", "length"), 128),
]
READER_ALONE = [
    (SAMPLE, (*COUNT, "value"), 54.0),
    (SAMPLE, (*COUNT, "value"), 53),
    (SAMPLE, (*CASE, "functions", 0, "instructions"), 41),
    (SAMPLE, ("cases", 1, "name"), "getppid"),
    (SAMPLE, ("kernel", "compiler"), CONTROL),
    (SAMPLE, ("kernel", "compiler"), "\ud800"),
    (SAMPLE, ("target", "emulator"), CONTROL),
    (SAMPLE, ("code", "functions", 0), "el0_svc\n"),
    (SAMPLE, ("code", "instructions", 0), ["0" * 16, "00", "nop", 99, 0]),
    (SAMPLE, (*CASE, "paths", 0, "runs"), [[1, 54]]),
    (SAMPLE, (*CASE, "checked_counts"), [54, 55]),
    # Paths without a count.
    (SAMPLE, (*CASE, "metrics"), to_json(TIMES)["cases"][0]["metrics"]),
    *(
        (LINES, ("code", "source_lines"), x)
        for x in ([[0]], [[2]] * 40, [[-1]] * 40, [0] * 40, "x")
    ),
    *((TABLES, ("code", "tables"), {"a": x}) for x in ([40], [-1], [1 << 63], 0, ["1"])),
    (TABLES, ("code", "tables"), {CONTROL: [0]}),
    (STATES, ("markers", "trap"), CONTROL),
    (STATES, (*VECTOR, "paths", 0, "events", 0, "function"), CONTROL),
    (TIMES, (*METRIC, "interval"), [79.0, 78.0]),
    (TIMES, (*METRIC, "value"), 10**400),
    (TIMES, (*PROCESS, "calls"), 10**400),
    (TIMES, (*METRIC, "interval"), [0, 10**400]),
    (TIMES, (*METRIC, "samples"), [to_json(TIMES)["cases"][0]["metrics"]["ns"]["samples"][0]] * 2),
    (TIMES, (*METRIC, "estimator"), CONTROL),
    (TIMES, (*METRIC, "absent"), [CONTROL]),
]
# The types of all fields are in the schemas that the structs generate; some stand for the rest.
BOTH = [
    (SAMPLE, (*COUNT, "value"), "54"),
    (SAMPLE, (*COUNT, "samples"), [["a", "b"]]),
    (SAMPLE, (*CASE, "metrics"), {}),
    (SAMPLE, (*CASE, "functions", 0, "instructions"), 0),
    (SAMPLE, (*CASE, "paths", 0, "runs"), [[0, -54]]),
    (SAMPLE, ("cases",), []),
    (SAMPLE, ("kernel",), {}),
    (SAMPLE, ("target",), {}),
    (SAMPLE, ("code", "instructions", 0), ["0" * 16, "00", "nop", -1, 0]),
    (SAMPLE, ("code", "instructions", 0, 0), "0"),
    (SAMPLE, ("code", "instructions", 0, 1), "g35341a9"),
    (SAMPLE, ("code", "instructions", 0, 1), "d35341a"),
    (SAMPLE, ("code", "instructions", 0, 1), ""),
    (STATES, (*VECTOR, "vector", "calls"), 0),
    *((STATES, (*VECTOR, "paths", 0, "events"), value) for value in (None, [["f", "s", "f", 1]])),
    (STATES, (*VECTOR, "paths", 0, "events", 0, "times"), -1),
    (TIMES, (*METRIC, "value"), "78.4"),
    *((TIMES, (*METRIC, "samples"), value) for value in ([], [[78, 1]])),
    (TIMES, (*PROCESS, "calls"), 0),
]


def changed(base: Recording, where: Sequence[Any], value: object) -> dict[str, Any]:
    """The base's document with one value changed deep inside."""
    whole = document = copy.deepcopy(to_json(base))
    *above, last = where
    for key in above:
        document = document[key]
    document[last] = value
    return whole


@pytest.mark.parametrize(("base", "where", "value"), [*SCHEMA_ALONE, *BOTH])
def test_the_schema_refuses(base: Recording, where: tuple[Any, ...], value: object) -> None:
    with pytest.raises(jsonschema.ValidationError):
        validate(changed(base, where, value), "recording-1")


@pytest.mark.parametrize(("base", "where", "value"), [*READER_ALONE, *BOTH])
def test_the_reader_refuses_and_says_where(
    tmp_path: Path, base: Recording, where: tuple[Any, ...], value: object
) -> None:
    file = tmp_path / "r.json"
    file.write_text(json.dumps(changed(base, where, value)))
    with pytest.raises(RecordingError, match="not a whole recording|numbers disagree") as caught:
        read_recording(file)
    assert re.search(r"\$\.|too large|disagree: getppid", caught.value.sentence)
    assert caught.value.remedy
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(("file", "words"), [("/dev/zero", "128 MiB"), ("/none", "No such file")])
def test_a_file_without_end_or_none_is_refused(file: str, words: str) -> None:
    with pytest.raises(RecordingError, match=words) as caught:
        read_recording(Path(file))
    assert caught.value.exit_code == 2


# --- vector states -------------------------------------------------------


def test_a_case_states_its_vector_state() -> None:
    document = to_json(STATES)
    plain, *cases = document["cases"]
    assert not {"vector", "events"} & set(plain)
    assert [case["vector"] for case in cases] == [
        {"unit": "vec", "use": "none", "vl": 128, "calls": 1},
        {"unit": "vec", "use": "once", "vl": 256, "calls": 1},
        {"unit": "vec", "use": "1/10", "vl": 128, "calls": 10},
    ]
    assert [case["events"] for case in cases] == [[], [], [structs.asdict(one) for one in EVENTS]]
    assert cases[2]["events"] == cases[2]["paths"][0]["events"]
    assert document["markers"] == MARKERS


def test_events_are_not_known_where_no_path_was_recorded() -> None:
    lost = [replace(case, paths=(), functions=()) for case in STATES.cases]
    document = to_json(replace(STATES, cases=lost))
    assert not [case for case in document["cases"] if "events" in case]
    assert [case["vector"]["calls"] for case in document["cases"] if "vector" in case] == [1, 1, 10]
    validate(document, "recording-1")


def without_modal(*events: Sequence[VectorEvent]) -> CaseResult:
    paths = tuple(
        KernelPath(role=OTHER, times=1, runs=((0, 1),), events=tuple(one)) for one in events
    )
    spread = {"instructions": Metric.of({42: 2, 43: 2, 44: 2})}
    metrics = {**STATES.cases[3].metrics, **spread}
    return replace(STATES.cases[3], paths=paths, functions=(), metrics=metrics)


def test_events_are_the_modal_paths_or_those_that_all_paths_have() -> None:
    assert STATES.cases[3].events == EVENTS
    other = KernelPath(role=OTHER, times=1, runs=((0, 1),))
    assert replace(STATES.cases[3], paths=(*STATES.cases[3].paths, other)).events == EVENTS
    assert without_modal(EVENTS, EVENTS[::-1]).events == EVENTS
    assert without_modal((), ()).events == ()
    assert without_modal(EVENTS, EVENTS[:1]).events is None
    assert without_modal().events is None
    # A count that is decided, and no path of it: the paths that there are did something else.
    decided = replace(without_modal(EVENTS), metrics=STATES.cases[3].metrics)
    assert decided.events is None
    assert TIMES.cases[0].events is None


# --- metrics with noise --------------------------------------------------


def test_every_kind_of_target_is_as_the_schema_says() -> None:
    for kind in ("local", "ssh", "board", "kvm", "import"):
        found = replace(TIMES, target={"kind": kind, "cpu_model": "X", "session": "0a"})
        validate(to_json(found), "recording-1")
    with pytest.raises(jsonschema.ValidationError):
        validate(to_json(replace(TIMES, target={"kind": "qemu"})), "recording-1")


def test_a_vector_state_needs_an_architecture_that_is_known() -> None:
    with pytest.raises(UserError, match="ia64"):
        to_json(imported({"getpid+vec=once": 254.0}, arch="ia64"))


def test_an_exact_recording_is_byte_for_byte_as_before(tmp_path: Path) -> None:
    golden = ROOT / "tests" / "golden"
    for name in ("arm64-6.1.json", "arm64-6.12.json"):
        found = read_recording(golden / name)
        assert dump(to_json(found)) == (golden / name).read_text()


@pytest.mark.parametrize(
    ("value", "words"),
    [
        *((word, "is not a") for word in ("NaN", "Infinity", "-Infinity", "1e999")),
        ('1, "value": 1', "a name stands twice"),
    ],
)
def test_no_number_is_infinite_and_no_name_stands_twice(
    tmp_path: Path, value: str, words: str
) -> None:
    document = changed(TIMES, (*METRIC, "value"), "HERE")
    file = tmp_path / "r.json"
    file.write_text(json.dumps(document).replace('"HERE"', value))
    with pytest.raises(RecordingError, match=words):
        read_recording(file)
