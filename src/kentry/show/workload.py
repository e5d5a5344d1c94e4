# SPDX-License-Identifier: GPL-2.0-or-later
"""The layout of a workload: a row a kind of entry, the functions of the largest ones."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, groupby

from kentry.results.recording import Command
from kentry.results.workload import ENTRIES, FAULT, INTERRUPT, SYSCALL, USER, Row, Workload
from kentry.show import charts, provenance
from kentry.show.blocks import Block, Cell, Column, Layout, Prose, Table, text_column
from kentry.show.numbers import duration, per_call, share
from kentry.show.sections import Chart, Fold, InText, OnPage, Section

# Columns of a line: names of system calls beside seven numbers need more than a mail has.
_WIDTH = 100
# Rows of a terminal's table; a page has all.
_SHOWN = 25
# Kinds whose functions are shown, and functions of each; on a page, functions of every kind.
_KINDS, _FUNCTIONS, _PAGE_FUNCTIONS = 4, 8, 40
# The colours of the chart, each a class of page.css: who spent the instructions.
_COLOURS = {
    "user": "user code",
    SYSCALL: "system calls",
    FAULT: "faults",
    INTERRUPT: "interrupts",
    "other": "all else",
}

_HEADS = ("calls", "instructions", "share", "entry+exit", "median", "p99", "max")
_COLUMNS = (text_column("kernel entries"), *map(Column, _HEADS))


def workload_layout(workload: Workload) -> Layout:
    """Lays out what ran, what it spent its instructions at, and in which functions."""
    entries = [row for row in workload.rows if row.what in ENTRIES]
    functions = [("", _functions(workload, row)) for row in entries[:_KINDS]]
    blocks: list[Block] = [
        InText([Prose(_headline(workload)), *provenance.kernel_lines(workload.kernel)]),
        InText([*provenance.emulator_lines(workload), "", _table(workload, entries), ""]),
        OnPage(["Exact counts under emulation: instructions, not time."]),
        *map(Prose, _sentences(workload, entries)),
        OnPage([*provenance.processor_lines(workload.target), *_page_blocks(workload)]),
        InText(list(chain(*functions))),
    ]
    if len(workload.programs) > 1:
        blocks.append(Section("Programs", ["", _programs(workload)]))
    return Layout(
        "workload",
        f"{program_name(workload.workload)} on {provenance.kernel_name(workload.kernel)}",
        _headline(workload),
        blocks,
        workload.caveats,
        **provenance.how_measured(workload.tool, workload),
    )


def program_name(command: Command) -> str:
    """Returns what ran: the workload's name, or the command line."""
    # A command that has no name of its own is a shell's.
    words = command.command[4:] or command.command[2:]
    return " ".join(words) if command.name == "command" else command.name


def _headline(workload: Workload) -> str:
    status = workload.workload.status
    ending = "did not end" if status is None else f"exit status {status}"
    return (
        f"{program_name(workload.workload)}: {ending}; {workload.instructions} instructions in"
        f" {duration(workload.ns)} of the guest's clock"
    )


def _page_blocks(workload: Workload) -> list[Block]:
    caption = (
        "Width is instructions, of all that ran. The first row says who spent them, the second at"
        " what, the third in which functions: the largest of each kind, which are in its table"
        f" below. {charts.ICICLE_KEYS}"
    )
    label = f"Where {program_name(workload.workload)} spent its instructions"
    frames = _frames(workload)
    drawing, left_out = charts.icicle(frames, workload.instructions, label)
    kinds = {kind: word for kind, word in _COLOURS.items() if kind in {one.kind for one in frames}}
    table, folds = Table(_COLUMNS, sorts=True), []
    for place, row in enumerate(workload.rows):
        link = "" if row.what == USER else f"kind-{place}"
        table.row(Cell(row.name, link=link), *_cells(row, workload))
        if link:
            part = share(row.instructions, workload.instructions)
            title = f"{row.name}: {row.instructions} instructions ({part})"
            if row.blocked or row.preempted:
                title += f"; blocked: {row.blocked}, preempted: {row.preempted}"
            folds.append(Fold(title, [_functions(workload, row, _PAGE_FUNCTIONS)], link))
    table.row("all", "", workload.instructions, "100.0 %")
    return [
        Section("Where the instructions went", [Chart(drawing, caption + left_out, kinds)]),
        *_timeline(workload, kinds),
        Section("Every kind", [table]),
        Section("Functions of each kind", folds),
    ]


