# SPDX-License-Identifier: GPL-2.0-or-later
"""Each format: what it reads, and under which names."""

import contextlib

import pytest

from kentry.errors import UserError
from kentry.importing.reading import NAMES
from tests.unit.importing import samples
from tests.unit.importing.samples import imported, values


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


def test_lat_syscall_of_two_kernels_on_a_line() -> None:
    found = values("Simple read: 1.2071 / 0.7270 microseconds\n")
    assert found == [
        (1, "before", "read", "ns", "1.2071"),
        (1, "after", "read", "ns", "0.7270"),
    ]


def test_unixbench_report_once_though_it_stands_there_twice() -> None:
    found = imported(samples.UNIXBENCH)
    assert [(n.case, n.metric, n.written) for n in found.numbers] == [
        ("pipe", "ops_per_s", "1200000.5"),
        ("unixbench-mix", "ops_per_s", "1500000.0"),
    ]
    assert [check.holds for check in found.checks] == [True, True]
    wrong = samples.UNIXBENCH.replace("1000.0\n", "1001.0\n")
    (finding,) = imported(wrong).findings
    assert finding.better == "the index of 1500000.0 is 1000.0"


def test_unixbench_index_values_alone() -> None:
    text = "System Call Overhead                          15000.0    1500000.0   1000.0\n"
    assert values(text) == [(1, "", "unixbench-mix", "ops_per_s", "1500000.0")]


@pytest.mark.parametrize(
    ("text", "rate", "case"),
    [
        ("$ ./syscall 10 getpid\nCOUNT|50|1|lps\n", 5.0, "getpid"),
        ("$ ./syscall 10\nCOUNT|50|1|lps\n", 5.0, "unixbench-mix"),
        ("$ ./syscall 10 getpid\nCOUNT|50|1|lps\nTIME|20.0\n", 2.5, "getpid"),
        ("COUNT|50|1|lps\nTIME|10.0\n", 5.0, "unixbench-mix"),
    ],
)
def test_unixbench_raw(text: str, rate: float, case: str) -> None:
    (number,) = imported(text).numbers
    assert float(number.amount) == rate
    assert number.case == case


def test_perf_bench_in_every_locale() -> None:
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
    assert not imported(samples.PERF_BENCH).findings
    assert len(imported(samples.PERF_BENCH).checks) == 8


def test_fp_pidbench_a_call() -> None:
    found = imported(samples.FP_PIDBENCH)
    assert [(n.side, n.case, float(n.amount)) for n in found.numbers] == [
        ("Before", "getpid+vec=none", 1.0),
        ("Before", "getpid+vec=once+vl=256", 2.0),
        ("Before", "getpid+vec=each+vl=256", 1.5),
        ("Before", "getpid+vec=after+vl=256", pytest.approx(1.0, abs=1e-6)),
        ("After", "getpid+vec=none", 1.0),
    ]
    assert "timer frequency" in found.numbers[0].absent


def test_a_posted_loop_and_the_pair_in_its_text() -> None:
    found = imported(samples.LOOP)
    assert values(samples.LOOP) == [
        (2, "Without the change", "getppid+vec=once", "ns", "200.0"),
        (5, "With the change", "getppid+vec=once", "ns", "210.0"),
        (7, "Without the change", "getppid+vec=none", "ns", "100.0"),
        (7, "With the change", "getppid+vec=none", "ns", "99.0"),
    ]
    assert [check.holds for check in found.checks] == [True, True]
    wrong = imported(samples.LOOP.replace("210.0 ns/call", "211.0 ns/call"))
    assert [check.line for check in wrong.findings] == [5]


def test_null_syscall_under_its_setting() -> None:
    found = imported(samples.NULL_SYSCALL)
    assert values(samples.NULL_SYSCALL) == [
        (8, "abi.some_switch = 1", "getppid+vec=once", "ns", "210.50"),
        (17, "abi.some_switch = 0", "getppid+vec=once", "ns", "200.25"),
    ]
    # 210 seconds are cut off, not rounded.
    assert [check.holds for check in found.checks] == [True, True]
    assert imported(samples.NULL_SYSCALL.replace("210 sec", "215 sec")).findings


def test_will_it_scale() -> None:
    found = imported(samples.WILL_IT_SCALE)
    assert values(samples.WILL_IT_SCALE) == [
        (5, "baseline", "getppid", "ops_per_s", "500000"),
        (5, "baseline", "getppid/1-threads", "ops_per_s", "510000"),
        (6, "baseline", "getppid/2-processes", "ops_per_s", "900000"),
        (13, "", "getppid", "ops_per_s", "300"),
        (14, "", "getppid", "ops_per_s", "303"),
    ]
    assert [check.holds for check in found.checks] == [True]
    assert found.left_out == 2, "the warm-up"
    assert imported(samples.WILL_IT_SCALE.replace("average:301", "average:310")).findings


