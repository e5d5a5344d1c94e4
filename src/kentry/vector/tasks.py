# SPDX-License-Identifier: GPL-2.0-or-later
"""What the tasks plugin wrote -> the columns and the task table of a trace.

plugin/events.h describes the two files.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from kentry.errors import TraceError
from kentry.vector.trace import OF_TWO_TASKS, Event, Task

_RECORD = np.dtype([("instructions", "<u8"), ("ns", "<u8"), ("task_event", "<u4"), ("arg", "<i4")])
_EVENT_BITS = 8
# Records converted at a time: 24 MB.
_CHUNK = 1 << 20

# ZA is saved and restored row by row, in a loop of three instructions (arch/arm64/include/asm/
# fpsimdmacros.h, _sme_za_loop); rows this close to each other, in instructions, are one event.
_ZA_ROW = 8
_ROWS = (Event.SEEN_ZA_SAVE, Event.SEEN_ZA_RESTORE)

# A task that never ran, because its fork failed or the trace ends before.
_NOBODY = Task(0, "")


@dataclass
class TaskTable:
    """The tasks by number, and how far the plugin got.

    `begin` is when recording began, in instructions and ns; None where it never did.
    `records`: how many the plugin wrote, -1 where it did not get to its end.
    """

    tasks: list[Task] = field(default_factory=list)
    begin: tuple[int, int] | None = None
    records: int = -1

    def cover(self, columns: tuple[npt.NDArray[Any], ...]) -> None:
        """Adds every task of `columns` that never ran."""
        event, task, _, _, arg = columns
        others = arg[np.isin(event, OF_TWO_TASKS)]
        last = max(int(task.max(initial=0)), int(others.max(initial=0)))
        self.tasks += [_NOBODY] * (last + 1 - len(self.tasks))


def read_task_table(file: Path) -> TaskTable:
    """Reads FILE.tasks; TraceError where it is not what the plugin writes.

    The last line may be half a line: the emulator may have been killed.
    """
    try:
        text = file.read_text(encoding="ascii", errors="replace")
    except OSError as err:
        raise TraceError(f"The plugin wrote no list of tasks: {err.strerror}.") from err
    tasks: dict[int, Task] = {}
    table = TaskTable()
    for line in text.split("\n")[:-1]:
        kind, *words = line.split(" ")
        try:
            if kind == "task":
                number, parent, pid, kernel = map(int, words)
                tasks[number] = Task(pid, "", (), parent, bool(kernel))
            elif kind == "name":
                number, name = int(words[0]), bytes.fromhex(words[1]).decode(errors="replace")
                names = tuple(dict.fromkeys((*tasks[number].names, name)))
                tasks[number] = msgspec.structs.replace(tasks[number], name=name, names=names)
            elif kind == "begin":
                table.begin = (int(words[0]), int(words[1]))
            elif kind == "end":
                table.records = int(words[2])
            else:
                raise ValueError(kind)
        except (ValueError, KeyError, IndexError) as err:
            raise TraceError(f"The plugin's list of tasks has the line '{line}'.") from err
    table.tasks = [tasks.get(number, _NOBODY) for number in range(max(tasks, default=-1) + 1)]
    return table


def count_records(file: Path) -> int:
    """Counts the whole records of a file."""
    return file.stat().st_size // _RECORD.itemsize


def read_records(file: Path) -> Iterator[tuple[npt.NDArray[Any], ...]]:
    """Yields columns of about a million rows at a time, without half a record at the end."""
    with open(file, "rb") as source:
        while len(rows := np.fromfile(source, dtype=_RECORD, count=_CHUNK)):
            event = (rows["task_event"] & ((1 << _EVENT_BITS) - 1)).astype(np.uint8)
            task = (rows["task_event"] >> _EVENT_BITS).astype(np.uint32)
            # Another row of the same saving or restoring of ZA is not an event.
            same_row = np.isin(event[1:], _ROWS) & (np.diff(rows["instructions"]) <= _ZA_ROW)
            same_row &= (event[1:] == event[:-1]) & (task[1:] == task[:-1])
            keep = np.concatenate([[True], ~same_row])
            columns = (event, task, rows["instructions"], rows["ns"], rows["arg"])
            yield tuple(column[keep] for column in columns)