def _timeline(workload: Workload, kinds: Mapping[str, str]) -> Iterable[Block]:
    """Who spent the instructions in each slice of the run."""
    if not workload.slices or not workload.instructions:
        return
    layers: dict[str, list[int]] = {}
    for kind in kinds:
        same = [counts for what, counts in workload.slices.spent.items() if _group(what) == kind]
        layers[kind] = list(map(sum, zip(*same, strict=True)))
    size, titles = workload.slices.instructions, []
    for place, column in enumerate(zip(*layers.values(), strict=True)):
        first, whole = place * size, sum(column)
        parts = [
            f"{kinds[kind]} {share(count, whole)}"
            for kind, count in zip(layers, column, strict=True)
            if count
        ]
        titles.append(f"instructions {first} to {first + whole}: {', '.join(parts)}")
    label = f"What {program_name(workload.workload)} spent its instructions at, from start to end"
    caption = f"{len(titles)} slices of the run, each of {size} instructions but for the last."
    drawing = charts.timeline(layers, size, titles, label)
    yield Section("From start to end", [Chart(drawing, caption, kinds)])


def _group(what: str) -> str:
    return what if what in _COLOURS else "other"


def _frames(workload: Workload) -> list[charts.Frame]:
    """Who, at what, in which functions: three rows, each with its frames from left to right."""
    frames, first, whole = [], 0, workload.instructions

    def add(name: str, start: int, size: int, depth: int, kind: str, more: str = "") -> None:
        title = f"{name}: {size} instructions ({share(size, whole)} of all{more})"
        frames.append(charts.Frame(name, start, size, depth, kind, title))

    rows = sorted(workload.rows, key=lambda row: list(_COLOURS).index(_group(row.what)))
    for kind, same in groupby(rows, lambda row: _group(row.what)):
        start = first
        for row in same:
            calls = f", {row.calls} calls" if row.calls else ""
            add(row.name, first, row.instructions, 1, kind, calls)
            for name, count in _parts(workload, row, _PAGE_FUNCTIONS):
                if row.what != USER:
                    more = f", {share(count, row.instructions)} of {row.name}"
                    add(name, first, count, 2, kind, more)
                first += count
        add(_COLOURS[kind], start, first - start, 0, kind)
    return sorted(frames, key=lambda frame: (frame.depth, frame.first))


def _table(workload: Workload, entries: Sequence[Row]) -> Table:
    table = Table(_COLUMNS, width=_WIDTH)
    for row in entries[:_SHOWN]:
        table.row(row.name, *_cells(row, workload))
    if rest := entries[_SHOWN:]:
        calls, count = sum(row.calls for row in rest), sum(row.instructions for row in rest)
        around = sum(row.entry + row.exit for row in rest)
        name = f"{len(rest)} other kinds"
        table.row(name, calls, count, share(count, workload.instructions), around)
    for row in workload.rows:
        if row.what not in ENTRIES:
            table.row(row.name, *_cells(row, workload))
    table.row("all", "", workload.instructions, "100.0 %")
    return table


def _cells(row: Row, workload: Workload) -> Iterable[object]:
    ends = [row.quantile(part) for part in (0.5, 0.99, 1.0)]
    return (
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


def _functions(workload: Workload, row: Row, shown: int = _FUNCTIONS) -> Table:
    table = Table((text_column(row.name), *map(Column, ("instructions", "a call", "share"))))
    for name, count in _parts(workload, row, shown):
        each = per_call(count, row.calls) if row.calls else ""
        table.row(name, count, each, share(count, row.instructions))
    return table


def _parts(workload: Workload, row: Row, shown: int) -> Iterable[tuple[str, int]]:
    """The row's largest functions, and the sum of the others."""
    yield from ((workload.functions[index], count) for index, count in row.functions[:shown])
    if rest := row.functions[shown:]:
        yield f"{len(rest)} others", sum(count for _, count in rest)


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
