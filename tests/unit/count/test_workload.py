# SPDX-License-Identifier: GPL-2.0-or-later
"""What the tasks plugin counted, as a workload; its file; without a guest."""

import re
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kentry.arch import ARCHES
from kentry.boot.console import GuestExit
from kentry.boot.guest_tasks import Traced, TracedWorkload, TraceOptions
from kentry.boot.task_hooks import Hooks
from kentry.count import workload as module
from kentry.count.workload import name_of_call, read_counts, run_workload
from kentry.errors import ContradictionError, GuestError, RecordingError, TraceError
from kentry.results.workload import (
    INTERRUPT,
    KERNEL_INTERRUPT,
    Clock,
    Slices,
    Workload,
    read_workload,
    write_workload,
)
from tests import ROOT
from tests.builders import image_kernel
from tests.places import silent

HOOKS = Hooks(
    ("offset pid 1",),
    ((16, "vectors"), (32, "el0_svc"), (48, "__arm64_sys_getppid"), (64, "do_mem_abort")),
    {0x20: "page fault of code", 0x24: "page fault", 0x25: "page fault"},
)
SH, PS = b"sh".hex(), b"p\x1bs".hex()
# Kinds: user, idle, getppid, a page fault, the same in the kernel, an interrupt, by 32 bits.
COUNTS = f"""\
from 1000 5000
clock 3 700 -2
missed 0
kind 0 0 0 4 4 500 0 0 0 0 0
function 0 0 500
kind 1 1 0 0 0 0 0 0 0 0 0
kind 2 2 0 0 0 30 0 0 0 0 0
function 2 2 30
kind 6 6 173 3 2 20 60 11 1 2 5
function 6 3 10
function 6 4 21
function 6 5 60
kind 7 8 36 1 1 90 0 0 0 0 0
function 7 6 90
kind 8 10 37 1 1 40 0 0 0 0 0
function 8 6 40
kind 9 9 0 1 1 7 0 0 0 0 0
function 9 3 7
kind 10 7 173 1 1 2 0 0 0 0 0
function 10 3 2
value 0 100 2
value 0 150 2
value 6 30 1
value 6 31 1
value 7 90 1
value 8 40 1
value 9 7 1
value 10 2 1
program 0 {SH} 1 400
of 0 0 3 0
of 0 6 3 91
program 1 {PS} 1 100
of 1 7 1 90
slices 512 0 400 100
slices 512 1 0 0
slices 512 2 30 0
slices 512 6 1 90
slices 512 7 0 2
slices 512 8 50 40
slices 512 9 0 7
slices 512 10 31 9
to 1760 5900 1
"""
CONSOLE = "kentry-workload start\nhello\nkentry-workload end 0\n"
TARGET = {"kind": "qemu", "emulator": "QEMU 10.0.2", "cpu": "max", "processor": "max"}
ABOUT = {
    "name": "command",
    "command": ["/bin/sh", "-c", 'exec "$@"', "sh", "prog"],
    "release": "bookworm",
    "initramfs_bytes": 1,
    "initramfs_sha256": "ab" * 32,
    "packages": {"dash": "0.5"},
}


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs a guest that leaves these counts (None: no file) and this console."""

    def run(counts: str | None = COUNTS, console: str = CONSOLE, **keep: Any) -> Any:
        def trace(*words: Any) -> Traced:
            folder = words[5]
            if counts is not None:
                (folder / "counts").write_text(counts)
            ending = GuestExit(console, "it was stopped after 5 s", "")
            return Traced(ending, folder / "counts", folder / "events", TARGET)

        monkeypatch.setattr(module, "find_hooks", lambda *words, **options: HOOKS)
        monkeypatch.setattr(module, "trace_guest", trace)
        kernel = replace(image_kernel("arm64"), spec="debian:6.12")
        guest = TracedWorkload(Path("/rootfs.cpio"), (), ABOUT)
        options = TraceOptions()
        return run_workload(kernel, ARCHES["arm64"], guest, options, silent, **keep)

    return run


def test_the_rows_are_the_plugins_kinds_by_name_and_add_up(ran: Any) -> None:
    workload, ending = ran()
    assert ending.status == workload.workload.status == 0
    assert (workload.instructions, workload.ns, workload.complete) == (760, 900, True)
    assert {row.name: row.instructions for row in workload.rows} == {
        "user code": 500,
        "getppid": 91,
        "page fault": 90,
        "page fault in the kernel": 40,
        "idle": 30,
        "interrupt": 7,
        "system call 173 (32-bit)": 2,
    }
    assert workload.clock == Clock(3, 700, -2)
    assert [row.instructions for row in workload.rows] == [500, 91, 90, 40, 30, 7, 2]
    call = workload.row("getppid")
    assert (call.number, call.calls, call.ended, call.blocked, call.preempted) == (173, 3, 2, 1, 2)
    assert (call.entry, call.handler, call.exit, call.handled) == (20, 60, 11, True)
    assert [(workload.functions[at], count) for at, count in call.functions] == [
        ("__arm64_sys_getppid", 60),
        ("el0_svc", 21),
        ("vectors", 10),
    ]
    assert not workload.row("page fault").handled
    assert workload.kernel_instructions == 260
    assert workload.slices == Slices(
        512,
        {
            "user": (400, 100),
            "idle": (30, 0),
            "syscall": (1, 92),
            "fault": (50, 40),
            "interrupt": (0, 7),
            "kernel-fault": (31, 9),
        },
    )


def test_programs_have_their_entries_and_harmless_names(ran: Any) -> None:
    shell, other = ran()[0].programs
    assert (shell.name, shell.tasks, shell.user) == ("sh", 1, 400)
    assert (other.name, other.user) == ("p?s", 100)
    rows = ran()[0].rows
    assert [(rows[at].name, calls, count) for at, calls, count in shell.rows] == [
        ("getppid", 3, 91)
    ]


def test_numbers_of_one_name_are_one_row(ran: Any) -> None:
    more = "kind 11 8 37 2 2 8 0 0 0 1 0\nfunction 11 6 8\nvalue 11 4 1\nvalue 11 90 1\nto "
    counts = COUNTS.replace("slices 512 8 50 40", "slices 512 8 50 48")
    workload, _ = ran(counts.replace("to 1760", f"{more}1768"))
    row = workload.row("page fault")
    assert (row.calls, row.instructions, row.preempted) == (3, 98, 1)
    assert row.values == ((4, 1), (90, 2))
    assert [row.quantile(share) for share in (0.3, 0.5, 1.0)] == [4, 90, 90]


@pytest.mark.parametrize(
    ("handler", "name"),
    [
        *[("__arm64_sys_openat", "openat"), ("__do_sys_vfork", "vfork"), ("sys_read", "read")],
        *[("__se_sys_mmap_pgoff", "mmap_pgoff"), ("__riscv_sys_newfstat", "fstat")],
        *[("__x64_compat_sys_ioctl", "ioctl"), ("__x64_sys_newuname", "uname")],
        *[("__arm64_sys_ni_syscall", "system call 7"), ("", "system call 7")],
        ("__arm64_sys_set_mempolicy_home_node", "set_mempolicy_home_node"),
    ],
)
def test_a_call_is_called_as_its_manual_page(handler: str, name: str) -> None:
    assert name_of_call(handler, 7) == name


def test_what_was_counted_of_one_that_was_stopped_is_kept(ran: Any) -> None:
    workload, ending = ran(COUNTS.replace("5900 1", "5900 0"), CONSOLE.partition("kentry-w")[0])
    assert (ending.status, workload.complete, workload.workload.status) == (None, False, None)
    assert "stopped-early" in {one["kind"] for one in workload.caveats}
    late = ran(COUNTS.replace("missed 0", "missed 2"))[0]
    assert "missed-returns" in {one["kind"] for one in late.caveats}


def test_a_program_that_never_began_is_an_error(ran: Any) -> None:
    with pytest.raises(GuestError, match="stopped after 5 s"):
        ran(None)
    with pytest.raises(GuestError) as caught:
        ran(None, "Initramfs unpacking failed: write error\n")
    assert "--memory" in caught.value.remedy


@pytest.mark.parametrize("line", ["nonsense 1", "kind 1", "value 99 1 1", "of 7 1 1 1", "from x 1"])
def test_counts_that_are_none_of_the_plugins(tmp_path: Path, line: str) -> None:
    file = tmp_path / "counts"
    file.write_text(f"{line}\n{COUNTS}")
    with pytest.raises(TraceError):
        read_counts(file)
    file.write_text(COUNTS.rpartition("to ")[0])
    with pytest.raises(TraceError, match="cut short"):
        read_counts(file)


def test_with_a_trace_the_run_is_handed_on_while_its_files_are_there(ran: Any) -> None:
    seen: list[bool] = []
    ran(keep=lambda traced: seen.append(traced.counts.exists()))
    assert seen == [True]


def test_the_file_is_the_result(ran: Any, tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    workload = ran()[0]
    write_workload(workload, file)
    found = read_workload(file)
    assert (found.rows, found.programs, found.functions) == (
        workload.rows,
        workload.programs,
        workload.functions,
    )
    before = file.read_bytes()
    write_workload(ran()[0], file)
    assert file.read_bytes() == before
    file.write_text(file.read_text().replace('"getppid"', '"getpid"'))
    with pytest.raises(RecordingError, match="checksum"):
        read_workload(file)
    file.write_text(before.decode().replace("workload/1", "workload/2"))
    with pytest.raises(RecordingError, match="workload/2") as caught:
        read_workload(file)
    assert "newer" in caught.value.remedy


@pytest.mark.parametrize(
    "change",
    [
        {"instructions": 761},
        {"functions": ()},
        {"rows": 2},
        {"slices": Slices(512, {"user": (400, 101)})},
    ],
)
def test_numbers_that_do_not_add_up_are_refused(ran: Any, change: dict[str, Any]) -> None:
    workload = ran()[0]
    fields = {name: getattr(workload, name) for name in workload.__struct_fields__}
    if change.get("rows") == 2:
        change = {"rows": (*workload.rows, workload.rows[0])}
    with pytest.raises(ContradictionError):
        Workload(**{**fields, **change})


def test_the_plugins_kinds_are_those_of_the_result() -> None:
    """plugin/accounts.h says them a second time, in this order."""
    text = (ROOT / "plugin/accounts.h").read_text()
    body = text.partition("enum what {")[2].partition("SINGLES")[0]
    found = re.findall(r"\bIS_(\w+),", body)
    plain = {"KTHREAD": "KERNEL_THREADS", "OTHER": "OTHER_TASKS"}
    names = [plain.get(name, name).lower().replace("_", "-") for name in found]
    assert names == list(module._WHATS)


RUNNER_IS_INTERRUPTED = """
#include "accounts.h"
int main(int argc, char **argv) {
	struct accounts_end end = { .complete = 1, .instructions = { 0, 7 } };
	uint32_t kind;
	(void)argc;
	accounts_open(argv[1]);
	accounts_init(1);
	kind = accounts_kind(IS_KERNEL_INTERRUPT, 3);
	accounts_call(kind, 0);
	accounts_add(kind, BEFORE, 0, 0, 7);
	accounts_call(kind, accounts_program("xz"));
	return accounts_write(&end);
}
"""


def test_an_interrupt_of_a_task_that_is_no_programs_is_in_its_row_alone(tmp_path: Path) -> None:
    """QEMU ended by SIGSEGV where the runner was interrupted before its first child ran."""
    (tmp_path / "main.c").write_text(RUNNER_IS_INTERRUPTED)
    sources = [str(tmp_path / "main.c"), str(ROOT / "plugin/accounts.c")]
    program, file = tmp_path / "program", tmp_path / "counts"
    compiled = ["gcc", f"-I{ROOT}/plugin", *sources, "-o", str(program)]
    subprocess.run(compiled, check=True)
    subprocess.run([program, file], check=True)
    counts = read_counts(file)
    (kind,) = (one for one in counts.kinds.values() if one.what == KERNEL_INTERRUPT)
    assert (kind.calls, sum(kind.parts)) == (2, 7)
    assert [(name, rows) for name, *_, rows in counts.programs.values()] == [
        ("xz", {next(at for at, one in counts.kinds.items() if one is kind): (1, 0)})
    ]


@pytest.mark.parametrize(
    ("known", "name"),
    [
        ({23: "apic timer interrupt"}, "apic timer interrupt"),
        ({23: "timer"}, "timer interrupt"),
        ({}, "interrupt 23"),
    ],
)
def test_an_interrupt_is_called_one_once(known: dict[int, str], name: str) -> None:
    kind = module._Kind(INTERRUPT, 23, 1, (7, 0, 0), 0, 0, 0)
    assert module._name_of(kind, replace(HOOKS, interrupts=known), {}) == name
