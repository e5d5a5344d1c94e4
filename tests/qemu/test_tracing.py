# SPDX-License-Identifier: GPL-2.0-or-later
"""Traces against what is known otherwise.

That is: a program of which every act was counted by hand (tracing/countable.c), what
`kentry record` counts for the same call, the guest's own clock, and another QEMU.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from kentry.arch import Arch, find_arch
from kentry.arch.processors import MAX, find_processor
from kentry.boot.emulator import BACKPORTS, INSTALLED, NEWEST, Guest, plugin_argv
from kentry.boot.exact import ExactOptions, QemuRunner
from kentry.boot.guest_tasks import TraceOptions
from kentry.boot.task_hooks import Event
from kentry.boot.userland.root_image import build_userland, find_release
from kentry.boot.userland.workloads import find_workload, parse_copy
from kentry.count.recorder import measure
from kentry.count.workload import run_workload
from kentry.host.native import probe_file, tasks_plugin_file
from kentry.path.calls import parts_of
from kentry.vector.replay import check
from kentry.vector.trace import VectorTrace, read_trace
from kentry.vector.tracing import trace_workload
from tests.places import silent
from tests.processes import PATIENCE
from tests.unit.vector.traces import columns_of

from .conftest import GetEmulator, skip, timed
from .test_record import fetched

pytestmark = pytest.mark.qemu

KERNEL = "debian:6.12"
SOURCE = Path(__file__).parent / "tracing" / "countable.c"
# No vectors but those that are written there.
PLAIN = {"arm64": "-mgeneral-regs-only", "riscv64": "-mno-relax", "x86_64": "-mno-sse"}

# The system calls of countable.c: the number that most architectures have, x86-64's.
NUMBERS = {
    "write": (64, 1),
    "exit_group": (94, 231),
    "nanosleep": (101, 35),
    "clock_gettime": (113, 228),
    "kill": (129, 62),
    "rt_sigaction": (134, 13),
    "rt_sigreturn": (139, 15),
    "getpid": (172, 39),
    "getppid": (173, 110),
    "clone": (220, 56),
    "wait4": (260, 61),
}
# What a task does in user mode, and on its ways to and from there.
OF_MODES = (Event.SYSCALL, Event.FAULT, Event.INTERRUPT, Event.EXIT, Event.USE)
CHILDREN, SLEEPS = 4, 3
# Each with the vector instructions since the one before.
CALLS = [
    ("clock_gettime", 0),
    *(("getppid", uses) for uses in (1, 2, 3, 500, 0)),
    *[("nanosleep", 7), ("clock_gettime", 0)] * SLEEPS,
    *[("clone", 0), ("wait4", 0)] * CHILDREN,
    ("rt_sigaction", 0),
    ("getpid", 0),
    ("kill", 0),
    ("rt_sigreturn", 6),
    ("clock_gettime", 0),
    ("write", 0),
    ("exit_group", 0),
]
CHILDS_CALLS = [("nanosleep", 4), ("exit_group", 0)]
# A tick of the guest's clock is 16 ns on arm64 and 100 ns on riscv64.
TICK_NS = 100


Traced = Callable[..., Path]


@pytest.fixture(scope="module")
def traced(get_emulator: GetEmulator, tmp_path_factory: pytest.TempPathFactory) -> Traced:
    """Makes a trace of countable.c once, each `number` anew; with FILE.console."""

    @cache
    def made(arch: str, choice: str, number: int = 0) -> Path:
        record, kernel = find_arch(arch), fetched(KERNEL, arch)
        get_emulator(record, choice)
        folder = tmp_path_factory.mktemp("traced")
        program, file = countable(record, folder), folder / "trace.parquet"
        userland = build_userland(
            record,
            find_workload(["/root/countable"], [parse_copy(f"{program}:/root/countable")]),
            find_release(None, record),
            768,
            silent,
        )
        trace_workload(
            kernel,
            record,
            userland,
            TraceOptions(memory=768, emulator=choice, console_file=Path(f"{file}.console")),
            None,
            file,
            silent,
        )
        return file

    return made


def countable(arch: Arch, folder: Path) -> Path:
    compiler = f"{arch.cross}gcc"
    if not shutil.which(compiler):
        skip(f"no compiler for {arch.name}: {arch.cross}gcc")
    program = folder / "countable"
    words = "-std=gnu11 -O1 -ffreestanding -fno-stack-protector -fno-pic -no-pie -nostdlib -static"
    subprocess.run(
        [compiler, *words.split(), PLAIN[arch.name], str(SOURCE), "-o", str(program)], check=True
    )
    return program


# --- counted by hand -----------------------------------------------------


def rows_of(trace: VectorTrace, task: int) -> list[tuple[Event, int, int]]:
    """(event, arg, ns) of a task since its last exec."""
    rows = [
        (Event(int(event)), int(arg), int(ns))
        for event, of, _, ns, arg in zip(*columns_of(trace), strict=True)
        if of == task
    ]
    execs = [place for place, row in enumerate(rows) if row[0] == Event.EXEC]
    return rows[execs[-1] + 1 :] if execs else rows


def calls_of(trace: VectorTrace, rows: list[tuple[Event, int, int]]) -> list[tuple[str, int]]:
    """The system calls, each with the vector instructions since the one before."""
    column = int(trace.meta["arch"] == "x86_64")
    names = {numbers[column]: name for name, numbers in NUMBERS.items()}
    found, uses = list[tuple[str, int]](), 0
    for place, (event, arg, _) in enumerate(rows):
        if event == Event.USE:
            uses += arg
        elif event == Event.FAULT and arg in trace.meta["trap_classes"]:
            # The one that trapped is executed again.
            uses -= rows[place - 1][0] == Event.USE
        elif event == Event.SYSCALL:
            found.append((names.get(arg, str(arg)), uses))
            uses = 0
    return found


def blocked_in(rows: list[tuple[Event, int, int]], number: int) -> list[int]:
    """How often the task was switched from as it blocked, in each of its calls of a number."""
    found: list[int] = []
    inside = False
    for event, arg, _ in rows:
        if event == Event.SYSCALL:
            inside = arg == number
            found += [0] * inside
        elif event == Event.SWITCH_BLOCKED and inside:
            found[-1] += 1
    return found


@pytest.mark.parametrize(
    ("arch", "choice"),
    [("arm64", BACKPORTS), ("arm64", NEWEST), ("riscv64", BACKPORTS), ("x86_64", BACKPORTS)],
)
def test_what_a_program_does_is_what_was_counted_by_hand(
    arch: str, choice: str, traced: Traced
) -> None:
    file = traced(arch, choice)
    trace = read_trace(file)
    assert trace.meta["complete"]
    assert trace.meta["workload"]["status"] == 0
    parent, *children = [i for i, one in enumerate(trace.tasks) if one.name == "countable"]
    rows = rows_of(trace, parent)
    assert calls_of(trace, rows) == CALLS
    happened = Counter(event for event, _, _ in rows)
    assert [arg for event, arg, _ in rows if event == Event.FORK] == children
    assert len(children) == CHILDREN
    assert happened[Event.SIGNAL] == happened[Event.SIGRETURN] == happened[Event.DIE] == 1
    column = int(arch == "x86_64")
    assert blocked_in(rows, NUMBERS["nanosleep"][column]) == [1] * SLEEPS
    assert blocked_in(rows, NUMBERS["wait4"][column]) == [1] * CHILDREN
    for child in children:
        rows = rows_of(trace, child)
        assert trace.tasks[child].parent == parent
        assert next(event for event, _, _ in rows if event in OF_MODES) == Event.EXIT
        assert calls_of(trace, rows) == CHILDS_CALLS
        assert blocked_in(rows, NUMBERS["nanosleep"][column]) == [1]


@pytest.mark.parametrize("arch", ["arm64", "riscv64", "x86_64"])
def test_the_guest_reads_the_same_clock(arch: str, traced: Traced) -> None:
    """Each reading lies between the call's entry and its return, with one offset for all."""
    file = traced(arch, BACKPORTS)
    trace = read_trace(file)
    # An instruction is a nanosecond, and what the guest slept comes on top: never less.
    skipped = trace.ns.astype(np.int64) - trace.instructions.astype(np.int64)
    assert (np.diff(skipped) >= 0).all()
    assert skipped[-1] - skipped[0] >= SLEEPS * 49_000_000
    console = Path(f"{file}.console").read_text()
    line = next(line for line in console.splitlines() if line.startswith("countable "))
    readings = [int(word, 16) for word in line.split()[1:]]
    number = NUMBERS["clock_gettime"][arch == "x86_64"]
    task = next(i for i, one in enumerate(trace.tasks) if one.name == "countable")
    rows = rows_of(trace, task)
    entries = [i for i, row in enumerate(rows) if row[:2] == (Event.SYSCALL, number)]
    assert len(readings) == len(entries) == SLEEPS + 2
    least = max(at - rows[i + 1][2] for at, i in zip(readings, entries, strict=True))
    most = min(at - rows[i][2] for at, i in zip(readings, entries, strict=True))
    assert least <= most + TICK_NS


