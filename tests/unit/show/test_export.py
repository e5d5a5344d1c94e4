# SPDX-License-Identifier: GPL-2.0-or-later
"""Recordings in other programs' formats, read back by the rules of each format."""

import csv
import io
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from msgspec.structs import replace

from kentry.compare.counted import compare
from kentry.errors import RecordingError, UserError
from kentry.results.comparison import Comparison, read_comparison
from kentry.results.document import to_json
from kentry.results.recording import NoisyMetric, Recording, TimedProcess, write_recording
from kentry.results.samples import value_of
from kentry.show.export.benchfmt import benchfmt, benchmark_names, timed_unit
from kentry.show.export.common import labels, numbered
from kentry.show.export.formats import FORMATS, csv_samples, export_files
from kentry.show.export.ktap import ktap
from tests.builders import IMPORTED, imported, recording, timed

COUNTED = recording(
    {"getppid": [("el0_svc", 250)], "getppid@svc": [("el0_svc", 9)], "read+vec=1/8": [("f", 900)]}
)
TIMED = timed({"getppid": 78.4, "getppid+vec=once+cache=4M": 812.0}, groups=8)
LESS = "undecided: less than half of the windows agree"
OTHER = {"release": "6.1.170", "spec": "debian:6.1", "build_id": "aa"}


# --- benchfmt ------------------------------------------------------------


def check_benchfmt(text: str) -> dict[str, list[tuple[int, dict[str, float]]]]:
    """The results by name, as the format's rules have it; anything else is a failure."""
    found: dict[str, list[tuple[int, dict[str, float]]]] = {}
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        if line.startswith("Unit "):
            assert re.fullmatch(r"Unit \S+( [a-z]+=[a-z]+)+", line)
        elif line.startswith("Benchmark"):
            name, times, *cells = line.split(" ")
            assert not re.match(r"Benchmark[a-z]", name)
            assert not re.search(r"-\d+$", name)
            pairs = dict(zip(cells[1::2], map(float, cells[::2]), strict=True))
            assert pairs
            found.setdefault(name, []).append((int(times), pairs))
        else:
            assert re.fullmatch(r"[a-z][^\sA-Z:]*:( .+)?", line), line
    return found


def test_counts_are_exact_in_units_that_say_so() -> None:
    text = benchfmt([COUNTED]).text
    assert check_benchfmt(text) == {
        "BenchmarkGetppid": [(1000, {"insns/op": 250})],
        "BenchmarkGetppid/entry=svc": [(1000, {"insns/op": 9})],
        "BenchmarkRead/vec=1:8": [(1000, {"insns/window": 900})],
    }
    assert text.startswith(
        "Unit insns/op assume=exact better=lower\nUnit insns/window assume=exact"
    )
    assert "goos: linux\ngoarch: arm64\ncpu: max\n" in text


def test_firmware_and_user_counts_are_there_where_they_say_something() -> None:
    riscv = recording({"getppid": [("f", 5)], "clock_gettime@vdso": []})
    case = riscv.cases[0]
    firmware = replace(case.metrics["firmware_instructions"], value=7, samples=((7, 1000),))
    riscv.cases[0] = replace(case, metrics={**case.metrics, "firmware_instructions": firmware})
    found = check_benchfmt(benchfmt([riscv]).text)
    assert found["BenchmarkGetppid"] == [(1000, {"insns/op": 5, "firmware-insns/op": 7})]
    vdso = found["BenchmarkClock_gettime/entry=vdso"]
    assert vdso == [(1000, {"insns/op": 0, "user-insns/op": 1})]


def test_a_count_without_a_value_is_left_out_and_said() -> None:
    odd = recording(
        {"getppid": [("f", 5)], "read": [("f", 9)]}, {"read": {9: 400, 11: 300, 12: 300}}
    )
    found = benchfmt([odd])
    assert list(check_benchfmt(found.text)) == ["BenchmarkGetppid"]
    assert [note.endswith(": read") for note in found.notes] == [True]


