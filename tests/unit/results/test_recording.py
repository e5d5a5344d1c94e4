# SPDX-License-Identifier: GPL-2.0-or-later
"""The recording's file: schema, round trip, and every way not to be one."""

import copy
import json
import math
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from msgspec import UNSET, structs
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
from tests.builders import imported, recording, timed
from tests.unit.vector.builders import MARKERS, with_events

SCHEMA = json.loads((ROOT / "schema" / "recording-1.schema.json").read_text())
SAMPLE = recording(
    {"getppid": [("el0_svc", 40), ("__arm64_sys_getppid", 14)], "clock_gettime@vdso": []}
)


def put(document: Any, where: Sequence[Any], value: object) -> None:
    """Changes one value deep inside."""
    *above, last = where
    for key in above:
        document = document[key]
    document[last] = value


def test_the_document_is_valid() -> None:
    jsonschema.validate(to_json(SAMPLE), SCHEMA)


@pytest.mark.parametrize(
    ("where", "value"),
    [
        (("cases", 0, "metrics", "instructions", "value"), 54.5),
        (("cases", 0, "metrics", "instructions", "samples"), [[54.5, 1]]),
        (("cases", 0, "metrics", "instructions", "samples"), []),
        (("cases", 0, "functions", 0, "instructions"), 0),
        (("cases", 0, "paths", 0, "role"), "mean"),
        (("schema",), "kentry/recording/2"),
        (("kernel", "image_sha256"), "no hash"),
    ],
)
def test_the_schema_refuses_invalid_counts(where: tuple[Any, ...], value: object) -> None:
    document = copy.deepcopy(to_json(SAMPLE))
    put(document, where, value)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, SCHEMA)


def test_a_written_recording_is_read_back(tmp_path: Path) -> None:
    file = tmp_path / "r.json"
    write_recording(SAMPLE, file)
    assert read_recording(file) == SAMPLE
    document = json.loads(file.read_text())
    assert len(document.pop("checksum")) == 64
    assert document == to_json(SAMPLE)
    assert [entry.name for entry in tmp_path.iterdir()] == ["r.json"]


def test_every_flipped_bit_is_refused(tmp_path: Path) -> None:
    file, damaged = tmp_path / "r.json", tmp_path / "damaged.json"
    write_recording(read_recording(ROOT / "tests" / "golden" / "arm64-6.12.json"), file)
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


def with_source_lines() -> Recording:
    """The sample, its second instruction inlined and its third of no known line."""
    own, outer = SourceLine("include/a.h", 7, "inner"), SourceLine("init/main.c", 9, "el0_svc")
    found = recording({"getppid": [("el0_svc", 40)]})
    for place, lines in enumerate([(outer,), (own, outer), ()]):
        found.code[place] = found.code[place]._replace(source_lines=lines)
    return found


def test_lines_of_source_are_read_as_they_were_written(tmp_path: Path) -> None:
    found = with_source_lines()
    jsonschema.validate(to_json(found), SCHEMA)
    write_recording(found, tmp_path / "one.json")
    assert read_recording(tmp_path / "one.json").code == found.code
    assert not {"places", "source_lines"} & to_json(SAMPLE)["code"].keys()


@pytest.mark.parametrize("wrong", [[[0]], [[2]] * 40, [[-1]] * 40, [0] * 40, "x"])
def test_wrong_lines_of_source_are_refused(tmp_path: Path, wrong: object) -> None:
    document = to_json(with_source_lines())
    document["code"]["source_lines"] = wrong
    (tmp_path / "one.json").write_text(dump(document))
    with pytest.raises(RecordingError):
        read_recording(tmp_path / "one.json")


