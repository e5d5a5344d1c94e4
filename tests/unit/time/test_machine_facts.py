# SPDX-License-Identifier: GPL-2.0-or-later
"""Facts of a machine: what the probe reads, what it means, and the choice of a cpu."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kentry.time.preflight import (
    BETWEEN,
    CPU_FOLDER,
    MOST_BYTES,
    Facts,
    Interrupts,
    Ticks,
    check,
    choose_cpu,
    cpu_list,
    describe,
    parse_lines,
    paths_to_read,
)
from tests.unit.time import machines
from tests.unit.time.machines import MACHINES


def test_the_probes_words_become_files() -> None:
    lines = [
        "kentry-probe start arm64",
        "[    1.0] usb 1-1: new device",
        "kentry-probe > of no file",
        "kentry-probe file /proc/a",
        "kentry-probe > one",
        "kentry-probe > ",
        "kentry-probe > three ",
        "kentry-probe +  more\r",
        "kentry-probe nofile /proc/b 13",
        "kentry-probe file /proc/empty",
        "kentry-probe end files=3",
    ]
    facts = parse_lines(lines, 2)
    assert facts.files == {"/proc/a": "one\n\nthree  more", "/proc/empty": ""}
    assert facts.missing == {"/proc/b": 13}


def test_the_paths_are_the_machines_and_the_cpus() -> None:
    paths = paths_to_read(3)
    assert f"{CPU_FOLDER}/cpu3/cpufreq/scaling_governor" in paths
    assert not [path for path in paths_to_read(None) if "/cpu0/" in path]
    assert len(paths) == len(set(paths))
    for path in paths:
        assert path.startswith("/") and "," not in path and path.isascii() and " " not in path


def test_it_reads_twice_and_chooses_a_cpu_in_between() -> None:
    machine = machines.guest()
    facts = machine.facts()
    assert (facts.cpu, facts.seconds) == (1, BETWEEN)
    assert len(machine.readings) == 2
    assert "/proc/cmdline" not in machine.readings[1]
    assert f"{CPU_FOLDER}/cpu1/cpufreq/scaling_governor" in machine.readings[1]
    assert facts.busy(1) == pytest.approx(1 / 50)


def test_the_users_cpu_is_kept() -> None:
    assert machines.guest().facts(0).cpu == 0


def test_a_guests_first_process_is_read_once() -> None:
    machine = machines.first_process()
    facts = machine.facts()
    assert len(machine.readings) == 1
    assert facts.is_first_process
    assert not facts.busy(0) and not facts.interrupt_rates()


def test_interrupts_a_second_are_of_the_cpu() -> None:
    rates = {row.name: rate for rate, row in machines.laptop().facts(1).interrupt_rates()}
    assert rates == {"130": pytest.approx(800), "RES": pytest.approx(40)}


# --- the cpu --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "cpu"),
    [
        ("guest", 1),  # not 0, though it took fewer interrupts
        ("laptop", 1),
        ("server", 2),  # isolated, and not nohz_full; not in Cpus_allowed_list
        ("board", 3),  # the fewest interrupts besides the timer's
        ("container", 4),
        ("first-process", 0),
        ("unknown", 0),
    ],
)
def test_the_choice(name: str, cpu: int) -> None:
    assert MACHINES[name]().facts().cpu == cpu


def changed(cpus_allowed: str, **files: str) -> Facts:
    machine = machines.server()
    machine.files["/proc/self/status"] = machines.status(Cpus_allowed_list=cpus_allowed)
    return Facts(files=machine.files | files)


def test_what_the_user_limited_it_to_stays() -> None:
    assert choose_cpu(changed("1")) == 1
    assert choose_cpu(changed("0")) == 0
    assert choose_cpu(changed("3")) == 3


def test_a_container_has_its_own_cpus() -> None:
    assert choose_cpu(changed("0-1", **{"/sys/fs/cgroup/cpuset.cpus.effective": "0-1"})) == 1


def test_an_isolated_cpu_that_is_off_is_not_taken() -> None:
    assert choose_cpu(changed("0-1", **{f"{CPU_FOLDER}/online": "0-1,3"})) == 3


def test_a_partitions_cpus_are_its_own() -> None:
    partition = {"/sys/fs/cgroup/cpuset.cpus.isolated": "2-3", f"{CPU_FOLDER}/isolated": "2-3"}
    outside = partition | {"/sys/fs/cgroup/cpuset.cpus.effective": "0-1"}
    assert choose_cpu(changed("0-1", **outside)) == 1
    assert choose_cpu(changed("2-3", **outside)) == 2


def test_nohz_full_alone_is_better_than_nothing() -> None:
    facts = changed("0-3", **{f"{CPU_FOLDER}/isolated": "", f"{CPU_FOLDER}/nohz_full": "3"})
    assert choose_cpu(facts) == 3


def test_contradictions_end_in_a_cpu() -> None:
    assert choose_cpu(changed("9")) == 9


# --- files as numbers -----------------------------------------------------------


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
    assert cpu_list(text) == cpus


def test_each_cpu_has_its_ticks() -> None:
    text = "cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 1 2 4 100 50 8 16 32 7 7\ncpu11 8 0 0 9\nintr 4"
    zeros = "cpu0 0 0 0 0 0 0 0 0 0 0\ncpu11 0 0 0 0"
    facts = Facts(files={"/proc/stat": text}, before={"/proc/stat": zeros})
    assert facts.ticks_between() == {0: Ticks(31, 150, 32), 11: Ticks(8, 9, 0)}


def test_iowait_that_goes_back_counts_as_none() -> None:
    before, now = machines.stat((4, 91, 0)), machines.stat((25, 90, 0))
    facts = Facts(files={"/proc/stat": now}, before={"/proc/stat": before})
    assert facts.ticks_between() == {0: Ticks(21, 0, 0)}


def rows_of(text: str) -> list[Interrupts]:
    return Facts(files={"/proc/interrupts": text}).interrupts()


def test_interrupts_have_a_count_for_each_cpu() -> None:
    text = machines.interrupts(2, n36=(7, 8), LOC=(1, 2)) + "BAD:  1\nPIN:  3  4  Posted event\n"
    rows = {row.name: row for row in rows_of(text)}
    assert set(rows) == {"36", "PIN"}
    assert rows["36"].counts == {0: 7, 1: 8}
    assert rows["36"].device.endswith("nvme0q1")


def test_an_offline_cpu_has_no_column() -> None:
    assert rows_of("   CPU0  CPU2\nRES: 5 6 Local\n")[0].counts == {0: 5, 2: 6}


def test_timers_of_other_architectures() -> None:
    rows = "    CPU0\n 1: 5 GICv3 27 Level arch_timer\n 5: 6 RISC-V INTC 5 Edge riscv-timer\n"
    rows += " 6: 7 GICv3 30 Edge arch_mem_timer\n"
    assert [row.name for row in rows_of(rows)] == ["6"]


def test_the_last_line_of_a_file_that_was_cut_is_left_out() -> None:
    row = "  9: 12345 IO-APIC 9-edge acpi\n"
    cut = ("    CPU0\n" + row * (MOST_BYTES // len(row) + 1))[:MOST_BYTES]
    assert len(rows_of(cut)) == len(cut.splitlines()) - 2


@pytest.mark.parametrize(("cpu", "part"), [(4, "0xd08"), (7, "0xd03")])
def test_a_processor_is_the_chosen_one_or_the_first(cpu: int, part: str) -> None:
    text = "processor : 0\nCPU part : 0xd03\n\nprocessor : 4\nCPU part : 0xd08\n\nHardware : X\n"
    assert Facts(cpu, {"/proc/cpuinfo": text}).processor["CPU part"] == part
    assert Facts(cpu, {"/proc/cpuinfo": "Hardware : X"}).processor == {}


def test_a_command_line_ends_where_the_programs_words_begin() -> None:
    facts = Facts(files={"/proc/cmdline": "quiet audit=0 -- audit=1"})
    assert facts.cmdline == ["quiet", "audit=0"]


@given(st.text(alphabet="cpu0123456789 :-,\nxCPU\t."))
def test_no_text_is_an_error(text: str) -> None:
    paths = [*paths_to_read(1)]
    facts = Facts(1, dict.fromkeys(paths, text), before=dict.fromkeys(paths, text), seconds=1.0)
    check(facts)
    describe(facts)
    choose_cpu(facts)
