# SPDX-License-Identifier: GPL-2.0-or-later
"""From a saved run to a recording: nothing lost, nothing made up."""

import re
import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from kentry.arch import find_arch
from kentry.boot.exact import ExactOptions, FakeRunner, GuestRun, QemuRunner
from kentry.count.recorder import measure, second_boot
from kentry.errors import ContradictionError, GuestError, KernelError, TraceError
from kentry.kernels.kernel import Kernel, Symbol, SymbolTable
from kentry.progress import Update
from kentry.results import caveats
from kentry.results.recording import Access, Recording, read_recording, write_recording
from tests.builders import image_kernel as kernel
from tests.places import silent
from tests.unit.count.saved import save

PATHS = """\
message case getppid path 1
insn 0 ffff800008010800 03000014 b #0xffff800008010804
insn 1 ffff800008010804 00000000 nop
insn 2 ffff800008020000 00000094 bl #0xffff800008010800
path 0 2 0+2
path 1 3 0+3
window 5 2 0 1 0 0 0 0
window 1 3 0 1 0 0 0 1
window 2 3 0 1 1 0 0 1
"""
OPTIONS = ExactOptions(cases=("getppid",), windows=10, path_windows=8)
SYMBOLS = list(kernel().symbols)


def run(
    folder: Path,
    counted: str = "window 10 2 0 1 0 0 0 -\n",
    *,
    said: str = "",
    messages: str = "",
    closing: str = "spoilt 0\n",
    options: ExactOptions = OPTIONS,
    build_id: str | None = None,
    user: str = "1",
    paths: str = "",
    slide: int = 0,
) -> Recording:
    paths = PATHS.replace("path 1", f"path {user}", 1) + paths
    if slide:
        messages += f"message text {0xFFFF800008010000 + slide:x}\n"
        paths = re.sub("ffff80000.{7}", lambda at: f"{int(at[0], 16) + slide:x}", paths)
    trace = f"{messages}message case getppid count {user}\n{counted}{paths}"
    measured = replace(kernel(), build_id=build_id)
    return measure(
        measured, FakeRunner(save(folder, trace, said, closing=closing)), options, silent
    )


def kinds(recording: Recording) -> list[str]:
    every = [*recording.caveats, *(note for case in recording.cases for note in case.caveats)]
    return [caveat["kind"] for caveat in every]


def test_a_run_becomes_a_recording(tmp_path: Path) -> None:
    recording = run(tmp_path)
    case = recording.cases[0]
    assert case.metrics["instructions"].samples == ((2, 10),)
    assert case.functions == (("vectors", 2),)
    assert [(path.role, path.times, path.length) for path in case.paths] == [
        ("modal", 5, 2),
        ("other", 1, 3),
    ]
    assert [insn.text for insn in recording.code] == ["b <vectors+0x4>", "nop", "bl <vectors>"]
    # Of the paths of windows that no interrupt hit.
    assert case.metrics["branches"].samples == ((1, 5), (2, 1))
    assert case.metrics["calls"].samples == ((0, 5), (1, 1))
    assert "loads" not in case.metrics
    assert kinds(recording) == ["not-time", "steady"]


