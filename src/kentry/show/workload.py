# SPDX-License-Identifier: GPL-2.0-or-later
"""The layout of a workload: a row a kind of entry, the functions of the largest ones."""

from collections.abc import Iterable, Sequence

from kentry.results.workload import (
    ENTRIES,
    SYSCALL,
    USER,
    Row,
    Workload,
)
from kentry.show.blocks import Block, Column, Layout, Prose, Table, text_column
from kentry.show.numbers import duration, per_call, share
from kentry.show.provenance import emulator_lines, kernel_facts, kernel_lines, kernel_name
from kentry.show.sections import OnPage, Section

# Columns of a line: names of system calls beside seven numbers need more than a mail has.
_WIDTH = 100
# Rows of a terminal's table; a page has all.
_SHOWN = 25
# Kinds whose functions are shown, and functions of each.
_KINDS, _FUNCTIONS = 4, 8

_COLUMNS = (
    text_column("kernel entries"),
    Column("calls"),
    Column("instructions"),
    Column("share"),
    Column("entry+exit"),
    Column("median"),
    Column("p99"),
    Column("max"),
)


def workload_layout(workload: Workload) -> Layout:
    """Lays out what ran, what it spent its instructions at, and in which functions."""
    command = workload.workload
    entries = [row for row in workload.rows if row.what in ENTRIES]
    blocks: list[Block] = [
        Prose(_headline(workload)),
        *kernel_lines(workload.kernel),
        *emulator_lines(workload),
        "",
        Section("Instructions", [_table(workload, entries)]),
        "",
        *map(Prose, _sentences(workload, entries)),
    ]
    functions = [_functions(workload, row) for row in entries[:_KINDS]]
    blocks.append(Section("Functions", [one for table in functions for one in ("", table)]))
    if len(workload.programs) > 1:
        blocks.append(Section("Programs", ["", _programs(workload)]))
    blocks.append(OnPage([Section("All entries", [_table(workload, entries, len(entries))])]))
    return Layout(
        "workload",
        f"{command.name} on {kernel_name(workload.kernel)}",
        _headline(workload),
        blocks,
        workload.caveats,
        kernel_facts(workload),
    )


def _headline(workload: Workload) -> str:
    command = workload.workload
    status = "did not end" if command.status is None else f"exit status {command.status}"
    # A command that has no name of its own is a shell's.
    words = command.command[4:] or command.command[2:]
    what = " ".join(words) if command.name == "command" else command.name
    return (
        f"{what}: {status}; {workload.instructions} instructions in"
        f" {duration(workload.ns)} of the guest's clock"
    )


def _table(workload: Workload, entries: Sequence[Row], shown: int = _SHOWN) -> Table:
    table = Table(_COLUMNS, width=_WIDTH)
    for row in entries[:shown]:
        table.row(*_cells(row, workload))
    if rest := entries[shown:]:
        calls, count = sum(row.calls for row in rest), sum(row.instructions for row in rest)
        around = sum(row.entry + row.exit for row in rest)
        name = f"{len(rest)} other kinds"
        table.row(name, calls, count, share(count, workload.instructions), around)
    for row in workload.rows:
        if row.what not in ENTRIES:
            table.row(*_cells(row, workload))
    table.row("all", "", workload.instructions, "100.0 %")
    return table


def _cells(row: Row, workload: Workload) -> Iterable[object]:
    ends = [row.quantile(part) for part in (0.5, 0.99, 1.0)]
    return (
        row.name,
        row.calls or "",
        row.instructions,
        share(row.instructions, workload.instructions),
        row.entry + row.exit if row.handled else "",
        *("" if value is None else value for value in ends),
    )


def _sentences(workload: Workload, entries: Sequence[Row]) -> Iterable[str]:
    calls = [row for row in entries if row.what == SYSCALL]
    around = sum(row.entry + row.exit for row in calls)
    kernel, whole = workload.kernel_instructions, workload.instructions
    if number := sum(row.calls for row in calls):
        yield (
            f"entry and exit of {number} system calls, {per_call(around, number)} instructions"
            f" each: {share(around, kernel)} of the kernel's instructions, {share(around, whole)}"
            f" of all. Made 10 % cheaper, they save {share(around / 10, whole)}."
        )
    yield (
        f"kernel: {share(kernel, whole)} of all instructions, for the program"
        f" {share(workload.of(*ENTRIES), whole)}; user code {share(workload.of(USER), whole)}"
    )


def _functions(workload: Workload, row: Row) -> Table:
    table = Table(
        (text_column(row.name), Column("instructions"), Column("a call"), Column("share"))
    )
    for index, count in row.functions[:_FUNCTIONS]:
        each = per_call(count, row.calls) if row.calls else ""
        table.row(workload.functions[index], count, each, share(count, row.instructions))
    if rest := row.functions[_FUNCTIONS:]:
        count = sum(number for _, number in rest)
        each = per_call(count, row.calls) if row.calls else ""
        table.row(f"{len(rest)} others", count, each, share(count, row.instructions))
    return table


def _programs(workload: Workload) -> Table:
    heads = ("tasks", "user", "entries", "kernel", "largest kind")
    table = Table((text_column("program"), *map(Column, heads[:-1]), text_column(heads[-1])))
    for program in workload.programs[:_SHOWN]:
        calls = sum(count for _, count, _ in program.rows)
        kernel = sum(count for _, _, count in program.rows)
        largest = max(program.rows, key=lambda one: one[2], default=None)
        name = workload.rows[largest[0]].name if largest else ""
        table.row(program.name, program.tasks, program.user, calls, kernel, name)
    return table
