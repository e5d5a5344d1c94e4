# SPDX-License-Identifier: GPL-2.0-or-later
"""Each format: which numbers are read, under which names; and their recordings."""

from __future__ import annotations

import contextlib
import json
import time
from pathlib import Path

import pytest

from kentry.errors import UserError
from kentry.importing.import_file import FORMATS, import_file, recordings
from kentry.results.recording import read_recording, to_json, write_recording
from tests import ROOT
from tests.builders import validate
from tests.unit.importing import samples
from tests.unit.importing.samples import imported, values

LINE = "Simple syscall: 0.2000 microseconds"


def test_lat_syscall() -> None:
    assert values(samples.LAT_SYSCALL) == [
        (2, "Before", "getppid", "ns", "0.2000"),
        (3, "Before", "read", "ns", "0.3010"),
        (4, "Before", "write", "ns", "0.2550"),
        (5, "Before", "stat", "ns", "1.5000"),
        (6, "Before", "fstat", "ns", "0.4000"),
        (7, "Before", "openat+close", "ns", "3.2500"),
        (10, "After", "getppid", "ns", "0.1900"),
        (11, "After", "getppid", "ns", "0.1910"),
    ]
    assert [float(n.amount) for n in imported(samples.LAT_SYSCALL).numbers[:2]] == [200, 301]


def test_perf_bench_with_the_digit_grouping_of_each_locale() -> None:
    assert values(samples.PERF_BENCH) == [
        (9, "machine booted with nopti", "getppid", "ns", "0.125000"),
        (10, "machine booted with nopti", "getppid", "ops_per_s", "8000000"),
        (19, "same machine booted with pti", "getppid", "ns", "0.250000"),
        (20, "same machine booted with pti", "getppid", "ops_per_s", "4000000"),
        (25, "same machine booted with pti", "getpgid", "ns", "0.250000"),
        (26, "same machine booted with pti", "getpgid", "ops_per_s", "4000000"),
        (31, "same machine booted with pti", "execve", "ns", "500.000000"),
        (32, "same machine booted with pti", "execve", "ops_per_s", "2000"),
    ]


def test_a_number_a_call_has_its_word_as_the_case() -> None:
    assert values(samples.PER_CALL) == [
        (2, "Without the patch", "V=1", "ns", "250.5"),
        (5, "With the patch", "V=1", "ns", "260.0"),
    ]
    assert values("1.5 us/syscall\n") == [(1, "", "syscall", "ns", "1.5")]


def test_a_markdown_table_with_a_case_a_column() -> None:
    assert values(samples.MARKDOWN) == [
        (5, "Baseline", "getpid@fast", "cycles", "50"),
        (5, "Baseline", "getpid@slow", "cycles", "250"),
        (6, "First", "getpid@fast", "cycles", "50"),
        (6, "First", "getpid@slow", "cycles", "240"),
        (7, "Second", "getpid@fast", "cycles", "45"),
    ]


def test_a_csv_table_with_repetitions() -> None:
    found = imported(samples.CSV).numbers
    assert [(n.side, n.case, float(n.amount), n.about) for n in found] == [
        ("before", "getppid", 201.0, False),
        ("before", "getppid", 200.0, False),
        ("after", "getppid", 190.0, True),
    ]


@pytest.mark.parametrize(
    ("table", "number"),
    [
        ("case,before (ns)\ngetpid,80.5", (2, "before", "getpid", "ns", "80.5")),
        ("Case,ns\ngetpid,80.5", (2, "", "getpid", "ns", "80.5")),
        ("After:\n\n| case | ns |\n| getpid | 80.5 |", (4, "After", "getpid", "ns", "80.5")),
        ("case,unit,old\ngetpid,ticks,80", (2, "old", "getpid", "ticks", "80")),
        ('side,getpid (ops/s)\nold,"8,000"', (2, "old", "getpid", "ops_per_s", "8,000")),
        ("side,instructions\nold,200", (2, "old", "syscall", "all-instructions", "200")),
    ],
)
def test_where_side_case_and_unit_may_stand(
    table: str, number: tuple[int, str, str, str, str]
) -> None:
    assert values(table) == [number]


