# SPDX-License-Identifier: GPL-2.0-or-later
"""A workload to its trace, with a guest that only writes what the plugin and the console would."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Never

import pytest

from kentry.arch import ARCHES, find_arch
from kentry.boot.console import GuestExit
from kentry.boot.guest_tasks import Ending, Traced, TracedWorkload, TraceOptions
from kentry.errors import GuestError, KernelError, TraceError
from kentry.kernels.kernel import Kernel
from kentry.vector import tracing as module
from kentry.vector.trace import Event, VectorTrace, read_trace
from kentry.vector.tracing import trace_workload
from tests.builders import image_kernel as kernel
from tests.unit.vector.traces import columns_of

OFF = "the machine rebooted or was switched off"
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
WORKLOAD = TracedWorkload(
    *(Path("/rootfs.cpio"), ()),
    {"name": "shell", "command": ["/bin/sh"], "release": "bookworm"},
)


@dataclass
class Played:
    """What the guest leaves: its console, the plugin's files (None: none), how it ended."""

    console: str = CONSOLE.format(status=0)
    clause: str = OFF
    trouble: str = ""
    table: str | None = TABLE + END
    records: bytes | None = RECORDS

    def __call__(
        self,
        kernel: Kernel,
        arch: object,
        workload: TracedWorkload,
        hooks: tuple[str, ...],
        options: TraceOptions,
        folder: Path,
        update: object,
    ) -> Traced:
        assert hooks == ("offset pid 1",)
        if self.table is not None:
            (folder / "events.tasks").write_text(self.table)
        if self.records is not None:
            (folder / "events").write_bytes(self.records)
        return Traced(GuestExit(self.console, self.clause, self.trouble), folder / "events", TARGET)


def booted(folder: Path, arch: str = "arm64", release: str = "6.12.95", config: str = "") -> Kernel:
    file = folder / "config"
    file.write_text(config or "CONFIG_ARM64_SVE=y\nCONFIG_RISCV_ISA_V=y\nCONFIG_HZ=250\n")
    return replace(kernel(arch), spec="debian:6.12", release=release, config=file)


def outcome(
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
    play: Callable[..., Traced] | None = None,
    arch: str = "arm64",
    policy: str | None = None,
    release: str = "6.12.95",
    own: Kernel | None = None,
    **options: Any,
) -> Ending:
    """Traces into FOLDER/x.parquet."""
    monkeypatch.setattr(module, "find_hooks", lambda *words: ("offset pid 1",))
    monkeypatch.setattr(module, "trace_guest", play or Played())
    return trace_workload(
        own or booted(folder, arch, release),
        ARCHES[arch],
        WORKLOAD,
        TraceOptions(**options),
        policy,
        folder / "x.parquet",
        lambda fraction, now: None,
    )


def trace_in(folder: Path) -> VectorTrace:
    return read_trace(folder / "x.parquet")


# --- a workload that ends ------------------------------------------------


def test_from_the_plugins_files_to_the_trace(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = outcome(monkeypatch, tmp_path)
    assert found.status == 0
    trace = trace_in(tmp_path)
    rows = zip(*(column.tolist() for column in columns_of(trace)), strict=True)
    assert list(rows) == [(e.value, task, i, ns, arg) for i, ns, e, task, arg in ROWS]
    assert [task.name for task in trace.tasks] == ["", "init", "sh"]
    assert trace.meta["complete"] is True
    assert "console_tail" not in trace.meta
    assert trace.meta["workload"] == {**WORKLOAD.description, "status": 0}
    assert trace.meta["target"] == TARGET
    assert trace.meta["kernel"]["release"] == "6.12.95"
    assert trace.meta["hz"] == 250
    assert trace.meta["trap_classes"] == [0x19, 0x1D]
    assert {one["kind"] for one in trace.meta["caveats"]} == {"not-time", "emulated-clock"}


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
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    arch: str,
    release: str,
    given: str | None,
    policy: str,
) -> None:
    outcome(monkeypatch, tmp_path, arch=arch, policy=given, release=release)
    assert trace_in(tmp_path).meta["policy"] == policy


