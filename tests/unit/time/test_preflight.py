# SPDX-License-Identifier: GPL-2.0-or-later
"""Facts of a machine: what the probe reads, the choice of a cpu, the checks, what is recorded."""

import dataclasses
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kentry.time.preflight import (
    BETWEEN,
    CPU_FOLDER,
    MOST_BYTES,
    TRACING,
    Facts,
    Finding,
    Interrupts,
    Ticks,
    check,
    choose_cpu,
    cpu_list,
    describe,
    parse_lines,
    paths_to_read,
)
from tests import ROOT
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
    assert machines.guest().facts(0).cpu == 0


def test_a_guests_first_process_is_read_once() -> None:
    machine = machines.first_process()
    facts = machine.facts()
    assert len(machine.readings) == 1
    assert facts.is_first_process
    assert not facts.busy(0) and not facts.interrupt_rates()


GROUP = "/sys/fs/cgroup/cpuset.cpus.effective"
PARTITION = {
    "/sys/fs/cgroup/cpuset.cpus.isolated": "2-3",
    f"{CPU_FOLDER}/isolated": "2-3",
    GROUP: "0-1",
}


@pytest.mark.parametrize(
    ("allowed", "files", "cpu"),
    [
        ("1", {}, 1),
        ("0", {}, 0),
        ("3", {}, 3),
        ("0-1", {GROUP: "0-1"}, 1),  # a container's
        ("0-1", {f"{CPU_FOLDER}/online": "0-1,3"}, 3),  # 2 is isolated, and off
        ("0-1", PARTITION, 1),  # outside the partition
        ("2-3", PARTITION, 2),
        ("0-3", {f"{CPU_FOLDER}/isolated": "", f"{CPU_FOLDER}/nohz_full": "3"}, 3),
        ("9", {}, 9),  # a contradiction
    ],
)
def test_the_choice_keeps_to_what_is_allowed_and_online(
    allowed: str, files: dict[str, str], cpu: int
) -> None:
    machine = machines.server()
    machine.files["/proc/self/status"] = machines.status(Cpus_allowed_list=allowed)
    assert choose_cpu(Facts(files=machine.files | files)) == cpu


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("0-3,8\n", (0, 1, 2, 3, 8)),
        ("5", (5,)),
        ("", ()),
        ("(null)", ()),
        ("3-1", ()),
        ("0-1,x,3", (0, 1, 3)),
        ("9" * 5000, ()),
        ("0-999999999,70000-140000", tuple(range(1 << 14))),
    ],
)
def test_lists_of_cpus(text: str, cpus: tuple[int, ...]) -> None:
    assert cpu_list(text) == cpus


def test_each_cpu_has_its_ticks() -> None:
    text = "cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 1 2 4 100 50 8 16 32 7 7\ncpu11 8 0 0 9\nintr 4"
    zeros = "cpu0 0 0 0 0 0 0 0 0 0 0\ncpu11 0 0 0 0"
    facts = Facts(files={"/proc/stat": text}, before={"/proc/stat": zeros})
    assert facts.ticks_between() == {0: Ticks(31, 150, 32), 11: Ticks(8, 9, 0)}
    # Iowait that goes back counts as none.
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
    # An offline cpu has no column.
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


PAGE = ROOT / "docs" / "howto" / "quiet-machine.md"
# The cpu that is chosen on each machine, and what is found there, in order.
FOUND = {
    "guest": (1, "steal"),  # not cpu 0, though it took fewer interrupts
    "laptop": (1, "load smt governor turbo interrupts"),
    "server": (2, ""),  # isolated, and not nohz_full; not in Cpus_allowed_list
    "board": (3, "governor"),  # the fewest interrupts besides the timer's
    "container": (4, "quota"),
    "first_process": (0, ""),
    "unknown": (0, ""),
}


def findings(facts: Facts) -> dict[str, Finding]:
    return {found.kind.removeprefix("preflight-"): found for found in check(facts)}


def with_files(facts: Facts, **files: str) -> Facts:
    return dataclasses.replace(facts, files=facts.files | files)


@pytest.mark.parametrize("name", MACHINES)
def test_the_choice_and_what_is_found(name: str) -> None:
    facts = MACHINES[name]().facts()
    assert (facts.cpu, " ".join(findings(facts))) == FOUND[name]


def test_names_from_outside_are_cut() -> None:
    long = "x" * 300
    facts = machines.laptop().facts(1)
    interrupts = facts.files["/proc/interrupts"].replace("nvme0q1", long)
    files = {
        f"{CPU_FOLDER}/cpu1/cpufreq/scaling_governor": long,
        f"{TRACING}/current_tracer": long,
        "/proc/interrupts": interrupts,
    }
    found = check(with_files(facts, **files))
    assert len(found) == 6
    assert all(len(one.text) <= 150 for one in found)


