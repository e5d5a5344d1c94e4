# SPDX-License-Identifier: GPL-2.0-or-later
"""What the tasks plugin counted (plugin/accounts.h) -> a workload's rows, functions, programs."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from kentry.arch import Arch
from kentry.boot.guest_tasks import (
    Ending,
    Traced,
    TracedWorkload,
    TraceOptions,
    never_began,
    read_ending,
    trace_guest,
)
from kentry.boot.plugin_trace import read_text
from kentry.boot.task_hooks import (
    FIRST_FUNCTION,
    OF_FIRMWARE,
    OF_NO_SYMBOL,
    OF_USER,
    Hooks,
    find_hooks,
)
from kentry.errors import TraceError
from kentry.host import interrupt
from kentry.host.cache import check_room, scratch_folder
from kentry.kernels.kernel import Kernel
from kentry.path.symbols import UNNAMED
from kentry.progress import Update
from kentry.results import caveats, workload
from kentry.results.caveats import Caveat
from kentry.results.recording import Command
from kentry.results.workload import Clock, Program, Row, Slices, Workload

# plugin/accounts.h, enum what; a system call by the 32-bit table is a system call of another name.
_COMPAT = "compat"
_WHATS = (
    *(workload.USER, workload.FIRMWARE, workload.IDLE, workload.KTHREADS, workload.OTHERS),
    *(workload.BIRTH, workload.SYSCALL, _COMPAT, workload.FAULT, workload.INTERRUPT),
    *(workload.KERNEL_FAULT, workload.KERNEL_INTERRUPT),
)
_SINGLE = {
    workload.USER: "user code",
    workload.FIRMWARE: "firmware",
    workload.IDLE: "idle",
    workload.KTHREADS: "kernel threads",
    workload.OTHERS: "other tasks",
    workload.BIRTH: "new task",
}
_IN_KERNEL = {workload.KERNEL_FAULT: workload.FAULT, workload.KERNEL_INTERRUPT: workload.INTERRUPT}

# __arm64_sys_read, __do_sys_vfork, __x64_compat_sys_ioctl, sys_read: what is in front of the name.
_PREFIX = re.compile(r"(?:\w+?_)??(?:compat_)?sys_")
# What strace and the manual call these.
_KNOWN_AS = {
    "newfstat": "fstat",
    "newuname": "uname",
    "newstat": "stat",
    "newlstat": "lstat",
    "sendfile64": "sendfile",
    "fadvise64_64": "fadvise64",
    "ni_syscall": "",
}
# For which plugin/accounts.c has room on the disk, and for what else QEMU writes.
_COUNTS_BYTES = 64 << 20
# Of a kernel, what a file says of it.
OF_THE_KERNEL = ("spec", "arch", "release", "build_id", "config_sha256", "compiler", "origin")


@dataclass
class _Kind:
    """What a kind line says, and the lines about it."""

    what: str
    number: int
    calls: int
    parts: tuple[int, int, int]
    blocked: int
    preempted: int
    handler: int
    values: list[tuple[int, int]] = field(default_factory=list)
    functions: dict[int, int] = field(default_factory=dict)


@dataclass
class Counts:
    """The plugin's file; `begin` and `end` are (instructions, ns)."""

    begin: tuple[int, int] = (0, 0)
    end: tuple[int, int] = (0, 0)
    complete: bool = False
    clock: Clock = field(default_factory=lambda: Clock(0, 0, 0))
    missed: int = 0
    kinds: dict[int, _Kind] = field(default_factory=dict)
    # By number: name, tasks, user instructions, and by kind calls and instructions.
    programs: dict[int, tuple[str, int, int, dict[int, tuple[int, int]]]] = field(
        default_factory=dict
    )
    slice_size: int = 0
    spent: dict[str, list[int]] = field(default_factory=dict)


