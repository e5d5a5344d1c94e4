# SPDX-License-Identifier: GPL-2.0-or-later
import time

import pytest

from kentry.measure.preflight import Facts, gather, wanted
from kentry.measure.preflight.facts import BETWEEN, CPU_FOLDER, parse_lines
from tests.unit.measure.preflight import machines
from tests.unit.measure.preflight.machines import MACHINES


def test_the_probes_words_become_files() -> None:
    lines = [
        "kentry-probe start arm64",
        "[    1.0] usb 1-1: new device",
        "kentry-probe > of no file",
        "kentry-probe file /proc/a",
        "kentry-probe > one",
        "kentry-probe > ",
        "kentry-probe > three ",
        "kentry-probe +  and more\r",
        "kentry-probe nofile /proc/b 13",
        "kentry-probe file /proc/empty",
        "kentry-probe end files=3",
    ]
    facts = parse_lines(lines, 2)
    assert facts.files == {"/proc/a": "one\n\nthree  and more", "/proc/empty": ""}
    assert facts.missing == {"/proc/b": 13}
    assert facts.is_there("/proc/empty") and facts.is_there("/proc/b")
    assert facts.is_hidden("/proc/b") and not facts.is_there("/proc/c")


def test_what_is_wanted_is_the_machines_and_the_cpus() -> None:
    of_three = {path for path in wanted(3, 8) if "/cpu3/" in path}
    assert f"{CPU_FOLDER}/cpu3/cpufreq/scaling_governor" in of_three
    assert not [path for path in wanted(None) if f"{CPU_FOLDER}/cpu0" in path]
    assert {path.replace("/cpu1/", "/cpu3/") for path in wanted(None, 2)} >= of_three
    assert len(wanted(3)) == len(set(wanted(3)))
    for path in wanted(3):
        assert path.startswith("/") and "," not in path and path.isascii() and " " not in path


def test_it_looks_twice_and_chooses_between() -> None:
    machine = machines.guest()
    facts = machine.facts()
    assert (facts.cpu, facts.seconds) == (1, BETWEEN)
    assert len(machine.looks) == 2
    assert "/proc/cmdline" not in machine.looks[1]
    assert f"{CPU_FOLDER}/cpu1/cpufreq/scaling_governor" in machine.looks[1]
    assert facts.busy(1) == pytest.approx(1 / 50)


def test_the_users_cpu_is_kept() -> None:
    assert machines.guest().facts(0).cpu == 0


def test_a_guests_first_process_is_looked_at_once() -> None:
    machine = machines.first_process()
    facts = machine.facts()
    assert len(machine.looks) == 1
    assert facts.is_first_process
    assert facts.busy(0) is None and not facts.interrupt_rates()


def test_the_probes_own_control_groups_are_found() -> None:
    machine = machines.container()
    machine.files["/proc/self/cgroup"] = "4:cpu,cpuacct:/a/b\n0::/user.slice/one\n"
    machine.facts()
    asked = set(machine.looks[1])
    assert {
        "/sys/fs/cgroup/user.slice/one/cpu.max",
        "/sys/fs/cgroup/user.slice/cpu.max",
        "/sys/fs/cgroup/cpu.max",
        "/sys/fs/cgroup/cpu/a/b/cpu.cfs_quota_us",
    } <= asked


@pytest.mark.parametrize("path", ["/../../x", "/a,b", "", "/" + "x" * 10])
def test_a_groups_name_does_no_harm(path: str) -> None:
    machine = machines.container()
    machine.files["/proc/self/cgroup"] = f"0::{path}\n"
    machine.facts()
    assert not [asked for asked in machine.looks[1] if ".." in asked or "," in asked]


def test_time_is_the_clocks() -> None:
    start = time.monotonic()
    facts = gather(machines.guest(), None)
    assert BETWEEN <= time.monotonic() - start < 2
    assert facts.seconds >= BETWEEN


@pytest.mark.parametrize("name", MACHINES)
def test_every_accessor_has_an_answer(name: str) -> None:
    facts = MACHINES[name]().facts()
    assert facts.cpu in facts.online
    assert isinstance(facts.processor, dict)
    assert facts.argument("no-such-word") is None


def test_an_argument_is_the_last_one_given() -> None:
    facts = Facts(files={"/proc/cmdline": "audit=1 quiet audit=0"})
    assert facts.argument("audit") == "0"
    assert facts.argument("quiet") == ""


def test_interrupts_a_second_are_of_the_cpu() -> None:
    rates = machines.laptop().facts(1).interrupt_rates()
    assert rates["130"][0] == pytest.approx(800)
    assert rates["LOC"][0] == pytest.approx(1000)