def test_each_instruction_has_its_own_line() -> None:
    lines = dump(to_json(SAMPLE)).splitlines()
    assert sum('"1f2003d5"' in line for line in lines) == 54


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
    ],
)
def test_a_foreign_file_gets_one_sentence(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "foreign.json"
    file.write_text(text)
    with pytest.raises(RecordingError, match=words) as caught:
        read_recording(file)
    assert caught.value.exit_code == 2


def test_a_path_beyond_the_code_is_refused(tmp_path: Path) -> None:
    document = to_json(SAMPLE)
    document["cases"][0]["paths"][0]["runs"] = [[0, 55]]
    file = tmp_path / "r.json"
    file.write_text(json.dumps(document))
    with pytest.raises(RecordingError, match="beyond the code"):
        read_recording(file)


CONTROL = "gcc\x1b]0;owned\x07"


@pytest.mark.parametrize(
    ("where", "value"),
    [
        (("cases", 0, "metrics", "instructions", "value"), "54"),
        (("cases", 0, "metrics", "instructions", "value"), 54.0),
        (("cases", 0, "metrics", "instructions", "value"), 53),
        (("cases", 0, "metrics", "instructions", "value"), True),
        (("cases", 0, "metrics", "instructions", "samples"), [["a", "b"]]),
        (("cases", 0, "metrics"), {}),
        (("cases", 0, "name"), None),
        (("cases", 0, "caveats"), [1]),
        (("cases", 0, "functions", 0, "name"), 1),
        (("cases", 0, "functions", 0, "instructions"), 41),
        (("cases", 0, "paths", 0, "runs"), [[0, 1.5]]),
        (("cases", 0, "paths", 0, "runs"), [[0, -54]]),
        (("cases", 1, "name"), "getppid"),
        (("cases",), []),
        (("caveats",), ["x"]),
        (("kernel",), {}),
        (("kernel", "config"), "abc"),
        (("kernel", "config"), [1]),
        (("kernel", "compiler"), CONTROL),
        (("kernel", "compiler"), "\ud800"),
        (("target",), {}),
        (("target", "emulator"), CONTROL),
        (("code", "functions", 0), "el0_svc\n"),
        (("code", "instructions", 0), ["0" * 16, "00", 7, 0, 0]),
        (("code", "instructions", 0), ["0" * 16, "00", "nop", -1, 0]),
        (("code", "instructions", 0), ["0" * 16, "00", "nop", 99, 0]),
        (("code", "instructions", 0, 0), "0"),
        (("code", "instructions", 0, 1), "g35341a9"),
        (("code", "instructions", 0, 1), "d35341a"),
        (("code", "instructions", 0, 1), ""),
    ],
)
def test_wrong_types_and_sums_deep_inside_are_refused(
    tmp_path: Path, where: tuple[Any, ...], value: object
) -> None:
    document = copy.deepcopy(to_json(SAMPLE))
    put(document, where, value)
    file = tmp_path / "r.json"
    file.write_text(json.dumps(document))
    with pytest.raises(RecordingError, match="not a whole recording") as caught:
        read_recording(file)
    assert "$." in caught.value.sentence
    assert caught.value.remedy
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    "text", ["[" * 200_000, '{"schema": NaN}', '{"schema": "kentry/recording/²"}']
)
def test_invalid_json_is_an_error(tmp_path: Path, text: str) -> None:
    file = tmp_path / "r.json"
    file.write_text(text)
    with pytest.raises(RecordingError):
        read_recording(file)


def test_a_file_without_end_is_refused_before_it_fills_the_memory() -> None:
    with pytest.raises(RecordingError, match="128 MiB") as caught:
        read_recording(Path("/dev/zero"))
    assert caught.value.exit_code == 2


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="No such file"):
        read_recording(tmp_path / "none.json")


# --- vector states -------------------------------------------------------

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


def test_vector_states_are_as_the_schema_says() -> None:
    jsonschema.validate(to_json(STATES), SCHEMA)
    jsonschema.validate(to_json(replace(STATES, markers={})), SCHEMA)


def test_vector_states_are_read_as_they_were_written(tmp_path: Path) -> None:
    file = tmp_path / "r.json"
    write_recording(STATES, file)
    found = read_recording(file)
    assert found == STATES
    case = found.case("getppid+vec=1/10")
    assert case and case.modal_path
    assert case.modal_path.events == EVENTS
    assert case.parsed.calls == 10
    assert found.markers == MARKERS


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
    jsonschema.validate(document, SCHEMA)


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


def test_events_on_which_paths_differ_are_not_written() -> None:
    for case, known in ((without_modal(EVENTS), True), (without_modal(EVENTS, ()), False)):
        document = to_json(replace(STATES, cases=[case]))
        assert ("events" in document["cases"][0]) == known
        jsonschema.validate(document, SCHEMA)


def test_a_recording_without_vector_states_has_nothing_of_them(tmp_path: Path) -> None:
    text = dump(to_json(SAMPLE))
    assert not any(f'"{key}"' in text for key in ("vector", "events", "markers"))
    file = tmp_path / "old.json"
    file.write_text(text)
    found = read_recording(file)
    assert found.markers is UNSET
    assert [path.events for case in found.cases for path in case.paths] == [(), ()]


def test_a_recording_from_before_there_were_vector_states_is_read() -> None:
    found = read_recording(ROOT / "tests" / "golden" / "arm64-6.12.json")
    assert found.markers is UNSET
    assert not any(path.events for case in found.cases for path in case.paths)


def test_a_state_of_a_unit_that_is_not_known_can_be_written() -> None:
    jsonschema.validate(to_json(recording({"getppid+x9=once": [("f", 1)]})), SCHEMA)


CASE = ("cases", 3)


