# SPDX-License-Identifier: GPL-2.0-or-later
"""Recordings in other programs' formats: whole texts, and what names and numbers may be."""

import csv
import io
import json
import os
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from kentry.compare.counted import compare
from kentry.errors import RecordingError, UserError
from kentry.results.comparison import Comparison, read_comparison
from kentry.results.document import to_json
from kentry.results.recording import (
    NoisyMetric,
    Recording,
    TimedProcess,
    read_recording,
    write_recording,
)
from kentry.show.export.benchfmt import benchfmt, benchmark_names, timed_unit
from kentry.show.export.ci import ktap
from kentry.show.export.common import labels, numbered
from kentry.show.export.formats import csv_samples, export_files
from kentry.show.export.profiles import folded, speedscope
from tests import ROOT
from tests.builders import IMPORTED, imported, recording, timed

Golden = Callable[[str, str], None]

OLD, NEW = (
    read_recording(ROOT / "tests" / "golden" / f"{name}.json")
    for name in ("arm64-6.1", "arm64-6.12")
)
OTHER = {"release": "6.1.170", "spec": "debian:6.1", "build_id": "aa"}
CALLED = ("a;b", "a b 12", "x (y)", "# z", "(3) n", 'q"<&>', "n\nfn=evil", "\x1b[31m", "", " ")


def mixed(entry: int = 250, *, other: bool = False) -> Recording:
    """Counts of every kind, decided or not, of one call and of several; and times."""
    found = recording(
        {
            "getppid": [("f", entry)],
            "getppid@ecall": [("f", 9)],
            "read+vec=1/8": [("f", 900)],
            "stat": [("f", 9)],
            "clock_gettime@vdso": [],
        },
        {"stat": {9: 4, 8: 3, 7: 3}, "getppid@ecall": {9: 998, 11: 2}},
        kernel={"arch": "riscv64", **(OTHER if other else {})},
        target={"timed_kind": "local", "timed_cpu_model": "Real One", "timed_session": "0a"},
    )
    first = found.cases[0]
    firmware = replace(first.metrics["firmware_instructions"], value=7, samples=((7, 1000),))
    process = TimedProcess(0, 0, 0, 0, 1, 0, (90, 91), (20,))
    tails = NoisyMetric(value=70, unit="ns", samples=(process,))
    times = timed({"getppid": 80.0 if other else 78.4}, (1, 2) if other else (0, 3), groups=2)
    found.cases[0] = replace(
        first,
        metrics={
            **first.metrics,
            **dict.fromkeys(("firmware_instructions", "stack.bytes", "lines.code"), firmware),
        },
        noisy={**times.cases[0].noisy, "p99_ns": tails, "loop_ns": tails},
    )
    return found


def compared(old: Recording, new: Recording, folder: Path) -> Comparison:
    (folder / "comparison.json").write_text(json.dumps(to_json(compare(old, new))))
    found = read_comparison(folder / "comparison.json")
    assert found
    return found


def test_the_whole_texts(golden: Golden, tmp_path: Path) -> None:
    """Benchstat makes a table of its own for each value of a key, so kernels are no keys."""
    old, new = mixed(), mixed(260, other=True)
    golden("export-benchfmt.txt", "\n".join([*benchfmt([old]).notes, benchfmt([old]).text]))
    golden("export-benchfmt-two.txt", benchfmt([old, new]).text)
    text = csv_samples([old]).text
    assert text.count("\n") == text.count("\r\n")
    golden("export-csv.txt", text.replace("\r\n", "\n"))
    golden("export-ktap.txt", ktap([old, old, compared(old, new, tmp_path)]).text)
    golden("export-speedscope.json", speedscope([NEW]).text)


# --- benchfmt and CSV ----------------------------------------------------


@pytest.mark.parametrize(
    ("metric", "unit", "expected"),
    [
        ("ns", "ns", "ns/op"),
        ("p99.9_ns", "ns", "p99.9-ns/op"),
        ("kernel-cycles", "cycles", "kernel-cycles/op"),
        ("kernel-instructions", "instructions", "kernel-instructions/op"),
        ("ops_per_s", "ops/s", "ops/s"),
        ("ns-p99-of-base", "percent", "ns-p99-of-base-percent"),
        ("value", "value", "value"),
        ("a b", "per cent", "a-b-per-cent"),
    ],
)
def test_units(metric: str, unit: str, expected: str) -> None:
    assert timed_unit(metric, unit) == expected