def test_each_process_is_a_sample() -> None:
    text = benchfmt([TIMED]).text
    found = check_benchfmt(text)
    samples = TIMED.cases[0].noisy["ns"].samples
    lines = found["BenchmarkGetppid"]
    assert [times for times, _ in lines] == [640 * 24] * 16
    values = [pairs["ns/op"] for _, pairs in lines]
    assert values == pytest.approx([value_of(one) for one in samples], rel=1e-5)
    assert len(found["BenchmarkGetppid/vec=once/cache=4M"]) == 16
    assert "Unit ns/op better=lower\n" in text
    assert "cpu: Neoverse-N1 r3p1\n" in text
    assert "# session: 0a1b2c3d\n" in text


def test_what_tells_kernels_apart_is_no_key_of_one_file() -> None:
    """Benchstat makes a table of its own for each value of a key."""
    keys = [
        {line for line in benchfmt([one]).text.splitlines() if re.match(r"[a-z]", line)}
        for one in (timed({"getppid": 78.4}), timed({"getppid": 78.4}, kernel=OTHER))
    ]
    assert keys[0] == keys[1]
    both = benchfmt([COUNTED, recording({"getppid": [("f", 5)]}, kernel=OTHER)]).text
    assert re.findall(r"^kernel: (.*)", both, re.MULTILINE) == ["6.12.95+deb12-arm64", "6.1.170"]
    assert len(re.findall(r"^Unit insns/op ", both, re.MULTILINE)) == 1


def test_a_joined_recording_has_the_cpu_of_each_side() -> None:
    joined = recording(
        {"getppid": [("f", 5)]}, target={"timed_kind": "local", "timed_cpu_model": "Real One"}
    )
    joined.cases[0] = replace(joined.cases[0], noisy=TIMED.cases[0].noisy)
    text = benchfmt([joined]).text
    assert text.index("cpu: max\n") < text.index(" insns/op\n") < text.index("cpu: Real One\n")
    assert text.index("cpu: Real One\n") < text.index(" ns/op\n")