@pytest.mark.parametrize(
    ("where", "value"),
    [
        (("markers",), []),
        (("markers",), None),
        (("markers", "trap"), 1),
        ((*CASE, "paths", 0, "events"), None),
        ((*CASE, "paths", 0, "events", 0, "times"), "10"),
        ((*CASE, "paths", 0, "events", 0, "times"), -1),
        ((*CASE, "paths", 0, "events", 0, "cause"), None),
        ((*CASE, "paths", 0, "events", 0), ["discard", "syscall", "f", 1]),
    ],
)
def test_wrong_events_are_refused_by_the_schema_and_by_the_reader(
    tmp_path: Path, where: tuple[Any, ...], value: object
) -> None:
    document = copy.deepcopy(to_json(STATES))
    put(document, where, value)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, SCHEMA)
    file = tmp_path / "r.json"
    file.write_text(json.dumps(document))
    with pytest.raises(RecordingError, match="not a whole recording"):
        read_recording(file)


@pytest.mark.parametrize(
    "where", [("markers", "trap"), (*CASE, "paths", 0, "events", 0, "function")]
)
def test_control_characters_in_events_are_refused(tmp_path: Path, where: tuple[Any, ...]) -> None:
    document = copy.deepcopy(to_json(STATES))
    put(document, where, CONTROL)
    file = tmp_path / "r.json"
    file.write_text(json.dumps(document))
    with pytest.raises(RecordingError, match="not a whole recording"):
        read_recording(file)


@pytest.mark.parametrize(
    ("where", "value"),
    [
        ((*CASE, "events", 0, "times"), 0),
        ((*CASE, "events", 0, "windows"), 1),
        ((*CASE, "vector", "vl"), 0),
        ((*CASE, "vector", "calls"), 0),
        ((*CASE, "vector", "length"), 128),
    ],
)
def test_the_schema_refuses_invalid_vector_states(where: tuple[Any, ...], value: object) -> None:
    document = copy.deepcopy(to_json(STATES))
    put(document, where, value)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, SCHEMA)


# --- metrics with noise --------------------------------------------------

TIMES = timed({"getppid": 78.4, "getppid+vec=1/10+extra=1/20": 80.0}, groups=2)
METRIC = ("cases", 0, "metrics", "ns")
PROCESS = (*METRIC, "samples", 0)


def test_times_are_as_the_schema_says_and_read_as_they_were_written(tmp_path: Path) -> None:
    jsonschema.validate(to_json(TIMES), SCHEMA)
    file = tmp_path / "r.json"
    write_recording(TIMES, file)
    assert read_recording(file) == TIMES


def test_every_kind_of_target_is_as_the_schema_says() -> None:
    for kind in ("local", "ssh", "board", "kvm", "import"):
        found = replace(TIMES, target={"kind": kind, "cpu_model": "X", "session": "0a"})
        jsonschema.validate(to_json(found), SCHEMA)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(to_json(replace(TIMES, target={"kind": "qemu"})), SCHEMA)


def test_calls_one_by_one_keep_what_their_clock_took(tmp_path: Path) -> None:
    metric = TIMES.cases[0].noisy["ns"]
    own = replace(metric, samples=(replace(metric.samples[0], blocks=0, empties=(20, 21.5)),))
    found = replace(TIMES, cases=[replace(TIMES.cases[0], noisy={"ns": own})])
    document = to_json(found)
    jsonschema.validate(document, SCHEMA)
    assert document["cases"][0]["metrics"]["ns"]["samples"][0]["empties"] == [20, 21.5]
    file = tmp_path / "r.json"
    write_recording(found, file)
    assert read_recording(file) == found


def test_an_imported_number_of_any_architecture_is_written_and_read(tmp_path: Path) -> None:
    found = imported({"getpid": 254.0, "getpid+cache=cold": 300.0}, "cycles", "ia64")
    document = to_json(found)
    jsonschema.validate(document, SCHEMA)
    assert document["kernel"]["image_sha256"] is None
    file = tmp_path / "r.json"
    write_recording(found, file)
    assert read_recording(file) == found


def test_a_vector_state_needs_an_architecture_that_is_known() -> None:
    with pytest.raises(UserError, match="ia64"):
        to_json(imported({"getpid+vec=once": 254.0}, arch="ia64"))


def test_an_exact_recording_is_byte_for_byte_as_before(tmp_path: Path) -> None:
    golden = ROOT / "tests" / "golden"
    for name in ("arm64-6.1.json", "arm64-6.12.json"):
        found = read_recording(golden / name)
        assert dump(to_json(found)) == (golden / name).read_text()
        assert not any(case.noisy for case in found.cases)