@pytest.mark.parametrize(
    ("said", "function", "text", "mitigations"),
    [
        # As objdump and capstone write it, and what else the kernel patches there.
        ("bhb=mitigated", "__bp_harden_el1_vectors", "mov x30, #0x18", "bhb=loop-of-24"),
        ("bhb=mitigated", "__bp_harden_el1_vectors", "movz x30, #0x8", "bhb=loop-of-8"),
        ("bhb=mitigated", "__bp_harden_el1_vectors", "hint #0x16", "bhb=clearbhb"),
        ("bhb=mitigated", "__bp_harden_el1_vectors", "smc #0x0", "bhb=firmware-call"),
        (
            "spectre_v2=CSV2 bhb=mitigated mds=vulnerable",
            "__bp_harden_el1_vectors",
            "mov x30, #0x20",
            "spectre_v2=CSV2 bhb=loop-of-32 mds=vulnerable",
        ),
        # Another function may load that number too, and these vectors do more than that.
        ("bhb=mitigated", "do_irq", "mov x30, #0x18", "bhb=mitigated"),
        ("bhb=mitigated", "__bp_harden_el1_vectors", "mov x3, #0x18", "bhb=mitigated"),
        ("none", "__bp_harden_el1_vectors", "mov x30, #0x18", "none"),
        ("", "__bp_harden_el1_vectors", "mov x30, #0x18", ""),
    ],
)
def test_how_the_branch_history_is_cleared_is_of_the_code_that_ran(
    tmp_path: Path, said: str, function: str, text: str, mitigations: str | None
) -> None:
    class Mitigating(FakeRunner):
        def run(self, kernel: Kernel, options: ExactOptions, update: Update) -> GuestRun:
            run = super().run(kernel, options, update)
            return replace(run, target={**run.target, "mitigations": said})

    names = [one._replace(name=function) if one.name == "vectors" else one for one in SYMBOLS]
    trace = f"message case getppid count 1\nwindow 10 2 0 1 0 0 0 -\n{PATHS}"
    trace = trace.replace("00000000 nop", f"00000000 {text}")
    measured = replace(kernel(), symbols=SymbolTable.of(names))
    runner = Mitigating(save(tmp_path, trace))
    recording = measure(measured, runner, OPTIONS, silent)
    assert recording.target.get("mitigations") == mitigations


def test_what_only_some_paths_execute_is_none_in_the_others(tmp_path: Path) -> None:
    insn = "insn 3 ffff800007000000 df3f03d5 isb\n"
    recording = run(tmp_path, paths=f"{insn}path 2 4 0+4\nwindow 3 4 0 1 0 0 0 2\n")
    case = recording.cases[0]
    assert case.metrics["serialising.isb"].samples == ((0, 6), (1, 3))
    # That instruction is in no symbol, and one in four is many.
    assert "unnamed" in kinds(recording)


def test_the_modal_path_has_its_accesses(tmp_path: Path) -> None:
    told = "accesses {} 0:ffff000000001000:16:s 1:ffff000000001008:8:l\n"
    modal, other = run(tmp_path, paths=told.format(0) + told.format(1)).cases[0].paths
    assert modal.accesses == (
        Access(0, 0xFFFF000000001000, 16, True),
        Access(1, 0xFFFF000000001008, 8, False),
    )
    assert other.accesses is None
    assert run(tmp_path, paths=told.format(1)).cases[0].paths[0].accesses is None


TOLD = "accesses 0 0:ffff000000001000:16:s 1:ffff000000001008:8:l\n"


@pytest.mark.parametrize(
    ("window", "words"),
    [
        ("window 1 3 0 1 0 0 0 0 -\n", "3 kernel instructions, its path 2"),
        (f"{TOLD}window 1 2 0 1 0 0 0 0 2,1,8,16,1,1,1,1\n", "2 loads by the plugin, 1 by its"),
        (f"{TOLD}window 1 2 0 1 0 0 0 0 1,1,8,32,1,1,1,1\n", "32 bytes.stored by the plugin, 16"),
        (f"{TOLD}window 1 2 0 1 0 0 0 0 1,1,8,16,1,2,1,1\n", "2 lines.data by the plugin, 1"),
        (f"{TOLD}window 1 2 0 1 0 0 0 0 1,1,8,16,1,1,1,2\n", "2 pages.data by the plugin, 1"),
    ],
)
def test_what_the_plugin_counted_is_what_the_path_has(
    tmp_path: Path, window: str, words: str
) -> None:
    with pytest.raises(ContradictionError, match=words) as caught:
        run(tmp_path, paths=window)
    assert "a window of getppid" in caught.value.sentence


def test_two_cases_of_one_path_have_each_its_own_accesses(tmp_path: Path) -> None:
    first = "window 2 2 0 1 0 0 0 0 1,1,8,16,1,1,1,1\n"
    second = "window 1 2 0 1 0 0 0 0 1,1,4,16,1,1,1,1\n"
    other = (
        "message case write count 1\nwindow 10 2 0 1 0 0 0 - -\nmessage case write path 1\n"
        f"{second}{TOLD.replace(':8:l', ':4:l')}{second}"
    )
    options = replace(OPTIONS, cases=("getppid", "write"))
    both = run(tmp_path, paths=f"{TOLD}{first}{other}", options=options).cases
    sizes = [[one.size for one in case.paths[0].accesses or ()] for case in both]
    assert sizes == [[16, 8], [16, 4]]


