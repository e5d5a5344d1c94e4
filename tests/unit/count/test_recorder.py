# SPDX-License-Identifier: GPL-2.0-or-later
"""From a saved run to a recording: nothing lost, nothing made up."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from kentry.boot.exact import ExactOptions, FakeRunner
from kentry.count.recorder import measure
from kentry.errors import GuestError, KernelError, TraceError
from kentry.results.caveats import Caveat
from kentry.results.recording import Access, Recording
from tests.builders import image_kernel as kernel

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
    windows = sum(
        int(line.split()[1]) for line in (counted + paths).splitlines() if line[:6] == "window"
    )
    (folder / "console").write_text(
        f"kentry-probe start arm64\nkentry-probe release 6.1\n{said}kentry-probe end cases=1\n"
    )
    paths = PATHS.replace("path 1", f"path {user}", 1) + paths
    if slide:
        messages += f"message text {0xFFFF800008010000 + slide:x}\n"
        paths = re.sub("ffff80000.{7}", lambda at: f"{int(at[0], 16) + slide:x}", paths)
    (folder / "trace").write_text(
        f"kentry-trace 1\nqemu aarch64 api=1\n{messages}message case getppid count {user}\n"
        f"{counted}{paths}message end 1\n{closing}end {windows + 8}\n"
    )
    measured = replace(kernel(), build_id=build_id)
    return measure(measured, FakeRunner(folder), options, lambda fraction, now: None)


def every_caveat(recording: Recording) -> list[Caveat]:
    return recording.caveats + [c for case in recording.cases for c in case.caveats]


def kinds(recording: Recording) -> list[str]:
    return [caveat["kind"] for caveat in every_caveat(recording)]


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
    assert "unnamed" not in [caveat["kind"] for caveat in recording.caveats]


def test_what_only_some_paths_execute_is_none_in_the_others(tmp_path: Path) -> None:
    insn = "insn 3 ffff800007000000 df3f03d5 isb\n"
    recording = run(tmp_path, paths=f"{insn}path 2 4 0+4\nwindow 3 4 0 1 0 0 0 2\n")
    case = recording.cases[0]
    assert case.metrics["serialising.isb"].samples == ((0, 6), (1, 3))
    # That instruction is in no symbol, and one in four is many.
    assert "unnamed" in [caveat["kind"] for caveat in recording.caveats]


def test_the_modal_path_has_its_accesses(tmp_path: Path) -> None:
    told = "accesses {} 0:ffff000000001000:16:s 1:ffff000000001008:8:l\n"
    modal, other = run(tmp_path, paths=told.format(0) + told.format(1)).cases[0].paths
    assert modal.accesses == (
        Access(0, 0xFFFF000000001000, 16, True),
        Access(1, 0xFFFF000000001008, 8, False),
    )
    assert other.accesses is None
    assert run(tmp_path, paths=told.format(1)).cases[0].paths[0].accesses is None


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


def test_interrupted_windows_are_set_apart(tmp_path: Path) -> None:
    case = run(tmp_path, "window 9 2 0 1 0 0 0 -\nwindow 1 900 0 1 1 0 0 -\n").cases[0]
    assert case.metrics["instructions"].samples == ((2, 9),)
    assert case.interrupted == ((900, 1),)


def test_an_interrupt_that_belongs_to_every_window_is_counted(tmp_path: Path) -> None:
    counted = "window 8 3 0 1 1 0 0 -\nwindow 1 2 0 1 0 0 0 -\nwindow 1 900 0 1 2 0 0 -\n"
    case = run(tmp_path, counted, user="1 1").cases[0]
    assert case.metrics["instructions"].samples == ((3, 8),)
    assert case.interrupted == ((2, 1), (900, 1))
    assert [(path.role, path.times, path.length) for path in case.paths] == [("modal", 2, 3)]


def test_a_case_that_failed_has_no_value(tmp_path: Path) -> None:
    with pytest.raises(GuestError, match="No case") as caught:
        run(tmp_path, said="kentry-probe failed getppid phase=count call=1 result=-24\n")
    assert "result=-24" in caught.value.detail


def test_a_case_without_a_clean_window_says_so(tmp_path: Path) -> None:
    with pytest.raises(GuestError) as caught:
        run(tmp_path, "window 10 2 0 1 1 0 0 -\n")
    assert "window was interrupted" in caught.value.detail


def test_a_missing_case_is_a_caveat(tmp_path: Path) -> None:
    options = replace(OPTIONS, cases=("getppid", "read"))
    assert "case-failed" in kinds(run(tmp_path, options=options))


def test_windows_with_a_wrong_user_side_are_dropped_and_noted(tmp_path: Path) -> None:
    recording = run(tmp_path, "window 9 2 0 1 0 0 0 -\nwindow 1 2 0 4 0 0 0 -\n")
    assert recording.cases[0].metrics["instructions"].samples == ((2, 9),)
    assert "user-side" in kinds(recording)


def test_lost_windows_are_noted(tmp_path: Path) -> None:
    assert "windows-lost" in kinds(run(tmp_path, "window 9 2 0 1 0 0 0 -\n"))


def test_a_value_without_a_recorded_path_is_noted(tmp_path: Path) -> None:
    recording = run(tmp_path, "window 10 7 0 1 0 0 0 -\n")
    assert recording.cases[0].functions == ()
    assert "unrecorded-path" in kinds(recording)


@pytest.mark.parametrize("closing", ["spoilt 0\ncheck 18 3\n", "spoilt 0\n"])
def test_a_self_check_that_fails_or_is_missing_is_an_error(tmp_path: Path, closing: str) -> None:
    with pytest.raises(TraceError, match="ways of counting"):
        run(tmp_path, closing=closing, options=replace(OPTIONS, check=True))


def test_a_self_check_that_passes_says_so(tmp_path: Path) -> None:
    options = replace(OPTIONS, check=True)
    recording = run(tmp_path, closing="spoilt 0\ncheck 18 0\n", options=options)
    assert "self-checked" in kinds(recording)


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
    assert all(caveat["text"].isprintable() for caveat in every_caveat(recording))


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
    (tmp_path / "console").write_text(
        "kentry-probe start arm64\nkentry-probe release 6.1\nkentry-probe end cases=1\n"
    )
    (tmp_path / "trace").write_text(
        f"kentry-trace 1\nqemu aarch64 api=1\n{IN_TWO_CONTEXTS}message end 1\nend 18\n"
    )
    recording = measure(kernel(), FakeRunner(tmp_path), OPTIONS, lambda fraction, now: None)
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