def test_benchmark_names_are_names_and_no_two_alike() -> None:
    cases = ["read-64", "openat+close", "getppid@int80+vec=each+vl=256+extra=1/100", "a b", "a-b"]
    assert benchmark_names(cases) == [
        "BenchmarkRead_64",
        "BenchmarkOpenat+close",
        "BenchmarkGetppid/entry=int80/vec=each/vl=256/extra=1:100",
        "BenchmarkA_b",
        "BenchmarkA_b#02",
    ]


def benchstat() -> str:
    """The program; a skip where it is not there, which Debian does not package."""
    found = os.environ.get("BENCHSTAT") or shutil.which("benchstat")
    if not found:
        reason = (
            "no benchstat in PATH or $BENCHSTAT"
            " (go install golang.org/x/perf/cmd/benchstat@v0.0.0-20230113213139-801c7ef9e5c5,"
            " with Go 1.15 or newer)"
        )
        pytest.skip(f"{reason}; CI runs it where there is a Go")
    return found


def test_benchstat_compares_two_files(tmp_path: Path) -> None:
    program = benchstat()
    for name, count, times, kernel in (
        ("old.txt", 250, timed({"getppid": 78.4}, (0, 3)), {}),
        ("new.txt", 260, timed({"getppid": 80.0}, (1, 2), kernel=OTHER), OTHER),
    ):
        counts = recording({"getppid": [("f", count)]}, kernel=kernel)
        joined = replace(counts, cases=[replace(counts.cases[0], noisy=times.cases[0].noisy)])
        (tmp_path / name).write_text(benchfmt([joined]).text)
    done = subprocess.run(
        [program, "old.txt", "new.txt"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    counted, spent = (line for line in done.stdout.splitlines() if line.startswith("Getppid"))
    assert re.search(r"250\.0 .*260\.0 .*\+4\.00% \(n=1\)", counted)
    assert re.search(r"\+2\.\d+% \(p=0\.000 n=80\)", spent)


@pytest.mark.parametrize(
    ("name", "cell"),
    [('run of "a, b"',) * 2, *((name, f"'{name}") for name in ("=1+1", "+1", "-1", "@sum"))],
)
def test_a_cell_is_quoted_and_no_formula(name: str, cell: str) -> None:
    text = csv_samples([timed({name: 5.0})]).text
    assert next(csv.DictReader(io.StringIO(text, newline="")))["case"] == cell


@pytest.mark.parametrize("name", ["a\x1b[31mb", "a\nok 2 b", "a\u202eb"])
def test_a_name_with_control_characters_is_escaped_in_every_format(name: str) -> None:
    odd = timed({name: 5.0}, groups=1)
    escaped = name.encode("unicode_escape").decode()
    for text in (csv_samples([odd]).text, ktap([odd]).text):
        assert escaped in text and name not in text
    lines = benchfmt([odd]).text.splitlines()
    assert len({line.split(" ")[0] for line in lines if line.startswith("Benchmark")}) == 1


@pytest.mark.parametrize("value", [0.0, 5e-324, 1.7e308])
def test_a_number_at_the_end_of_what_a_float_holds_is_printed(value: float) -> None:
    wide = NoisyMetric(
        value=value,
        unit="ns",
        interval=(0, value),
        confidence=0.99,
        absent=("repetitions",),
        samples=(),
    )
    found = timed({"getppid": wide})
    assert "inf" not in benchfmt([found]).text + ktap([found]).text


# --- KTAP ----------------------------------------------------------------


def results(one: Recording | Comparison) -> list[str]:
    return [line for line in ktap([one]).text.splitlines()[2:] if not line.startswith("#")]


def test_times_that_were_compared(tmp_path: Path) -> None:
    old, new = timed({"getppid": 78.4}), timed({"getppid": 80.0}, (1, 2))
    slower = compared(old, new, tmp_path)
    assert results(slower) == ["not ok 1 getppid ns"]
    words = r"-> \d\d\.\d+ ns, \+\d\.\d+ % of old \[\S+, \S+\] at 99 %, floor "
    assert re.search(words, ktap([slower]).text)
    apart = timed({"getppid": 80.0}, target={"session": "ff"})
    skip = " # SKIP undecided: "
    assert results(compared(old, apart, tmp_path)) == [f"ok 1 getppid ns{skip}measured apart"]
    numbers = compared(imported({"getppid": 78.4}), imported({"getppid": 80.0}), tmp_path)
    assert "78.4 -> 80 ns, +2.0 % of old, no interval, undecided\n" in ktap([numbers]).text
    assert results(numbers) == [f"ok 1 getppid ns{skip}imported"]


def test_a_change_by_layout_decides_nothing(tmp_path: Path) -> None:
    sides: list[Recording] = []
    for ns, slots in ((78.4, (0, 3)), (80.0, (1, 2))):
        counted = recording({"getppid": [("f", 250)]}, target={"session": "0a1b2c3d"})
        spent = timed({"getppid": ns}, slots).cases[0].noisy
        sides.append(replace(counted, cases=[replace(counted.cases[0], noisy=spent)]))
    counts, times = results(compared(sides[0], sides[1], tmp_path))
    assert counts == "ok 1 getppid instructions"
    assert times.startswith("ok 2 getppid ns # SKIP undecided: same instructions")


def test_a_name_begins_no_directive() -> None:
    assert results(timed({"a # SKIP b": 5.0})) == ["ok 1 a _ SKIP b"]


# --- profiles ------------------------------------------------------------


def stacks_of(text: str) -> dict[tuple[str, ...], list[int]]:
    """The counts by folded stack; anything else is a failure."""
    found = {}
    for line in text.splitlines():
        stack, *counts = line.split(" ")
        assert stack.isprintable() and not line.startswith("#")
        assert tuple(stack.split(";")) not in found
        found[tuple(stack.split(";"))] = list(map(int, counts))
    return found


def test_folded_stacks_add_up_to_the_counts_and_the_functions() -> None:
    export = folded([NEW])
    found = stacks_of(export.text)
    for name, count in (("getppid", 312), ("invalid", 264)):
        own, case = Counter[str](), NEW.case(name)
        for stack, (times,) in found.items():
            own[stack[-1]] += times if stack[0] == name else 0
        assert case and +own == dict(case.functions)
        assert own.total() == count
    handler = ("getppid", "el0t_64_sync", "el0t_64_sync_handler", "el0_svc", "do_el0_svc")
    deepest = ("el0_svc_common.constprop.0", "invoke_syscall", "__arm64_sys_getppid")
    assert found[(*handler, *deepest, "__task_pid_nr_ns")] == [35]
    (note,) = export.notes
    assert note.endswith("no kernel path: clock_gettime@vdso")


def test_two_recordings_are_two_columns_of_the_cases_that_both_have() -> None:
    found = stacks_of(folded([OLD, NEW]).text)
    old, new = (stacks_of(folded([one]).text) for one in (OLD, NEW))
    assert found == {name: [*old.get(name, [0]), *new.get(name, [0])] for name in {**old, **new}}
    one, other = recording({"a": [("f", 3)], "b": [("f", 4)]}), recording({"b": [("f", 6)]})
    export = folded([one, other])
    assert [note.endswith(": a") for note in export.notes] == [True]
    assert {stack[0] for stack in stacks_of(export.text)} == {"b"}
    with pytest.raises(UserError, match="in common"):
        folded([recording({"a": [("f", 3)]}), other])


def test_speedscope_has_the_recordings_of_a_case_side_by_side() -> None:
    found = json.loads(speedscope([OLD, NEW]).text)["profiles"]
    sides = [one.kernel["release"] for one in (OLD, NEW)]
    cases = ("getppid", "invalid")
    names = [f"{case} ({side})" for case in cases for side in sides]
    assert [one["name"] for one in found] == names
    assert [one["endValue"] for one in found] == [310, 312, 261, 264]


def test_hostile_names_break_no_format() -> None:
    hostile = [recording({"evil; case 7\nx": [(name, 3) for name in CALLED]})]
    texts = [export(hostile).text for export in (folded, speedscope)]
    assert sum(times for (times,) in stacks_of(texts[0]).values()) == 3 * len(CALLED)
    assert json.loads(texts[1])["profiles"][0]["endValue"] == 3 * len(CALLED)
    assert all(char.isprintable() or char in "\n\t" for text in texts for char in text)


# --- files ---------------------------------------------------------------


def test_a_format_holds_so_many_recordings(tmp_path: Path) -> None:
    file = tmp_path / "one.json"
    write_recording(NEW, file)
    export_files([file] * 2, "folded")
    with pytest.raises(UserError, match="folded holds "):
        export_files([file] * 3, "folded")
    assert export_files([file] * 3, "speedscope").text


def test_a_comparison_is_for_ktap_alone(tmp_path: Path) -> None:
    compared(OLD, NEW, tmp_path)
    file = tmp_path / "comparison.json"
    assert export_files([file], "ktap").text.startswith("KTAP version 1\n")
    with pytest.raises(UserError, match="csv"):
        export_files([file], "csv")


def test_a_comparison_need_not_say_where_its_kernels_are_from(tmp_path: Path) -> None:
    times = timed({"getppid": 78.4})
    document = to_json(compare(times, times))
    del document["old"]["kernel"]["origin"], document["new"]["kernel"]["origin"]
    file = tmp_path / "comparison.json"
    file.write_text(json.dumps(document))
    assert "\nok 1 getppid ns\n" in export_files([file], "ktap").text


def test_a_damaged_comparison_is_one_sentence(tmp_path: Path) -> None:
    times = timed({"getppid": 78.4})
    document = to_json(compare(times, times))
    file = tmp_path / "comparison.json"
    row = document["cases"][0]
    damages: tuple[dict[str, object], ...] = (
        {"schema": "kentry/comparison/2"},
        {"cases": []},
        {"cases": None},
        {"old": {}},
        {"caveats": [{"text": "of no kind"}]},
        {"cases": [{**row, "verdict": "good"}]},
        {"cases": [{**row, "old": -1}]},
        {"cases": [{**row, "interval": [2, 1]}]},
        {"cases": [{**row, "percent_of_old": "1"}]},
        {"cases": [{**row, "interval": [-1.7e308, 1.7e308]}]},
        {"cases": [{**row, "name": "a\nok 2 b"}]},
        {"cases": [{**row, "paired": 1}]},
        {"caveats": [{"kind": "x", "text": "\x1b[2J"}]},
    )
    for damage in damages:
        file.write_text(json.dumps({**document, **damage}))
        with pytest.raises(RecordingError) as caught:
            read_comparison(file)
        assert caught.value.remedy
        assert str(caught.value).isprintable()


def test_what_is_no_comparison_is_read_as_a_recording(tmp_path: Path) -> None:
    write_recording(mixed(), tmp_path / "one.json")
    assert read_comparison(tmp_path / "one.json") is None
    for text in ("", "[]", "{}", '{"schema": 5}', "[" * 100_000):
        (tmp_path / "none.json").write_text(text)
        assert read_comparison(tmp_path / "none.json") is None
        with pytest.raises(RecordingError):
            export_files([tmp_path / "none.json"], "ktap")


# --- names ---------------------------------------------------------------


def test_labels_tell_recordings_apart() -> None:
    same = timed({"a": 5.0})
    assert labels([same, timed({"a": 5.0}, kernel=OTHER)]) == ["6.12.95+deb12-arm64", "6.1.170"]
    assert labels([timed({"a": 5.0}, kernel=IMPORTED)]) == ["import:lat_syscall"]
    riscv = timed({"a": 5.0}, kernel={"arch": "riscv64"})
    assert labels([same, riscv])[1] == "6.12.95+deb12-arm64 riscv64"
    assert len(set(labels([same, same, same]))) == 3
    assert numbered(["a", "a (2)", "a"], "{} ({})") == ["a", "a (2)", "a (3)"]
