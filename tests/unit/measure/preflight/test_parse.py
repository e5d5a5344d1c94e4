# SPDX-License-Identifier: GPL-2.0-or-later
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kentry.measure.preflight import parse
from kentry.measure.preflight.parse import Ticks
from tests.unit.measure.preflight import machines


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("0-3,8\n", (0, 1, 2, 3, 8)),
        ("5", (5,)),
        ("", ()),
        ("(null)", ()),
        ("3-1", ()),
        ("0-1,x,3", (0, 1, 3)),
    ],
)
def test_lists_of_cpus(text: str, cpus: tuple[int, ...]) -> None:
    assert parse.cpu_list(text) == cpus


def test_a_list_without_end_is_cut() -> None:
    assert len(parse.cpu_list("0-99999999999")) == 65537


def test_ticks_of_each_cpu() -> None:
    text = "cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 1 2 4 100 50 8 16 32 7 7\ncpu11 1 0 0 2\nintr 4"
    assert parse.ticks(text) == {0: Ticks(31, 150, 32), 11: Ticks(1, 2, 0)}


def test_ticks_that_go_back_are_none() -> None:
    assert Ticks(5, 90, 0).since(Ticks(4, 91, 0)) == Ticks(1, 0, 0)


def test_interrupts_have_a_count_for_each_cpu() -> None:
    text = machines.interrupts(2, n36=(7, 8), LOC=(1, 2)) + "BAD:  1\nPIN:  3  4  Posted event\n"
    rows = {row.name: row for row in parse.interrupts(text)}
    assert set(rows) == {"36", "LOC", "PIN"}
    assert rows["36"].counts == {0: 7, 1: 8}
    assert rows["36"].device.endswith("nvme0q1")
    assert [name for name, row in rows.items() if row.is_timer] == ["LOC"]


def test_an_offline_cpu_has_no_column() -> None:
    assert parse.interrupts("   CPU0  CPU2\nLOC: 5 6 Local\n")[0].counts == {0: 5, 2: 6}


def test_timers_of_other_architectures() -> None:
    rows = "    CPU0\n 1: 5 GICv3 27 Level arch_timer\n 5: 6 RISC-V INTC 5 Edge riscv-timer\n"
    rows += " 6: 7 GICv3 30 Edge arch_mem_timer\n"
    assert [row.is_timer for row in parse.interrupts(rows)] == [True, True, False]


def test_the_last_line_of_a_file_that_was_cut_is_left_out() -> None:
    row = "  9: 12345 IO-APIC 9-edge acpi\n"
    text = "    CPU0\n" + row * (parse.MOST_BYTES // len(row) + 1)
    cut = text[: parse.MOST_BYTES]
    assert len(parse.interrupts(cut)) == len(cut.splitlines()) - 2


def test_a_processor_is_the_one_or_the_first() -> None:
    text = "processor : 0\nCPU part : 0xd03\n\nprocessor : 4\nCPU part : 0xd08\n\nHardware : X\n"
    assert parse.processor(text, 4)["CPU part"] == "0xd08"
    assert parse.processor(text, 7)["CPU part"] == "0xd03"
    assert parse.processor("Hardware : X", 0) == {}


def test_a_command_line_ends_where_the_programs_words_begin() -> None:
    assert parse.kernel_words("quiet audit=0 -- audit=1") == ["quiet", "audit=0"]


def test_control_groups() -> None:
    text = "4:cpu,cpuacct:/docker/12\n1:name=systemd:/\n0::/user.slice/a:b\n\nnonsense\n"
    groups = parse.cgroups(text)
    assert groups["cpu"] == groups["cpuacct"] == "/docker/12"
    assert groups[""] == "/user.slice/a:b"


@given(st.text(alphabet="cpu0123456789 :-,\nxCPU\t."))
def test_nothing_that_is_read_is_an_error(text: str) -> None:
    parse.cpu_list(text)
    parse.ticks(text)
    parse.interrupts(text)
    parse.processor(text, 1)
    parse.load_average(text)
    parse.cgroups(text)
