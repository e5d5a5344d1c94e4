# SPDX-License-Identifier: GPL-2.0-or-later
"""The trace's file: any reader's Parquet, whole up to wherever it is cut, refused if foreign."""

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kentry.errors import UserError
from kentry.vector import trace as module
from kentry.vector.trace import (
    COLUMNS,
    METADATA_KEY,
    Cut,
    Event,
    Task,
    TraceWriter,
    VectorTrace,
    read_trace,
    write_trace,
)
from tests import ROOT
from tests.unit.vector.traces import META, random_rows, same, trace_of

SCHEMA = json.loads((ROOT / "schema" / "vector-trace-1.schema.json").read_text())
GROUP = 512
SAMPLE = trace_of(random_rows(5 * GROUP + 100))


@pytest.fixture(autouse=True)
def _small_row_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROW_GROUP", GROUP)


def metadata(file: Path) -> Any:
    return json.loads(pq.read_metadata(file).metadata[METADATA_KEY])


def part(trace: VectorTrace, rows: slice) -> VectorTrace:
    event, task, instructions, ns, arg = (column[rows] for column in trace.columns)
    return VectorTrace(event, task, instructions, ns, arg, trace.tasks, trace.meta)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    file = tmp_path / "boot.trace"
    write_trace(file, SAMPLE)
    found, cut = read_trace(file)
    assert cut is None
    assert same(found, SAMPLE)
    assert found.tasks == SAMPLE.tasks
    assert {name: found.meta[name] for name in META} == META
    assert [entry.name for entry in tmp_path.iterdir()] == ["boot.trace"]


def test_it_is_parquet_for_anyone(tmp_path: Path) -> None:
    file = tmp_path / "boot.trace"
    write_trace(file, SAMPLE)
    table = pq.read_table(file)
    assert table.column_names == list(COLUMNS)
    for name, column in zip(COLUMNS, SAMPLE.columns, strict=True):
        assert np.array_equal(table[name].to_numpy(), column)
    assert pq.read_metadata(file).num_row_groups == 6


def test_the_metadata_is_as_the_schema_says(tmp_path: Path) -> None:
    file = tmp_path / "boot.trace"
    write_trace(file, SAMPLE)
    document = metadata(file)
    jsonschema.validate(document, SCHEMA)
    for name in SCHEMA["required"]:
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({k: v for k, v in document.items() if k != name}, SCHEMA)


def test_chunks_of_any_size_are_one_trace(tmp_path: Path) -> None:
    file, generator, place = tmp_path / "boot.trace", random.Random(7), 0
    with TraceWriter(file, SAMPLE.meta, SAMPLE.tasks) as writer:
        while place < len(SAMPLE):
            size = generator.choice([0, 1, 30, GROUP, 3 * GROUP])
            writer.append(*part(SAMPLE, slice(place, place + size)).columns)
            place += size
    assert writer.rows == len(SAMPLE)
    assert same(read_trace(file)[0], SAMPLE)


def test_a_chunk_may_be_used_again_by_its_owner(tmp_path: Path) -> None:
    file = tmp_path / "boot.trace"
    columns = [np.zeros(10, kind) for kind in COLUMNS.values()]
    with TraceWriter(file, {**META}, [Task(0, "swapper")]) as writer:
        columns[0][:] = Event.EXIT
        writer.append(*columns)
        columns[0][:] = Event.DIE
    assert set(read_trace(file)[0].event) == {Event.EXIT}


def test_columns_of_unequal_length_are_a_mistake(tmp_path: Path) -> None:
    with (
        pytest.raises(ValueError, match="equally long"),
        TraceWriter(tmp_path / "boot.trace", META, []) as writer,
    ):
        writer.append([1, 2], [0, 0], [0, 0], [0, 0], [0])
    assert not list(tmp_path.iterdir())


def test_a_trace_without_events_is_one(tmp_path: Path) -> None:
    file = tmp_path / "empty.trace"
    write_trace(file, trace_of([]))
    found, cut = read_trace(file)
    assert len(found) == 0
    assert found.seconds == 0
    assert cut is None


@given(
    st.lists(
        st.tuples(
            st.sampled_from(Event),
            st.integers(0, 2**64 - 1),
            st.integers(0, 2**64 - 1),
            st.integers(-(2**31), 2**31 - 1),
        ),
        max_size=40,
    )
)
def test_every_value_survives(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[Event, int, int, int]]
) -> None:
    file = tmp_path_factory.mktemp("trace") / "any.trace"
    rows = [(event, a, b, 1 if event in module.OF_TWO_TASKS else c) for event, a, b, c in rows]
    event, instructions, ns, arg = zip(*rows, strict=True) if rows else ((), (), (), ())
    written = VectorTrace(
        np.array(event, np.uint8),
        np.zeros(len(rows), np.uint32),
        np.array(instructions, np.uint64),
        np.array(ns, np.uint64),
        np.array(arg, np.int32),
        (Task(0, "swapper"), Task(1, "init")),
        META,
    )
    write_trace(file, written)
    assert same(read_trace(file)[0], written)