def test_the_page_has_a_section_for_every_check() -> None:
    sections = re.findall(r"^### `preflight-([a-z-]+)`", PAGE.read_text("utf-8"), re.MULTILINE)
    kinds = {kind for _, kinds in FOUND.values() for kind in kinds.split()}
    assert sorted(sections) == sorted({"tracing", *kinds})


def test_numbers_are_the_machines() -> None:
    kinds = ("laptop", "container", "guest")
    found = {k: v for name in kinds for k, v in findings(MACHINES[name]().facts()).items()}
    for kind, text in (
        ("governor", "between 400 and 4700 MHz (governor powersave)"),
        ("turbo", "from 2600 to 4700 MHz"),
        ("load", "cpu 1 was 20% busy"),
        ("smt", "90% busy"),
        ("interrupts", "840 interrupts a second"),
        ("interrupts", "800 of 130 (nvme0q1)"),
        ("quota", "0.50 cpus: after 50 ms"),
        ("steal", "10% of cpu 1's time"),
    ):
        assert text in found[kind].text
    assert found["interrupts"].remedy == "echo 0 | sudo tee /proc/irq/130/smp_affinity_list"


@pytest.mark.parametrize("governor", [("powersave", 800, 800), ("performance", 800, 2600)])
def test_a_frequency_that_cannot_change_needs_no_governor(governor: tuple[str, int, int]) -> None:
    files = machines.frequency(1, *governor)
    assert "governor" not in findings(with_files(machines.laptop().facts(1), **files))


QUOTA = "/sys/fs/cgroup/cpu.max"
NO_TURBO, BOOST = f"{CPU_FOLDER}/intel_pstate/no_turbo", f"{CPU_FOLDER}/cpufreq/boost"


@pytest.mark.parametrize(
    ("files", "remedy"),
    [
        ({NO_TURBO: "1"}, None),
        ({NO_TURBO: "0"}, f"echo 1 | sudo tee {NO_TURBO}"),
        ({BOOST: "1"}, f"echo 0 | sudo tee {BOOST}"),
        ({BOOST: "0"}, None),
        ({f"{CPU_FOLDER}/cpu0/cpufreq/boost": "1"}, "cpu0/cpufreq/boost"),
        ({f"{TRACING}/current_tracer": "nop", f"{TRACING}/tracing_on": "1"}, None),
        ({f"{TRACING}/current_tracer": "function"}, f"echo nop | sudo tee {TRACING}/current"),
        ({f"{TRACING}/current_tracer": "function", f"{TRACING}/tracing_on": "0"}, None),
        ({f"{TRACING}/events/enable": "X"}, f"echo 0 | sudo tee {TRACING}/events/enable"),
        ({QUOTA: "max 100000"}, None),
        ({QUOTA: "150000 100000"}, "CPUQuota="),
        ({QUOTA: "400000 100000"}, None),
        ({QUOTA: "x 0"}, None),
    ],
)
def test_what_is_found_in_a_file(files: dict[str, str], remedy: str | None) -> None:
    found = check(Facts(files=files))
    assert len(found) == (remedy is not None)
    assert all(remedy and remedy in one.remedy for one in found)


def test_interrupts_of_other_cpus_are_watched() -> None:
    before = machines.interrupts(2, RES=(0, 0))
    files = {
        f"{CPU_FOLDER}/online": "0-1",
        "/proc/interrupts": machines.interrupts(2, RES=(900, 0)),
    }
    facts = Facts(files=files, before={"/proc/interrupts": before}, seconds=0.5)
    found = findings(facts)["interrupts"]
    assert "1800 interrupts a second" in found.text
    assert "1800 of RES (RES interrupts)" in found.text
    assert "grep RES:" in found.remedy


@pytest.mark.parametrize(
    ("answer", "flags", "name"),
    [
        ("kvm", "fpu hypervisor", "kvm"),
        ("none", "fpu hypervisor", None),
        ("", "fpu hypervisor", "unnamed"),
        ("", "fpu", None),
    ],
)
def test_a_virtual_machine_is_what_systemd_says_or_else_the_cpus_flag(
    answer: str, flags: str, name: str | None
) -> None:
    machine = machines.container()
    machine.virtualization = answer
    machine.files["/proc/cpuinfo"] = machines.cpuinfo(8, flags)
    facts = machine.facts()
    assert describe(facts).get("hypervisor") == name


