# SPDX-License-Identifier: GPL-2.0-or-later
"""Vector trace: what a policy for vector state decides on, event by event, in one Parquet file.

The format is kentry/vector-trace/1 (schema/vector-trace-1.schema.json, docs/formats.md).  Behind
every row group stands a footer for all rows so far, so that a file cut short, by a full disk or
a killed guest, is read up to its last whole row group.
"""

from __future__ import annotations

import contextlib
import enum
import io
import json
import mmap
import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from kentry import __version__
from kentry.errors import UserError
from kentry.host.cache import no_space_is_an_error

KIND = "kentry/vector-trace/"
VERSION = 1
SCHEMA = f"{KIND}{VERSION}"

# Rows of a row group: some 200 KB in the file, what is lost at most where it is cut short.
ROW_GROUP = 1 << 16

# The key of the file's metadata under which ours stands, as JSON.
METADATA_KEY = b"kentry"


class Event(enum.IntEnum):
    """What happened; `arg` is 0 where nothing else is said.

    Nested kernel entries (an interrupt in the kernel) are not there.  After SYSCALL a task is in
    a system call until its next EXIT, whatever is switched to between.  A new task's first event
    is an EXIT; kernel threads, and task 0 (the idle task), have none.
    """

    # The task enters the kernel by a system call; arg: its number, -1 where not known.
    SYSCALL = 1
    # An exception from user mode; arg: its class (arm64 ESR_EL1.EC, riscv scause, x86 -1).
    FAULT = 2
    # An interrupt was taken from user mode.
    INTERRUPT = 3
    # The task, which is running, returns to user mode.
    EXIT = 4
    # arg: vector instructions in the user interval that ends just now.  It stands right before
    # the entry that ends it, with the time of the first of them.  One that traps is counted at
    # the trap and again at its retry.
    USE = 5
    # The same for SME instructions, smstart and smstop among them.
    USE_SME = 6
    # arg: bit 0 PSTATE.SM, bit 1 PSTATE.ZA at a kernel entry; only where it changed (0 at first).
    SVCR = 7
    # The cpu goes from the task to task arg; blocked: the task is not runnable any more.
    SWITCH_BLOCKED = 8
    SWITCH_PREEMPTED = 9
    # The task made task arg, a process or a thread.
    FORK = 10
    EXEC = 11
    DIE = 12
    # A handler's frame was set up; the handler returned.
    SIGNAL = 13
    SIGRETURN = 14
    # kernel_neon_begin(), kernel_vector_begin(), kernel_fpu_begin(), and their ends.
    KERNEL_USE = 15
    KERNEL_USE_END = 16
    # What the traced kernel did to the running task's state.
    SEEN_TRAP = 32
    SEEN_FLUSH = 33
    SEEN_DROP = 34
    SEEN_SAVE = 35
    SEEN_RESTORE = 36
    # arm64: only what FP shares with SVE.
    SEEN_SMALL_SAVE = 37
    SEEN_SMALL_RESTORE = 38
    SEEN_SMSTOP = 39
    SEEN_SME_TRAP = 40
    SEEN_ZA_SAVE = 41
    SEEN_ZA_RESTORE = 42


# Those whose arg is a task.
OF_TWO_TASKS = (Event.SWITCH_BLOCKED, Event.SWITCH_PREEMPTED, Event.FORK)

# The columns, in the file's order.  `instructions` are those that the cpu dispatched since power
# on, `ns` the guest's virtual time.
COLUMNS: dict[str, npt.DTypeLike] = {
    "event": np.uint8,
    "task": np.uint32,
    "instructions": np.uint64,
    "ns": np.uint64,
    "arg": np.int32,
}


@dataclass(frozen=True)
class Task:
    """A thread: its last name and all that it had, its parent's index in the table or -1."""

    pid: int
    name: str
    names: tuple[str, ...] = ()
    parent: int = -1
    kernel: bool = False


