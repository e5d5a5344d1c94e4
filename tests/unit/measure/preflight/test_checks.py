# SPDX-License-Identifier: GPL-2.0-or-later
import dataclasses
import re

import pytest

from kentry.measure.preflight import LEVELS, Facts, Finding, check
from kentry.measure.preflight.facts import (
    CLOCKSOURCE,
    CPU_FOLDER,
    FIRMWARE_THROTTLED,
    SYSCTL,
    TRACING,
)
from kentry.measure.preflight.finding import MOST_TEXT
from tests import ROOT
from tests.unit.measure.preflight import machines
from tests.unit.measure.preflight.machines import MACHINES

PAGE = ROOT / "docs" / "howto" / "quiet-machine.md"
SOURCE = ROOT / "src" / "kentry" / "measure" / "preflight"

# What is found on each machine, in order, a line a level: warnings, notes, what is not known.
FOUND = {
    "guest": (
        "steal",
        "virtual mitigations isolation counters tick",
        "tracing audit governor stack-offset",
    ),
    "laptop": (
        "audit load smt governor turbo battery interrupts neighbours clocksource",
        "throttle mitigations isolation counters tick",
        "tracing stack-offset",
    ),
    "server": ("", "mitigations tick layout", ""),
    "board": ("governor throttle", "stack-offset isolation core counters tick", "mitigations"),
    "container": (
        "quota seccomp",
        "isolation speculation container counters tick",
        "audit governor mitigations stack-offset",
    ),
    "first-process": ("", "virtual tick", "governor"),
    "unknown": ("", "tick", "audit governor clocksource mitigations stack-offset"),
}


def findings(facts: Facts) -> dict[str, Finding]:
    return {found.kind.removeprefix("preflight-"): found for found in check(facts)}


def with_files(facts: Facts, **files: str) -> Facts:
    return dataclasses.replace(facts, files=facts.files | files)


@pytest.mark.parametrize("name", MACHINES)
def test_what_is_found(name: str) -> None:
    found = check(MACHINES[name]().facts())
    by_level = tuple(
        " ".join(one.kind.removeprefix("preflight-") for one in found if one.level == level)
        for level in LEVELS
    )
    assert by_level == FOUND[name]


@pytest.mark.parametrize("name", MACHINES)
def test_each_is_a_short_sentence_with_a_remedy(name: str) -> None:
    for found in check(MACHINES[name]().facts()):
        assert found.text.isascii() and len(found.text) <= MOST_TEXT, found.text
        assert not found.text.endswith(".") and "  " not in found.text
        assert found.remedy.isascii() and len(found.remedy) > 10
        assert found.caveat == {"kind": found.kind, "text": found.text, "remedy": found.remedy}


def test_text_stays_short_whatever_the_machine_says() -> None:
    long = "x" * 300
    facts = machines.laptop().facts(1)
    folder = f"{CPU_FOLDER}/cpu1"
    facts = dataclasses.replace(
        with_files(
            facts,
            **{
                f"{folder}/cpufreq/scaling_governor": long,
                f"{folder}/thermal_throttle/core_throttle_count": "9" * 9,
                f"{SYSCTL}/osrelease": f"6.12{long}-debug",
                f"{CLOCKSOURCE}/current_clocksource": long,
                f"{TRACING}/current_tracer": long,
                "/sys/hypervisor/type": long,
                "/run/systemd/container": long,
                "/proc/interrupts": facts.files["/proc/interrupts"].replace("nvme0q1", long),
                "/proc/self/status": machines.status(TracerPid=4194304, Seccomp=2, CapEff=long),
            },
            **{f"{CPU_FOLDER}/vulnerabilities/{n}": f"Mitigation: {long}" for n in ("mds", "tsa")},
        ),
        missing={},
    )
    found = check(facts)
    assert len(found) > 15
    for one in found:
        assert len(one.text) <= MOST_TEXT, one


def test_the_page_has_every_check() -> None:
    page = PAGE.read_text(encoding="utf-8")
    kinds = {
        kind
        for file in SOURCE.glob("*.py")
        for kind in re.findall(
            r"\b(?:warning|note|unknown)\(\s*\"([a-z-]+)\"", file.read_text(encoding="utf-8")
        )
    }
    assert len(kinds) > 25
    assert kinds == set(re.findall(r"^### `preflight-([a-z-]+)`", page, re.MULTILINE))


