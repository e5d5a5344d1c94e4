# SPDX-License-Identifier: GPL-2.0-or-later
"""Where the tasks plugin looks, what it wrote, and a workload to its trace, without a guest."""

import re
import struct
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Never

import pytest

from kentry.arch import ARCHES
from kentry.boot.console import GuestExit
from kentry.boot.guest_tasks import Ending, Traced, TracedWorkload, TraceOptions
from kentry.boot.task_hooks import Event, Hooks
from kentry.errors import GuestError, KernelError, TraceError
from kentry.vector import tracing
from kentry.vector.trace import Task, VectorTrace, read_trace
from kentry.vector.tracing import TaskTable, read_records, read_task_table, trace_workload
from tests import ROOT
from tests.builders import image_kernel as kernel
from tests.unit.vector.traces import columns_of

HOOKS = Hooks(("offset pid 1",))

Row = tuple[int, int, Event, int, int]  # instructions, ns, event, task, arg

SH, PS = b"sh".hex(), "ps\x1b[2J\xff".encode("latin-1").hex()
TASKS = f"""\
task 0 -1 0 1
name 0 {b"swapper/0".hex()}
begin 1000 5000
task 2 -1 1 0
name 2 {SH}
task 3 2 17 0
name 3 {SH}
name 3 {PS}
name 3 {SH}
end 2000 6000 12
"""


def table_of(folder: Path, text: str) -> TaskTable:
    file = folder / "events.tasks"
    file.write_text(text)
    return read_task_table(file)


def raw(*rows: Row) -> bytes:
    return b"".join(
        struct.pack("<QQIi", instructions, ns, task << 8 | event, arg)
        for instructions, ns, event, task, arg in rows
    )


def records_of(folder: Path, data: bytes) -> list[tuple[int, ...]]:
    """All rows as (event, task, instructions, ns, arg)."""
    (folder / "events").write_bytes(data)
    chunks = list(read_records(folder / "events"))
    return [tuple(map(int, row)) for columns in chunks for row in zip(*columns, strict=True)]


def test_tasks_by_number_with_all_their_names(tmp_path: Path) -> None:
    table = table_of(tmp_path, TASKS)
    strange = "ps\x1b[2J\ufffd"
    assert table.tasks == [
        Task(0, "swapper/0", ("swapper/0",), -1, True),
        Task(0, "", (), -1, False),  # a fork that failed: it never ran
        Task(1, "sh", ("sh",), -1, False),
        Task(17, "sh", ("sh", strange), 2, False),
    ]
    assert table.begin == (1000, 5000)
    assert table.records >= 0


@pytest.mark.parametrize("length", range(0, len(TASKS), 7))
def test_a_list_cut_anywhere_is_read_to_its_last_whole_line(tmp_path: Path, length: int) -> None:
    table = table_of(tmp_path, TASKS[:length])
    whole = TASKS[:length].count("\n")
    assert (table.begin is not None) == (whole >= 3)
    assert len(table.tasks) == (0 if whole < 1 else 1 if whole < 4 else 3 if whole < 6 else 4)
    assert table.records == -1


@pytest.mark.parametrize(
    "line",
    [
        *("", "nonsense 1", "task 1 -1", "task 1 -1 5 0 0", "task one -1 5 0"),
        *("name 9 6162", "name 0 6", "name 0", "begin 1", "begin x 1"),
    ],
)
def test_a_line_that_is_none_of_the_plugins_is_said(tmp_path: Path, line: str) -> None:
    with pytest.raises(TraceError) as caught:
        table_of(tmp_path, f"task 0 -1 0 1\n{line}\n")
    assert f"'{line}'" in caught.value.sentence
    with pytest.raises(TraceError, match="No such file"):
        read_task_table(tmp_path / "none")


def test_tasks_that_never_ran_are_nobody(tmp_path: Path) -> None:
    """A trace names no task that is not in its table: not that of a fork cut in the middle."""
    table = table_of(tmp_path, TASKS)
    (tmp_path / "events").write_bytes(raw((1, 1, Event.FORK, 3, 5), (2, 2, Event.SYSCALL, 4, 1000)))
    (columns,) = read_records(tmp_path / "events")
    for size in (2, 2, 0):
        table.cover(tuple(column[:size] for column in columns))
        assert len(table.tasks) == 6
    assert table.tasks[4] == table.tasks[5] == Task(0, "", (), -1, False)


