# SPDX-License-Identifier: GPL-2.0-or-later
"""A second boot in other contexts, for the cases that can depend on one."""

import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from kentry.arch import find_arch
from kentry.boot.exact import ExactOptions, FakeRunner, GuestRun, QemuRunner
from kentry.count.recorder import measure, second_boot
from kentry.errors import GuestError
from kentry.kernels.kernel import Kernel, Symbol
from kentry.progress import Update
from kentry.results.recording import Recording, read_recording, write_recording
from tests.builders import image_kernel

ALLOCATES = Symbol(0xFFFF800008050000, "T", "kmem_cache_alloc")
OPTIONS = ExactOptions(cases=("getppid", "read"), windows=2, path_windows=2, rounds=2)

TRACE = """\
kentry-trace 1
qemu aarch64 api=1
message context 0 tasks=0
message case getppid path 1
insn 0 ffff800008010800 03000014 b #0xffff800008010804
insn 1 ffff800008010804 00000000 nop
path 0 2 0+2
window 2 2 0 1 0 0 0 0
"""
READ = """\
message case read path 1
insn 2 ffff800008050000 00000000 nop
insn 3 ffff800008050004 00000000 nop
path 1 {read} 0+1 2+{rest}
window 2 {read} 0 1 0 0 0 1
"""
COUNT = """\
message case {case} count 1
window 2 2 0 1 0 0 0 -
"""
PATIENCE = 10  # seconds


def kernel() -> Kernel:
    usual = image_kernel()
    return replace(usual, symbols=type(usual.symbols).of([*usual.symbols, ALLOCATES]))


@dataclass(frozen=True)
class SavedBoots(QemuRunner):
    """Replays a first and a second boot."""

    folder: Path
    stopped: threading.Event
    begun: threading.Event
    second_fails: bool = False
    second_hangs: bool = False
    first_fails: bool = False

    def run(self, kernel: Kernel, options: ExactOptions, update: Update) -> GuestRun:
        is_second = options.dentry_hash != OPTIONS.dentry_hash
        if is_second:
            self.begun.set()
        if is_second and self.second_hangs:
            self.hang(update)
        if not is_second:
            assert self.begun.wait(PATIENCE), "the second boot is not beside the first"
        if self.second_fails if is_second else self.first_fails:
            raise GuestError("The kernel panicked.")
        saved = self.folder / ("second" if is_second else "first")
        saved.mkdir()
        (saved / "console").write_text(
            "kentry-probe start arm64\nkentry-probe release 6.1\nkentry-probe end cases=2\n"
        )
        trace = TRACE
        if "read" in options.cases:
            trace += READ.format(read=3 if is_second else 2, rest=2 if is_second else 1)
        if not is_second:
            trace += "".join(COUNT.format(case=case) for case in options.cases)
        (saved / "trace").write_text(f"{trace}message end 2\nend {2 * trace.count('window')}\n")
        return FakeRunner(saved).run(kernel, options, update)

    def hang(self, update: Update) -> None:
        """As a guest does until what its progress calls raises."""
        try:
            for _ in range(100 * PATIENCE):
                update(None, "booting")
                time.sleep(0.01)
        except BaseException:
            self.stopped.set()
            raise


def boots(folder: Path) -> SavedBoots:
    return SavedBoots(find_arch("arm64"), folder, threading.Event(), threading.Event())


def measured(runner: SavedBoots, options: ExactOptions = OPTIONS) -> Recording:
    return measure(kernel(), runner, options, lambda fraction, now: None)


def test_a_case_that_allocates_has_the_contexts_of_both_boots(tmp_path: Path) -> None:
    recording = measured(boots(tmp_path))
    read = recording.case("read")
    assert read
    assert [(one.context, one.value) for one in read.contexts] == [(0, 2), (1, 3)]
    assert [path.length for path in read.paths] == [2, 3]
    assert [one["memory_mib"] for one in recording.contexts] == [512, 1024]
    assert not read.caveats


@pytest.mark.parametrize(("first", "second"), [(512, 1024), (576, 1024), (577, 256), (4096, 256)])
def test_the_second_boot_is_of_other_contexts(first: int, second: int) -> None:
    """Memory on the other side of 512 MiB, small hash chains, and 8 paths a round."""
    other = second_boot(replace(OPTIONS, memory=first, check=True))
    assert other.memory == second
    assert (other.windows, other.rounds, other.path_windows, other.warmup) == (0, 24, 192, 4)
    assert (other.dentry_hash, other.links, other.check) == (4096, 5120, False)
    assert other.seed != OPTIONS.seed


def test_what_is_written_can_be_read(tmp_path: Path) -> None:
    """Also where most contexts have another count than the first boot's windows."""
    recording = measured(boots(tmp_path))
    file = tmp_path / "recording.json"
    write_recording(recording, file)
    assert read_recording(file).cases == recording.cases


def test_a_case_that_depends_on_no_context_has_those_of_the_first_boot(tmp_path: Path) -> None:
    getppid = measured(boots(tmp_path)).case("getppid")
    assert getppid
    assert [one.context for one in getppid.contexts] == [0]


def test_the_second_boot_is_stopped_where_no_case_depends_on_a_context(tmp_path: Path) -> None:
    runner = replace(boots(tmp_path), second_hangs=True)
    recording = measured(runner, replace(OPTIONS, cases=("getppid",)))
    assert runner.stopped.is_set()
    assert len(recording.contexts) == 1


def test_the_second_boot_is_stopped_where_the_first_fails(tmp_path: Path) -> None:
    runner = replace(boots(tmp_path), second_hangs=True, first_fails=True)
    with pytest.raises(GuestError, match="panicked"):
        measured(runner)
    assert runner.stopped.is_set()


def test_what_the_first_boot_counted_is_kept_where_the_second_fails(tmp_path: Path) -> None:
    recording = measured(replace(boots(tmp_path), second_fails=True))
    assert [case.name for case in recording.cases] == ["getppid", "read"]
    assert "one-boot" in [caveat["kind"] for caveat in recording.caveats]
    assert len(recording.contexts) == 1