def test_code_is_as_linked_wherever_the_kernel_was_loaded(tmp_path: Path) -> None:
    slid = run(tmp_path, slide=0x200000, options=replace(OPTIONS, randomise=True))
    assert slid.code == run(tmp_path).code
    with pytest.raises(KernelError):
        run(tmp_path, slide=0x200800, options=replace(OPTIONS, randomise=True))


@pytest.mark.parametrize("last", [14, 15, 16, 30])
def test_at_most_sixteen_paths_of_a_case_are_kept(tmp_path: Path, last: int) -> None:
    """The modal one, then the most frequent ones: path n was taken n times."""
    nops = "".join(f"path {n} {n + 2} 0+{n + 2}\n" for n in range(2, last + 1))
    insns = "".join(f"insn {n} {0xFFFF800008020000 + 4 * n:x} 00000000 nop\n" for n in range(3, 40))
    windows = "".join(f"window {n} {n + 2} 0 1 0 0 0 {n}\n" for n in range(2, last + 1))
    more = f"{insns}{nops}{windows}window 90 2 0 1 0 0 0 0\n"
    case = run(tmp_path, paths=more).cases[0]
    assert [path.role for path in case.paths] == ["modal", *["other"] * min(last, 15)]
    assert [path.length for path in case.paths[1:4]] == [last + 2, last + 1, last]


def test_an_interrupt_that_belongs_to_every_window_is_counted(tmp_path: Path) -> None:
    counted = "window 8 3 0 1 1 0 0 -\nwindow 1 2 0 1 0 0 0 -\nwindow 1 900 0 1 2 0 0 -\n"
    case = run(tmp_path, counted, user="1 1").cases[0]
    assert case.metrics["instructions"].samples == ((3, 8),)
    assert case.interrupted == ((2, 1), (900, 1))
    assert [(path.role, path.times, path.length) for path in case.paths] == [("modal", 2, 3)]


@pytest.mark.parametrize(
    ("counted", "said", "why"),
    [
        ("window 10 2 0 1 0 0 0 -\n", "failed getppid phase=count call=1 result=-24", "result=-24"),
        ("window 10 2 0 1 1 0 0 -\n", "release 6.1", "window was interrupted"),
    ],
)
def test_a_case_without_a_value_says_why(tmp_path: Path, counted: str, said: str, why: str) -> None:
    with pytest.raises(GuestError, match="No case") as caught:
        run(tmp_path, counted, said=f"kentry-probe {said}\n")
    assert why in caught.value.detail
    assert "--case." in caught.value.remedy
    # Of a user's own file, other cases are no remedy.
    options = replace(OPTIONS, probe=tmp_path)
    with pytest.raises(GuestError, match="No case") as caught:
        run(tmp_path, counted, said=f"kentry-probe {said}\n", options=options)
    assert "--case-file" in caught.value.remedy


@pytest.mark.parametrize(
    ("counted", "kind"),
    [
        ("window 9 2 0 1 0 0 0 -\nwindow 1 2 0 4 0 0 0 -\n", "user-side"),
        ("window 9 2 0 1 0 0 0 -\n", "windows-lost"),
    ],
)
def test_windows_that_are_lost_or_have_a_wrong_user_side_are_noted(
    tmp_path: Path, counted: str, kind: str
) -> None:
    recording = run(tmp_path, counted)
    assert recording.cases[0].metrics["instructions"].samples == ((2, 9),)
    assert kind in kinds(recording)
    assert kind not in kinds(run(tmp_path))


def test_wrong_vector_registers_are_noted(tmp_path: Path) -> None:
    line = "kentry-probe register getppid {} byte=16 is={} filled=1 promised=0\n"
    said = line.format("z0", 1) + 2 * line.format("z1", 7) + line.format("other", 7)
    [note] = run(tmp_path, said=said).cases[0].caveats
    assert note == caveats.wrong_registers("getppid", 2, 16, "z0", 1, caveats.WRITTEN, 0)
    [note] = run(tmp_path, said=line.format("z1", 7)).cases[0].caveats
    assert note == caveats.wrong_registers("getppid", 1, 16, "z1", 7, "", 0)