def test_records_as_columns(tmp_path: Path) -> None:
    rows = (
        (1, 2, Event.SYSCALL, 3, 64),
        (1 << 40, 1 << 41, Event.SWITCH_BLOCKED, (1 << 24) - 1, 7),
        (1 << 40, 1 << 41, Event.FAULT, 0, -1),
    )
    assert records_of(tmp_path, raw(*rows)) == [
        (1, 3, 1, 2, 64),
        (8, (1 << 24) - 1, 1 << 40, 1 << 41, 7),
        (2, 0, 1 << 40, 1 << 41, -1),
    ]
    (columns,) = read_records(tmp_path / "events")
    assert [one.dtype.str[1:] for one in columns] == ["u1", "u4", "u8", "u8", "i4"]


@pytest.mark.parametrize("cut", range(24))
def test_a_chunk_at_a_time_without_half_a_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cut: int
) -> None:
    monkeypatch.setattr(tracing, "_CHUNK", 4)
    data = raw(*((i, i, Event.EXIT, 1, 0) for i in range(11)))
    (tmp_path / "events").write_bytes(data[: len(data) - cut])
    sizes = [len(columns[0]) for columns in read_records(tmp_path / "events")]
    assert sizes == [4, 4, 2 if cut else 3]


def test_the_rows_of_za_are_one_event(tmp_path: Path) -> None:
    def rows(event: Event, start: int, task: int = 1) -> list[Row]:
        return [(start + 3 * i, start + 3 * i, event, task, 0) for i in range(16)]

    data = raw(
        *rows(Event.SEEN_ZA_SAVE, 1000),
        *rows(Event.SEEN_ZA_RESTORE, 1048),  # at once, but another event
        *rows(Event.SEEN_ZA_RESTORE, 1096, task=2),  # another task
        *rows(Event.SEEN_ZA_RESTORE, 1160, task=2),  # some instructions later
    )
    found = [(event, task, at) for event, task, at, _, _ in records_of(tmp_path, data)]
    assert found == [
        (Event.SEEN_ZA_SAVE, 1, 1000),
        *((Event.SEEN_ZA_RESTORE, *row) for row in ((1, 1048), (2, 1096), (2, 1160))),
    ]
    # No other event is merged.
    assert len(records_of(tmp_path, raw(*rows(Event.SEEN_FLUSH, 10)))) == 16


def test_the_plugins_numbers_are_the_traces() -> None:
    """plugin/events.h and tasks_isa.h say the numbers a second time."""
    folder = ROOT / "plugin"
    found = re.findall(r"EVENT_(\w+) = (\d+),", (folder / "events.h").read_text())
    assert {name: Event[name] for name, _ in found} == {name: int(n) for name, n in found}
    assert len(found) >= 11
    # In this order from 1 on.
    assert "ENTRY_SYSCALL = 1, ENTRY_FAULT, ENTRY_INTERRUPT" in (folder / "tasks_isa.h").read_text()
    assert [Event.SYSCALL, Event.FAULT, Event.INTERRUPT] == [1, 2, 3]


CONSOLE = "booting\nkentry-workload start\nhello\nkentry-workload end {status}\n"
TABLE = f"""\
task 1 -1 1 0
name 1 {b"init".hex()}
begin 1000 5000
task 2 1 17 0
name 2 {b"sh".hex()}
"""
END = "end 2000 6000 4\n"
ROWS = (
    (1001, 5001, Event.FORK, 1, 2),
    (1010, 5010, Event.EXIT, 2, 0),
    (1020, 5020, Event.USE, 2, 3),
    (1030, 5030, Event.SYSCALL, 2, 93),
)
RECORDS = raw(*ROWS)
TARGET = {"kind": "qemu", "emulator": "QEMU 10.0.2", "processor": "neoverse-n2"}
ABOUT = {"name": "shell", "command": ["/bin/sh"], "release": "bookworm"}
CONFIG = "CONFIG_ARM64_SVE=y\nCONFIG_RISCV_ISA_V=y\n"