@pytest.mark.parametrize("arch", ["arm64", "riscv64"])
def test_replay_of_the_kernels_own_policy_does_what_the_kernel_did(
    arch: str, traced: Traced
) -> None:
    trace = read_trace(traced(arch, BACKPORTS))
    verdict = check(trace)
    assert verdict.acts["trap"].replayed >= 1 + CHILDREN * (arch == "arm64")
    assert verdict.exact, f"{verdict.acts}; {verdict.differences}"


def test_two_traces_of_the_same_are_the_same_bytes(traced: Traced) -> None:
    assert traced("arm64", BACKPORTS).read_bytes() == traced("arm64", BACKPORTS, 1).read_bytes()


# --- beside kentry record ------------------------------------------------


@pytest.mark.parametrize("name", ["arm64", "riscv64", "x86_64"])
def test_a_call_takes_what_kentry_record_says(
    name: str, get_emulator: GetEmulator, tmp_path: Path
) -> None:
    arch = find_arch(name)
    kernel = fetched(KERNEL, name)
    get_emulator(arch, BACKPORTS)
    command = ["/root/probe", "n=100", "paths=0", "warmup=16", "cases=getppid"]
    copies = [parse_copy(f"{probe_file(arch)}:/root/probe")]
    userland = build_userland(
        arch, find_workload(command, copies), find_release(None, arch), 768, silent
    )
    # On kentry record's model of a cpu, and not on that of a real core.
    options = TraceOptions(memory=768, emulator=BACKPORTS, cpu=MAX)
    with timed(f"{KERNEL} ({name}), the probe with the tasks plugin"):
        workload, ending = run_workload(kernel, arch, userland, options, silent)
    assert "kentry-probe end" in ending.output
    row = workload.row("getppid")
    assert row
    assert (row.number, row.calls) == (NUMBERS["getppid"][name == "x86_64"], row.ended)
    assert row.calls >= 116
    taken = dict(row.values)
    with timed(f"{KERNEL} ({name}), the same with kentry record"):
        recorded = measure(
            kernel,
            QemuRunner(arch),
            ExactOptions(("getppid",), 100, 8, rounds=1, emulator=BACKPORTS),
            silent,
        )
    value = recorded.cases[0].metrics["instructions"].value
    assert taken[value] == max(taken.values()), taken
    assert taken[value] >= 100
    # So do its parts.
    (path,) = (path for path in recorded.cases[0].paths if path.role == "modal")
    sizes = Counter[str]()
    for name_of_part in parts_of(recorded.instructions(path), arch):
        sizes[name_of_part] += 1
    assert row.handler / row.calls == pytest.approx(sizes["handler"], abs=1)