@dataclass(frozen=True, eq=False)
class VectorTrace:
    """A trace in memory: a row an event, in the order in which they happened on the one cpu.

    `task` is an index into `tasks`; `meta` is as in the file, without the task table.
    """

    event: npt.NDArray[np.uint8]
    task: npt.NDArray[np.uint32]
    instructions: npt.NDArray[np.uint64]
    ns: npt.NDArray[np.uint64]
    arg: npt.NDArray[np.int32]
    tasks: tuple[Task, ...]
    meta: Mapping[str, Any]

    def __len__(self) -> int:
        return len(self.event)

    @property
    def columns(self) -> tuple[npt.NDArray[Any], ...]:
        """The arrays in the file's order."""
        return self.event, self.task, self.instructions, self.ns, self.arg

    @property
    def seconds(self) -> float:
        """The guest's virtual time from the first to the last event."""
        return (int(self.ns[-1]) - int(self.ns[0])) / 1e9 if len(self) else 0.0


def at_speed(trace: VectorTrace, speed: float) -> VectorTrace:
    """The trace with a cpu that dispatches `speed` instructions a ns: what was slept stays.

    The emulated one dispatches one (-icount shift=0), so `ns` less `instructions` is what was
    slept, from power on.  What would have happened otherwise in another order stays as it was.
    """
    slept = trace.ns.astype(np.float64) - trace.instructions
    ns = slept + trace.instructions / speed
    # A use stands behind what came after its first instruction; all else is in order.
    return replace(trace, ns=np.maximum(ns, 0).round().astype(np.uint64))


@dataclass(frozen=True)
class Cut:
    """What is missing of a trace that was cut short: of `rows_lost` and `seconds_lost` its
    beginning tells; where `at_least` more may be, as it was never finished.
    """

    rows: int
    rows_lost: int
    seconds_lost: float
    at_least: bool

    def sentence(self, name: object) -> str:
        """What a reader must know of the trace called `name`."""
        head = f"{name} is cut short: {self.rows} events are whole and were read, "
        if not self.rows_lost:
            return f"{head}and it was never finished: what came after them is not in it."
        least = "at least " if self.at_least else ""
        return f"{head}{least}{self.rows_lost} ({self.seconds_lost:.3f} s) are missing."


# --- the file ------------------------------------------------------------

_MAGIC = b"PAR1"

# Between Parquet's magic and the first row group: how much was written, for those who find less.
_HEAD = 128
_HEAD_FORM = re.compile(
    rb"PAR1 kentry/vector-trace/\d+ +(\d+) rows, from +(\d+) to +(\d+) ns, (open|done) *\n"
)

_NOT_ONE = "kentry vector trace SPEC -o FILE -- WORKLOAD makes one."
_AGAIN = "Make it again with kentry vector trace."
# Of what went wrong inside a file, so many characters are shown.
_ERROR_LENGTH = 100

# Times grow, so their differences are small; the others have few values.  Measured on 5 million
# events: level 3 of zstd takes 1 % more room than level 9, and half the time to write.
_DELTA = ("instructions", "ns")
_ARROW = pa.schema(
    [pa.field(name, pa.from_numpy_dtype(kind), nullable=False) for name, kind in COLUMNS.items()]
)


_PADDING = bytes(1 << 20)


@dataclass(frozen=True)
class _Head:
    rows: int = 0
    first: int = 0
    last: int = 0
    done: bool = False

    def line(self) -> bytes:
        text = (
            f" {SCHEMA} {self.rows:>14} rows, from {self.first:>19} to {self.last:>19} ns,"
            f" {'done' if self.done else 'open'}"
        )
        return _MAGIC + text.ljust(_HEAD - len(_MAGIC) - 1).encode() + b"\n"

    @staticmethod
    def of(data: bytes) -> _Head | None:
        """What a file's beginning says; None where it is not ours."""
        found = _HEAD_FORM.fullmatch(data)
        if not found:
            return None
        rows, first, last = (int(found[i]) for i in (1, 2, 3))
        return _Head(rows, first, last, found[4] == b"done")


