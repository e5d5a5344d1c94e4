# SPDX-License-Identifier: GPL-2.0-or-later
"""Paths in the formats of profilers, read back by the rules of each format."""

import gzip
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kentry.errors import UserError
from kentry.results.recording import Access, Recording, read_recording, write_recording
from kentry.show.export import callgrind, folded, perf_script, perfetto, pprof, speedscope
from kentry.show.export.common import Export
from kentry.show.export.formats import BINARY, FORMATS, export_files
from kentry.show.export.stacks import stacks
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


def with_accesses(one: Recording) -> Recording:
    """The recording, with two loads of 8 bytes and a store of 16 in each path that is not empty."""
    accesses = (Access(0, 64, 8, False), Access(2, 72, 8, False), Access(2, 4096, 16, True))
    cases = [
        replace(case, paths=tuple(replace(path, accesses=accesses) for path in case.paths))
        if case.modal_path and case.modal_path.length
        else case
        for case in one.cases
    ]
    return replace(one, cases=cases)


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
    export = folded.export([NEW])
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
    found = check_folded(folded.export([OLD, NEW]).text, 2)
    sides = [check_folded(folded.export([one]).text, 1) for one in (OLD, NEW)]
    assert set(found) == set(sides[0]) | set(sides[1])
    for stack, counts in found.items():
        assert counts == tuple(side.get(stack, (0,))[0] for side in sides)


def test_a_difference_is_of_the_cases_that_both_have() -> None:
    old, new = recording({"a": [("f", 3)], "b": [("f", 4)]}), recording({"b": [("f", 6)]})
    for module in (folded, pprof):
        assert module.export([old, new]).notes == ("left out, not in both recordings: a",)
    found = check_folded(folded.export([old, new]).text, 2)
    assert {stack[0] for stack in found} == {"b"}
    with pytest.raises(UserError, match="no case in common"):
        folded.export([recording({"a": [("f", 3)]}), new])


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
    for case in stacks([one]).cases:
        lasting = found[case.name] = []
        for position in range(len(case.path)):
            stack = case.stack(position)[1:]
            times = lasting.pop()[1] if lasting and lasting[-1][0] == stack else 0
            lasting.append((stack, times + 1))
    return found


def test_speedscope_has_a_profile_a_case_in_the_order_of_execution() -> None:
    found = check_speedscope(speedscope.export([NEW]).text)
    assert {name: sum(times for _, times in one) for name, one in found.items()} == COUNTS
    assert found == in_order(NEW)


def test_speedscope_has_the_recordings_of_a_case_side_by_side() -> None:
    found = check_speedscope(speedscope.export([OLD, NEW]).text)
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
    found = check_perf_script(perf_script.export([NEW]).text)
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


# --- callgrind -----------------------------------------------------------------


class Callgrind:
    """A file of callgrind's format; costs are by event."""

    def __init__(self, text: str) -> None:
        self.own: dict[str, Counter[str]] = {}
        self.calls: dict[tuple[str, str], Counter[str]] = {}
        self.times = Counter[tuple[str, str]]()
        names: dict[str, str] = {}

        def named(word: str) -> str:
            number, _, name = word.partition(" ")
            assert re.fullmatch(r"\(\d+\)", number)
            if number not in names:
                names[number] = name
                return name
            assert not name
            return names[number]

        events: list[str] = []
        now = callee = ""
        for line in text.splitlines():
            key, _, value = line.partition("=")
            if line.startswith("events: "):
                events = line.split()[1:]
            elif match := re.match(r"(summary|totals): (.*)", line):
                self.totals = dict(zip(events, map(int, match[2].split()), strict=True))
            elif key == "fn":
                now = named(value)
            elif key == "cfn":
                callee = named(value)
            elif key == "calls":
                self.times[now, callee] += int(value.split()[0])
            elif line.startswith("0x"):
                costs = Counter(dict(zip(events, map(int, line.split()[1:]), strict=True)))
                if callee:
                    self.calls.setdefault((now, callee), Counter()).update(costs)
                    callee = ""
                else:
                    self.own.setdefault(now, Counter()).update(costs)
            else:
                assert re.match(r"#|[a-z]+: |(ob|fl)=|$", line), line