def test_aligned_columns_take_names_and_unit_from_the_text_above() -> None:
    cases = ("getpid@fast", "getpid@slow", "getuid@fast", "getuid@slow")
    rows = {(5, "Baseline (of a tree)"): "40 254 232 249", (6, "Use ar:br"): "40 245 217 242"}
    assert values(samples.COLUMNS) == [
        (line, side, case, "cycles", number)
        for (line, side), numbers in rows.items()
        for case, number in zip(cases, numbers.split(), strict=True)
    ]
    assert values("In us:\n  getpid\nold: 1.5\n") == [(3, "old", "getpid", "ns", "1.5")]
    # Neither unit nor names.
    for text in ("  getpid\nold: 40\n", "In ns:\n  getpid\nold: 40 50\n"):
        with pytest.raises(UserError):
            imported(text)


def test_a_table_of_commits_has_them_as_sides() -> None:
    table = "| commit | instructions per syscall |\n|---|---|\n| abc (the change) | ~250 |\n"
    assert values(table) == [(3, "abc (the change)", "syscall", "all-instructions", "~250")]
    with pytest.raises(UserError):
        imported("| commit | subject |\n| abc | 250 |\n")


def test_a_percentage_keeps_what_it_is_of() -> None:
    found = imported(samples.PERCENTAGES).numbers
    assert [(n.metric, n.published, n.unit, n.percent_of) for n in found] == [
        ("ticks-of-base", "~6", "%", "getpid+vec=none"),
        ("ticks-of-base", "-0.4", "%", "without it"),
    ]
    assert "value" in found[0].lacks


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("side,case,ns\nold,getpid,fast\n", "Line 2 of sample.txt"),
        ("side,case,ns\nold,getpid,1.2.3\n", "Line 2 of sample.txt"),
        ("side,case,ns\nold,getpid\n", "Line 2 of sample.txt"),
        ("side,case,ns\na,b,1\nc,d,nan\n", "Line 3 of sample.txt"),
        ("side,case,furlongs\nold,getpid,1\n", "'furlongs'"),
        (f"{LINE}\nSimple read: {'9' * 400} microseconds", "Line 2 of"),
    ],
)
def test_what_is_no_number_is_an_error_with_its_line(text: str, words: str) -> None:
    with pytest.raises(UserError, match=words):
        imported(text)


@pytest.mark.parametrize("name", FORMATS)
def test_a_sample_is_read_as_its_format_alone(name: str) -> None:
    assert imported(samples.ALL[name]).formats == (name,)


@pytest.mark.parametrize("name", FORMATS)
def test_a_file_that_is_cut_anywhere_is_read_or_refused(name: str) -> None:
    text = samples.ALL[name]
    for end in range(0, len(text), 7):
        with contextlib.suppress(UserError):
            assert imported(text[:end]).numbers


@pytest.mark.parametrize(
    "data",
    [
        f"Before:\r\n{LINE}\r\n".encode(),
        f"Before:\r{LINE}\r".encode(),
        f"Before:\n{LINE}\n\xb5s caf\xe9\n".encode("latin-1"),
        b"\xef\xbb\xbf" + f"Before:\n{LINE}\n".encode(),
        f"\x1b[1mBefore:\x1b[0m\n\x1b]0;title\x07{LINE}\x08\n".encode(),
        f"Before:\n{LINE}".encode(),
    ],
)
def test_line_ends_and_encodings(data: bytes, tmp_path: Path) -> None:
    file = tmp_path / "output.txt"
    file.write_bytes(data)
    (number,) = import_file(file).numbers
    assert (number.side, number.published) == ("Before", "0.2000")