WRONG_TIMES = [
    ((*METRIC, "value"), -1),
    ((*METRIC, "value"), "78.4"),
    ((*METRIC, "value"), None),
    ((*METRIC, "value"), True),
    ((*METRIC, "unit"), ""),
    ((*METRIC, "unit"), 1),
    ((*METRIC, "interval"), [1.0]),
    ((*METRIC, "interval"), [1.0, 2.0, 3.0]),
    ((*METRIC, "interval"), [1.0, None]),
    ((*METRIC, "interval"), 1.0),
    ((*METRIC, "confidence"), 0),
    ((*METRIC, "confidence"), 1),
    ((*METRIC, "confidence"), 99),
    ((*METRIC, "floor"), -0.1),
    ((*METRIC, "detectable"), "0.1"),
    ((*METRIC, "estimator"), None),
    ((*METRIC, "absent"), [1]),
    ((*METRIC, "samples"), []),
    ((*METRIC, "samples"), [[78, 1]]),
    ((*METRIC, "assume"), "guessed"),
    ((*PROCESS, "values"), []),
    ((*PROCESS, "values"), [-1]),
    ((*PROCESS, "values"), ["1"]),
    ((*PROCESS, "values"), "12"),
    ((*PROCESS, "values"), [None]),
    ((*PROCESS, "calls"), 0),
    ((*PROCESS, "calls"), 1.5),
    ((*PROCESS, "blocks"), -1),
    ((*PROCESS, "group"), None),
    ((*PROCESS, "slot"), -1),
    ((*PROCESS, "empties"), [-1]),
    (("cases", 0, "metrics"), {}),
]


@pytest.mark.parametrize(("where", "value"), WRONG_TIMES)
def test_wrong_times_are_refused_by_the_schema_and_by_the_reader(
    tmp_path: Path, where: tuple[Any, ...], value: object
) -> None:
    document = copy.deepcopy(to_json(TIMES))
    put(document, where, value)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, SCHEMA)
    file = tmp_path / "r.json"
    file.write_text(json.dumps(document))
    with pytest.raises(RecordingError, match="not a whole recording") as caught:
        read_recording(file)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    ("where", "value"),
    [
        ((*METRIC, "interval"), [79.0, 78.0]),
        ((*METRIC, "value"), 10**400),
        ((*PROCESS, "calls"), 10**400),
        ((*METRIC, "interval"), [0, 10**400]),
        ((*PROCESS, "group"), 1),
        ((*METRIC, "estimator"), CONTROL),
        ((*METRIC, "absent"), [CONTROL]),
    ],
)
def test_times_that_no_schema_can_refuse_are_refused_by_the_reader(
    tmp_path: Path, where: tuple[Any, ...], value: object
) -> None:
    document = copy.deepcopy(to_json(TIMES))
    if where[-1] == "group":
        document["cases"][0]["metrics"]["ns"]["samples"][2]["slot"] = 0
    put(document, where, value)
    file = tmp_path / "r.json"
    file.write_text(json.dumps(document))
    with pytest.raises(RecordingError, match="not a whole recording"):
        read_recording(file)


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_no_number_is_infinite(tmp_path: Path, word: str) -> None:
    document = copy.deepcopy(to_json(TIMES))
    put(document, (*METRIC, "value"), "HERE")
    file = tmp_path / "r.json"
    file.write_text(json.dumps(document).replace('"HERE"', word))
    with pytest.raises(RecordingError):
        read_recording(file)


def test_two_metrics_of_one_name_are_refused(tmp_path: Path) -> None:
    document = copy.deepcopy(to_json(TIMES))
    put(document, ("cases", 0, "metrics", "cycles"), document["cases"][0]["metrics"]["ns"])
    file = tmp_path / "r.json"
    file.write_text(json.dumps(document).replace('"cycles"', '"ns"'))
    with pytest.raises(RecordingError, match="a name stands twice"):
        read_recording(file)


@pytest.mark.parametrize(
    "change",
    [
        {"value": math.nan},
        {"value": math.inf},
        {"interval": (2.0, 1.0)},
        {"interval": (math.nan, math.nan)},
        {"floor": math.nan},
        {"samples": ()},
    ],
)
def test_an_invalid_metric_cannot_be_made(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        replace(TIMES.cases[0].noisy["ns"], **change)


def test_paths_without_instructions_are_refused(tmp_path: Path) -> None:
    case = replace(SAMPLE.cases[0], metrics={}, noisy=TIMES.cases[0].noisy)
    file = tmp_path / "r.json"
    write_recording(replace(SAMPLE, cases=[case]), file)
    with pytest.raises(RecordingError, match="paths without instructions"):
        read_recording(file)


def test_there_are_no_events_of_what_was_not_counted() -> None:
    assert TIMES.cases[0].events is None
    assert TIMES.cases[0].modal_path is None