def test_callgrind_adds_up_to_the_counts() -> None:
    found = Callgrind(callgrind.export([with_accesses(NEW)]).text)
    own = Counter(functions(NEW, "getppid")) + Counter(functions(NEW, "invalid"))
    assert {name: costs["Ir"] for name, costs in found.own.items()} == own
    assert found.totals["Ir"] == sum(COUNTS.values())
    assert (found.totals["Dr"], found.totals["Dw"]) == (4, 2)
    assert (found.totals["bytes.loaded"], found.totals["bytes.stored"]) == (32, 32)
    for name, count in COUNTS.items():
        outer = [costs["Ir"] for (caller, _), costs in found.calls.items() if caller == name]
        assert sum(outer) == count
    # What a function costs with all that it calls is what its callers say of it.
    for name, costs in found.own.items():
        within = sum(one["Ir"] for (caller, _), one in found.calls.items() if caller == name)
        around = sum(one["Ir"] for (_, callee), one in found.calls.items() if callee == name)
        assert costs["Ir"] + within == around
    assert found.times["invoke_syscall", "__arm64_sys_getppid"] == 1
    assert found.times["el0_svc", "do_el0_svc"] == 2


def test_without_accesses_there_are_no_loads() -> None:
    assert "Dr" not in Callgrind(callgrind.export([NEW]).text).totals
    mixed = with_accesses(NEW)
    mixed.cases[1] = NEW.cases[1]
    assert "Dr" not in Callgrind(callgrind.export([mixed]).text).totals
    assert "branches" in Callgrind(callgrind.export([mixed]).text).totals


# --- pprof -----------------------------------------------------------------------


def fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """A protobuf message's fields: numbers and bytes."""
    at = 0

    def varint() -> int:
        nonlocal at
        number = shift = 0
        while True:
            byte = message[at]
            at += 1
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return number

    while at < len(message):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
        else:
            assert key & 7 == 2
            size = varint()
            yield key >> 3, message[at : at + size]
            at += size


def packed(content: bytes) -> list[int]:
    """The numbers of a packed field, signed."""
    words = re.findall(rb"[\x80-\xff]*[\x00-\x7f]", content, re.DOTALL)
    numbers = [next(iter(fields(b"\x08" + word)))[1] for word in words]
    return [number - (1 << 64) if number >> 63 else number for number in numbers]


class Profile:
    """A profile of pprof; samples are (stack, innermost first, values, labels)."""

    def __init__(self, binary: bytes) -> None:
        every: dict[int, list[Any]] = {}
        for number, value in fields(gzip.decompress(binary)):
            every.setdefault(number, []).append(value)
        texts = [text.decode() for text in every[6]]
        assert texts[0] == "" and len(set(texts)) == len(texts)
        functions = {}
        for one in map(dict, map(fields, every[5])):
            functions[one[1]] = texts[one[2]]
        locations = {}
        for one in map(dict, map(fields, every[4])):
            locations[one[1]] = functions[dict(fields(one[4]))[1]]
        self.types = [texts[dict(fields(one))[1]] for one in every[1]]
        self.default = texts[every[14][0]]
        self.build_ids = [texts[dict(fields(one))[6]] for one in every[3]]
        self.samples = []
        for one in map(dict, map(fields, every[2])):
            label = dict(fields(one[3])) if 3 in one else {}
            stack = tuple(locations[number] for number in packed(one[1]))
            labels = {texts[label[1]]: texts[label[2]]} if label else {}
            self.samples.append((stack, packed(one[2]), labels))

    def totals(self, case: str = "") -> dict[str, int]:
        """The sums of the values by type, of one case if it is named."""
        rows = [values for stack, values, _ in self.samples if case in ("", stack[-1])]
        return dict(zip(self.types, map(sum, zip(*rows, strict=True)), strict=True))


def test_pprof_adds_up_to_the_counts_by_each_metric() -> None:
    found = Profile(pprof.export([with_accesses(NEW)]).binary)
    assert found.default == found.types[0] == "instructions"
    assert found.build_ids == [NEW.kernel["build_id"]]
    for name, count in COUNTS.items():
        totals = found.totals(name)
        assert (totals["instructions"], totals["loads"], totals["bytes.stored"]) == (count, 2, 16)
        own = Counter[str]()
        for stack, values, _ in found.samples:
            if stack[-1] == name:
                own[stack[0]] += values[0]
        assert own == functions(NEW, name)
    stacks_of = {stack[::-1] for stack, _, _ in found.samples}
    assert stacks_of == set(check_folded(folded.export([NEW]).text, 1))


def test_a_difference_of_pprof_is_negative_on_the_old_side() -> None:
    found = Profile(pprof.export([OLD, NEW]).binary)
    assert found.totals("getppid")["instructions"] == 2
    assert found.totals("invalid")["instructions"] == 3
    base = [values[0] for _, values, labels in found.samples if labels == {"pprof::base": "true"}]
    assert sum(base) == -(310 + 261) and max(base) < 0
    assert len(found.build_ids) == 2