class _Part(io.BytesIO):
    """Takes what is written from position `start` on, and not what comes before."""

    def __init__(self, start: int) -> None:
        super().__init__()
        self.missing = start

    def write(self, data: Any) -> int:
        skipped = min(self.missing, len(data))
        self.missing -= skipped
        return skipped + super().write(memoryview(data)[skipped:])


def _row_group(columns: Sequence[npt.NDArray[Any]], start: int) -> tuple[memoryview, Any]:
    """A row group's bytes for the place `start` of a file, and its Parquet metadata."""
    part, found = _Part(start), list[Any]()
    # Parquet's writer begins at 0 and takes places in the file from what went into `sink`:
    # as many bytes are put before the row group as the file has by then, and not kept.
    sink = pa.PythonFile(part, "w")
    with pq.ParquetWriter(
        sink,
        _ARROW,
        compression="zstd",
        compression_level=3,
        use_dictionary=[name for name in COLUMNS if name not in _DELTA],
        column_encoding=dict.fromkeys(_DELTA, "DELTA_BINARY_PACKED"),
        write_page_checksum=True,
        store_schema=False,
        metadata_collector=found,
    ) as writer:
        while room := start - sink.tell():
            sink.write(_PADDING[:room])
        writer.write_table(pa.table(list(columns), schema=_ARROW), row_group_size=ROW_GROUP)
    # It puts a footer for this row group alone behind it: length and magic are the last 8 bytes.
    data = part.getbuffer()
    return data[: -8 - int.from_bytes(data[-8:-4], "little")], found[0]


def _footer(groups: Sequence[Any], document: Mapping[str, Any]) -> bytes:
    """Parquet's footer for the row groups, with our metadata as JSON."""
    text = json.dumps(document, allow_nan=False, separators=(",", ":"))
    empty, file = list[Any](), io.BytesIO()
    with pq.ParquetWriter(
        io.BytesIO(), _ARROW, store_schema=False, metadata_collector=empty
    ) as writer:
        writer.add_key_value_metadata({METADATA_KEY: text.encode()})
    for group in groups:
        empty[0].append_row_groups(group)
    empty[0].write_metadata_file(file)
    return file.getvalue()[len(_MAGIC) :]


