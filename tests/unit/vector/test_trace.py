# SPDX-License-Identifier: GPL-2.0-or-later
"""The trace's file: any reader's Parquet, whole or not there, refused if foreign."""

import json
import random
import resource
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kentry.boot.task_hooks import Event
from kentry.errors import UserError
from kentry.vector.trace import COLUMNS, METADATA_KEY, Task, read_trace, write_trace
from tests.builders import validate
from tests.unit.vector.traces import META, columns_of, random_rows, same, save, trace_of

# More than a row group.
SAMPLE = trace_of(random_rows(70_000))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "boot.trace"


def test_parts_of_any_size_are_one_trace_and_parquet_for_anyone(file: Path) -> None:
    generator = random.Random(7)
    places = [0, *sorted(generator.choices(range(len(SAMPLE)), k=9)), len(SAMPLE)]
    tasks = list(SAMPLE.tasks[:2])

    def parts() -> Any:
        for part in map(slice, places, places[1:]):
            yield [column[part] for column in columns_of(SAMPLE)]
        tasks.extend(SAMPLE.tasks[2:])

    write_trace(file, SAMPLE.meta, tasks, parts())
    found = read_trace(file)
    assert same(found, SAMPLE)
    assert found.tasks == SAMPLE.tasks
    assert {name: found.meta[name] for name in META} == META
    assert list(file.parent.iterdir()) == [file]
    table = pq.read_table(file)
    assert table.column_names == list(COLUMNS)
    for name, column in zip(COLUMNS, columns_of(SAMPLE), strict=True):
        assert np.array_equal(table[name].to_numpy(), column)


def test_the_metadata_is_as_the_schema_says(file: Path) -> None:
    save(file, SAMPLE)
    assert pq.read_metadata(file).num_row_groups == 2
    document = json.loads(pq.read_metadata(file).metadata[METADATA_KEY])
    validate(document, "vector-trace-1")
    for name in ("schema", "arch", "kernel", "workload", "policy", "tasks", "caveats"):
        with pytest.raises(jsonschema.ValidationError):
            validate({k: v for k, v in document.items() if k != name}, "vector-trace-1")


def test_nothing_is_left_of_what_could_not_be_written_whole(file: Path) -> None:
    def parts() -> Any:
        yield columns_of(SAMPLE)
        raise KeyboardInterrupt

    with pytest.raises(ValueError, match="length"):
        write_trace(file, META, [], [([1, 2], [0, 0], [0, 0], [0, 0], [0])])
    with pytest.raises(KeyboardInterrupt):
        write_trace(file, META, SAMPLE.tasks, parts())
    assert not list(file.parent.iterdir())
    with pytest.raises(UserError, match="/dev/null"):
        write_trace(Path("/dev/null"), META, [], [])


def test_a_file_that_was_cut_is_an_error(file: Path) -> None:
    cut = file.with_name("cut.trace")
    save(file, SAMPLE)
    data = file.read_bytes()
    for length in sorted(random.Random(3).sample(range(len(data)), 30)):
        cut.write_bytes(data[:length])
        with pytest.raises(UserError):
            read_trace(cut)


def test_a_file_that_may_not_grow_is_an_error_and_leaves_the_older_one(file: Path) -> None:
    file.write_text("older")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))
    try:
        with pytest.raises(UserError, match=r"boot\.trace"):
            save(file, SAMPLE)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert file.read_text() == "older"
    assert list(file.parent.iterdir()) == [file]


@pytest.mark.slow
def test_damage_is_never_taken_for_events(file: Path) -> None:
    generator = random.Random(5)
    small = trace_of(random_rows(2_600))
    save(file, small)
    data = file.read_bytes()
    for _ in range(150):
        damaged = bytearray(data)
        damaged[generator.randrange(len(data))] ^= 1 << generator.randrange(8)
        file.write_bytes(damaged)
        try:
            found = read_trace(file)
        except UserError:
            continue
        assert same(found, small)