def test_a_missing_case_and_a_value_without_a_recorded_path_are_noted(tmp_path: Path) -> None:
    assert "case-failed" in kinds(
        run(tmp_path, options=replace(OPTIONS, cases=("getppid", "read")))
    )
    recording = run(tmp_path, "window 10 7 0 1 0 0 0 -\n")
    assert recording.cases[0].functions == ()
    assert "unrecorded-path" in kinds(recording)


@pytest.mark.parametrize("closing", ["check 18 3\n", "check 17 0\n", ""])
def test_a_self_check_that_fails_or_is_missing_is_an_error(tmp_path: Path, closing: str) -> None:
    options = replace(OPTIONS, check=True)
    with pytest.raises(TraceError, match="ways of counting"):
        run(tmp_path, closing=f"spoilt 0\n{closing}", options=options)
    recording = run(tmp_path, closing="spoilt 0\ncheck 18 0\n", options=options)
    assert [one["text"] for one in recording.caveats if "18 windows" in one["text"]]


def test_hidden_addresses_are_no_slide(tmp_path: Path) -> None:
    recording = run(tmp_path, messages="message text 0000000000000000\n")
    assert recording.cases[0].functions == (("vectors", 2),)


@pytest.mark.parametrize(
    ("messages", "said", "build_id"),
    [
        ("message text ffff800008020000\n", "", None),
        ("", "kentry-probe release 6.12\n", None),
        ("", "kentry-probe notes 040000000400000003000000474e5500aabbccdd\n", "00112233"),
    ],
)
def test_another_kernel_than_the_symbols_is_refused(
    tmp_path: Path, messages: str, said: str, build_id: str | None
) -> None:
    with pytest.raises(KernelError, match="match the image"):
        run(tmp_path, messages=messages, said=said, build_id=build_id)


def test_control_characters_from_the_guest_are_removed(tmp_path: Path) -> None:
    recording = run(
        tmp_path,
        said="kentry-probe absent read \x1b]0;owned\x07no read\n",
        options=replace(OPTIONS, cases=("getppid", "read")),
    )
    assert all(caveat["text"].isprintable() for caveat in recording.caveats)


IN_TWO_CONTEXTS = """\
message context 0 tasks=0 links=0
message case getppid count 1
window 5 2 0 1 0 0 0 -
message case getppid path 1
insn 0 ffff800008010800 03000014 b #0xffff800008010804
insn 1 ffff800008010804 00000000 nop
path 0 2 0+2
window 4 2 0 1 0 0 0 0
message context 1 tasks=3 links=128
message case getppid count 1
window 4 3 0 1 0 0 0 -
window 1 2 0 1 0 0 0 -
message case getppid path 1
path 1 3 0+2 0+1
window 3 3 0 1 0 0 0 1
window 1 9 0 1 1 0 0 -
"""


def test_each_context_has_its_counts_and_its_path(tmp_path: Path) -> None:
    saved = FakeRunner(save(tmp_path, IN_TWO_CONTEXTS))
    recording = measure(kernel(), saved, OPTIONS, silent)
    place = {"memory_mib": 512, "seed": 1, "dentry_hash": 1 << 20}
    assert recording.contexts == [
        {**place, "tasks": 0, "links": 0},
        {**place, "tasks": 3, "links": 128},
    ]
    case = recording.cases[0]
    assert case.metrics["instructions"].samples == ((2, 6), (3, 4))
    assert [(one.context, one.value, one.path) for one in case.contexts] == [(0, 2, 0), (1, 3, 1)]
    assert case.contexts[1].samples == ((2, 1), (3, 7))
    assert case.values == {2: 1, 3: 1}
    assert not case.caveats


def test_paths_of_more_contexts_come_before_those_of_more_windows(tmp_path: Path) -> None:
    trace = (
        IN_TWO_CONTEXTS.partition("message context 1")[0] + "path 1 4 0+2 0+2\npath 2 3 0+2 0+1\n"
    )
    trace += "window 4 4 0 1 0 0 0 1\n"
    for number in (1, 2):
        trace += f"message context {number} tasks={number} links=0\nmessage case getppid path 1\n"
        trace += "window 1 3 0 1 0 0 0 2\n"
    case = measure(kernel(), FakeRunner(save(tmp_path, trace)), OPTIONS, silent).cases[0]
    assert [(path.length, path.times) for path in case.paths] == [(2, 4), (3, 2), (4, 4)]


