# SPDX-License-Identifier: GPL-2.0-or-later
"""Vector trace: the events that a policy for vector state depends on, in one Parquet file.

The format is kentry/vector-trace/1 (schema/vector-trace-1.schema.json, docs/reference/formats.md).
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Meta

from kentry import __version__
from kentry.arch.mechanism import SME
from kentry.boot.task_hooks import OF_TWO_TASKS, Event
from kentry.errors import UserError
from kentry.host.cache import whole_file
from kentry.results.caveats import Caveat

KIND = "kentry/vector-trace/"
SCHEMA = f"{KIND}1"

# Rows of a row group: about 200 KB in the file.
_ROW_GROUP = 1 << 16

# The key of the Parquet file's metadata that has ours, as JSON.
METADATA_KEY = b"kentry"

Count = Annotated[int, Meta(ge=0)]


# The columns, in the file's order.  `instructions` are those that the cpu dispatched since power
# on, `ns` the guest's virtual time.
COLUMNS: dict[str, npt.DTypeLike] = {
    "event": np.uint8,
    "task": np.uint32,
    "instructions": np.uint64,
    "ns": np.uint64,
    "arg": np.int32,
}


class Task(msgspec.Struct, frozen=True):
    """A thread: its last name and all its names, its parent's index in the table or -1."""

    pid: Count
    name: str
    names: tuple[str, ...] = ()
    parent: Annotated[int, Meta(ge=-1)] = -1
    kernel: bool = False


class TraceKernel(msgspec.Struct):
    """The traced kernel, as in a recording."""

    spec: str
    release: str


class TraceTarget(msgspec.Struct):
    """The emulator, its machine and cpu model."""

    kind: str
    emulator: str


class TraceWorkload(msgspec.Struct):
    """What ran; `release` of the user space; `status` in the guest, null if it did not end."""

    name: str
    release: str | None = None
    status: int | None = None


class TraceUnit(msgspec.Struct):
    """The vector unit; `vl` is its length in bits."""

    vl: Annotated[int, Meta(ge=64)] | None = None


class TraceMeta(msgspec.Struct, tag_field="schema", tag=SCHEMA):
    """The metadata of a vector trace: the JSON under the key "kentry" of its Parquet footer.

    `hz` is CONFIG_HZ, `policy` the traced kernel's own, `trap_classes` the exceptions that a first
    use may raise: arg of FAULT.  `complete`: the recording got to the workload's end.
    """

    tool: dict[str, str]
    arch: Literal["x86_64", "arm64", "riscv64"]
    kernel: TraceKernel
    target: TraceTarget
    workload: TraceWorkload
    unit: TraceUnit
    hz: Annotated[int, Meta(ge=1)] | None
    policy: Annotated[str, Meta(min_length=1)]
    trap_classes: list[Annotated[int, Meta(ge=-1)]]
    complete: bool
    done: bool
    caveats: list[Caveat]
    tasks: list[Task]
    console_tail: str = ""


# What a file's own table of tasks makes its reader raise.
_DAMAGED = (KeyError, TypeError, ValueError, RecursionError)


def release_of(release: str) -> tuple[int, int]:
    """Reads a kernel's version and patch level, (0, 0) where its release has none."""
    match = re.search(r"(\d{1,9})\.(\d{1,9})", release)
    return (int(match[1]), int(match[2])) if match else (0, 0)


@dataclass(frozen=True, eq=False)
class VectorTrace:
    """A row an event, in order; `task` indexes `tasks`; `meta` is the file's without that table."""

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
    def seconds(self) -> float:
        """The guest's virtual time from the first to the last event."""
        return (int(self.ns[-1]) - int(self.ns[0])) / 1e9 if len(self) else 0.0


def check_unit(trace: VectorTrace, unit: str) -> None:
    """Raises UserError where a trace has no event of arm64's SME, which is asked for."""
    of_sme = (Event.USE_SME, Event.SVCR, Event.SEEN_SMSTOP, Event.SEEN_SME_TRAP)
    if unit == SME and not np.isin(trace.event, of_sme).any():
        raise UserError(
            "The trace has no SME: its cpu or its kernel has none.",
            "Trace a kernel with CONFIG_ARM64_SME on a cpu that has it.",
        )


# Of which each takes some 50 bytes of memory; a compiler has one million.
_MOST_EVENTS = 1 << 25
# Of the list of tasks and what was run: that of a build of some thousand programs has 1 MB; bytes.
_MOST_METADATA = 16 << 20
_NOT_A_TRACE = "kentry vector trace SPEC -o FILE -- WORKLOAD makes one."

# Times grow, so their differences are small; the other columns have few values.  Measured on 5
# million events: level 3 of zstd takes 1 % more room than level 9, and half the time to write.
_DELTA = ("instructions", "ns")
_ARROW = pa.schema(
    [pa.field(name, pa.from_numpy_dtype(kind), nullable=False) for name, kind in COLUMNS.items()]
)