# --- what the plugin refuses ---------------------------------------------

OFFSETS = "".join(
    f"offset {name} {i}\n" for i, name in enumerate(("__state", "flags", "pid", "comm"))
)


@pytest.mark.parametrize(
    ("hooks", "words", "complaint"),
    [
        (None, "out={0}/events", "cannot read hooks="),
        (OFFSETS, "", "cannot write counts="),
        (OFFSETS, "counts={0}/no/such/folder", "cannot write counts="),
        (OFFSETS, "counts={0}/counts,out={0}/no/such/folder", "cannot write out="),
        (OFFSETS, "functions={0}/none", "cannot read functions="),
        (OFFSETS, "out={0}/events,nonsense=1", "unknown argument nonsense=1"),
        (OFFSETS + "nonsense ffff 0\n", "out={0}/events", "not understood, or over 4096: nonsense"),
        (OFFSETS + "offset nonsense 1\n", "out={0}/events", "not understood, or over 4096: offset"),
        (OFFSETS + "event ffff 14\n" * 5000, "out={0}/events", "over 4096: event ffff 14"),
        (OFFSETS.replace("offset pid 2\n", ""), "out={0}/events", "no offset of pid"),
    ],
)
def test_wrong_arguments_are_refused(
    hooks: str | None, words: str, complaint: str, get_emulator: GetEmulator, tmp_path: Path
) -> None:
    if hooks is not None:
        (tmp_path / "hooks").write_text(hooks)
    ended = started(
        get_emulator, BACKPORTS, f"hooks={tmp_path}/hooks", *words.format(tmp_path).split(",")
    )
    assert ended.returncode != 0
    assert complaint in ended.stderr


def test_a_qemu_that_shows_no_registers_is_refused(
    get_emulator: GetEmulator, tmp_path: Path
) -> None:
    """kentry does not come to that: tracing_emulator() looks at the version before."""
    arch = find_arch("arm64")
    if get_emulator(arch, INSTALLED).numbers >= (9, 2):
        skip("the installed QEMU is not older than 9.2")
    (tmp_path / "hooks").write_text(OFFSETS)
    ended = started(get_emulator, INSTALLED, f"hooks={tmp_path}/hooks", f"out={tmp_path}/events")
    assert ended.returncode != 0
    assert "kentry plugin: " in ended.stderr


def started(
    get_emulator: GetEmulator, choice: str, *words: str
) -> subprocess.CompletedProcess[str]:
    """A machine with nothing to boot: the plugin is loaded first of all."""
    arch = find_arch("arm64")
    emulator = get_emulator(arch, choice)
    plugin = plugin_argv(tasks_plugin_file(), arch, [word for word in words if word])
    argv = [*Guest(emulator, arch, find_processor(arch), 128).argv(), *plugin]
    return subprocess.run(
        argv,
        env={**os.environ, **emulator.env},
        check=False,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