@pytest.mark.parametrize(
    "data",
    [
        b"\x7fELF\0\0\0",
        b"",
        b"nothing to see here\n",
        b"\xff" * 100,
        b"| name | score |\n| a | 1 |\n",
    ],
)
def test_a_file_without_numbers_is_an_error(data: bytes, tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_bytes(data)
    with pytest.raises(UserError) as caught:
        import_file(file)
    assert caught.value.remedy


def test_a_file_above_8_mib_or_absent_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "big"
    file.write_bytes(b" " * ((8 << 20) + 1))
    with pytest.raises(UserError, match="8 MiB"):
        import_file(file)
    with pytest.raises(UserError, match="none"):
        import_file(tmp_path / "none")


@pytest.mark.parametrize(
    ("heading", "side"),
    [
        ("Before:", "Before"),
        ("-- baseline --", "baseline"),
        ("## After the patch", "After the patch"),
        ("This sentence is about something else.", ""),
        ("makes the code more elegant. Here are the changes:", ""),
        ("Before:\n\nHere you see it:", "Before"),
        ("Before:\n\nA program that I wrote for\na simple loop of calls:", "Before"),
        ("Before:\n\ntags:\n  - Linux", "Before"),
        ("# Running 'syscall/basic' benchmark:", ""),
    ],
)
def test_a_heading_names_the_side(heading: str, side: str) -> None:
    assert values(f"{heading}\n\n$ lat_syscall null\n{LINE}\n")[0][1] == side


@pytest.mark.parametrize(
    ("name", "amounts"),
    [
        ("arm64-el0-svc-likely", [236.5, 235.4, 233.9, 225.5, 225.4, 225.6]),
        ("arm64-sve-trap-timeout-series", [6, -4.5, 0.4]),
        ("riscv-syscall-regression", [200, 250, 250, 1147001.9]),
        ("riscv-vector-syscall-review", [242.9, 194.3, 264.5, 189.5]),
        ("ia64-syscall-series", [38, 207, 180, 206]),
    ],
)
def test_the_published_numbers_of_a_case_page(name: str, amounts: list[float]) -> None:
    numbers = import_file(ROOT / "docs" / "cases" / f"{name}.csv").numbers
    assert [float(number.amount) for number in numbers][-len(amounts) :] == amounts
    assert len(numbers) == (36 if name.startswith("ia64") else len(amounts))


@pytest.mark.parametrize(
    "text",
    [
        "\n".join(["-- " + "a" * 3900] * 500 + [LINE] * 500),
        "\n".join(["a:1 " * 900] * 200 + [LINE]),
        "In ns:\n  getpid\n" + "x: " + "1 " * 1900 + "\n" + "row: 5\n" * 5000,
        *(f"{LINE}\n{long}\n{long}%\n" for long in ("9" * 10**5, "1 " * 50_000, "| " * 50_000)),
    ],
)
def test_a_long_text_takes_no_time(text: str) -> None:
    began = time.process_time()
    assert imported(text).numbers
    assert time.process_time() - began < 5


def test_a_side_is_a_recording() -> None:
    found = dict(recordings(imported(samples.LAT_SYSCALL, "arm64")))
    assert list(found) == ["Before", "After"]
    after = found["After"]
    assert after.kernel["spec"] == "import:sample.txt#After"
    assert after.target["kind"] == "import"
    (case,) = after.cases
    metric = case.noisy["ns"]
    assert (metric.value, metric.unit) == (190.5, "ns")
    assert [one.values for one in metric.samples] == [(190.0,), (191.0,)]
    assert metric.interval is None
    assert metric.absent == ("interval", "kernel", "config", "interleaving")
    (before, *_) = found["Before"].cases
    assert "repetitions" in before.noisy["ns"].absent
    assert not case.metrics


def test_a_percentage_is_of_its_base() -> None:
    ((_, recording),) = recordings(imported(samples.PERCENTAGES, "arm64"))
    case = recording.case("getpid+vec=each")
    assert case is not None
    metric = case.noisy["ticks-of-base"]
    assert (metric.value, metric.unit) == (99.6, "percent")


@pytest.mark.parametrize("name", samples.ALL)
@pytest.mark.parametrize("arch", ["arm64", "ia64"])
def test_written_and_read_again(name: str, arch: str, tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    found = imported(samples.ALL[name], arch)
    if arch == "ia64" and any("+vec" in number.case for number in found.numbers):
        with pytest.raises(UserError, match="vec="):
            list(recordings(found))
        return
    for _, recording in recordings(found):
        write_recording(recording, file)
        document = to_json(recording)
        assert to_json(read_recording(file)) == document
        validate(json.loads(json.dumps(document)), "recording-1")