def test_the_empty_loop_is_no_kernels() -> None:
    own = timed({"getppid": 3.1}, metric="loop_ns")
    assert "Benchmark" not in benchfmt([own]).text


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
    old = recording({"getppid": [("f", 250)]})
    new = recording({"getppid": [("f", 260)]}, kernel=OTHER)
    for name, counts, times in (
        ("old.txt", old, timed({"getppid": 78.4}, (0, 3))),
        ("new.txt", new, timed({"getppid": 80.0}, (1, 2), kernel=OTHER)),
    ):
        joined = replace(counts, cases=[replace(counts.cases[0], noisy=times.cases[0].noisy)])
        (tmp_path / name).write_text(benchfmt([joined]).text)
    done = subprocess.run(
        [program, "old.txt", "new.txt"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    counted, spent = (line for line in done.stdout.splitlines() if line.startswith("Getppid"))
    assert re.search(r"250\.0 .*260\.0 .*\+4\.00% \(n=1\)", counted)
    assert re.search(r"\+2\.\d+% \(p=0\.000 n=80\)", spent)


# --- CSV -----------------------------------------------------------------


def rows(text: str) -> list[dict[str, str]]:
    assert text.count("\n") == text.count("\r\n")
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_a_row_a_sample() -> None:
    found = rows(csv_samples([TIMED]).text)
    assert len(found) == 2 * 16 * 24
    process = TIMED.cases[0].noisy["ns"].samples[1]
    place = ("getppid", "0", "3")
    own = [row for row in found if (row["case"], row["group"], row["slot"]) == place]
    assert [float(row["value"]) for row in own] == list(process.values)
    assert [row["block"] for row in own] == [str(block) for block in range(24)]
    assert {(row["calls"], row["unit"], row["times"]) for row in own} == {("640", "ns", "1")}


def test_a_count_is_a_row_a_value_and_the_clocks_time_a_metric_of_its_own() -> None:
    odd = recording({"getppid": [("f", 5)]}, {"getppid": {5: 998, 7: 2}})
    found = [row for row in rows(csv_samples([odd]).text) if row["metric"] == "instructions"]
    cells = [(row["value"], row["times"], row["group"]) for row in found]
    assert cells == [("5", "998", ""), ("7", "2", "")]
    process = TimedProcess(0, 0, 0, 0, 1, 0, (90, 91), (20,))
    metric = NoisyMetric(value=70, unit="ns", samples=(process,))
    found = rows(csv_samples([timed({"getppid": metric})]).text)
    taken = [(row["metric"], row["value"]) for row in found]
    assert taken == [("ns", "90"), ("ns", "91"), ("ns-empty", "20")]


def test_text_with_commas_and_quotes_is_quoted() -> None:
    name = 'run of "a, b"'
    assert rows(csv_samples([timed({name: 5.0})]).text)[0]["case"] == name


@pytest.mark.parametrize("name", ["a\x1b[31mb", "a\nok 2 b", "a\u202eb"])
def test_a_name_with_control_characters_is_escaped_in_every_format(name: str) -> None:
    odd = [timed({name: 5.0}, groups=1)]
    escaped = name.encode("unicode_escape").decode()
    for text in (csv_samples(odd).text, ktap(odd).text):
        assert escaped in text and name not in text
    assert len(check_benchfmt(benchfmt(odd).text)) == 1


# --- KTAP ----------------------------------------------------------------

_RESULT = re.compile(r"(ok|not ok) (\d+) ([^#]+?)(?: # (SKIP) ?(.*))?")


def check_ktap(lines: list[str]) -> list[tuple[str, str, str]]:
    """(result, name, skip) of each test of one level, by the rules of ktap.rst."""
    assert lines[0] == "KTAP version 1"
    plan = re.fullmatch(r"1\.\.(\d+)", lines[1])
    assert plan
    found: list[tuple[str, str, str]] = []
    inner: list[str] = []
    for line in lines[2:]:
        if line.startswith("  "):
            inner.append(line[2:])
            continue
        if line.startswith("# "):
            continue
        match = _RESULT.fullmatch(line)
        assert match, line
        assert int(match[2]) == len(found) + 1
        if inner:
            failed = any(result == "not ok" for result, _, _ in check_ktap(inner))
            assert failed == (match[1] == "not ok")
            inner = []
        found.append((match[1], match[3], match[5] or ""))
    assert len(found) == int(plan[1])
    return found


def comparison(old: Recording, new: Recording, folder: Path) -> Comparison:
    file = folder / "comparison.json"
    file.write_text(json.dumps(to_json(compare(old, new))))
    found = read_comparison(file)
    assert found
    return found


def test_each_case_of_a_recording_is_a_test() -> None:
    text = ktap([TIMED]).text
    assert [name for _, name, _ in check_ktap(text.splitlines())] == [
        case.name for case in TIMED.cases
    ]
    assert re.search(
        r"^# getppid: ns: \d\d\.\d ns, interval \[\S+, \S+\] at 99 %, floor 0\.2 %, 16 processes\n"
        r"ok 1 getppid$",
        text,
        re.MULTILINE,
    )
    text = ktap([COUNTED]).text
    check_ktap(text.splitlines())
    assert "# read+vec=1/8: instructions: 900, exact, 1000 of 1000 windows of 8 calls\n" in text


def test_an_undecided_count_is_skipped() -> None:
    odd = recording({"getppid": [("f", 5)]}, {"getppid": {5: 4, 7: 3, 9: 3}})
    found = check_ktap(ktap([odd]).text.splitlines())
    assert found == [("ok", "getppid", LESS)]


def test_worse_fails_and_undecided_is_skipped(tmp_path: Path) -> None:
    old = recording({"getppid": [("f", 250)], "read": [("f", 9)], "stat": [("f", 9)]})
    new = recording(
        {"getppid": [("f", 260)], "read": [("f", 7)], "stat": [("f", 9)]},
        {"stat": {9: 4, 8: 3, 7: 3}},
    )
    text = ktap([comparison(old, new, tmp_path)]).text
    assert check_ktap(text.splitlines()) == [
        ("not ok", "getppid instructions", ""),
        ("ok", "read instructions", ""),
        ("ok", "stat instructions", LESS),
    ]
    change = "250 -> 260 (+10, +4.00 % of old), exact, worse\nnot ok 1 "
    assert f"# getppid instructions: {change}" in text


def test_times_that_were_compared(tmp_path: Path) -> None:
    slower = comparison(
        timed({"getppid": 78.4}, (0, 3)), timed({"getppid": 80.0}, (1, 2)), tmp_path
    )
    text = ktap([slower]).text
    assert check_ktap(text.splitlines()) == [("not ok", "getppid ns", "")]
    assert re.search(r"-> \d\d\.\d+ ns, \+\d\.\d+ % of old \[\S+, \S+\] at 99 %, floor ", text)
    apart = timed({"getppid": 80.0}, target={"session": "ff"})
    found = ktap([comparison(timed({"getppid": 78.4}), apart, tmp_path)]).text
    assert check_ktap(found.splitlines()) == [("ok", "getppid ns", "undecided: measured apart")]
    numbers = comparison(imported({"getppid": 78.4}), imported({"getppid": 80.0}), tmp_path)
    text = ktap([numbers]).text
    assert "78.4 -> 80 ns, +2.0 % of old, no interval, undecided\n" in text
    assert check_ktap(text.splitlines())[0][2] == "undecided: imported"


def test_a_change_by_layout_decides_nothing(tmp_path: Path) -> None:
    sides: list[Recording] = []
    for ns, slots in ((78.4, (0, 3)), (80.0, (1, 2))):
        counted = recording({"getppid": [("f", 250)]}, target={"session": "0a1b2c3d"})
        spent = timed({"getppid": ns}, slots).cases[0].noisy
        sides.append(replace(counted, cases=[replace(counted.cases[0], noisy=spent)]))
    found = check_ktap(ktap([comparison(sides[0], sides[1], tmp_path)]).text.splitlines())
    assert found[0] == ("ok", "getppid instructions", "")
    assert found[1][0] == "ok"
    assert found[1][2].startswith("undecided: same instructions")


def test_several_files_are_tests_with_subtests(tmp_path: Path) -> None:
    new = recording({"getppid": [("f", 260)], "getppid@svc": [("f", 9)]}, kernel=OTHER)
    both = comparison(COUNTED, new, tmp_path)
    text = ktap([COUNTED, COUNTED, both]).text
    names = ["6.12.95+deb12-arm64 arm64 debian:6.12", "6.12.95+deb12-arm64 arm64 debian:6.12 (2)"]
    assert check_ktap(text.splitlines()) == [
        ("ok", names[0], ""),
        ("ok", names[1], ""),
        ("not ok", "debian:6.12 to debian:6.1", ""),
    ]


def test_a_name_begins_no_directive() -> None:
    text = ktap([timed({"a # SKIP b": 5.0})]).text
    assert check_ktap(text.splitlines()) == [("ok", "a _ SKIP b", "")]


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
    found = [timed({"getppid": wide})]
    assert "inf" not in benchfmt(found).text + ktap([*found]).text


# --- files ---------------------------------------------------------------


def test_an_unknown_format_lists_the_formats(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="Unknown format 'xml'") as caught:
        export_files([], "xml")
    assert caught.value.remedy == f"Formats: {', '.join(FORMATS)}."


def test_a_comparison_is_for_ktap_alone(tmp_path: Path) -> None:
    comparison(COUNTED, COUNTED, tmp_path)
    file = tmp_path / "comparison.json"
    assert check_ktap(export_files([file], "ktap").text.splitlines())
    with pytest.raises(UserError, match="csv"):
        export_files([file], "csv")


def test_a_damaged_comparison_is_one_sentence(tmp_path: Path) -> None:
    document = to_json(compare(TIMED, TIMED))
    file = tmp_path / "comparison.json"
    row = document["cases"][0]
    damages: tuple[dict[str, object], ...] = (
        {"schema": "kentry/comparison/2"},
        {"cases": []},
        {"cases": None},
        {"old": {}},
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
    write_recording(COUNTED, tmp_path / "one.json")
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
