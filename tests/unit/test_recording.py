# SPDX-License-Identifier: GPL-2.0-or-later
"""The recording's file: schema, round trip, and every way not to be one."""

import copy
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from kentry.errors import RecordingError
from kentry.recording import dump, read_recording, to_json, write_recording
from tests.builders import recording

SCHEMA = json.loads((Path(__file__).parents[2] / "schema" / "recording-1.schema.json").read_text())
SAMPLE = recording(
    {"getppid": [("el0_svc", 40), ("__arm64_sys_getppid", 14)], "clock_gettime@vdso": []}
)


def test_it_is_as_the_schema_says() -> None:
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
def test_the_schema_refuses_what_is_not_a_count(where: tuple[Any, ...], value: object) -> None:
    document = copy.deepcopy(to_json(SAMPLE))
    target: Any = document
    for key in where[:-1]:
        target = target[key]
    target[where[-1]] = value
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, SCHEMA)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    file = tmp_path / "r.json"
    write_recording(SAMPLE, file)
    assert read_recording(file) == SAMPLE
    assert json.loads(file.read_text()) == to_json(SAMPLE)
    assert [entry.name for entry in tmp_path.iterdir()] == ["r.json"]


def test_a_line_an_instruction() -> None:
    lines = dump(to_json(SAMPLE)).splitlines()
    assert sum('"1f2003d5"' in line for line in lines) == 54


def test_every_cut_is_noticed(tmp_path: Path) -> None:
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
        (("code", "instructions", 0), ["0", "00", 7, 0, 0]),
        (("code", "instructions", 0), ["0", "00", "nop", -1, 0]),
    ],
)
def test_wrong_types_and_sums_deep_inside_are_refused(
    tmp_path: Path, where: tuple[Any, ...], value: object
) -> None:
    document = copy.deepcopy(to_json(SAMPLE))
    target: Any = document
    for key in where[:-1]:
        target = target[key]
    target[where[-1]] = value
    file = tmp_path / "r.json"
    file.write_text(json.dumps(document))
    with pytest.raises(RecordingError, match="not a whole recording") as caught:
        read_recording(file)
    assert caught.value.remedy
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    "text", ["[" * 200_000, '{"schema": NaN}', '{"schema": "kentry/recording/²"}']
)
def test_json_that_is_not_quite_json(tmp_path: Path, text: str) -> None:
    file = tmp_path / "r.json"
    file.write_text(text)
    with pytest.raises(RecordingError):
        read_recording(file)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="No such file"):
        read_recording(tmp_path / "none.json")