def read_counts(file: Path) -> Counts:
    """Reads the plugin's file; TraceError where it is not whole."""
    counts = Counts()
    ended = False
    try:
        for line in read_text(file).splitlines():
            word, *rest = line.split(" ")
            ended = word == "to"
            if word == "program":
                number, name = int(rest[0]), bytes.fromhex(rest[1]).decode(errors="replace")
                printable = "".join(char if char.isprintable() else "?" for char in name)
                counts.programs[number] = (printable, int(rest[2]), int(rest[3]), {})
                continue
            numbers = list(map(int, rest))
            if word == "kind":
                at, what, number, calls, _, *parts, blocked, preempted, handler = numbers
                before, handled, after = parts
                counts.kinds[at] = _Kind(
                    *(_WHATS[what], number, calls, (before, handled, after)),
                    *(blocked, preempted, handler),
                )
            elif word == "value":
                counts.kinds[numbers[0]].values.append((numbers[1], numbers[2]))
            elif word == "function":
                counts.kinds[numbers[0]].functions[numbers[1]] = numbers[2]
            elif word == "of":
                counts.programs[numbers[0]][3][numbers[1]] = (numbers[2], numbers[3])
            elif word == "slices":
                counts.slice_size, what, *spent = numbers
                counts.spent[_WHATS[what]] = spent
            elif word == "from":
                counts.begin = (numbers[0], numbers[1])
            elif word == "clock":
                counts.clock = Clock(*numbers)
            elif word == "missed":
                counts.missed = numbers[0]
            elif ended:
                counts.end, counts.complete = (numbers[0], numbers[1]), bool(numbers[2])
            else:
                raise ValueError(word)
    except (OSError, ValueError, TypeError, KeyError, IndexError) as err:
        raise TraceError(f"The plugin's counts cannot be read: {err}.") from err
    if not ended:
        raise TraceError("The plugin's counts are cut short.", "Is the disk full?")
    return counts


def name_of_call(handler: str, number: int) -> str:
    """What a system call is called, by its handler's name; by its number where none was seen."""
    name = _PREFIX.sub("", handler, count=1) if handler else ""
    return _KNOWN_AS.get(name, name) or f"system call {number}"


def _name_of(kind: _Kind, hooks: Hooks, functions: Mapping[int, str]) -> str:
    if name := _SINGLE.get(kind.what):
        return name
    if kind.what in (workload.SYSCALL, _COMPAT):
        name = name_of_call(functions[kind.handler] if kind.handler else "", kind.number)
        return f"{name} (32-bit)" if kind.what == _COMPAT else name
    plain = _IN_KERNEL.get(kind.what, kind.what)
    causes = hooks.faults if plain == workload.FAULT else hooks.interrupts
    name = causes.get(kind.number, f"{plain} {kind.number}" if kind.number > 0 else plain)
    name += " interrupt" * (plain == workload.INTERRUPT and plain not in name)
    return f"{name} in the kernel" if kind.what in _IN_KERNEL else name


def run_workload(
    kernel: Kernel,
    arch: Arch,
    guest: TracedWorkload,
    options: TraceOptions,
    update: Update,
    keep: Callable[[Traced], object] | None = None,
) -> tuple[Workload, Ending]:
    """Boots, runs, counts; with `keep`, which is called while the trace's files are there, traces.

    GuestError where the program never began; KernelError for a kernel without type information.
    """
    update(None, "looking for what to watch in the kernel")
    hooks = find_hooks(kernel, arch, tracing=keep is not None)
    options = replace(options, tracing=keep is not None)
    with scratch_folder() as folder:
        check_room(folder, _COUNTS_BYTES)
        traced = trace_guest(kernel, arch, guest, hooks, options, folder, update)
        # The plugin writes it at the workload's end, or QEMU's.
        if not traced.counts.exists() or not traced.counts.stat().st_size:
            interrupt.check()
            raise never_began(traced.ending)
        if keep:
            update(None, "writing the trace")
            keep(traced)
        return make_workload(kernel, guest, hooks, traced), read_ending(traced.ending.console)