# --- part of it ----------------------------------------------------------


def test_a_part_of_the_time_reads_only_its_row_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, asked = tmp_path / "boot.trace", list[list[int]]()
    write_trace(file, SAMPLE)
    first, last = int(SAMPLE.ns[GROUP + 5]), int(SAMPLE.ns[2 * GROUP - 5])
    read = pq.ParquetFile.read_row_groups

    def noted(self: Any, groups: list[int], **how: Any) -> Any:
        asked.append(groups)
        return read(self, groups, **how)

    monkeypatch.setattr(pq.ParquetFile, "read_row_groups", noted)
    found, _ = read_trace(file, ns=(first, last))
    assert same(found, part(SAMPLE, (SAMPLE.ns >= first) & (SAMPLE.ns < last)))  # type: ignore[arg-type]
    assert asked == [[1]]
    assert len(read_trace(file, ns=(0, 5))[0]) == 0


# --- cut short -----------------------------------------------------------


def test_every_cut_is_read_up_to_its_last_whole_row_group(tmp_path: Path) -> None:
    file, cut_file = tmp_path / "boot.trace", tmp_path / "cut.trace"
    write_trace(file, SAMPLE)
    data, generator = file.read_bytes(), random.Random(3)
    first = data.index(b"PAR1", 10) + 4  # behind the first footer
    counts = set()
    for length in sorted(generator.sample(range(len(data)), 150)):
        cut_file.write_bytes(data[:length])
        if length < first:
            with pytest.raises(UserError):
                read_trace(cut_file)
            continue
        found, cut = read_trace(cut_file)
        assert cut is not None
        assert same(found, part(SAMPLE, slice(0, len(found))))
        assert len(found) % GROUP == 0 or len(found) == len(SAMPLE)
        lost = (int(SAMPLE.ns[-1]) - int(found.ns[-1])) / 1e9
        assert cut == Cut(len(found), len(SAMPLE) - len(found), lost, at_least=False)
        assert not found.meta["complete"]
        counts.add(len(found))
    assert counts >= {GROUP, 2 * GROUP, 3 * GROUP, 4 * GROUP}


def test_the_sentence_names_what_is_missing() -> None:
    known = Cut(1024, 512, 1.5, at_least=False)
    assert known.sentence("a.trace") == (
        "a.trace is cut short: 1024 events are whole and were read, 512 (1.500 s) are missing."
    )
    assert "at least 512" in replace(known, at_least=True).sentence("a.trace")
    assert "never finished" in Cut(1024, 0, 0.0, at_least=True).sentence("a.trace")


def test_a_writer_that_was_killed_leaves_what_it_had_flushed(tmp_path: Path) -> None:
    tasks = list(SAMPLE.tasks[:2])
    writer = TraceWriter(tmp_path / "boot.trace", META, tasks)
    tasks += SAMPLE.tasks[2:]  # seen after the first event, before the first footer
    writer.append(*part(SAMPLE, slice(0, 2 * GROUP + 5)).columns)
    (left,) = tmp_path.iterdir()
    found, cut = read_trace(left)
    assert same(found, part(SAMPLE, slice(0, 2 * GROUP)))
    assert found.tasks == SAMPLE.tasks
    assert cut == Cut(2 * GROUP, 0, 0.0, at_least=True)
    jsonschema.validate(metadata(left), SCHEMA)
    writer.abort()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("keep", [False, True])
def test_a_recording_that_fails_leaves_what_the_caller_wants(tmp_path: Path, keep: bool) -> None:
    file = tmp_path / "boot.trace"

    def record() -> None:
        with TraceWriter(file, META, SAMPLE.tasks, keep=keep) as writer:
            writer.append(*part(SAMPLE, slice(0, GROUP + 5)).columns)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        record()
    if not keep:
        assert not list(tmp_path.iterdir())
        return
    found, cut = read_trace(file)
    assert same(found, part(SAMPLE, slice(0, GROUP + 5)))
    assert cut is None
    assert found.meta["complete"] is False
    assert [entry.name for entry in tmp_path.iterdir()] == ["boot.trace"]


def test_a_full_disk_is_one_sentence_and_keeps_what_was_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    file = tmp_path / "boot.trace"

    def record() -> None:
        with TraceWriter(file, META, SAMPLE.tasks, keep=True) as writer:
            writer.append(*part(SAMPLE, slice(0, GROUP)).columns)
            monkeypatch.setattr(module, "_row_group", full)
            writer.append(*part(SAMPLE, slice(GROUP, 3 * GROUP)).columns)

    with pytest.raises(UserError, match="No space is left"):
        record()
    found, cut = read_trace(file)
    assert same(found, part(SAMPLE, slice(0, GROUP)))
    assert cut == Cut(GROUP, 0, 0.0, at_least=True)