class TraceWriter:
    """Writes a trace while it is recorded: append() columns, then finish().

        with TraceWriter(path, meta, tasks) as writer:
            writer.append(event, task, instructions, ns, arg)

    `meta` and `tasks` are the caller's, who may add to them: each footer has them as they stand.
    The file appears under its name when the block ends well; when it does not, there is none, or,
    with `keep`, one of what was whole, its "complete" false.  UserError: no space, not allowed.
    """

    def __init__(
        self, path: Path, meta: Mapping[str, Any], tasks: Sequence[Task], *, keep: bool = False
    ) -> None:
        self.path = path.resolve()
        self.meta = meta
        self.tasks = tasks
        self.keep = keep
        self.rows = 0
        self._groups: list[Any] = []
        self._waiting: list[tuple[npt.NDArray[Any], ...]] = []
        self._waiting_rows = 0
        self._head = _Head()
        if self.path.exists() and not self.path.is_file():
            raise UserError(f"{path} is not a file.", "Name a file for the trace with -o.")
        with no_space_is_an_error(self.path):
            handle, self._name = tempfile.mkstemp(
                dir=self.path.parent, prefix=f".{self.path.name[:100]}."
            )
            self._file = os.fdopen(handle, "wb")
            self._file.write(self._head.line())

    def __enter__(self) -> TraceWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._file.closed:
            return
        if kind is None:
            self.finish()
        else:
            self.abort()

    def append(self, *columns: npt.ArrayLike) -> None:
        """Adds events: an array a column, all of one length, in the order of COLUMNS."""
        arrays = tuple(
            np.array(one, dtype=kind) for one, kind in zip(columns, COLUMNS.values(), strict=True)
        )
        if {one.shape for one in arrays} != {(len(arrays[0]),)}:
            raise ValueError("columns of a trace that are not equally long")
        self._waiting.append(arrays)
        self._waiting_rows += len(arrays[0])
        while self._waiting_rows >= ROW_GROUP:
            self._flush(ROW_GROUP)

    def _flush(self, rows: int, *, done: bool = False) -> None:
        """Writes a row group of the first `rows` that wait, and a footer for all."""
        merged = [np.concatenate(parts) for parts in zip(*self._waiting, strict=True)]
        self._waiting = [tuple(one[rows:] for one in merged)]
        self._waiting_rows -= rows
        with no_space_is_an_error(self.path):
            if rows:
                self._write_rows([one[:rows] for one in merged])
            self._file.write(_footer(self._groups, self._document(done)))
            self._write_head(done)

    def _write_rows(self, columns: Sequence[npt.NDArray[Any]]) -> None:
        data, group = _row_group(columns, self._file.tell())
        self._file.write(data)
        self._groups.append(group)
        ns = columns[list(COLUMNS).index("ns")]
        first = self._head.first if self.rows else int(ns[0])
        self.rows += len(ns)
        self._head = _Head(self.rows, first, int(ns[-1]))

    def _write_head(self, done: bool) -> None:
        """Last of all: the beginning never promises what is not there."""
        self._file.flush()
        os.pwrite(self._file.fileno(), replace(self._head, done=done).line(), 0)

    def _document(self, done: bool) -> dict[str, Any]:
        meta = {name: _cleaned(value) for name, value in self.meta.items()}
        return {
            **meta,
            "schema": SCHEMA,
            "tool": {"name": "kentry", "version": __version__},
            "complete": done and bool(meta.get("complete")),
            "done": done,
            "tasks": [_task_to_json(task) for task in self.tasks],
        }

    def finish(self) -> None:
        """Writes what waits and the last footer; the file appears under its name."""
        try:
            self._flush(self._waiting_rows, done=True)
            self._publish()
        except BaseException:
            self.abort()
            raise

    def abort(self) -> None:
        """Ends it before its end: nothing is left, or, with `keep`, what was whole."""
        if self._file.closed:
            return
        if not (self.keep and (self.rows or self._waiting_rows)):
            self._discard()
            return
        # Where there is no space for the rest: the file up to its last footer is whole.
        with contextlib.suppress(UserError):
            self.meta = {**self.meta, "complete": False}
            self._flush(self._waiting_rows, done=True)
        self._publish()

    def _publish(self) -> None:
        with no_space_is_an_error(self.path):
            try:
                self._file.flush()
                os.fsync(self._file.fileno())
                os.chmod(self._name, 0o644)
                os.replace(self._name, self.path)
                self._file.close()
            except BaseException:
                self._discard()
                raise

    def _discard(self) -> None:
        for clean_up in (self._file.close, lambda: os.unlink(self._name)):
            with contextlib.suppress(OSError):
                clean_up()


def write_trace(path: Path, trace: VectorTrace) -> None:
    """Writes a trace that is in memory, whole or not at all."""
    with TraceWriter(path, trace.meta, trace.tasks) as writer:
        writer.append(*trace.columns)


def _printable(text: str) -> str:
    """The same with "?" for what could move a terminal's cursor: a task names itself."""
    return "".join(char if char.isprintable() else "?" for char in text)


def _cleaned(value: Any) -> Any:
    """The same with only printable text in it; a console's lines remain lines."""
    if isinstance(value, str):
        return "\n".join(map(_printable, value.split("\n")))
    if isinstance(value, Mapping):
        return {_cleaned(name): _cleaned(item) for name, item in value.items()}
    return [_cleaned(item) for item in value] if isinstance(value, list | tuple) else value


