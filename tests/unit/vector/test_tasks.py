# SPDX-License-Identifier: GPL-2.0-or-later
"""The plugin's two files, whole and cut."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import numpy as np
import pytest

from kentry.errors import TraceError
from kentry.vector import tracing as tasks_module
from kentry.vector.trace import Event, Task
from kentry.vector.tracing import TaskTable, read_records, read_task_table
from tests import ROOT

Row = tuple[int, int, Event, int, int]  # instructions, ns, event, task, arg

SH, PS = b"sh".hex(), "ps\x1b[2J\xff".encode("latin-1").hex()
TABLE = f"""\
task 0 -1 0 1
name 0 {b"swapper/0".hex()}
begin 1000 5000
task 2 -1 1 0
name 2 {SH}
task 3 2 17 0
name 3 {SH}
name 3 {PS}
name 3 {SH}
end 2000 6000 12
"""


def table_of(folder: Path, text: str) -> TaskTable:
    file = folder / "events.tasks"
    file.write_text(text)
    return read_task_table(file)


def raw(*rows: Row) -> bytes:
    return b"".join(
        struct.pack("<QQIi", instructions, ns, task << 8 | event, arg)
        for instructions, ns, event, task, arg in rows
    )


def records_of(folder: Path, data: bytes) -> list[tuple[int, ...]]:
    """All rows as (event, task, instructions, ns, arg)."""
    (folder / "events").write_bytes(data)
    chunks = list(read_records(folder / "events"))
    return [tuple(map(int, row)) for columns in chunks for row in zip(*columns, strict=True)]


# --- tasks ---------------------------------------------------------------


def test_tasks_by_number_with_all_their_names(tmp_path: Path) -> None:
    table = table_of(tmp_path, TABLE)
    strange = "ps\x1b[2J\ufffd"
    assert table.tasks == [
        Task(0, "swapper/0", ("swapper/0",), -1, True),
        Task(0, "", (), -1, False),  # a fork that failed: it never ran
        Task(1, "sh", ("sh",), -1, False),
        Task(17, "sh", ("sh", strange), 2, False),
    ]
    assert table.begin == (1000, 5000)
    assert table.records >= 0


@pytest.mark.parametrize("length", range(0, len(TABLE), 7))
def test_a_list_cut_anywhere_is_read_to_its_last_whole_line(tmp_path: Path, length: int) -> None:
    table = table_of(tmp_path, TABLE[:length])
    whole = TABLE[:length].count("\n")
    assert (table.begin is not None) == (whole >= 3)
    assert len(table.tasks) == (0 if whole < 1 else 1 if whole < 4 else 3 if whole < 6 else 4)
    assert table.records == -1


@pytest.mark.parametrize(
    "line",
    [
        *("", "nonsense 1", "task 1 -1", "task 1 -1 5 0 0", "task one -1 5 0"),
        *("name 9 6162", "name 0 6", "name 0", "begin 1", "begin x 1"),
    ],
)
def test_a_line_that_is_none_of_the_plugins_is_said(tmp_path: Path, line: str) -> None:
    with pytest.raises(TraceError) as caught:
        table_of(tmp_path, f"task 0 -1 0 1\n{line}\n")
    assert f"'{line}'" in caught.value.sentence
    with pytest.raises(TraceError, match="No such file"):
        read_task_table(tmp_path / "none")


def test_tasks_that_never_ran_are_nobody(tmp_path: Path) -> None:
    """A trace names no task that is not in its table: not that of a fork cut in the middle."""
    table = table_of(tmp_path, TABLE)
    rows = raw((1, 1, Event.FORK, 3, 5), (2, 2, Event.SYSCALL, 4, 1000))
    (tmp_path / "events").write_bytes(rows)
    for columns in read_records(tmp_path / "events"):
        table.cover(columns)
        table.cover(columns)
    assert len(table.tasks) == 6
    assert table.tasks[4] == table.tasks[5] == Task(0, "", (), -1, False)
    none = tuple(np.array([], dtype=kind) for kind in (np.uint8, np.uint32, "u8", "u8", np.int32))
    table.cover(none)
    assert len(table.tasks) == 6


# --- records -------------------------------------------------------------


def test_records_as_columns(tmp_path: Path) -> None:
    rows = (
        (1, 2, Event.SYSCALL, 3, 64),
        (1 << 40, 1 << 41, Event.SWITCH_BLOCKED, (1 << 24) - 1, 7),
        (1 << 40, 1 << 41, Event.FAULT, 0, -1),
    )
    assert records_of(tmp_path, raw(*rows)) == [
        (1, 3, 1, 2, 64),
        (8, (1 << 24) - 1, 1 << 40, 1 << 41, 7),
        (2, 0, 1 << 40, 1 << 41, -1),
    ]
    (columns,) = read_records(tmp_path / "events")
    assert [one.dtype.str[1:] for one in columns] == ["u1", "u4", "u8", "u8", "i4"]


@pytest.mark.parametrize("cut", range(1, 25))
def test_half_a_record_is_left_out(tmp_path: Path, cut: int) -> None:
    rows = [(i, i, Event.EXIT, i, 0) for i in range(5)]
    assert len(records_of(tmp_path, raw(*rows)[:-cut])) == 4


def test_a_chunk_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks_module, "_CHUNK", 4)
    data = raw(*((i, i, Event.EXIT, 1, 0) for i in range(10)))
    (tmp_path / "events").write_bytes(data)
    assert [len(columns[0]) for columns in read_records(tmp_path / "events")] == [4, 4, 2]
    assert len(records_of(tmp_path, data)) == 10


def test_the_rows_of_za_are_one_event(tmp_path: Path) -> None:
    def rows(event: Event, start: int, task: int = 1) -> list[Row]:
        return [(start + 3 * i, start + 3 * i, event, task, 0) for i in range(16)]

    data = raw(
        *rows(Event.SEEN_ZA_SAVE, 1000),
        *rows(Event.SEEN_ZA_RESTORE, 1048),  # at once, but another event
        *rows(Event.SEEN_ZA_RESTORE, 1096, task=2),  # another task
        *rows(Event.SEEN_ZA_RESTORE, 1160, task=2),  # some instructions later
    )
    found = [(event, task, at) for event, task, at, _, _ in records_of(tmp_path, data)]
    assert found == [
        (Event.SEEN_ZA_SAVE, 1, 1000),
        *((Event.SEEN_ZA_RESTORE, *row) for row in ((1, 1048), (2, 1096), (2, 1160))),
    ]
    # No other event is merged.
    assert len(records_of(tmp_path, raw(*rows(Event.SEEN_FLUSH, 10)))) == 16


def test_the_plugins_numbers_are_the_traces() -> None:
    """plugin/events.h and tasks_isa.h say the numbers a second time."""
    folder = ROOT / "plugin"
    found = re.findall(r"EVENT_(\w+) = (\d+),", (folder / "events.h").read_text())
    assert {name: Event[name] for name, _ in found} == {name: int(n) for name, n in found}
    assert len(found) >= 11
    # In this order from 1 on.
    assert "ENTRY_SYSCALL = 1, ENTRY_FAULT, ENTRY_INTERRUPT" in (folder / "tasks_isa.h").read_text()
    assert [Event.SYSCALL, Event.FAULT, Event.INTERRUPT] == [1, 2, 3]