def written(tmp_path: Path, document: Any) -> Path:
    """A Parquet file of a trace's columns with this JSON as its metadata."""
    file = tmp_path / "foreign.trace"
    table = pa.table({name: pa.array([4], str(np.dtype(kind))) for name, kind in COLUMNS.items()})
    text = document if isinstance(document, str) else json.dumps(document)
    pq.write_table(table.replace_schema_metadata({METADATA_KEY: text.encode()}), file)
    return file


def document(**changes: Any) -> dict[str, Any]:
    tasks = [
        {"pid": i, "name": "init", "names": ["init"], "parent": -1, "kernel": False}
        for i in range(5)
    ]
    made = {**META, "schema": "kentry/vector-trace/1", "tool": {}, "done": True, "tasks": tasks}
    return {**made, **changes}


def test_one_that_another_program_wrote_is_read(tmp_path: Path) -> None:
    found = read_trace(written(tmp_path, document()))
    assert (len(found), found.tasks[0].name) == (1, "init")


@pytest.mark.parametrize(
    ("changes", "datum"),
    [
        ({"schema": "kentry/vector-trace/2"}, "kentry/vector-trace/2"),
        ({"schema": "kentry/vector-trace/x"}, "kentry/vector-trace/x"),
        ({"schema": "kentry/recording/1"}, "kentry/recording/1"),
        ({"schema": None}, "None"),
        ({"tasks": []}, "table"),
        ({"tasks": [{"pid": 1}]}, "name"),
        ({"hz": 0}, "hz"),
        ({"complete": 1}, "complete"),
        ({"policy": "\x1b[2J"}, "printable"),
        ({"console_tail": "one\n\x1b[2J"}, "printable"),
        ({"tasks": [{"pid": 1, "name": "a\nb"}] * 5}, "printable"),
        ({"workload": {}}, "workload"),
        ({"trap_classes": ["25"]}, "trap_classes"),
        ({"arch": "vax"}, "vax"),
        ({"console_tail": "x" * (17 << 20)}, "foreign"),
    ],
)
def test_forbidden_metadata_is_an_error(
    tmp_path: Path, changes: dict[str, Any], datum: str
) -> None:
    with pytest.raises(UserError, match=datum) as caught:
        read_trace(written(tmp_path, document(**changes)))
    assert caught.value.exit_code == 2
    assert "\n" not in caught.value.sentence


@pytest.mark.parametrize("data", [b"", b"PAR1", b"{}", b"PAR1" * 20, bytes(1000), None])
def test_a_foreign_file_is_an_error(file: Path, data: bytes | None) -> None:
    if data is None:
        pq.write_table(pa.table({"a": [1]}), file)
    else:
        file.write_bytes(data)
    for path in (file, file.with_name("none"), file.parent):
        with pytest.raises(UserError, match=path.name):
            read_trace(path)


@pytest.mark.parametrize(("column", "value"), [("event", 99), ("task", 4), ("arg", -1), ("arg", 4)])
def test_events_of_unknown_kinds_or_tasks_are_an_error(file: Path, column: str, value: int) -> None:
    trace = trace_of([(Event.SWITCH_BLOCKED, 1, 10, 2)] * 3)
    getattr(trace, column)[1] = value
    save(file, trace)
    with pytest.raises(UserError):
        read_trace(file)


def test_control_characters_in_names_are_not_written(file: Path) -> None:
    evil = Task(1, "a\x1b[2J\n", ("\x07", "é"), -1)
    meta = {**META, "complete": False, "console_tail": "one\r\ntwo\x1b[0m"}
    write_trace(file, meta, [evil], [([4], [0], [1], [1], [0])])
    found = read_trace(file)
    assert found.tasks == (Task(1, "a?[2J?", ("?", "é"), -1),)
    assert found.meta["console_tail"] == "one?\ntwo?[0m"


def test_a_trace_of_more_events_than_memory_holds_is_refused(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(file, SAMPLE)
    monkeypatch.setattr("kentry.vector.trace._MOST_EVENTS", 1)
    with pytest.raises(UserError):
        read_trace(file)
