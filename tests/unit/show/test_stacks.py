# SPDX-License-Identifier: GPL-2.0-or-later
"""Paths in the formats of profilers, read back by the rules of each format."""

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from kentry.errors import UserError
from kentry.results.recording import Recording, read_recording, write_recording
from kentry.show.export.formats import FORMATS, export_files
from kentry.show.export.profiles import folded, perf_script, speedscope, stacks
from tests import ROOT
from tests.builders import recording, timed

OLD, NEW = (
    read_recording(Path(ROOT, "tests", "golden", f"{name}.json"))
    for name in ("arm64-6.1", "arm64-6.12")
)
COUNTS = {"getppid": 312, "invalid": 264}
OF_RESULTS = ("benchfmt", "ktap", "csv")
HOSTILE = ("a;b", "a b 12", "x (y)", "# z", "(3) n", 'q"<&>', "n\nfn=evil", "\x1b[31m", "", " ")


def functions(one: Recording, name: str) -> dict[str, int]:
    """The case's own instructions by function, as kentry prints them."""
    case = one.case(name)
    assert case
    return dict(case.functions)


def hostile() -> Recording:
    """A recording whose functions and cases are named to break formats."""
    return recording({"evil; case 7\nx": [(name, 3) for name in HOSTILE]})


# --- folded ----------------------------------------------------------------


def check_folded(text: str, columns: int) -> dict[tuple[str, ...], tuple[int, ...]]:
    """The counts by stack; anything else is a failure."""
    found = {}
    for line in text.splitlines():
        stack, *counts = line.split(" ")
        assert len(counts) == columns and stack.isprintable() and not line.startswith("#")
        assert tuple(stack.split(";")) not in found
        found[tuple(stack.split(";"))] = tuple(map(int, counts))
    return found


def test_folded_stacks_add_up_to_the_counts_and_the_functions() -> None:
    export = folded([NEW])
    found = check_folded(export.text, 1)
    for name, count in COUNTS.items():
        own = Counter[str]()
        for stack, (times,) in found.items():
            if stack[0] == name:
                own[stack[-1]] += times
        assert own == functions(NEW, name)
        assert own.total() == count
    handler = ("getppid", "el0t_64_sync", "el0t_64_sync_handler", "el0_svc", "do_el0_svc")
    deepest = ("el0_svc_common.constprop.0", "invoke_syscall", "__arm64_sys_getppid")
    assert found[(*handler, *deepest, "__task_pid_nr_ns")] == (35,)
    assert export.notes == (
        f"left out of {NEW.kernel['release']}, no kernel path: clock_gettime@vdso",
    )


def test_two_recordings_are_two_columns() -> None:
    found = check_folded(folded([OLD, NEW]).text, 2)
    sides = [check_folded(folded([one]).text, 1) for one in (OLD, NEW)]
    assert set(found) == set(sides[0]) | set(sides[1])
    for stack, counts in found.items():
        assert counts == tuple(side.get(stack, (0,))[0] for side in sides)


def test_a_difference_is_of_the_cases_that_both_have() -> None:
    old, new = recording({"a": [("f", 3)], "b": [("f", 4)]}), recording({"b": [("f", 6)]})
    export = folded([old, new])
    assert [note.endswith(": a") for note in export.notes] == [True]
    found = check_folded(export.text, 2)
    assert {stack[0] for stack in found} == {"b"}
    with pytest.raises(UserError, match="in common"):
        folded([recording({"a": [("f", 3)]}), new])


# --- speedscope ------------------------------------------------------------


def check_speedscope(text: str) -> dict[str, list[tuple[tuple[str, ...], int]]]:
    """By profile, the stacks and how long each lasts, in order."""
    document = json.loads(text)
    names = [frame["name"] for frame in document["shared"]["frames"]]
    found: dict[str, list[tuple[tuple[str, ...], int]]] = {}
    for profile in document["profiles"]:
        assert profile["type"] == "evented" and profile["name"] not in found
        lasting = found[profile["name"]] = []
        running: list[str] = []
        last = profile["startValue"]
        for event in profile["events"]:
            if event["at"] > last:
                lasting.append((tuple(running), event["at"] - last))
                last = event["at"]
            if event["type"] == "O":
                running.append(names[event["frame"]])
            else:
                assert event["type"] == "C" and running.pop() == names[event["frame"]]
        assert not running and last == profile["endValue"]
    return found