def test_numbers_are_the_machines() -> None:
    found = findings(machines.laptop().facts(1))
    assert "between 400 and 4700 MHz (governor powersave)" in found["governor"].text
    assert "from 2600 to 4700 MHz" in found["turbo"].text
    assert "cpu 1 was 20% busy" in found["load"].text
    assert "cpu 5, the other thread of cpu 1's core, was 90% busy" in found["smt"].text
    assert "840 interrupts a second" in found["interrupts"].text
    assert "800 of 130 (nvme0q1)" in found["interrupts"].text
    assert found["interrupts"].remedy == "echo 0 | sudo tee /proc/irq/130/smp_affinity_list"
    assert found["clocksource"].remedy.startswith("echo tsc | sudo tee ")
    assert "meltdown PTI, mds Clear-CPU-buffers" in found["mitigations"].text
    assert "71 times" in found["throttle"].text
    quota = findings(machines.container().facts())["quota"]
    assert "0.50 cpus: after 50 ms of work in 100 ms" in quota.text
    steal = findings(machines.guest().facts())["steal"]
    assert "10% of cpu 1's time" in steal.text


def test_a_frequency_that_cannot_change_needs_no_governor() -> None:
    facts = with_files(machines.laptop().facts(1), **machines.frequency(1, "powersave", 800, 800))
    assert not {"governor", "frequency"} & set(findings(facts))
    facts = with_files(facts, **machines.frequency(1, "performance", 800, 2600))
    assert "governor" not in findings(facts)
    assert "800 to 2600 MHz" in findings(facts)["frequency"].text


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({f"{CPU_FOLDER}/intel_pstate/no_turbo": "1"}, False),
        ({f"{CPU_FOLDER}/intel_pstate/no_turbo": "0"}, True),
        ({f"{CPU_FOLDER}/cpufreq/boost": "1"}, True),
        ({f"{CPU_FOLDER}/cpufreq/boost": "0"}, False),
        ({f"{CPU_FOLDER}/cpu0/cpufreq/boost": "1"}, True),
        ({}, False),
    ],
)
def test_turbo(files: dict[str, str], found: bool) -> None:
    finding = findings(Facts(files=files)).get("turbo")
    assert (finding is not None) == found
    if finding:
        assert finding.remedy.split()[-1] in files


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({"AC/online": "1", "BAT0/status": "Full"}, False),
        ({"AC/online": "0"}, True),
        ({"BAT1/status": "Discharging"}, True),
        ({"ADP1/online": "1", "AC0/online": "0"}, False),
        ({"BAT0/status": "Charging"}, False),
    ],
)
def test_battery(files: dict[str, str], found: bool) -> None:
    facts = Facts(files={f"/sys/class/power_supply/{name}": text for name, text in files.items()})
    assert ("battery" in findings(facts)) == found


@pytest.mark.parametrize(
    ("mask", "level"), [("0", None), ("4", "warning"), ("50000", "note"), ("", None), ("no", None)]
)
def test_a_raspberry_pis_firmware(mask: str, level: str | None) -> None:
    found = findings(Facts(files={FIRMWARE_THROTTLED: mask})).get("throttle")
    assert (found.level if found else None) == level


@pytest.mark.parametrize(
    ("cmdline", "files", "level"),
    [
        ("audit=0", {"/proc/self/loginuid": "1"}, None),
        ("audit=off", {"/run/auditd.pid": "1", "/proc/self/loginuid": "1"}, None),
        ("audit=1", {"/proc/self/loginuid": "1"}, "warning"),
        ("", {"/proc/self/loginuid": "1", "/run/auditd.pid": "7"}, "warning"),
        ("", {"/proc/self/loginuid": "4294967295"}, "unknown"),
        ("", {}, "unknown"),
    ],
)
def test_audit(cmdline: str, files: dict[str, str], level: str | None) -> None:
    found = findings(Facts(files={"/proc/cmdline": cmdline} | files)).get("audit")
    assert (found.level if found else None) == level


@pytest.mark.parametrize(
    ("files", "level"),
    [
        ({"current_tracer": "nop", "events/enable": "0", "tracing_on": "1"}, None),
        ({"current_tracer": "function", "events/enable": "0", "tracing_on": "1"}, "warning"),
        ({"current_tracer": "function", "events/enable": "1", "tracing_on": "0"}, None),
        ({"current_tracer": "nop", "events/enable": "X", "tracing_on": "1"}, "warning"),
        ({}, None),
    ],
)
def test_tracing(files: dict[str, str], level: str | None) -> None:
    found = findings(Facts(files={f"{TRACING}/{name}": text for name, text in files.items()}))
    assert (found["tracing"].level if "tracing" in found else None) == level