@pytest.mark.parametrize(("first", "noted"), [(2, False), (5, True)])
def test_a_case_that_no_majority_agrees_on_is_noted(
    tmp_path: Path, first: int, noted: bool
) -> None:
    """Where fewer than half of the contexts have a commonest count: here one, or none of two."""
    counts = "window 4 2 0 1 0 0 0 -\nwindow 4 5 0 1 0 0 0 -\n"
    trace = IN_TWO_CONTEXTS.replace("window 4 3 0 1 0 0 0 -\nwindow 1 2 0 1 0 0 0 -\n", counts)
    trace = trace.replace("window 5 2 0 1 0 0 0 -\n", f"window 5 {first} 0 1 0 0 0 -\n")
    trace = trace.replace("window 4 2 0 1 0 0 0 0\n", "window 5 2 0 1 0 0 0 0\n")
    trace = trace.replace("window 3 3 0", "window 1 3 0")
    recording = measure(kernel(), FakeRunner(save(tmp_path, trace)), OPTIONS, silent)
    assert ("no-majority" in kinds(recording)) is noted


# --- a second boot in other contexts, for the cases that can depend on one -------

ALLOCATES = Symbol(0xFFFF800008050000, "T", "kmem_cache_alloc")
TWO = ExactOptions(cases=("getppid", "read"), windows=2, path_windows=2, rounds=2)

TRACE = """\
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
        is_second = options.dentry_hash != TWO.dentry_hash
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
        trace = TRACE
        if "read" in options.cases:
            trace += READ.format(read=3 if is_second else 2, rest=2 if is_second else 1)
        if not is_second:
            trace += "".join(COUNT.format(case=case) for case in options.cases)
        return FakeRunner(save(saved, trace)).run(kernel, options, update)

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


def measured(runner: SavedBoots, options: ExactOptions = TWO) -> Recording:
    usual = kernel()
    known = replace(usual, symbols=type(usual.symbols).of([*usual.symbols, ALLOCATES]))
    return measure(known, runner, options, silent)


def test_a_case_that_allocates_has_the_contexts_of_both_boots(tmp_path: Path) -> None:
    recording = measured(boots(tmp_path))
    read = recording.case("read")
    assert read
    assert [(one.context, one.value) for one in read.contexts] == [(0, 2), (1, 3)]
    assert [path.length for path in read.paths] == [2, 3]
    assert [one["memory_mib"] for one in recording.contexts] == [512, 1024]
    assert not read.caveats
    # getppid depends on no context.
    getppid = recording.case("getppid")
    assert getppid
    assert [one.context for one in getppid.contexts] == [0]
    # Most contexts may have another count than the first boot's windows.
    write_recording(recording, tmp_path / "recording.json")
    assert read_recording(tmp_path / "recording.json").cases == recording.cases


@pytest.mark.parametrize(("first", "second"), [(512, 1024), (576, 1024), (577, 256), (4096, 256)])
def test_the_second_boot_is_of_other_contexts(first: int, second: int) -> None:
    """Memory on the other side of 512 MiB, small hash chains, and 8 paths a round."""
    other = second_boot(replace(TWO, memory=first, check=True))
    assert other.memory == second
    assert (other.windows, other.rounds, other.path_windows, other.warmup) == (0, 24, 192, 4)
    assert (other.dentry_hash, other.links, other.check) == (4096, 5120, False)
    assert other.seed != TWO.seed


def test_the_second_boot_is_stopped_where_it_is_not_wanted(tmp_path: Path) -> None:
    """No case depends on a context, or the first boot fails."""
    runner = replace(boots(tmp_path), second_hangs=True)
    recording = measured(runner, replace(TWO, cases=("getppid",)))
    assert runner.stopped.is_set()
    assert len(recording.contexts) == 1
    runner = replace(boots(tmp_path), second_hangs=True, first_fails=True)
    with pytest.raises(GuestError, match="panicked"):
        measured(runner)
    assert runner.stopped.is_set()


def test_what_the_first_boot_counted_is_kept_where_the_second_fails(tmp_path: Path) -> None:
    recording = measured(replace(boots(tmp_path), second_fails=True))
    assert [case.name for case in recording.cases] == ["getppid", "read"]
    assert "one-boot" in [caveat["kind"] for caveat in recording.caveats]
    assert len(recording.contexts) == 1