def write_trace(
    path: Path,
    meta: Mapping[str, Any],
    tasks: Sequence[Task],
    parts: Iterable[Sequence[npt.ArrayLike]],
) -> None:
    """Writes a trace whole or not at all; `tasks` may grow with the parts."""
    if path.exists() and not path.is_file():
        raise UserError(f"{path} is not a file.", "Name a file for the trace with -o.")
    with (
        whole_file(path) as file,
        pq.ParquetWriter(
            file,
            _ARROW,
            compression="zstd",
            compression_level=3,
            use_dictionary=[name for name in COLUMNS if name not in _DELTA],
            column_encoding=dict.fromkeys(_DELTA, "DELTA_BINARY_PACKED"),
            write_page_checksum=True,
            store_schema=False,
        ) as writer,
    ):
        for part in parts:
            arrays = [
                np.asarray(data, kind) for data, kind in zip(part, COLUMNS.values(), strict=True)
            ]
            writer.write_table(pa.table(arrays, schema=_ARROW), row_group_size=_ROW_GROUP)
        document = {
            **_printable(msgspec.to_builtins(dict(meta)), "\n"),
            "schema": SCHEMA,
            "tool": {"name": "kentry", "version": __version__},
            "done": True,
            "tasks": _printable(msgspec.to_builtins(list(tasks))),
        }
        writer.add_key_value_metadata({METADATA_KEY: msgspec.json.encode(document)})


def _printable(value: Any, kept: str = "") -> Any:
    """Puts "?" for all that could move a terminal's cursor, but for the characters `kept`."""
    if isinstance(value, str):
        return "".join(char if char.isprintable() or char in kept else "?" for char in value)
    if isinstance(value, Mapping):
        return {_printable(name, kept): _printable(item, kept) for name, item in value.items()}
    return [_printable(item, kept) for item in value] if isinstance(value, list | tuple) else value


def read_trace(path: Path) -> VectorTrace:
    """Reads the trace in `path`; UserError where it is none, damaged, or of a newer kentry."""
    try:
        path.open("rb").close()
    except OSError as err:
        raise UserError(f"{path} cannot be read: {err.strerror}.", "Name a trace's file.") from err
    try:
        # Arrow's own mapping: Python ends one of its own while a thread of Arrow's may use it.
        file = pq.ParquetFile(
            pa.memory_map(str(path)), page_checksum_verification=True, pre_buffer=False
        )
        text = file.metadata.metadata[METADATA_KEY]
        if len(text) > _MOST_METADATA:
            raise ValueError("more than a list of tasks")
        document = msgspec.json.decode(text)
        schema = str(document.get("schema"))
    except (pa.ArrowException, OSError, *_DAMAGED, AttributeError) as err:
        raise UserError(f"{path} is not a vector trace, or is cut short.", _NOT_A_TRACE) from err
    if schema != SCHEMA:
        newer = schema.startswith(KIND)
        raise UserError(
            f"{path} has the schema '{schema}'; this kentry reads {SCHEMA}.",
            "Use a newer kentry." if newer else _NOT_A_TRACE,
        )
    try:
        tasks = tuple(msgspec.convert(document, TraceMeta).tasks)
        meta = {name: value for name, value in document.items() if name not in ("tasks", "done")}
        names = [(task.name, task.names) for task in tasks]
        if _printable(meta, "\n") != meta or _printable(names) != [[a, list(b)] for a, b in names]:
            raise ValueError("its text is not printable")
        columns = {field.name: field.type for field in file.schema_arrow}
        if columns != {field.name: field.type for field in _ARROW}:
            raise ValueError(f"its columns are {', '.join(columns)}, or of other types")
        groups = [file.metadata.row_group(at) for at in range(file.metadata.num_row_groups)]
        # What the footer says of all, and what it says of each group, by which Arrow reads.
        if max(file.metadata.num_rows, sum(group.num_rows for group in groups)) > _MOST_EVENTS:
            raise ValueError(f"it has more than {_MOST_EVENTS} events")
        table = file.read(use_threads=False)
        if any(table[name].null_count for name in COLUMNS):
            raise ValueError("values are missing")
        arrays = {name: table[name].to_numpy() for name in COLUMNS}
        trace = VectorTrace(**arrays, tasks=tasks, meta=meta)
        if not np.isin(np.unique(trace.event), list(Event)).all():
            raise ValueError("this kentry does not know all of its events")
        named = trace.arg[np.isin(trace.event, OF_TWO_TASKS)]
        parents = [task.parent for task in tasks]
        last = max(int(trace.task.max(initial=0)), int(named.max(initial=0)), *parents, -1)
        if len(trace) and (named.min(initial=0) < 0 or last >= len(tasks)):
            raise ValueError("it has tasks that are not in its table")
    except (pa.ArrowException, OSError, *_DAMAGED) as err:
        what = " ".join(str(err).split())[:100]
        again = "Make it again with kentry vector trace."
        raise UserError(f"{path} is not a whole trace: {what}.", again) from err
    return trace
