# SPDX-License-Identifier: GPL-2.0-or-later
"""What does not follow is found, and nothing else."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.importing.samples import NULL_SYSCALL, imported

# Published on linux-riscv in 2025; the two latencies are of one program, a setting apart.
VSTATE = '"increases null syscall latency by 25%": 149.89 -> 198.73 ns\n'
VSTATE_MAIL = "\n".join(
    [
        "The results show that discarding the vector registers",
        "increases null syscall latency by 25%.",
        "",
        NULL_SYSCALL.replace("210.50", "198.73")
        .replace("210 sec", "198 sec")
        .replace("200.25", "149.89")
        .replace("200 sec", "149 sec"),
    ]
)
# In arm64's for-next/entry of January 2026.
ENTRY = "0.221146 usecs/op\n4,501,409 ops/sec\n"
ENTRY_TABLE = """\
| Metric     | W/O this patch | With this patch | Change |
| ---------- | -------------- | --------------- | ------ |
| usecs/op   | 0.224195       | 0.221146        | \u21931.36% |
| ops/sec    | 4,460,400      | 4,501,409       | \u21910.9%  |
"""


@pytest.mark.parametrize("text", [VSTATE, VSTATE_MAIL], ids=["quoted", "mail"])
def test_a_percentage_of_the_wrong_number(text: str) -> None:
    (finding,) = imported(text).findings
    assert finding.said == "25%"
    assert finding.better == (
        "149.89 -> 198.73 ns is +32.6% of 149.89; 25% is the decrease from 198.73"
    )


def test_the_same_claim_made_right() -> None:
    for right in ("increases latency by 33%", "reduces latency by 25%", "saves 48.84 ns"):
        found = imported(f"It {right}: 149.89 -> 198.73 ns\n")
        assert not found.findings
        assert all(check.holds for check in found.backed.values())
        assert found.backed


@pytest.mark.parametrize("text", [ENTRY, ENTRY.replace("\n", " beside ", 1)])
def test_two_cells_of_one_row(text: str) -> None:
    (finding,) = imported(text).findings
    assert finding.better == (
        "0.221146 usecs/op is 4521899 ops/sec; 4501409 ops/sec is 0.222153 usecs/op"
    )


def test_two_cells_of_a_table_give_both_readings() -> None:
    (finding,) = imported(ENTRY_TABLE).findings
    assert finding.better.endswith("the row is -1.36% by usecs/op and +0.919% by ops/sec")


def test_a_claim_without_a_measurement_is_not_wrong() -> None:
    found = imported("There is a 6% overhead on syscalls.\n")
    assert not found.findings
    assert not found.backed
    assert found.claims[0].base.endswith("overhead on syscalls")


def test_a_bound_holds_or_says_nothing() -> None:
    assert imported("It slows down by more than 20%: 100 -> 125 ns\n").backed
    assert not imported("It slows down by more than 10%: 100 -> 125 ns\n").findings


def test_a_saving_that_is_not_there() -> None:
    (finding,) = imported("It saves 20 ns (100.0 -> 90.0 ns).\n").findings
    assert finding.better == "100.0 -> 90.0 ns is -10.0 ns"


def test_performance_may_be_time_or_rate() -> None:
    for text in ("drops by 20%", "drops by 25%"):
        assert not imported(f"Performance {text}: 100 -> 125 ns\n").findings


latencies = st.decimals("20", "900", places=2)


@given(latencies, latencies)
def test_a_right_percentage_is_never_called_wrong(old: Decimal, new: Decimal) -> None:
    low, high = sorted((old, new))
    for places in (0, 1, 2):
        more = round(100 * (high - low) / low, places)
        less = round(100 * (high - low) / high, places)
        for said in (f"increases latency by {more}%", f"reduces latency by {less}%"):
            assert not imported(f"It {said}: {old} -> {new} ns\n").findings


@given(st.integers(1, 10**7), st.integers(1, 20 * 10**6))
def test_perf_bench_as_its_program_prints_it_is_never_called_wrong(loops: int, usecs: int) -> None:
    text = (
        f"# Executed {loops:,} getppid() calls\n"
        f"     Total time: {usecs // 10**6}.{usecs % 10**6 // 1000:03} [sec]\n\n"
        f" {usecs / loops:14f} usecs/op\n {int(loops / (usecs / 10**6)):14,} ops/sec\n"
    )
    assert not imported(text).findings
