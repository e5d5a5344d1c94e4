# SPDX-License-Identifier: GPL-2.0-or-later
"""A workload: every instruction between a program's start and end, by what it was spent at.

Its rows add up to all that was dispatched.  A call's instructions are those of its own kernel code:
without interrupts and faults taken in it, which have rows of their own, and without what ran while
its task did not.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import UNSET, Struct, UnsetType, field

from kentry import __version__
from kentry.errors import ContradictionError
from kentry.host.cache import write_atomically
from kentry.results.caveats import Caveat
from kentry.results.document import (
    OMITTED,
    Count,
    Hash,
    Positive,
    about,
    dump,
    read_document,
    to_json,
    with_checksum,
)
from kentry.results.recording import Command, OnTarget, Pair

# What a row is, in the order in which rows of one size are shown.
USER, SYSCALL, FAULT, INTERRUPT, BIRTH = "user", "syscall", "fault", "interrupt", "birth"
KERNEL_FAULT, KERNEL_INTERRUPT = "kernel-fault", "kernel-interrupt"
KTHREADS, IDLE, OTHERS, FIRMWARE = "kernel-threads", "idle", "other-tasks", "firmware"
_Entry = Literal["syscall", "fault", "interrupt", "birth", "kernel-fault", "kernel-interrupt"]
What = Literal["user", _Entry, "kernel-threads", "idle", "other-tasks", "firmware"]

# The program's own ways into the kernel.
ENTRIES = (SYSCALL, FAULT, INTERRUPT, BIRTH)
# Those of which the instructions of a call are a property of the kernel.
OF_THE_KERNEL = (SYSCALL, FAULT, BIRTH)

# In a recording of a program: the cases that are no kind of entry, all system calls' entry and exit
# and all of the kernel; and metrics of a whole boot, of which AROUND is a system call's entry and
# exit and SHARE in per cent of all instructions.
ENTRY, KERNEL = "entry", "kernel"
CALLS, TOTAL, AROUND, SHARE = "calls", "total", "entry+exit", "share"
# And of a boot, among its contexts.
ALL, OF_KERNEL = "instructions", "kernel_instructions"


class Row(Struct, frozen=True, kw_only=True):
    """What instructions were spent at: a kind of entry, or something that is no entry."""

    what: What
    name: Annotated[
        str,
        about(
            "Unique among the rows: read, page fault, timer; in the kernel, with 'in the kernel'"
        ),
    ]
    number: Annotated[
        int | None, about("Of the system call; of the exception, where a register has it")
    ] = None
    calls: Annotated[
        Count, about("Entries; of user: stays in user mode; 0 of what has no beginning")
    ] = 0
    instructions: Count
    entry: Annotated[Count, about("Of them, before a system call's handler")] = 0
    exit: Annotated[Count, about("Behind it, to the return instruction")] = 0
    handled: Annotated[bool, about("Whether entry and exit are known apart from the handler")] = (
        False
    )
    blocked: Annotated[Count, about("Times that the task slept in such a call")] = 0
    preempted: Annotated[Count, about("Times that another task took over in it")] = 0
    values: Annotated[
        tuple[tuple[Count, Positive], ...],
        about("Of the calls that ended: [instructions, calls], by instructions"),
    ] = ()
    functions: Annotated[
        tuple[Pair, ...], about("[index into functions, instructions], the largest first")
    ] = ()

    @property
    def ended(self) -> int:
        """How many calls ended while it was counted."""
        return sum(times for _, times in self.values)

    @property
    def around(self) -> int | None:
        """Entry and exit of a call, where their mean is a whole number."""
        if not self.calls or not self.handled or (self.entry + self.exit) % self.calls:
            return None
        return (self.entry + self.exit) // self.calls

    @property
    def handler(self) -> int:
        """The instructions that are not of entry and exit."""
        return self.instructions - self.entry - self.exit

    def quantile(self, share: float) -> int | None:
        """The least value that at least `share` of the ended calls do not exceed; None: none."""
        wanted, below = share * self.ended, 0
        for value, times in self.values:
            below += times
            if below >= wanted:
                return value
        return None


class Program(Struct, frozen=True, kw_only=True):
    """Tasks of one name, which threads and processes may change."""

    name: str
    tasks: Annotated[Count, about("That began with this name")]
    user: Annotated[Count, about("Instructions in user mode")]
    rows: Annotated[
        tuple[tuple[Count, Count, Count], ...],
        about("[index into rows, calls, instructions] of its entries"),
    ]


class Clock(Struct, frozen=True):
    """The count held against the guest's clock, on which an instruction takes 1 ns."""

    readings: Annotated[Count, about("Stretches between two readings in which nothing slept")]
    instructions: Annotated[
        Count, about("That were dispatched in them; of an x86 REP instruction each time")
    ]
    ahead: Annotated[
        int,
        about(
            "How many more these are than the clock's ns: an access that faults is dispatched again"
        ),
    ]