@dataclass
class Played:
    """What the guest leaves: its console, the plugin's files (None: none), how it ended."""

    console: str = CONSOLE.format(status=0)
    clause: str = "the machine rebooted or was switched off"
    trouble: str = ""
    table: str | None = TABLE + END
    records: bytes | None = RECORDS
    stand_in: bool = False
    target: dict[str, str] = field(default_factory=lambda: TARGET)

    def __call__(self, *words: Any) -> Traced:
        _, _, _, hooks, _, folder, _ = words
        assert hooks == HOOKS
        if self.table is not None:
            (folder / "events.tasks").write_text(self.table)
        if self.records is not None:
            (folder / "events").write_bytes(self.records)
        ending = GuestExit(self.console, self.clause, self.trouble)
        return Traced(ending, folder / "counts", folder / "events", self.target, self.stand_in)


def never(*words: object) -> Never:
    raise AssertionError("booted")


Outcome = Callable[..., tuple[Ending, VectorTrace]]


@pytest.fixture
def outcome(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Outcome:
    """Traces a kernel into x.parquet; returns how the workload ended, and the trace."""

    def run(
        play: Callable[..., Traced] | None = None,
        arch: str = "arm64",
        policy: str | None = None,
        release: str = "6.12.95",
        config: str | None = f"{CONFIG}CONFIG_HZ=250\n",
        hooks: Callable[..., Hooks] = lambda *words, **options: HOOKS,
        **options: Any,
    ) -> tuple[Ending, VectorTrace]:
        file = tmp_path / "config" if config is not None else None
        if file and config is not None:
            file.write_text(config)
        own = replace(kernel(arch), spec="debian:6.12", release=release, config=file)
        monkeypatch.setattr(tracing, "find_hooks", hooks)
        monkeypatch.setattr(tracing, "trace_guest", play or Played())
        path, workload = tmp_path / "x.parquet", TracedWorkload(Path("/rootfs.cpio"), (), ABOUT)
        path.unlink(missing_ok=True)
        ending = trace_workload(
            *(own, ARCHES[arch], workload, TraceOptions(**options), policy, path),
            lambda fraction, now: None,
        )
        return ending, read_trace(path)

    return run


def test_from_the_plugins_files_to_the_trace(outcome: Outcome) -> None:
    found, trace = outcome()
    assert found.status == 0
    rows = zip(*(column.tolist() for column in columns_of(trace)), strict=True)
    assert list(rows) == [(e.value, task, i, ns, arg) for i, ns, e, task, arg in ROWS]
    assert [task.name for task in trace.tasks] == ["", "init", "sh"]
    assert trace.meta["complete"] is True
    assert "console_tail" not in trace.meta
    assert trace.meta["workload"] == {**ABOUT, "status": 0}
    assert trace.meta["target"] == TARGET
    assert trace.meta["kernel"]["release"] == "6.12.95"
    assert trace.meta["hz"] == 250
    assert trace.meta["unit"] == {"vl": 128}
    assert trace.meta["trap_classes"] == [0x19, 0x1D]
    assert {one["kind"] for one in trace.meta["caveats"]} == {"not-time", "emulated-clock"}
    # Of a fork that failed last, too.
    last = raw((1040, 5040, Event.FORK, 2, 7))
    assert len(outcome(Played(records=RECORDS + last))[1].tasks) == 8


@pytest.mark.parametrize(
    ("processor", "length", "bits"),
    [
        ("neoverse-n2", None, 128),
        ("neoverse-v1", None, 256),
        ("fugaku", None, 512),
        ("max", None, 128),
        ("max", 256, 256),
        # kentry run traces on a processor without SVE, too; and what QEMU knows, kentry does not.
        ("cortex-a76", None, None),
        ("max,sve-max-vq=2", None, None),
    ],
)
def test_the_vector_length_is_the_processors(
    outcome: Outcome, processor: str, length: int | None, bits: int | None
) -> None:
    played = Played(target=TARGET | {"processor": processor})
    assert outcome(played, vector_length=length)[1].meta["unit"] == {"vl": bits}


@pytest.mark.parametrize(
    ("arch", "release", "given", "policy"),
    [
        ("arm64", "6.12.95+deb12-arm64", None, "drop-on-load"),
        ("arm64", "6.1.0-9-arm64", None, "drop-each-syscall"),
        ("arm64", "6.1.0-9-arm64", "timeout:1s", "timeout:1s"),
        ("arm64", "mine", "timeout:1s", "timeout:1s"),
        ("riscv64", "7.0", None, "discard"),
    ],
)
def test_the_policy_is_that_of_the_release_or_the_one_given(
    outcome: Outcome, arch: str, release: str, given: str | None, policy: str
) -> None:
    played = Played(target=TARGET | {"processor": "max"})
    _, trace = outcome(played, arch=arch, policy=given, release=release)
    assert trace.meta["policy"] == policy


@pytest.mark.parametrize("config", [None, CONFIG])
def test_a_private_emulator_is_told_of_and_no_unknown_frequency(
    outcome: Outcome, config: str | None
) -> None:
    meta = outcome(Played(stand_in=True), config=config)[1].meta
    assert meta["hz"] is None
    (emulator,) = (note["text"] for note in meta["caveats"] if note["kind"] == "private-emulator")
    assert "QEMU 10.0.2" in emulator


def test_a_workload_that_fails_has_its_status_and_output(outcome: Outcome) -> None:
    found, trace = outcome(Played(console=CONSOLE.format(status=3)))
    assert (found.status, found.output) == (3, "hello")
    assert trace.meta["workload"]["status"] == 3
    # It got to its end, if not to a good one.
    assert trace.meta["complete"] is True


def test_what_was_recorded_of_one_that_was_stopped_is_kept(outcome: Outcome) -> None:
    console = CONSOLE.partition("kentry-workload end")[0]
    found, trace = outcome(Played(console, "it was stopped after 5 s", "", TABLE, RECORDS[:-10]))
    assert found.status is None
    assert len(trace) == 3
    assert trace.meta["complete"] is False
    assert trace.meta["workload"]["status"] is None
    assert "hello" in trace.meta["console_tail"]


@pytest.mark.parametrize(
    "played",
    [
        Played(table=TABLE),  # QEMU was killed behind the workload's end
        Played("booting\nkentry-workload start\nKernel panic - not syncing: Oops\n"),
        Played(table=TABLE, records=b""),
    ],
)
def test_it_is_complete_only_if_both_say_so(outcome: Outcome, played: Played) -> None:
    _, trace = outcome(played)
    assert trace.meta["complete"] is False
    assert len(trace) == (4 if played.records else 0)


@pytest.mark.parametrize(
    ("line", "table", "error", "remedy"),
    [
        *(
            ("Kernel panic - not syncing: Oops", table, "never began: it was stopped", "console's")
            for table in ("", f"task 1 -1 1 0\nname 1 {b'init'.hex()}\n", "begin 10 20\n")
        ),
        *(
            (line, "", "did not fit into the guest's memory", "--memory MIB")
            for line in (
                "Initramfs unpacking failed: write error",
                "Kernel panic - not syncing: System is deadlocked on memory; Out of memory",
                "cp: No space left on device",
            )
        ),
    ],
)
def test_one_that_never_began_is_an_error_with_the_consoles_end(
    outcome: Outcome, tmp_path: Path, line: str, table: str, error: str, remedy: str
) -> None:
    with pytest.raises(GuestError, match=error) as caught:
        outcome(Played(f"one\n{line}\n", "it was stopped after 9 s", "", table))
    assert remedy in caught.value.remedy
    assert line in caught.value.detail
    assert not (tmp_path / "x.parquet").exists()


def test_a_plugin_that_wrote_nothing_is_said_with_qemus_words(outcome: Outcome) -> None:
    with pytest.raises(TraceError, match="list of tasks") as caught:
        outcome(Played(trouble="kentry plugin: out of memory", table=None, records=None))
    assert caught.value.detail == "kentry plugin: out of memory"
    with pytest.raises(TraceError, match="'nonsense'"):
        outcome(Played(table="nonsense\n"))


def test_a_kernel_that_will_not_do_is_not_booted(outcome: Outcome, tmp_path: Path) -> None:
    def find(*words: object, **options: object) -> Never:
        raise KernelError("debian:6.12 has no type information.")

    with pytest.raises(KernelError, match="CONFIG_ARM64_SVE"):
        outcome(never, config="CONFIG_HZ=250\n")
    with pytest.raises(KernelError, match="'mine'") as caught:
        outcome(never, release="mine")
    assert "--kernel-policy" in caught.value.remedy
    with pytest.raises(KernelError, match="no type information"):
        outcome(never, hooks=find)
    assert not (tmp_path / "x.parquet").exists()
