# SPDX-License-Identifier: GPL-2.0-or-later
"""Several boots become one recording, and no path of any loses an instruction; so do two axes."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET
from msgspec.structs import replace

from kentry.count.joining import joined, only, with_times
from kentry.errors import UserError
from kentry.results import caveats
from kentry.results.caveats import Caveat
from kentry.results.recording import (
    MODAL,
    OTHER,
    CaseResult,
    Instruction,
    KernelPath,
    Metric,
    Recording,
    VectorEvent,
    read_recording,
    to_json,
    write_recording,
)
from tests.builders import imported, recording, timed, validate
from tests.unit.vector.builders import MARKERS, with_events

EVENTS = (
    VectorEvent("discard", "syscall", "do_trap_ecall_u", 10),
    VectorEvent("save", "user copy", "kernel_vector_begin", 1),
)

INSNS = [Instruction(4 * index, f"{index:08x}", "nop", "f", 4 * index) for index in range(12)]


def boot(
    code: Sequence[int], paths: Mapping[str, Sequence[tuple[int, int]]], cpu: str = "max"
) -> Recording:
    """A recording with these of INSNS, whose cases took these runs of them."""
    cases = []
    for name, runs in paths.items():
        modal = KernelPath(role=MODAL, times=8, runs=tuple(runs))
        other = KernelPath(role=OTHER, times=1, runs=tuple(runs[:1]), why="less")
        length = modal.length
        metrics = {
            "instructions": Metric.of({length: 10}),
            "user_instructions": Metric.of({1: 10}),
            "firmware_instructions": Metric.of({0: 10}),
        }
        cases.append(CaseResult(name, metrics, (), (("f", length),), (modal, other)))
    found = recording({}, target={"cpu": cpu}, kernel={"arch": "riscv64"})
    return replace(found, code=[INSNS[index] for index in code], cases=cases)


def test_two_boots_share_their_code() -> None:
    first = boot([0, 1, 2, 3], {"x+vec=once": [(0, 4)]}, "max,vlen=128")
    second = boot(
        [0, 1, 5, 6, 2, 3], {"x+vec=once+vl=256": [(0, 6), (0, 2), (4, 2)]}, "max,vlen=256"
    )
    both = joined([replace(first, markers=MARKERS), replace(second, markers=MARKERS)])
    assert [insn.offset // 4 for insn in both.code] == [0, 1, 2, 3, 5, 6]
    assert [case.name for case in both.cases] == ["x+vec=once", "x+vec=once+vl=256"]
    assert both.cases[0] == first.cases[0]
    modal, other = both.cases[1].paths
    # 0 1 5 6 2 3, 0 1, 2 3: the last two are one run again.
    assert modal.runs == ((0, 2), (4, 2), (2, 2), (0, 4))
    assert (other.role, other.times, other.why) == (OTHER, 1, "less")
    assert both.target["cpu"] == "max,vlen=128 / max,vlen=256"
    assert both.markers == MARKERS
    validate(to_json(both), "recording-1")


def test_boots_with_the_same_code_stay_as_long() -> None:
    first = boot(range(6), {"x": [(0, 6)]})
    assert joined([first]) is first
    both = joined([first, boot(range(6), {"y": [(0, 6)]}), boot(range(6), {"z": [(2, 3)]})])
    assert both.code == first.code
    assert [case.paths[0].runs for case in both.cases] == [((0, 6),), ((0, 6),), ((2, 3),)]
    assert both.target == first.target


def test_markers_and_events_are_those_of_the_boots_that_looked_for_them() -> None:
    first, second = boot([0], {"x": [(0, 1)]}), boot([3], {"x+vec=once": [(0, 1)]})
    assert joined([first, second]).markers is UNSET
    for markers in (MARKERS, {}):
        both = joined([first, with_events(second, {"x+vec=once": EVENTS}, markers)])
        assert both.markers == markers
        assert [case.paths[0].events for case in both.cases] == [(), EVENTS]
        assert [only(both, [name]).markers for name in ("x", "x+vec=once")] == [UNSET, markers]


def test_a_caveat_of_both_boots_appears_once_and_a_target_without_a_cpu_model_gets_none() -> None:
    same, own = Caveat(kind="a", text="both"), Caveat(kind="b", text="second")
    first = replace(boot([0], {"x": [(0, 1)]}), caveats=[same], target={})
    second = replace(boot([0], {"y": [(0, 1)]}), caveats=[own, same], target={})
    both = joined([first, second])
    assert both.caveats == [same, own]
    assert "cpu" not in both.target


CODES = st.lists(st.integers(0, len(INSNS) - 1), min_size=1, max_size=12, unique=True)


@st.composite
def boots(draw: st.DrawFn) -> list[Recording]:
    found = []
    for number in range(draw(st.integers(1, 4))):
        code = draw(CODES)
        places = st.integers(0, len(code) - 1)
        runs = [
            (first, draw(st.integers(1, len(code) - first)))
            for first in draw(st.lists(places, min_size=1, max_size=6))
        ]
        found.append(boot(code, {f"x{number}": runs}))
    return found


def test_a_case_of_several_leaves_behind_what_is_of_the_others() -> None:
    both = boot([0, 1, 2], {"x": [(0, 2)], "y": [(1, 2)]})
    general, own = caveats.randomised(), caveats.windows_lost("y", 9, 10)
    both.caveats += [general, caveats.case_failed("x", "it ended"), own]
    found = only(both, ["y"])
    assert [case.name for case in found.cases] == ["y"]
    assert found.caveats == [general, own]
    assert found.code == both.code[1:]
    assert found.cases[0].paths[0].runs == ((0, 2),)


@given(boots())
def test_every_path_keeps_its_instructions(recordings: list[Recording]) -> None:
    both = joined(recordings)
    assert len(set(both.code)) == len(both.code)
    for one in recordings:
        for case in one.cases:
            found = both.case(case.name)
            assert found
            assert replace(found, paths=()) == replace(case, paths=())
            for old, new in zip(case.paths, found.paths, strict=True):
                assert both.instructions(new) == one.instructions(old)
                assert replace(new, runs=()) == replace(old, runs=())
                # Runs that touch are one; the first boot's are as they were.
                if one is not recordings[0]:
                    assert all(sum(a) != b[0] for a, b in zip(new.runs, new.runs[1:], strict=False))


# --- counts and times ----------------------------------------------------


def counts(**kernel: object) -> Recording:
    return recording({"getppid": [("el0_svc", 40)], "read": [("el0_svc", 9)]}, kernel=kernel)


def test_counts_and_times_of_one_kernel_are_one_recording(tmp_path: Path) -> None:
    times = timed({"getppid": 78.4, "getppid+cache=cold": 900.0})
    both = with_times(counts(), times)
    document = to_json(both)
    validate(document, "recording-1")
    assert [(one["name"], list(one["metrics"])) for one in document["cases"]] == [
        ("getppid", ["instructions", "user_instructions", "firmware_instructions", "ns"]),
        ("read", ["instructions", "user_instructions", "firmware_instructions"]),
        ("getppid+cache=cold", ["ns"]),
    ]
    assert both.cases[0].noisy == times.cases[0].noisy
    assert both.instructions(both.cases[0].paths[0]) == counts().instructions(
        counts().cases[0].paths[0]
    )
    assert not both.caveats
    file = tmp_path / "both.json"
    write_recording(both, file)
    assert read_recording(file) == both


def test_both_targets_and_options_stay_known() -> None:
    times = timed({"getppid": 78.4}, target={"cmdline": "quiet"})
    times = replace(times, options={"windows": 3, "warmup": 16, "groups": 40})
    both = with_times(counts(), times)
    assert (both.target["kind"], both.target["cmdline"]) == ("qemu", "nokaslr")
    assert both.timed_target == times.target
    assert counts().timed_target == counts().target
    assert both.options == {**counts().options, "timed_windows": 3, "groups": 40}


def test_unknown_facts_of_the_kernel_come_from_the_other_side() -> None:
    unknown = {"config": None, "config_sha256": None, "image_sha256": None, "release": ""}
    both = with_times(counts(), timed({"getppid": 78.4}, kernel=unknown))
    assert both.kernel == counts().kernel
    assert with_times(counts(**unknown), timed({"getppid": 78.4})).kernel == counts().kernel
    # A config and its hash belong together.
    times = timed({"getppid": 78.4}, kernel={"config_sha256": "3" * 64})
    assert with_times(counts(), times).kernel == counts().kernel


def test_what_was_counted_stays_where_no_path_was_recorded() -> None:
    first = counts()
    first.cases[0] = replace(first.cases[0], paths=(), functions=(), checked="icount")
    assert with_times(first, timed({"getppid": 78.4})).cases[0].checked == "icount"


def test_what_cannot_be_joined_is_refused() -> None:
    times = timed({"getppid": 1.0})
    for first, second, words in (
        (counts(), timed({"x": 1.0}, kernel={"build_id": "0123456789abcdef"}), "62e and 01234"),
        (counts(), imported({"getppid": 78.4}, arch="ia64"), "two architectures, arm64 and ia64"),
        (with_times(counts(), times), timed({"getppid": 2.0}), "ns of getppid"),
        (times, counts(), "has no counts"),
        (counts(), counts(), "has no times"),
    ):
        with pytest.raises(UserError, match=words):
            with_times(first, second)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (None, "01", "not known of the counts, so"),
        ("01", None, "not known of the times, so"),
        (None, None, "not known of the counts and the times, so"),
    ],
)
def test_a_kernel_that_is_not_known_is_a_caveat(
    old: str | None, new: str | None, words: str
) -> None:
    times = timed({"getppid": 78.4}, kernel={"build_id": new, "image_sha256": "2" * 64})
    [caveat] = with_times(counts(build_id=old), times).caveats
    assert caveat["kind"] == "kernel-unknown"
    assert words in caveat["text"]


def test_one_image_is_one_kernel_and_another_release_is_a_caveat() -> None:
    assert not with_times(
        counts(build_id=None), timed({"getppid": 78.4}, kernel={"build_id": None})
    ).caveats
    times = timed({"getppid": 78.4}, kernel={"build_id": None, "image_sha256": None})
    times = replace(times, kernel={**times.kernel, "release": "6.1.0"})
    found = with_times(counts(), times).caveats
    assert [caveat["kind"] for caveat in found] == ["kernel-unknown", "differs"]


def test_caveats_of_both_sides_are_kept_once() -> None:
    note, own = Caveat(kind="a", text="both"), Caveat(kind="b", text="times")
    times = replace(timed({"getppid": 1.0}), caveats=[note, own])
    times.cases[0] = replace(times.cases[0], caveats=(own,))
    both = with_times(replace(counts(), caveats=[note]), times)
    assert both.caveats == [note, own]
    assert both.cases[0].caveats == (own,)
