# SPDX-License-Identifier: GPL-2.0-or-later
"""Small traces for tests."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kentry.boot.task_hooks import Event
from kentry.vector.trace import COLUMNS, Task, VectorTrace, write_trace
from tests.builders import KERNEL, TARGET

# ESR_EL1.EC of an SVE access, and of a page fault.
SVE_TRAP, PAGE_FAULT = 0x19, 0x24

META: dict[str, Any] = {
    "arch": "arm64",
    "kernel": KERNEL,
    "target": TARGET,
    "workload": {"name": "boot", "command": [], "release": "Debian 12", "status": 0},
    "unit": {"vl": 128},
    "hz": 250,
    "policy": "drop-on-load",
    "trap_classes": [SVE_TRAP, 0x1D],
    "complete": True,
    "caveats": [{"kind": "emulated-clock", "text": "the guest's clock: 1 ns an instruction"}],
}

Row = tuple[Event, int, int, int]


def trace_of(rows: Sequence[tuple[int, int, int, int]], tasks: int = 4, **meta: Any) -> VectorTrace:
    """A trace of (event, task, ns, arg); as many instructions as nanoseconds."""
    event, task, ns, arg = zip(*rows, strict=True) if rows else ([], [], [], [])
    columns = {"event": event, "task": task, "instructions": ns, "ns": ns, "arg": arg}
    return VectorTrace(
        **{name: np.array(columns[name], kind) for name, kind in COLUMNS.items()},
        tasks=tuple(
            Task(100 + i, f"task-{i}" if i else "swapper", (), i - 1, not i) for i in range(tasks)
        ),
        meta={**META, **meta},
    )


def run(*events: Event | tuple[Event, int], task: int = 1) -> list[Row]:
    """Rows of one task, 10 ns apart; an event is alone or with its arg."""
    pairs = [event if isinstance(event, tuple) else (event, 0) for event in events]
    return [(event, task, 10 * i, arg) for i, (event, arg) in enumerate(pairs)]


# A use while access is off: the trap, the kernel's part, the retry.
TRAPPED: tuple[Event | tuple[Event, int], ...] = (
    *((Event.USE, 1), (Event.FAULT, SVE_TRAP), Event.SEEN_TRAP, Event.EXIT, (Event.USE, 5)),
)


def random_rows(size: int, tasks: int = 4, seed: int = 1) -> list[Row]:
    """Rows that are no run of any kernel, but that a file must keep."""
    generator = random.Random(seed)
    ns, rows, events = 10**9, [], list(Event)
    for _ in range(size):
        ns += int(generator.expovariate(1 / 3000))
        event = generator.choice(events)
        rows.append((event, generator.randrange(tasks), ns, generator.randrange(tasks)))
    return rows


def same(one: VectorTrace, other: VectorTrace) -> bool:
    """Whether the events are the same, and of the same types."""
    pairs = zip(columns_of(one), columns_of(other), strict=True)
    return all(np.array_equal(a, b) and a.dtype == b.dtype for a, b in pairs)


def columns_of(trace: VectorTrace) -> list[Any]:
    """The arrays in the file's order."""
    return [getattr(trace, name) for name in COLUMNS]


def save(file: Path, trace: VectorTrace) -> None:
    """Writes the trace in one part."""
    write_trace(file, trace.meta, trace.tasks, [columns_of(trace)])