def test_the_vector_length_is_the_cpus(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    outcome(monkeypatch, tmp_path)
    assert trace_in(tmp_path).meta["unit"] == {"vl": 128}
    outcome(monkeypatch, tmp_path, vector_length=256)
    assert trace_in(tmp_path).meta["unit"] == {"vl": 256}


def test_a_kernel_of_which_no_config_is_known(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for config in (None, tmp_path / "config"):
        (tmp_path / "config").write_text("CONFIG_ARM64_SVE=y\n")
        own = replace(booted(tmp_path, config="CONFIG_ARM64_SVE=y\n"), config=config)
        outcome(monkeypatch, tmp_path, own=own)
        assert trace_in(tmp_path).meta["hz"] is None


def test_a_private_emulator_is_told_of(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def play(*words: Any) -> Traced:
        return replace(Played()(*words), stand_in=True)

    outcome(monkeypatch, tmp_path, play)
    found = [one for one in trace_in(tmp_path).meta["caveats"] if one["kind"] == "private-emulator"]
    assert "QEMU 10.0.2" in found[0]["text"]


def test_a_fork_that_failed_last_leaves_a_trace_that_can_be_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    last = struct.pack("<QQIi", 1040, 5040, 2 << 8 | Event.FORK, 7)
    outcome(monkeypatch, tmp_path, Played(records=RECORDS + last))
    assert len(trace_in(tmp_path).tasks) == 8


# --- one that does not ---------------------------------------------------


def test_a_workload_that_fails_has_its_status_and_output(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = outcome(monkeypatch, tmp_path, Played(console=CONSOLE.format(status=3)))
    assert found.status == 3
    assert found.output == "hello"
    trace = trace_in(tmp_path)
    assert trace.meta["workload"]["status"] == 3
    # It got to its end, if not to a good one.
    assert trace.meta["complete"] is True


def test_what_was_recorded_of_one_that_was_stopped_is_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    console = CONSOLE.partition("kentry-workload end")[0]
    play = Played(console, "it was stopped after 5 s", "", TABLE, RECORDS[:-10])
    found = outcome(monkeypatch, tmp_path, play)
    assert found.status is None
    trace = trace_in(tmp_path)
    assert len(trace) == 3
    assert trace.meta["complete"] is False
    assert trace.meta["workload"]["status"] is None
    assert "hello" in trace.meta["console_tail"]


@pytest.mark.parametrize(
    ("console", "table"),
    [
        (CONSOLE.format(status=0), TABLE),  # QEMU was killed behind the workload's end
        ("booting\nkentry-workload start\nKernel panic - not syncing: Oops\n", TABLE + END),
    ],
)
def test_it_is_complete_only_if_both_say_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, console: str, table: str
) -> None:
    outcome(monkeypatch, tmp_path, Played(console=console, table=table))
    assert trace_in(tmp_path).meta["complete"] is False


def test_a_trace_without_any_event_is_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    outcome(monkeypatch, tmp_path, Played(table=TABLE, records=b""))
    assert len(trace_in(tmp_path)) == 0


@pytest.mark.parametrize(
    "table",
    [
        "",
        f"task 1 -1 1 0\nname 1 {b'init'.hex()}\n",
        "begin 10 20\n",  # and no task
    ],
)
def test_one_that_never_began_is_an_error_with_the_consoles_end(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, table: str
) -> None:
    play = Played("one\nKernel panic - not syncing: Oops\n", "it was stopped after 9 s", "", table)
    with pytest.raises(GuestError) as caught:
        outcome(monkeypatch, tmp_path, play)
    assert "9 s" in caught.value.sentence
    assert "Kernel panic" in caught.value.detail
    assert not (tmp_path / "x.parquet").exists()


@pytest.mark.parametrize(
    "line",
    [
        "Initramfs unpacking failed: write error",
        "Kernel panic - not syncing: System is deadlocked on memory; Out of memory",
        "cp: No space left on device",
    ],
)
def test_a_root_file_system_that_does_not_fit(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, line: str
) -> None:
    with pytest.raises(GuestError, match="memory") as caught:
        outcome(monkeypatch, tmp_path, Played(f"booting\n{line}\n", table=""))
    assert "--memory MIB" in caught.value.remedy
    assert line in caught.value.detail


def test_a_plugin_that_wrote_nothing_is_said_with_qemus_words(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    play = Played(trouble="kentry plugin: out of memory", table=None, records=None)
    with pytest.raises(TraceError, match="list of tasks") as caught:
        outcome(monkeypatch, tmp_path, play)
    assert caught.value.detail == "kentry plugin: out of memory"


def test_a_list_of_tasks_that_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="'nonsense'"):
        outcome(monkeypatch, tmp_path, Played(table="nonsense\n"))


# --- kernels that will not do --------------------------------------------


def never(*words: object) -> Traced:
    raise AssertionError("booted")


def test_a_kernel_without_the_unit_is_not_booted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    own = booted(tmp_path, "arm64", config="CONFIG_HZ=250\n")
    with pytest.raises(KernelError, match="CONFIG_ARM64_SVE"):
        outcome(monkeypatch, tmp_path, never, own=own)


def test_a_release_that_is_none_needs_a_policy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(KernelError, match="'mine'") as caught:
        outcome(monkeypatch, tmp_path, never, release="mine")
    assert "--kernel-policy" in caught.value.remedy
    assert not (tmp_path / "x.parquet").exists()


def test_one_without_type_information_is_not_booted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def find(*words: object) -> Never:
        raise KernelError("debian:6.12 has no type information.")

    monkeypatch.setattr(module, "find_hooks", find)
    monkeypatch.setattr(module, "trace_guest", never)
    with pytest.raises(KernelError, match="no type information"):
        trace_workload(
            booted(tmp_path),
            find_arch("arm64"),
            WORKLOAD,
            TraceOptions(),
            None,
            tmp_path / "x.parquet",
            lambda fraction, now: None,
        )