def test_tracing_that_is_roots_is_not_known() -> None:
    facts = Facts(missing={f"{TRACING}/current_tracer": machines.EACCES})
    assert findings(facts)["tracing"].level == "unknown"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Seccomp:\t0\n", None),
        ("Seccomp:\t2\nSeccomp_filters:\t3\n", "3 seccomp filters checked"),
        ("Seccomp:\t2\nSeccomp_filters:\t1\n", "1 seccomp filter checked"),
        ("Seccomp:\t1\n", "A seccomp filter checked"),
        ("", None),
    ],
)
def test_seccomp(text: str, expected: str | None) -> None:
    found = findings(Facts(files={"/proc/self/status": text})).get("seccomp")
    assert (found is None) == (expected is None)
    assert found is None or found.text.startswith(expected or "")


@pytest.mark.parametrize(
    ("word", "level"),
    [
        ("randomize_kstack_offset=off", None),
        ("randomize_kstack_offset=0", None),
        ("randomize_kstack_offset=on", "note"),
        ("randomize_kstack_offset", "note"),
        ("quiet", "unknown"),
    ],
)
def test_the_stacks_offset(word: str, level: str | None) -> None:
    found = findings(Facts(files={"/proc/cmdline": word})).get("stack-offset")
    assert (found.level if found else None) == level


@pytest.mark.parametrize(
    ("facts", "sign"),
    [
        (Facts(missing={"/proc/lockdep/": machines.ENOTDIR}), "lockdep"),
        (Facts(missing={"/proc/lockdep/": machines.ENOENT}), None),
        (Facts(missing={"/sys/module/kcsan/": 21}), "KCSAN"),
        (Facts(files={"/proc/cmdline": "slub_debug=FZ quiet"}), "slub_debug=FZ"),
        (Facts(files={"/proc/cmdline": "kmemleak=off slub_debugger"}), None),
        (Facts(files={f"{SYSCTL}/osrelease": "6.12.0-1.fc42.x86_64+debug"}), "6.12.0"),
        (Facts(files={f"{SYSCTL}/osrelease": "6.12.0-amd64"}), None),
    ],
)
def test_debugging(facts: Facts, sign: str | None) -> None:
    found = findings(facts).get("debugging")
    assert (found is None) == (sign is None)
    assert found is None or (sign or "") in found.text


@pytest.mark.parametrize(
    ("state", "word"),
    [
        ("Not affected", None),
        ("Vulnerable: Clear CPU buffers attempted, no microcode; SMT vulnerable", None),
        ("Mitigation: PTI", "mds PTI"),
        ("KVM: Mitigation: VMX disabled", "mds VMX-disabled"),
        ("Mitigation: Enhanced / Automatic IBRS; IBPB: conditional", "mds Enhanced-Automatic-IBRS"),
        ("Unknown: Dependent on hypervisor status", "mds Unknown"),
    ],
)
def test_mitigations(state: str, word: str | None) -> None:
    found = findings(Facts(files=machines.vulnerabilities(mds=state))).get("mitigations")
    if state == "Not affected":
        assert found is None
    else:
        assert found is not None
        assert (word or "open: mds") in found.text


@pytest.mark.parametrize(
    ("capabilities", "level", "found"),
    [
        ("0", "2", True),
        ("0", "1", False),
        ("4000000000", "4", False),  # CAP_PERFMON
        ("200000", "4", False),  # CAP_SYS_ADMIN
        ("x", "4", True),
    ],
)
def test_counters(capabilities: str, level: str, found: bool) -> None:
    files = {
        "/proc/self/status": f"CapEff: {capabilities}",
        f"{SYSCTL}/perf_event_paranoid": level,
    }
    assert ("counters" in findings(Facts(files=files))) == found