def test_a_grid_of_percentages() -> None:
    found = imported(samples.GRID)
    assert [(n.side, n.case, n.metric_name, float(n.value), n.spread) for n in found.numbers] == [
        ("variant one", "getpid", "ns-change", -9.5, "(I)"),
        ("variant two", "getpid", "ns-change", 1.5, "(R)"),
        ("variant one", "getpid", "ns-p99-change", -50.25, "(I)"),
        ("variant two", "getpid", "ns-p99-change", 0.1, ""),
        ("variant one", "getpid", "ns-p99.9-change", -51.0, "(I)"),
        ("variant two", "getpid", "ns-p99.9-change", -0.2, ""),
        ("variant one", "invalid", "ns-change", -0.5, ""),
        ("variant two", "invalid", "ns-change", 3.25, "(R)"),
    ]
    assert {n.relative_to for n in found.numbers} == {"v6.18 with the option on"}
    assert all("value" in n.absent for n in found.numbers)
    assert not found.claims


def test_a_table_with_its_changes_checked() -> None:
    found = imported(samples.METRICS)
    assert [(n.side, n.metric, n.written) for n in found.numbers] == [
        ("W/O this patch", "ns", "0.250000"),
        ("With this patch", "ns", "0.240000"),
        ("W/O this patch", "ops_per_s", "4,000,000"),
        ("With this patch", "ops_per_s", "4,166,666"),
    ]
    assert {n.case for n in found.numbers} == {"getppid"}
    assert len(found.checks) == 4
    assert not found.findings
    wrong = imported(samples.METRICS.replace("\u21914.2%", "\u21914.9%"))
    assert [check.line for check in wrong.findings] == [7]


def test_a_markdown_table_a_row_a_commit() -> None:
    text = "| commit | instructions per syscall |\n|---|---|\n| 1234abcd (before) | ~200 |\n"
    (number,) = imported(text + "\n./syscall 10 getpid\n").numbers
    assert (number.side, number.case, number.metric) == ("1234abcd", "getpid", "all-instructions")
    assert number.about
    assert number.written == "~200"


def test_a_table_without_a_unit_is_not_read() -> None:
    with pytest.raises(UserError, match="no number in a form that kentry knows"):
        imported("| name | score |\n|---|---|\n| one | 200 |\n")


def test_lkp() -> None:
    found = imported(samples.LKP)
    assert [(n.side, n.case, n.metric, n.written, n.spread) for n in found.numbers] == [
        ("111111111111", "getppid", "ops_per_s", "1000000", ""),
        ("222222222222", "getppid", "ops_per_s", "1014000", "+-2%"),
        ("111111111111", "getppid", "perf-stat.i.instructions", "1.504e+10", ""),
        ("222222222222", "getppid", "perf-stat.i.instructions", "1.58e+10", ""),
    ]
    assert found.left_out == 2
    assert [check.holds for check in found.checks] == [True, True]
    assert imported(samples.LKP.replace("+1.4%", "+2.4%")).findings


def test_columns_a_row_a_patch() -> None:
    found = values(samples.COLUMNS)
    assert found[:4] == [
        (4, "Baseline (some tree)", "getpid@fast", "cycles", "50"),
        (4, "Baseline (some tree)", "getpid@slow", "cycles", "250"),
        (4, "Baseline (some tree)", "getuid@fast", "cycles", "230"),
        (4, "Baseline (some tree)", "getuid@slow", "cycles", "240"),
    ]
    assert [row[1] for row in found[4::4]] == [
        "First patch without a blank before its",
        "Second patch",
    ]
    assert len(found) == 12


def test_perf_stat_is_of_a_run() -> None:
    found = imported(samples.PERF_STAT)
    assert [(n.side, n.case, n.metric, n.written, n.spread) for n in found.numbers] == [
        ("Before", "run of getppid", "instructions:k", "250000000", "+-0.05%"),
        ("Before", "run of getppid", "cycles:k", "200000000", "+-0.50%"),
        ("Before", "run of getppid", "task-clock", "100.25", "+-0.40%"),
        ("Before", "run of getppid", "elapsed", "0.10100", "+-0.40%"),
    ]
    assert "calls" in found.numbers[0].absent


def test_instructions_a_call_from_a_machines_instructions() -> None:
    found = imported(samples.ICOUNT)
    assert [float(n.amount) for n in found.numbers] == [1e6, 2.5e8, 2.5e8]
    (derived,) = found.derived
    assert (derived.line, derived.case, float(derived.value)) == (3, "getpid", 250.0)


def test_pairs_and_claims_in_sentences() -> None:
    found = imported(samples.ALL["text"])
    assert [(n.side, n.written) for n in found.numbers] == [("before", "100.0"), ("after", "90.0")]
    (claim,) = found.claims
    assert found.backed[claim].holds


@pytest.mark.parametrize("name", NAMES)
def test_a_format_can_be_asked_for_alone(name: str) -> None:
    assert imported(samples.ALL[name], name).formats == (name,)


@pytest.mark.parametrize("name", NAMES)
def test_no_sample_is_called_wrong(name: str) -> None:
    assert not imported(samples.ALL[name]).findings


@pytest.mark.parametrize("name", NAMES)
def test_cut_anywhere_it_is_read_or_refused(name: str) -> None:
    text = samples.ALL[name]
    for end in range(0, len(text), 7):
        with contextlib.suppress(UserError):
            assert imported(text[:end]).numbers or imported(text[:end]).claims
