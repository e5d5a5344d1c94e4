# SPDX-License-Identifier: GPL-2.0-or-later
"""The machine's own counter against the plugin: what agrees, what is wrong, what is not checked."""

from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import UNSET

from kentry.boot.exact import ExactOptions, FakeRunner
from kentry.count.recorder import measure
from kentry.errors import TraceError
from kentry.results.recording import Recording, read_recording, write_recording
from kentry.show.recording import recording_layout
from kentry.show.text import to_text
from tests.builders import image_kernel
from tests.places import silent
from tests.unit.count.saved import save

CALLS, BLOCKS = 4, 8
OPTIONS = ExactOptions(cases=("getppid", "fork+exit"), windows=10, path_windows=1, check=True)
PLAIN = "window 32 300 0 1 0 0 0 -\n"
# A timer's interrupt in the second block's first window.
INTERRUPTED = """\
window 4 300 0 1 0 0 0 -
window 1 2000 0 1 1 0 0 -
window 27 300 0 1 0 0 0 -
"""


def said(*counts: int, counter: str = "pmu", empty: int = 1401) -> str:
    """What a guest says; `counts` are those of the first blocks, the others are as the last."""
    every = [*counts, *[counts[-1]] * (BLOCKS - len(counts))]
    blocks = [f"kentry-probe block getppid {CALLS} {empty + one} {empty}\n" for one in every]
    return f"kentry-probe start\nkentry-probe counter {counter}\n{''.join(blocks)}"


def run(
    folder: Path, blocks: str, windows: str = PLAIN, arch: str = "arm64", more: str = ""
) -> Recording:
    (folder / "blocks").write_text(f"{blocks}kentry-probe end cases=2\n")
    counted = "window 10 300 0 1 0 0 0 -\n"
    total = 52 + 9 * bool(more)
    trace = (
        f"message context 0 tasks=0 links=0\nmessage case getppid count 1\n{counted}"
        f"message case fork+exit count ?\n{counted}{more}message case getppid check 1\n{windows}"
    )
    save(folder, trace, arch=arch, closing=f"spoilt 0\ncheck {total} 0\n")
    kernel = replace(image_kernel(), arch=arch, build_id=None)
    return measure(kernel, FakeRunner(folder), OPTIONS, silent)


def unchecked(recording: Recording) -> list[str]:
    return [one["text"] for one in recording.caveats if one["kind"] == "unchecked"]


def counter(recording: Recording) -> tuple[object, ...]:
    """By what the first case was checked, and both counts."""
    case = recording.cases[0]
    return case.checked, *(case.checked_counts or ())


def test_the_recording_has_both_figures_and_which_counter_it_was(tmp_path: Path) -> None:
    recording = run(tmp_path, said(CALLS * 300))
    assert counter(recording) == ("pmu", 300, 300)
    write_recording(recording, tmp_path / "r.json")
    assert counter(read_recording(tmp_path / "r.json")) == ("pmu", 300, 300)
    assert "1 of 2 cases." in to_text(recording_layout(recording))
    # One that is more than plain calls is named.
    assert recording.cases[1].checked is UNSET
    (text,) = unchecked(recording)
    assert text.endswith("fork+exit (more than plain calls)")


def test_a_count_of_another_context_is_no_disagreement(tmp_path: Path) -> None:
    """The boot without the plugin may find another slab page than the one with it."""
    other = (
        "message context 1 tasks=1 links=0\n"
        "message case getppid count 1\nwindow 9 303 0 1 0 0 0 -\n"
    )
    recording = run(tmp_path, said(CALLS * 303), more=other)
    assert recording.cases[0].checked is UNSET
    assert "getppid (in another context" in unchecked(recording)[0]
    with pytest.raises(TraceError):
        run(tmp_path, said(CALLS * 304), more=other)


@pytest.mark.parametrize("wrong", [-CALLS, CALLS, 1])
def test_one_instruction_of_difference_is_an_error(tmp_path: Path, wrong: int) -> None:
    with pytest.raises(TraceError, match="1 of 2 cases") as caught:
        run(tmp_path, said(CALLS * 300 + wrong))
    assert f"getppid: 300 by kentry, {300 + wrong / CALLS:g} by the machine" in caught.value.detail


def test_other_counters_count_all_that_runs_between_the_marks(tmp_path: Path) -> None:
    """User code, firmware, and each repetition of a REP beside the one that kentry counts."""
    windows = "window 32 300 5 1 0 0 21 -\n"
    blocks = said(CALLS * 327, counter="icount")
    assert counter(run(tmp_path, blocks, windows, "x86_64")) == ("icount", 300, 300)
    with pytest.raises(TraceError):
        run(tmp_path, said(CALLS * 300, counter="icount"), windows, "x86_64")


@pytest.mark.parametrize(
    ("counts", "windows"),
    [
        ([CALLS * 300, CALLS * 300 + 1700, CALLS * 300], INTERRUPTED),
        # The interrupt hit the first block, between two of its windows.
        ([CALLS * 300 + 900, CALLS * 300], PLAIN),
    ],
)
def test_blocks_with_an_interrupt_decide_nothing(
    tmp_path: Path, counts: list[int], windows: str
) -> None:
    assert counter(run(tmp_path, said(*counts), windows)) == ("pmu", 300, 300)


def test_windows_that_differ_in_every_block_have_no_figure(tmp_path: Path) -> None:
    windows = "window 3 300 0 1 0 0 0 -\nwindow 1 301 0 1 0 0 0 -\n" * BLOCKS
    recording = run(tmp_path, said(CALLS * 300 + 1), windows)
    assert "getppid (several paths" in unchecked(recording)[0]
    with pytest.raises(TraceError):
        run(tmp_path, said(CALLS * 300 + 2), windows)


def test_windows_of_two_paths_are_compared_block_by_block(tmp_path: Path) -> None:
    windows = "window 16 300 0 1 0 0 0 -\nwindow 15 301 0 1 0 0 0 -\nwindow 1 900 0 1 0 0 0 -\n"
    counts = [CALLS * 300] * 4 + [CALLS * 301] * 3 + [3 * 301 + 900]
    assert counter(run(tmp_path, said(*counts), windows)) == ("pmu", 300, 300)


@pytest.mark.parametrize(
    ("blocks", "reason"),
    [
        (said(CALLS * 300).rsplit("kentry-probe", 1)[0], "windows are missing"),
        (
            said(*(CALLS * 300 + max(0, i - 2) for i in range(BLOCKS))),
            "most blocks were interrupted",
        ),
    ],
)
def test_a_case_without_a_figure_is_not_checked(tmp_path: Path, blocks: str, reason: str) -> None:
    recording = run(tmp_path, blocks)
    assert recording.cases[0].checked is UNSET
    assert f"getppid ({reason})" in unchecked(recording)[0]


@pytest.mark.parametrize(
    "blocks", ["kentry-probe counter pmu result=-2\n", said(0, empty=0), "kentry-probe start\n"]
)
def test_a_counter_that_is_missing_or_stands_still_is_a_sentence(
    tmp_path: Path, blocks: str
) -> None:
    recording = run(tmp_path, blocks)
    assert recording.cases[0].checked is UNSET
    assert [one["kind"] for one in recording.caveats].count("no-counter") == 1