@pytest.mark.parametrize(
    ("vendor", "product", "flags", "name"),
    [
        ("QEMU", "Standard PC", "fpu hypervisor", "KVM"),
        ("QEMU", "KVM Virtual Machine", "", "KVM"),
        ("Microsoft Corporation", "Virtual Machine", "hypervisor", "Hyper-V"),
        ("Microsoft Corporation", "Surface Book", "fpu", None),
        ("Google", "Google Compute Engine", "hypervisor", "KVM (Google)"),
        ("Amazon EC2", "c7g.large", "", "Amazon EC2"),
        ("Amazon EC2", "c7g.metal", "", None),
        ("Xen", "HVM domU", "hypervisor", "Xen"),
        ("Example", "Server", "fpu hypervisor", "unnamed"),
        ("Example", "Server", "fpu", None),
    ],
)
def test_guests(vendor: str, product: str, flags: str, name: str | None) -> None:
    files = {
        "/sys/class/dmi/id/sys_vendor": vendor,
        "/sys/class/dmi/id/product_name": product,
        "/proc/cpuinfo": f"processor : 0\nflags : {flags}\n",
    }
    found = findings(Facts(files=files)).get("virtual")
    assert (found is None) == (name is None)
    assert not found or name == "unnamed" or f"({name})" in found.text


@pytest.mark.parametrize(
    "files",
    [
        {"/proc/device-tree/hypervisor/compatible": "linux,kvm?"},
        {"/proc/device-tree/model": "linux,dummy-virt?"},
        {"/proc/device-tree/model": "riscv-virtio,qemu?"},
    ],
)
def test_guests_without_dmi(files: dict[str, str]) -> None:
    assert "virtual" in findings(Facts(files=files))


@pytest.mark.parametrize(
    ("files", "name"),
    [
        ({"/run/.containerenv": 'engine="podman-4.3.1"'}, "podman"),
        ({"/run/systemd/container": "lxc"}, "lxc"),
        ({"/proc/self/cgroup": "0::/kubepods/burstable/pod1"}, "kubepods"),
        ({"/proc/self/cgroup": "0::/user.slice"}, None),
    ],
)
def test_containers(files: dict[str, str], name: str | None) -> None:
    found = findings(Facts(files=files)).get("container")
    assert (found is None) == (name is None)
    assert found is None or f"({name})" in found.text


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({"/sys/fs/cgroup/cpu.max": "max 100000"}, False),
        ({"/sys/fs/cgroup/a/cpu.max": "150000 100000"}, True),
        ({"/sys/fs/cgroup/cpu.max": "400000 100000"}, False),
        ({"/sys/fs/cgroup/cpu.max": "x 0"}, False),
        (
            {
                "/sys/fs/cgroup/cpu/cpu.cfs_quota_us": "50000",
                "/sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000",
            },
            True,
        ),
        (
            {
                "/sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1",
                "/sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000",
            },
            False,
        ),
    ],
)
def test_quotas(files: dict[str, str], found: bool) -> None:
    assert ("quota" in findings(Facts(files=files))) == found


def test_load_of_one_look_is_the_average() -> None:
    facts = Facts(files={"/proc/loadavg": "3.00 1 1 1/2 3", f"{CPU_FOLDER}/online": "0-3"})
    assert "3.0 tasks" in findings(facts)["neighbours"].text
    facts = with_files(facts, **{"/proc/loadavg": "0.20 1 1 1/2 3"})
    assert "neighbours" not in findings(facts)


def test_steal_since_boot_is_a_note() -> None:
    facts = Facts(files={"/proc/stat": machines.stat((950, 9000, 50))})
    assert "5.0% of the time" in findings(facts)["steal"].text
    assert findings(facts)["steal"].level == "note"


def test_a_thread_whose_load_is_not_known_is_not_called_idle() -> None:
    files = {
        f"{CPU_FOLDER}/online": "0-1",
        f"{CPU_FOLDER}/cpu0/topology/thread_siblings_list": "0-1",
    }
    assert "idle" not in findings(Facts(files=files))["smt"].text


def test_a_tickless_cpu_tracks_context() -> None:
    found = findings(machines.server().facts(3))
    assert "context-tracking" in found and "tick" not in found


def test_a_tracer_is_named() -> None:
    files = {"/proc/self/status": "TracerPid:\t4711\n"}
    assert "4711" in findings(Facts(files=files))["traced"].text


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


def test_one_cpu_is_said_where_it_is_known() -> None:
    assert "one-cpu" in findings(Facts(files={f"{CPU_FOLDER}/online": "0"}))
    assert "one-cpu" in findings(Facts(files={"/proc/stat": machines.stat((1, 2, 0))}))
    assert "one-cpu" not in findings(Facts(files={f"{CPU_FOLDER}/online": "0-1"}))
