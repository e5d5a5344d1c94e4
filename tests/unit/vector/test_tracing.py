# SPDX-License-Identifier: GPL-2.0-or-later
"""A workload to its trace, with a guest that only writes what the plugin and the console would."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Never

import pytest

from kentry.arch import ARCHES
from kentry.boot.console import GuestExit
from kentry.boot.guest_tasks import Ending, Traced, TracedWorkload, TraceOptions
from kentry.errors import GuestError, KernelError, TraceError
from kentry.vector import tracing as module
from kentry.vector.trace import Event, VectorTrace, read_trace
from kentry.vector.tracing import trace_workload
from tests.builders import image_kernel as kernel
from tests.unit.vector.traces import columns_of

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
RECORDS = b"".join(
    struct.pack("<QQIi", instructions, ns, task << 8 | event, arg)
    for instructions, ns, event, task, arg in ROWS
)
TARGET = {"kind": "qemu", "emulator": "QEMU 10.0.2", "cpu": "neoverse-n2"}
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

    def __call__(
        self,
        kernel: object,
        arch: object,
        workload: object,
        hooks: tuple[str, ...],
        options: object,
        folder: Path,
        update: object,
    ) -> Traced:
        assert hooks == ("offset pid 1",)
        if self.table is not None:
            (folder / "events.tasks").write_text(self.table)
        if self.records is not None:
            (folder / "events").write_bytes(self.records)
        ending = GuestExit(self.console, self.clause, self.trouble)
        return Traced(ending, folder / "events", TARGET, self.stand_in)


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
        hooks: Callable[..., tuple[str, ...]] = lambda *words: ("offset pid 1",),
        **options: Any,
    ) -> tuple[Ending, VectorTrace]:
        file = tmp_path / "config" if config is not None else None
        if file and config is not None:
            file.write_text(config)
        own = replace(kernel(arch), spec="debian:6.12", release=release, config=file)
        monkeypatch.setattr(module, "find_hooks", hooks)
        monkeypatch.setattr(module, "trace_guest", play or Played())
        path, workload = tmp_path / "x.parquet", TracedWorkload(Path("/rootfs.cpio"), (), ABOUT)
        path.unlink(missing_ok=True)
        ending = trace_workload(
            *(own, ARCHES[arch], workload, TraceOptions(**options), policy, path),
            lambda fraction, now: None,
        )
        return ending, read_trace(path)

    return run


# --- a workload that ends ------------------------------------------------


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
    assert outcome(vector_length=256)[1].meta["unit"] == {"vl": 256}


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
    _, trace = outcome(arch=arch, policy=given, release=release)
    assert trace.meta["policy"] == policy


@pytest.mark.parametrize("config", [None, CONFIG])
def test_a_kernel_of_which_no_frequency_is_known(outcome: Outcome, config: str | None) -> None:
    assert outcome(config=config)[1].meta["hz"] is None


def test_a_private_emulator_is_told_of(outcome: Outcome) -> None:
    caveats = outcome(Played(stand_in=True))[1].meta["caveats"]
    (found,) = (one for one in caveats if one["kind"] == "private-emulator")
    assert "QEMU 10.0.2" in found["text"]


def test_a_fork_that_failed_last_leaves_a_trace_that_can_be_read(outcome: Outcome) -> None:
    last = struct.pack("<QQIi", 1040, 5040, 2 << 8 | Event.FORK, 7)
    assert len(outcome(Played(records=RECORDS + last))[1].tasks) == 8


# --- one that does not ---------------------------------------------------


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


# --- kernels that will not do --------------------------------------------


def test_a_kernel_that_will_not_do_is_not_booted(outcome: Outcome, tmp_path: Path) -> None:
    def find(*words: object) -> Never:
        raise KernelError("debian:6.12 has no type information.")

    with pytest.raises(KernelError, match="CONFIG_ARM64_SVE"):
        outcome(never, config="CONFIG_HZ=250\n")
    with pytest.raises(KernelError, match="'mine'") as caught:
        outcome(never, release="mine")
    assert "--kernel-policy" in caught.value.remedy
    with pytest.raises(KernelError, match="no type information"):
        outcome(never, hooks=find)
    assert not (tmp_path / "x.parquet").exists()