class Slices(Struct, frozen=True):
    """The run in equal slices, at most 256."""

    instructions: Annotated[Positive, about("Of each slice but for the last")]
    spent: Annotated[
        dict[str, tuple[Count, ...]], about("By what of the rows: instructions in each slice")
    ]


class Workload(Struct, OnTarget, kw_only=True, tag_field="schema", tag="kentry/workload/1"):
    """Every instruction from a program's start to its end, on one kernel and processor."""

    tool: dict[str, str] = {}
    checksum: Annotated[Hash | UnsetType, about("SHA-256 of all else in the file"), OMITTED] = UNSET
    kernel: dict[str, Any]
    target: dict[str, Any]
    workload: Command
    complete: Annotated[bool, about("Whether counting got to the program's end")]
    instructions: Annotated[Count, about("All that were dispatched; the rows add up to it")]
    ns: Annotated[Count, about("Of the guest's clock, on which an instruction takes 1 ns")]
    clock: Annotated[Clock | None, about("null: of a run from before it")] = None
    functions: tuple[str, ...]
    rows: Annotated[tuple[Row, ...], about("The largest first")]
    programs: Annotated[tuple[Program, ...], about("The largest first")]
    slices: Annotated[Slices | None, about("null: of a run from before them")] = None
    caveats: list[Caveat] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.tool = self.tool or {"name": "kentry", "version": __version__}
        if problem := next(self._contradictions(), None):
            raise ContradictionError(f"the workload's {problem}")

    def _contradictions(self) -> Iterator[str]:
        if sum(row.instructions for row in self.rows) != self.instructions:
            yield "rows do not add up to its instructions"
        if len({row.name for row in self.rows}) < len(self.rows):
            yield "rows have a name twice"
        for row in self.rows:
            of_functions = sum(count for _, count in row.functions)
            if of_functions != row.instructions or row.entry + row.exit > row.instructions:
                yield f"row {row.name} is not the sum of its parts"
            if row.ended > row.calls:
                yield f"row {row.name} has more calls that ended than calls"
            if any(index >= len(self.functions) for index, _ in row.functions):
                yield f"row {row.name} names a function that is not there"
        for program in self.programs:
            if any(index >= len(self.rows) for index, _, _ in program.rows):
                yield f"program {program.name} names a row that is not there"

        if self.slices:
            sums = {what: sum(counts) for what, counts in self.slices.spent.items()}
            if sums != {row.what: self.of(row.what) for row in self.rows if row.instructions}:
                yield "slices do not add up to its rows"
            if len(set(map(len, self.slices.spent.values()))) > 1:
                yield "slices are not as many for each kind"

    def row(self, name: str) -> Row | None:
        """The row of that name."""
        return next((row for row in self.rows if row.name == name), None)

    def of(self, *whats: str) -> int:
        """The instructions of the rows that are one of these."""
        return sum(row.instructions for row in self.rows if row.what in whats)

    @property
    def kernel_instructions(self) -> int:
        """All that the kernel executed, for whomever."""
        return self.instructions - self.of(USER, OTHERS, FIRMWARE)


def write_workload(workload: Workload, file: Path) -> None:
    """Writes the file, whole or not at all."""
    write_atomically(file, dump(to_file(workload)))


def to_file(workload: Workload) -> dict[str, Any]:
    """The workload as JSON with a checksum."""
    return with_checksum(to_json(workload))


def read_workload(file: Path) -> Workload:
    """The workload in `file`; RecordingError where it is none, damaged, or of a newer kentry."""
    return read_document(file, Workload, "kentry run SPEC -o FILE -- PROGRAM makes one.")