def _task_to_json(task: Task) -> dict[str, Any]:
    return {
        "pid": task.pid,
        "name": _printable(task.name),
        "names": [_printable(name) for name in task.names],
        "parent": task.parent,
        "kernel": task.kernel,
    }


def read_trace(path: Path, *, ns: tuple[int, int] | None = None) -> tuple[VectorTrace, Cut | None]:
    """The trace in `path`, and what is missing of it if it was cut short.

    With `ns`, the events from the first to before the second time; only row groups that have
    some are read.  UserError says why it cannot be read at all.
    """
    data = _mapped(path)
    head = _Head.of(data[:_HEAD])
    file, document = _opened(data, path)
    _check_schema(document, path)
    try:
        meta, tasks = _from_json(document)
        trace = VectorTrace(**_columns(file, ns), tasks=tasks, meta=meta)
        _check_events(trace)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OSError) as err:
        what = f"{type(err).__name__}: {str(err)[:_ERROR_LENGTH]}"
        raise UserError(f"{path} is not a whole trace: {what}.", _AGAIN) from err
    return trace, None if document["done"] else _cut(file, head or _Head())


def _mapped(path: Path) -> mmap.mmap:
    try:
        with path.open("rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as err:
        raise UserError(f"{path} cannot be read: {err.strerror}.", "Name a trace's file.") from err
    except ValueError as err:
        raise UserError(f"{path} is empty.", _NOT_ONE) from err


def _opened(data: mmap.mmap, path: Path) -> tuple[Any, dict[str, Any]]:
    """The Parquet file up to the last footer that is whole, and that footer's JSON."""
    begun = data[: len(_MAGIC) + 1 + len(KIND)] == _MAGIC + b" " + KIND.encode()
    # Not the mapping that Python owns: a thread of Arrow's that lets go of it as Python ends
    # would take the process down.
    buffer = pa.memory_map(str(path)).read_buffer()
    for end in _ends(data, everywhere=begun):
        with contextlib.suppress(pa.ArrowException, OSError, ValueError, KeyError, TypeError):
            file = pq.ParquetFile(
                pa.BufferReader(buffer.slice(0, end)),
                page_checksum_verification=True,
                pre_buffer=False,
            )
            document = json.loads(file.metadata.metadata[METADATA_KEY], parse_constant=_refuse)
            if isinstance(document, dict):
                return file, document
    if begun:
        raise UserError(f"{path} is cut short before its first whole row group.", _AGAIN)
    raise UserError(f"{path} is not a vector trace.", _NOT_ONE)


def _ends(data: mmap.mmap, *, everywhere: bool) -> Iterator[int]:
    """Where a footer may end, the last first: at the end of the file, or anywhere before."""
    end = len(data)
    while (found := data.rfind(_MAGIC, 0, end)) > len(_MAGIC):
        end = found + len(_MAGIC)
        if not everywhere and end < len(data):
            return
        length = int.from_bytes(data[found - 4 : found], "little")
        if (
            len(_MAGIC) <= found - 4 - length
            and data.find(METADATA_KEY, found - 4 - length, found) > 0
        ):
            yield end
        end -= 1


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not a number")


def _check_schema(document: dict[str, Any], path: Path) -> None:
    schema = document.get("schema")
    if not isinstance(schema, str) or not schema.startswith(KIND):
        raise UserError(
            f"{path} is not a vector trace: its schema is {schema!r}, not {SCHEMA}.", _NOT_ONE
        )
    version = schema.removeprefix(KIND)
    if not re.fullmatch(r"[1-9][0-9]{0,8}", version) or int(version) > VERSION:
        raise UserError(
            f"{path} has schema {schema!r}; this kentry reads up to {SCHEMA}.",
            "Use a newer kentry.",
        )


def _times(file: Any, group: int) -> tuple[int, int]:
    """A row group's first and last time, from its statistics."""
    statistics = file.metadata.row_group(group).column(list(COLUMNS).index("ns")).statistics
    return int(statistics.min), int(statistics.max)


def _columns(file: Any, ns: tuple[int, int] | None) -> dict[str, npt.NDArray[Any]]:
    found = {field.name: field.type for field in file.schema_arrow}
    if found != {field.name: field.type for field in _ARROW}:
        raise ValueError(f"its columns are {', '.join(found)}, or of other types")
    groups = list(range(file.num_row_groups))
    if ns is not None:
        spans = [_times(file, group) for group in groups]
        groups = [i for i, (low, high) in enumerate(spans) if low < ns[1] and high >= ns[0]]
    table = file.read_row_groups(groups, use_threads=False)
    if any(table[name].null_count for name in COLUMNS):
        raise ValueError("values that are missing")
    columns = {name: table[name].to_numpy() for name in COLUMNS}
    if ns is None:
        return columns
    inside = (columns["ns"] >= ns[0]) & (columns["ns"] < ns[1])
    return {name: one[inside] for name, one in columns.items()}


def _cut(file: Any, head: _Head) -> Cut:
    rows = file.metadata.num_rows
    last = _times(file, file.num_row_groups - 1)[1] if rows else head.first
    lost = max(0, head.rows - rows)
    return Cut(rows, lost, (head.last - last) / 1e9 if lost else 0.0, not head.done)


# A trace may come from anyone: what is read below is what the schema says, or a ValueError.


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.isprintable():
        raise ValueError(f"{value!r} is not printable text")
    return value


def _whole(value: Any, low: int = 0) -> int:
    if type(value) is not int or value < low:
        raise ValueError(f"{value!r} is not a count")
    return value


def _clean(value: Any) -> Any:
    """The same, if no text in it can move a terminal's cursor."""
    if _cleaned(value) != value:
        raise ValueError(f"{str(value)[:_ERROR_LENGTH]!r} is not printable text")
    return value


def _task(value: Any, tasks: int) -> Task:
    parent, kernel = _whole(value["parent"], -1), value["kernel"]
    if parent >= tasks or type(kernel) is not bool:
        raise ValueError(f"{value!r} is not a task")
    return Task(
        _whole(value["pid"]),
        _text(value["name"]),
        tuple(_text(name) for name in value["names"]),
        parent,
        kernel,
    )


def _from_json(document: dict[str, Any]) -> tuple[dict[str, Any], tuple[Task, ...]]:
    rows = document["tasks"]
    tasks = tuple(_task(row, len(rows)) for row in rows)
    meta = {
        name: _clean(value) for name, value in document.items() if name not in ("tasks", "done")
    }
    for name in ("kernel", "target", "unit"):
        dict(meta[name])
    if type(meta["complete"]) is not bool or type(document["done"]) is not bool:
        raise ValueError("no word whether it is complete")
    if meta["hz"] is not None:
        _whole(meta["hz"], 1)
    for kind in meta["trap_classes"]:
        _whole(kind, -1)
    _text(meta["arch"]), _text(meta["policy"]), _text(meta["workload"]["name"])
    for caveat in meta["caveats"]:
        _text(caveat["kind"]), _text(caveat["text"])
    return meta, tasks


def _check_events(trace: VectorTrace) -> None:
    """Only events that are known, of tasks that are in the table."""
    known = np.zeros(256, bool)
    known[list(Event)] = True
    if not known[trace.event].all():
        raise ValueError("events that this kentry does not know")
    two = np.zeros(256, bool)
    two[list(OF_TWO_TASKS)] = True
    others = trace.arg[two[trace.event]]
    if len(trace) and (
        int(trace.task.max()) >= len(trace.tasks)
        or int(others.min(initial=0)) < 0
        or int(others.max(initial=0)) >= len(trace.tasks)
    ):
        raise ValueError("tasks that are not in its table")