def test_an_older_trace_stays_until_the_new_one_is_whole(tmp_path: Path) -> None:
    file = tmp_path / "boot.trace"
    file.write_text("older")
    with TraceWriter(file, META, SAMPLE.tasks) as writer:
        writer.append(*SAMPLE.columns)
        assert file.read_text() == "older"
    assert same(read_trace(file)[0], SAMPLE)


def test_damage_is_never_taken_for_events(tmp_path: Path) -> None:
    file, generator = tmp_path / "boot.trace", random.Random(5)
    write_trace(file, SAMPLE)
    data = file.read_bytes()
    for _ in range(150):
        damaged = bytearray(data)
        damaged[generator.randrange(len(data))] ^= 1 << generator.randrange(8)
        file.write_bytes(damaged)
        try:
            found, cut = read_trace(file)
        except UserError:
            continue
        assert same(found, part(SAMPLE, slice(0, len(found))))
        assert len(found) == len(SAMPLE) or cut is not None


# --- not one -------------------------------------------------------------


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
    found, cut = read_trace(written(tmp_path, document()))
    assert (len(found), cut, found.tasks[0].name) == (1, None, "init")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"schema": "kentry/vector-trace/2"}, "reads up to kentry/vector-trace/1"),
        ({"schema": "kentry/vector-trace/x"}, "reads up to kentry/vector-trace/1"),
        ({"schema": "kentry/recording/1"}, "is not a vector trace: its schema"),
        ({"schema": None}, "is not a vector trace: its schema is None"),
        ({"tasks": []}, "tasks that are not in its table"),
        ({"tasks": [{"pid": 1}]}, "not a whole trace"),
        ({"hz": 0}, "not a whole trace"),
        ({"complete": 1}, "whether it is complete"),
        ({"policy": "\x1b[2J"}, "printable"),
        ({"console_tail": "one\n\x1b[2J"}, "printable"),
        ({"workload": {}}, "not a whole trace"),
        ({"trap_classes": ["25"]}, "not a whole trace"),
    ],
)
def test_what_the_schema_forbids_is_one_sentence(
    tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(UserError, match=words) as caught:
        read_trace(written(tmp_path, document(**changes)))
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "is empty"),
        (b"PAR1", "not a vector trace"),
        (b"{}", "not a vector trace"),
        (b"PAR1" * 20, "not a vector trace"),
        (b"PAR1 kentry/vector-trace/1 ", "cut short before its first"),
        (bytes(1000), "not a vector trace"),
    ],
)
def test_a_foreign_file_is_one_sentence(tmp_path: Path, data: bytes, words: str) -> None:
    file = tmp_path / "foreign"
    file.write_bytes(data)
    with pytest.raises(UserError, match=words):
        read_trace(file)


def test_parquet_that_is_no_trace_is_one_sentence(tmp_path: Path) -> None:
    file = tmp_path / "table.parquet"
    pq.write_table(pa.table({"a": [1]}), file)
    with pytest.raises(UserError, match="not a vector trace"):
        read_trace(file)
    with pytest.raises(UserError, match="cannot be read"):
        read_trace(tmp_path / "none")
    with pytest.raises(UserError, match="cannot be read"):
        read_trace(tmp_path)


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        ("event", 99, "does not know"),
        ("task", 4, "not in its table"),
        ("arg", -1, "not in its table"),
        ("arg", 4, "not in its table"),
    ],
)
def test_events_of_nobody_are_refused(tmp_path: Path, column: str, value: int, words: str) -> None:
    file = tmp_path / "boot.trace"
    trace = trace_of([(Event.SWITCH_BLOCKED, 1, 10, 2)] * 3)
    getattr(trace, column)[1] = value
    write_trace(file, trace)
    with pytest.raises(UserError, match=words):
        read_trace(file)


def test_a_task_cannot_name_itself_out_of_a_terminal(tmp_path: Path) -> None:
    file = tmp_path / "boot.trace"
    evil = Task(1, "a\x1b[2J\n", ("\x07", "é"), -1)
    meta = {**META, "complete": False, "console_tail": "one\r\ntwo\x1b[0m"}
    with TraceWriter(file, meta, [evil]) as writer:
        writer.append([4], [0], [1], [1], [0])
    found, _ = read_trace(file)
    assert found.tasks == (Task(1, "a?[2J?", ("?", "é"), -1),)
    assert found.meta["console_tail"] == "one?\ntwo?[0m"


def test_a_device_is_not_written_over() -> None:
    with pytest.raises(UserError, match="/dev/null is not a file"):
        TraceWriter(Path("/dev/null"), META, [])