def test_busy_other_cpus_are_load() -> None:
    machine = machines.laptop()
    machine.later["/proc/stat"] = machines.stat(*[(1045, 9005, 0)] * 7, (1000, 9050, 0))
    assert "90% busy" in findings(machine.facts(7))["load"].text


KEPT: dict[str, dict[str, object]] = {
    "guest": {
        "cpu_model": "Example CPU @ 2.60GHz",
        "microcode": "0x2b",
        "host": "vm",
        "hypervisor": "unnamed",
        "clocksource": "kvm-clock",
        "cmdline": "mitigations=auto",
        "mitigations": "retbleed=vulnerable spectre_v2=Retpolines bhi=SW-loop"
        " spectre_v1=usercopy-swapgs-barriers",
        "preemption": "PREEMPT_DYNAMIC",
        "audit": "unknown",
        "seccomp_filters": 0,
    },
    "laptop": {
        "governor": "powersave",
        "frequency": "400-4700 MHz",
        "turbo": "on",
        "smt": "on",
        "machine": "Example Inc. Book 14",
    },
    "server": {
        "turbo": "off",
        "audit": "off",
        "isolated": "2-3",
        "cmdline": "isolcpus=managed_irq,domain,2-3 nohz_full=3 audit=0"
        " randomize_kstack_offset=off mitigations=off tsc=reliable",
        "mitigations": "meltdown=vulnerable spectre_v2=vulnerable bhi=vulnerable",
    },
    "board": {
        "cpu_model": "implementer 0x41 part 0xd03 r0p4",
        "machine": "Example Pi 4",
        "audit": "off",
    },
}


@pytest.mark.parametrize("name", KEPT)
def test_what_is_kept(name: str) -> None:
    kept = describe(MACHINES[name]().facts())
    assert KEPT[name].items() <= kept.items()
    assert name == "guest" or "hypervisor" not in kept  # not of a "metal" machine either
    assert name != "board" or not {"mitigations", "microcode"} & set(kept)


ID = "/proc/self/loginuid"
MDS = f"{CPU_FOLDER}/vulnerabilities/mds"


@pytest.mark.parametrize(
    ("name", "value", "files"),
    [
        ("audit", "off", {"/proc/cmdline": "audit=0", ID: "1"}),
        ("audit", "off", {"/proc/cmdline": "audit=off", "/run/auditd.pid": "1", ID: "1"}),
        ("audit", "on", {"/proc/cmdline": "audit=1", ID: "1"}),
        ("audit", "on", {"/run/auditd.pid": "7", ID: "1"}),
        ("audit", "unknown", {ID: "4294967295"}),
        ("seccomp_filters", 0, {"/proc/self/status": "Seccomp:\t0\n"}),
        ("seccomp_filters", 3, {"/proc/self/status": "Seccomp:\t2\nSeccomp_filters:\t3\n"}),
        ("seccomp_filters", 1, {"/proc/self/status": "Seccomp:\t1\n"}),
        ("seccomp_filters", None, {}),
        ("mitigations", "none", {MDS: "Not affected"}),
        ("mitigations", "mds=vulnerable", {MDS: "Vulnerable: Clear CPU; SMT vulnerable"}),
        ("mitigations", "mds=PTI", {MDS: "Mitigation: PTI"}),
        ("mitigations", "mds=VMX-disabled", {MDS: "KVM: Mitigation: VMX disabled"}),
        ("mitigations", "mds=A-B-C", {MDS: "Mitigation: A / B C; IBPB: conditional"}),
        ("mitigations", "mds=Unknown", {MDS: "Unknown: Dependent on hypervisor status"}),
        (
            "cpu_model",
            "sifive,u74",
            {"/proc/cpuinfo": "processor : 0\nuarch : sifive,u74\nisa : x"},
        ),
        (
            "cpu_model",
            "mvendorid 0x710 marchid 0x58",
            {"/proc/cpuinfo": "processor : 0\nisa : rv64\nmvendorid : 0x710\nmarchid : 0x58\n"},
        ),
        ("cpu_model", "rv64imafdc", {"/proc/cpuinfo": "processor : 0\nisa : rv64imafdc\n"}),
        (
            "cpu_model",
            "implementer ? part what r?p?",
            {"/proc/cpuinfo": "processor : 0\nCPU part : what\n"},
        ),
    ],
)
def test_what_is_kept_of_a_file(name: str, value: object, files: dict[str, str]) -> None:
    assert describe(Facts(files=files)).get(name) == value


def test_nothing_is_known_of_nothing() -> None:
    assert describe(machines.unknown().facts()) == {"cpus": 1, "audit": "unknown"}
    assert describe(Facts(missing={"/run/auditd.pid": machines.EACCES}))["audit"] == "on"