def make_workload(kernel: Kernel, guest: TracedWorkload, hooks: Hooks, traced: Traced) -> Workload:
    """The result of a run that began; TraceError where its counts are not whole."""
    counts = read_counts(traced.counts)
    names = {OF_USER: "[user]", OF_FIRMWARE: "[firmware]", OF_NO_SYMBOL: UNNAMED}
    names |= {at: name for at, (_, name) in enumerate(hooks.functions, FIRST_FUNCTION)}
    used: dict[str, int] = {}
    merged: dict[str, Row] = {}
    of_kind: dict[int, str] = {}
    for at, kind in counts.kinds.items():
        if not (kind.calls or sum(kind.parts)):
            continue
        functions: Counter[str] = Counter()
        for number, count in kind.functions.items():
            functions[names[number]] += count
        handled = bool(kind.handler)
        row = Row(
            what=workload.SYSCALL if kind.what == _COMPAT else kind.what,  # type: ignore[arg-type]
            name=_name_of(kind, hooks, names),
            number=kind.number if kind.what not in _SINGLE else None,
            calls=kind.calls,
            instructions=sum(kind.parts),
            entry=kind.parts[0] if handled else 0,
            exit=kind.parts[2] if handled else 0,
            handled=handled,
            blocked=kind.blocked,
            preempted=kind.preempted,
            values=tuple(kind.values),
            functions=tuple(
                (used.setdefault(name, len(used)), count)
                for name, count in sorted(functions.items(), key=lambda one: (-one[1], one[0]))
            ),
        )
        of_kind[at] = row.name
        merged[row.name] = _sum(merged[row.name], row) if row.name in merged else row
    rows = sorted(merged.values(), key=lambda row: (-row.instructions, row.name))
    places = {row.name: index for index, row in enumerate(rows)}
    ending = read_ending(traced.ending.console)
    command: dict[str, Any] = {**guest.description, "status": ending.status}
    return Workload(
        kernel={name: getattr(kernel, name) for name in OF_THE_KERNEL},
        target=traced.target,
        workload=msgspec.convert(command, Command),
        complete=counts.complete,
        instructions=counts.end[0] - counts.begin[0],
        ns=counts.end[1] - counts.begin[1],
        clock=counts.clock,
        functions=tuple(used),
        rows=tuple(rows),
        programs=tuple(_programs(counts, of_kind, places)),
        slices=_slices(counts),
        caveats=list(_caveats(counts, traced)),
    )


def _sum(one: Row, other: Row) -> Row:
    """Two numbers of one name, such as those of faults on code and on data, as one row."""
    functions = Counter(dict(one.functions)) + Counter(dict(other.functions))
    values = Counter(dict(one.values)) + Counter(dict(other.values))
    names = ("calls", "instructions", "entry", "exit", "blocked", "preempted")
    return msgspec.structs.replace(
        one,
        **{name: getattr(one, name) + getattr(other, name) for name in names},
        values=tuple(sorted(values.items())),
        functions=tuple(sorted(functions.items(), key=lambda pair: (-pair[1], pair[0]))),
    )


def _programs(
    counts: Counts, of_kind: Mapping[int, str], places: Mapping[str, int]
) -> Iterable[Program]:
    found = []
    for name, tasks, user, kinds in counts.programs.values():
        rows: dict[int, tuple[int, int]] = {}
        for kind, (calls, count) in kinds.items():
            # Stays in user mode are no entries.
            if counts.kinds[kind].what != workload.USER and kind in of_kind:
                before = rows.get(places[of_kind[kind]], (0, 0))
                rows[places[of_kind[kind]]] = (before[0] + calls, before[1] + count)
        if tasks or user or rows:
            own = tuple((row, *pair) for row, pair in sorted(rows.items()))
            found.append(Program(name=name, tasks=tasks, user=user, rows=own))
    return sorted(
        found, key=lambda one: (-one.user - sum(count for _, _, count in one.rows), one.name)
    )


def _slices(counts: Counts) -> Slices:
    spent: dict[str, tuple[int, ...]] = {}
    for what, numbers in counts.spent.items():
        if any(numbers):
            of = workload.SYSCALL if what == _COMPAT else what
            before = spent.get(of, (0,) * len(numbers))
            spent[of] = tuple(map(sum, zip(before, numbers, strict=True)))
    return Slices(counts.slice_size, spent)


def caveats_of(traced: Traced) -> Iterable[Caveat]:
    """Yields the caveats of every run."""
    yield caveats.not_time()
    yield caveats.one_instruction_a_nanosecond()
    if traced.stand_in:
        yield caveats.private_emulator(traced.target["emulator"])


def _caveats(counts: Counts, traced: Traced) -> Iterable[Caveat]:
    yield from caveats_of(traced)
    if counts.missed:
        yield caveats.missed_returns(counts.missed)
    if not counts.complete:
        yield caveats.stopped_early(traced.ending.clause)