def in_order(one: Recording) -> dict[str, list[tuple[tuple[str, ...], int]]]:
    """By case, the stacks in the order of execution, without the case, and how long each lasts."""
    found: dict[str, list[tuple[tuple[str, ...], int]]] = {}
    for case in stacks([one])[0]:
        lasting = found[case.name] = []
        for position in range(len(case.path)):
            stack = case.stack(position)[1:]
            times = lasting.pop()[1] if lasting and lasting[-1][0] == stack else 0
            lasting.append((stack, times + 1))
    return found


def test_speedscope_has_a_profile_a_case_in_the_order_of_execution() -> None:
    found = check_speedscope(speedscope([NEW]).text)
    assert {name: sum(times for _, times in one) for name, one in found.items()} == COUNTS
    assert found == in_order(NEW)


def test_speedscope_has_the_recordings_of_a_case_side_by_side() -> None:
    found = check_speedscope(speedscope([OLD, NEW]).text)
    sides = [one.kernel["release"] for one in (OLD, NEW)]
    assert list(found) == [f"{case} ({side})" for case in COUNTS for side in sides]
    assert [sum(times for _, times in one) for one in found.values()] == [310, 312, 261, 264]


# --- perf script -------------------------------------------------------------


def check_perf_script(text: str) -> list[tuple[str, int, list[tuple[int, str, int]]]]:
    """Each sample's command, microsecond, and stack of (address, symbol, offset)."""
    found = []
    for block in text.split("\n\n"):
        lines = [line for line in block.splitlines() if line and not line.startswith("#")]
        if not lines:
            continue
        head = re.fullmatch(r"(\S+) \d+ \[000\] (\d+)\.(\d{6}): +1 instructions:k: ", lines[0])
        assert head, lines[0]
        stack = []
        for line in lines[1:]:
            frame = re.fullmatch(r"\t *([0-9a-f]+) (\S*)\+0x([0-9a-f]+) \(\[kernel\S+\]\)", line)
            assert frame, line
            stack.append((int(frame[1], 16), frame[2], int(frame[3], 16)))
        assert stack
        found.append((head[1], int(head[2]) * 1_000_000 + int(head[3]), stack))
    return found


def test_perf_script_has_a_sample_an_instruction() -> None:
    found = check_perf_script(perf_script([NEW]).text)
    assert Counter(command for command, _, _ in found) == COUNTS
    assert [time for _, time, _ in found] == list(range(sum(COUNTS.values())))
    expected = []
    for name in COUNTS:
        case = NEW.case(name)
        assert case and case.modal_path
        code = NEW.instructions(case.modal_path)
        expected += [(insn.address, insn.function, insn.offset) for insn in code]
    assert [stack[0] for _, _, stack in found] == expected
    # Where a function is called from is the call.
    calls = {insn.address for insn in NEW.code if insn.text.startswith("bl")}
    assert all(address in calls for _, _, stack in found for address, _, _ in stack[1:])


# --- all ---------------------------------------------------------------------------------


def test_hostile_names_break_no_format() -> None:
    found = [export([hostile()]).text for export in (folded, speedscope, perf_script)]
    count = 3 * len(HOSTILE)
    assert sum(times for (times,) in check_folded(found[0], 1).values()) == count
    [profile] = check_speedscope(found[1]).values()
    assert sum(times for _, times in profile) == count
    assert len(check_perf_script(found[2])) == count
    assert all(char.isprintable() or char in "\n\t" for text in found for char in text)


@pytest.mark.parametrize("name", [name for name in FORMATS if name not in OF_RESULTS])
def test_a_recording_without_paths_is_one_sentence(name: str, tmp_path: Path) -> None:
    file = tmp_path / "times.json"
    write_recording(timed({"getppid": 78.4}), file)
    with pytest.raises(UserError, match="has no paths") as caught:
        export_files([file], name)
    assert "--paths" in caught.value.remedy


def test_a_format_holds_so_many_recordings(tmp_path: Path) -> None:
    file = tmp_path / "one.json"
    write_recording(NEW, file)
    for name, most in (("perf-script", 1), ("folded", 2)):
        export_files([file] * most, name)
        with pytest.raises(UserError, match=f"{name} holds "):
            export_files([file] * (most + 1), name)
    assert export_files([file] * 3, "speedscope").text


def test_a_path_that_is_not_the_count_is_said() -> None:
    odd = recording({"getppid": [("f", 5)]}, {"getppid": {5: 400, 7: 600}})
    (note,) = folded([odd]).notes
    assert re.findall(r" (\d+)(?!\S*\.)\b", note) == ["5", "7"]