def test_the_same_recording_makes_the_same_profile() -> None:
    found = pprof.export([NEW]).binary
    assert found == pprof.export([NEW]).binary
    # gzip's field of the time (RFC 1952).
    assert found[4:8] == bytes(4)


# --- Perfetto ------------------------------------------------------------------------


def test_perfetto_has_a_slice_a_call() -> None:
    events = json.loads(perfetto.export([OLD, with_accesses(NEW)]).text)["traceEvents"]
    named = {
        (one["name"], one["pid"], one["tid"]): one["args"]["name"]
        for one in events
        if one["ph"] == "M"
    }
    assert [name for (what, *_), name in named.items() if what == "thread_name"] == [
        *("getppid", "getppid", "invalid", "invalid")
    ]
    slices = [one for one in events if one["ph"] == "X"]
    assert len(slices) + len(named) == len(events)
    for (what, process, thread), name in named.items():
        own = [one for one in slices if (one["pid"], one["tid"]) == (process, thread)]
        if what == "process_name":
            continue
        count = {1: {"getppid": 310, "invalid": 261}, 2: COUNTS}[process][name]
        end = 0
        # Slices at the top follow each other; the others are within one that began before.
        ends: list[int] = []
        for one in own:
            ends = [last for last in ends if last > one["ts"]]
            if not ends:
                assert one["ts"] == end
                end = one["ts"] + one["dur"]
            assert all(one["ts"] + one["dur"] <= last for last in ends)
            ends.append(one["ts"] + one["dur"])
            assert one["args"]["instructions"] == one["dur"]
        assert end == count
        loads = [one["args"].get("loads", 0) for one in own if one["ts"] == 0]
        assert loads == [2 if process == 2 else 0]


# --- all ---------------------------------------------------------------------------------


def every(recordings: Sequence[Recording]) -> dict[str, Export]:
    """The export in each of these formats."""
    modules = (folded, speedscope, perf_script, callgrind, pprof, perfetto)
    return {one.__name__.rpartition(".")[2]: one.export(recordings) for one in modules}


def test_hostile_names_break_no_format() -> None:
    found = every([hostile()])
    count = 3 * len(HOSTILE)
    assert sum(times for (times,) in check_folded(found["folded"].text, 1).values()) == count
    [profile] = check_speedscope(found["speedscope"].text).values()
    assert sum(times for _, times in profile) == count
    assert len(check_perf_script(found["perf_script"].text)) == count
    costs = Callgrind(found["callgrind"].text)
    assert costs.totals["Ir"] == count and "evil" not in costs.own
    assert Profile(found["pprof"].binary).totals()["instructions"] == count
    events = json.loads(found["perfetto"].text)["traceEvents"]
    assert [one["name"] for one in events if one["ph"] == "X"][-1] == "[unknown]"
    for one in found.values():
        assert all(char.isprintable() or char in "\n\t" for char in one.text)


@pytest.mark.parametrize("name", [name for name in FORMATS if name not in OF_RESULTS])
def test_a_recording_without_paths_is_one_sentence(name: str, tmp_path: Path) -> None:
    file = tmp_path / "times.json"
    write_recording(timed({"getppid": 78.4}), file)
    with pytest.raises(UserError, match="has no paths, and stacks are made of them") as caught:
        export_files([file], name, summary=False)
    assert "--paths" in caught.value.remedy


def test_a_format_holds_so_many_recordings(tmp_path: Path) -> None:
    file = tmp_path / "one.json"
    write_recording(NEW, file)
    for name, most in (("callgrind", 1), ("perf-script", 1), ("folded", 2), ("pprof", 2)):
        export_files([file] * most, name, summary=False)
        with pytest.raises(UserError, match=f"{name} holds "):
            export_files([file] * (most + 1), name, summary=False)
    for name in ("speedscope", "perfetto"):
        assert export_files([file] * 3, name, summary=False).text


def test_a_path_that_is_not_the_count_is_said() -> None:
    odd = recording({"getppid": [("f", 5)]}, {"getppid": {5: 400, 7: 600}})
    for export in every([odd]).values():
        assert export.notes == (
            "getppid of 6.12.95+deb12-arm64: the commonest path has 5 instructions, the commonest"
            " count is 7",
        )


def test_only_what_is_binary_is_binary() -> None:
    for name, export in every([NEW]).items():
        assert bool(export.binary) == (name in BINARY) != bool(export.text)
