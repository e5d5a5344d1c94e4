# SPDX-License-Identifier: GPL-2.0-or-later
"""What the tasks plugin wrote -> the columns and the task table of a trace.

The two files are described in plugin/events.h.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kentry.errors import TraceError
from kentry.vector.trace import OF_TWO_TASKS, Event, Task

_RECORD = np.dtype([("instructions", "<u8"), ("ns", "<u8"), ("task_event", "<u4"), ("arg", "<i4")])
_EVENT_BITS = 8
# Records converted at a time: 24 MB.
_CHUNK = 1 << 20

# ZA is saved and restored row by row, in a loop of three instructions (arch/arm64/include/asm/
# fpsimdmacros.h, _sme_za_loop); rows so close to each other, in instructions, are one event.
_ZA_ROW = 8
_ROWS = (Event.SEEN_ZA_SAVE, Event.SEEN_ZA_RESTORE)


@dataclass
class _Known:
    pid: int
    parent: int
    kernel: bool
    names: list[str] = field(default_factory=list)

    def task(self) -> Task:
        names = tuple(dict.fromkeys(self.names))
        return Task(self.pid, self.names[-1] if names else "", names, self.parent, self.kernel)


_NOBODY = _Known(0, -1, False)


@dataclass
class TaskTable:
    """The tasks by number, and whether the plugin got to its end.

    `begin` is when recording began, in instructions and ns; None where it never did.
    `records`: how many the plugin wrote, -1 where it did not get to say so.
    """

    tasks: list[Task] = field(default_factory=list)
    begin: tuple[int, int] | None = None
    ended: bool = False
    records: int = -1

    def cover(self, columns: tuple[npt.NDArray[Any], ...]) -> None:
        """Adds a nobody for every task of `columns` that never ran: its fork failed or was cut."""
        event, task, _, _, arg = columns
        others = arg[np.isin(event, _as_numbers(OF_TWO_TASKS))]
        last = max(int(task.max(initial=0)), int(others.max(initial=0)))
        self.tasks += [_NOBODY.task()] * (last + 1 - len(self.tasks))


def read_task_table(file: Path) -> TaskTable:
    """Reads FILE.tasks; TraceError where it is not what the plugin writes.

    The last line may be half a line: the emulator may have been killed.
    """
    known: dict[int, _Known] = {}
    table = TaskTable()
    for line in _whole_lines(file):
        try:
            _take(line.split(" "), known, table)
        except (ValueError, KeyError, IndexError) as err:
            raise TraceError(f"The plugin's list of tasks has the line '{line}'.") from err
    table.tasks = [known.get(i, _NOBODY).task() for i in range(max(known, default=-1) + 1)]
    return table


def _whole_lines(file: Path) -> list[str]:
    try:
        text = file.read_text(encoding="ascii", errors="replace")
    except OSError as err:
        raise TraceError(f"The plugin wrote no list of tasks: {err.strerror}.") from err
    return text.split("\n")[:-1]


def _take(words: list[str], known: dict[int, _Known], table: TaskTable) -> None:
    kind, numbers = words[0], words[1:]
    if kind == "task":
        number, parent, pid, kernel = map(int, numbers)
        known[number] = _Known(pid, parent, bool(kernel))
    elif kind == "name":
        known[int(numbers[0])].names.append(bytes.fromhex(numbers[1]).decode(errors="replace"))
    elif kind == "begin":
        table.begin = (int(numbers[0]), int(numbers[1]))
    elif kind == "end":
        table.ended = True
        table.records = int(numbers[2])
    else:
        raise ValueError(kind)


def count_records(file: Path) -> int:
    """How many whole records a file has."""
    return file.stat().st_size // _RECORD.itemsize


def read_records(file: Path) -> Iterator[tuple[npt.NDArray[Any], ...]]:
    """The columns of a trace, some million rows at a time; half a record at the end is left out."""
    with open(file, "rb") as source:
        while True:
            rows = np.fromfile(source, dtype=_RECORD, count=_CHUNK)
            if not len(rows):
                return
            yield _columns(rows)


def _columns(rows: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], ...]:
    event = (rows["task_event"] & ((1 << _EVENT_BITS) - 1)).astype(np.uint8)
    task = (rows["task_event"] >> _EVENT_BITS).astype(np.uint32)
    keep = ~_is_next_row(event, task, rows["instructions"])
    columns = (event, task, rows["instructions"], rows["ns"], rows["arg"])
    return tuple(column[keep] for column in columns)


def _is_next_row(
    event: npt.NDArray[np.uint8], task: npt.NDArray[np.uint32], instructions: npt.NDArray[np.uint64]
) -> npt.NDArray[np.bool_]:
    """Which records are but another row of the same saving or restoring of ZA."""
    same = np.zeros(len(event), dtype=np.bool_)
    close = np.diff(instructions) <= _ZA_ROW
    same[1:] = np.isin(event[1:], _as_numbers(_ROWS)) & close
    same[1:] &= (event[1:] == event[:-1]) & (task[1:] == task[:-1])
    return same


def _as_numbers(events: Iterable[Event]) -> list[int]:
    return [event.value for event in events]
