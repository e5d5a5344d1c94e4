# SPDX-License-Identifier: GPL-2.0-or-later
"""Machines as their files: what the probe finds on each, in two readings half a second apart."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from types import SimpleNamespace
from typing import cast

from kentry.errors import MachineError
from kentry.machines import machine
from kentry.machines.machine import CommandResult
from kentry.time.preflight import Facts, gather

CPU = "/sys/devices/system/cpu"
CLOCK = "/sys/devices/system/clocksource/clocksource0"
SYSCTL = "/proc/sys/kernel"
EACCES, ENOENT, ENOTDIR = 13, 2, 20


def stat(*cpus: tuple[int, int, int]) -> str:
    """/proc/stat of cpus that were busy, idle and stolen for as many ticks."""
    rows = [f"cpu{n} {b} 0 0 {i} 0 0 0 {s} 0 0" for n, (b, i, s) in enumerate(cpus)]
    total = "cpu  1 2 3 4 5 6 7 8 0 0"
    return "\n".join([total, *rows, "intr 5 0 0 1", "ctxt 6", "procs_running 2", ""])


def interrupts(cpus: int, **rows: tuple[int, ...]) -> str:
    """/proc/interrupts; a row's name is "LOC" or "n36", for which the device is made up."""
    lines = ["           " + "".join(f"CPU{n}       " for n in range(cpus))]
    for name, counts in rows.items():
        numbers = "".join(f"{count:11}" for count in counts)
        if name.startswith("n"):
            lines.append(f" {name[1:]}:{numbers}  PCI-MSIX-0000:00:02.0   1-edge      nvme0q1")
        else:
            lines.append(f"{name}:{numbers}   {name} interrupts")
    return "\n".join([*lines, "ERR:          0", ""])


def status(**fields: object) -> str:
    values = {
        "Name": "probe",
        "Pid": 1234,
        "Seccomp": 0,
        "Seccomp_filters": 0,
        "Cpus_allowed_list": "0-7",
    } | fields
    return "".join(f"{name}:\t{value}\n" for name, value in values.items())


def cpuinfo(count: int, flags: str = "fpu tsc", model: str = "Example CPU @ 2.60GHz") -> str:
    block = "processor\t: {}\nmodel name\t: " + model + "\nmicrocode\t: 0x2b\nflags\t\t: " + flags
    return "\n\n".join(block.format(cpu) for cpu in range(count)) + "\n\n"


@dataclass
class Machine:
    """Its files, those that differ in the second reading, and the errno of missing ones."""

    files: dict[str, str]
    later: dict[str, str] = field(default_factory=dict)
    errors: dict[str, int] = field(default_factory=dict)
    virtualization: str = ""
    readings: list[list[str]] = field(default_factory=list)

    def run_probe(
        self, words: Sequence[str], timeout: float, on_line: Callable[[str], None]
    ) -> None:
        assert timeout > 0
        paths = words[0].removeprefix("facts=").split(",")
        assert len(words) == 1 and all(path.startswith("/") for path in paths)
        now = self.files | self.later if self.readings else self.files
        self.readings.append(paths)
        on_line("kentry-probe start x86_64")
        for path in paths:
            if path not in now:
                on_line(f"kentry-probe nofile {path} {self.errors.get(path, ENOENT)}")
                continue
            on_line(f"kentry-probe file {path}")
            for line in now[path].splitlines():
                text = line.replace("\t", " ")
                on_line(f"kentry-probe > {text[:240]}")
                for start in range(240, len(text), 240):
                    on_line(f"kentry-probe + {text[start : start + 240]}")
        on_line(f"kentry-probe end files={len(paths)}")

    def run_command(self, argv: Sequence[str], timeout: float) -> CommandResult:
        assert list(argv) == ["systemd-detect-virt", "--vm"]
        if not self.virtualization:
            raise MachineError("There is no program 'systemd-detect-virt'.")
        return CommandResult(int(self.virtualization == "none"), f"{self.virtualization}\n", "")

    def facts(self, cpu: int | None = None) -> Facts:
        # Half a second passes between readings.
        clock = SimpleNamespace(monotonic=count(100.0, 0.5).__next__, sleep=lambda seconds: None)
        return gather(cast(machine.Machine, self), cpu, clock)


def frequency(cpu: int, governor: str, low: int, high: int, **more: object) -> dict[str, str]:
    """The files of a cpu's cpufreq, in MHz."""
    folder = f"{CPU}/cpu{cpu}/cpufreq"
    files = {
        f"{folder}/scaling_governor": governor,
        f"{folder}/scaling_min_freq": str(low * 1000),
        f"{folder}/scaling_max_freq": str(high * 1000),
        f"{folder}/cpuinfo_max_freq": str(high * 1000),
    }
    return files | {f"{folder}/{name}": str(value) for name, value in more.items()}


def vulnerabilities(**states: str) -> dict[str, str]:
    return {f"{CPU}/vulnerabilities/{name}": state for name, state in states.items()}


ROOTS_TRACING = {"/sys/kernel/tracing/current_tracer": EACCES}


def guest() -> Machine:
    """Two cpus of a cloud's; no DMI, no cpufreq; the host takes some of the time."""
    files = {
        "/proc/stat": stat((1000, 9000, 5), (1000, 9000, 5)),
        "/proc/interrupts": interrupts(2, n36=(0, 5000), n41=(8000, 0), LOC=(100, 100)),
        "/proc/cpuinfo": cpuinfo(2, "fpu tsc hypervisor"),
        "/proc/cmdline": "console=ttyS0 quiet mitigations=auto -- --audit=0 isolcpus=1",
        "/proc/version": "Linux version 6.12.1 (x@y) (gcc) #1 SMP PREEMPT_DYNAMIC Thu Jan 1",
        "/proc/self/status": status(Cpus_allowed_list="0-1"),
        "/proc/self/loginuid": "4294967295",
        f"{SYSCTL}/hostname": "vm",
        f"{SYSCTL}/perf_event_paranoid": "3",
        f"{SYSCTL}/randomize_va_space": "2",
        f"{CPU}/online": "0-1",
        f"{CPU}/isolated": "",
        f"{CPU}/smt/active": "0",
        f"{CPU}/cpu1/topology/thread_siblings_list": "1",
        f"{CLOCK}/current_clocksource": "kvm-clock",
    } | vulnerabilities(
        meltdown="Not affected",
        retbleed="Vulnerable",
        spectre_v2="Mitigation: Retpolines; STIBP: disabled; BHI: SW loop, KVM: SW loop",
        spectre_v1="Mitigation: usercopy/swapgs barriers and __user pointer sanitization",
    )
    later = {"/proc/stat": stat((1001, 9049, 5), (1001, 9044, 10))}
    return Machine(files, later, dict(ROOTS_TRACING))


def laptop() -> Machine:
    """On battery, powersave, turbo, hot; someone works on the other thread; a browser runs."""
    files = {
        "/proc/stat": stat(*[(1000, 9000, 0)] * 8),
        "/proc/interrupts": interrupts(8, n130=(9, 1, *[9] * 6), LOC=(1,) * 8, RES=(5,) * 8),
        "/proc/cpuinfo": cpuinfo(8),
        "/proc/cmdline": "root=/dev/sda1 ro quiet",
        "/proc/self/status": status(),
        "/proc/self/loginuid": "1000",
        "/run/auditd.pid": "812",
        f"{SYSCTL}/perf_event_paranoid": "2",
        f"{CPU}/online": "0-7",
        f"{CPU}/smt/active": "1",
        f"{CPU}/intel_pstate/no_turbo": "0",
        f"{CPU}/cpu1/topology/thread_siblings_list": "1,5",
        f"{CLOCK}/current_clocksource": "hpet",
        "/sys/class/dmi/id/sys_vendor": "Example Inc.",
        "/sys/class/dmi/id/product_name": "Book 14",
    }
    files |= frequency(1, "powersave", 400, 4700, base_frequency=2600000)
    files |= vulnerabilities(
        meltdown="Mitigation: PTI", mds="Mitigation: Clear CPU buffers; SMT on"
    )
    busy = [(1025, 9025, 0)] * 8
    busy[1] = (1010, 9040, 0)
    busy[5] = (1045, 9005, 0)
    later = {
        "/proc/stat": stat(*busy),
        "/proc/interrupts": interrupts(
            8, n130=(9, 401, *[9] * 6), LOC=(1, 501, *[1] * 6), RES=(5, 25, *[5] * 6)
        ),
    }
    return Machine(files, later, dict(ROOTS_TRACING))


def server() -> Machine:
    """Isolated, tuned, no turbo, no other threads, no audit, read by root; cpu 3 is nohz_full."""
    idle = stat(*[(1000, 9000, 0)] * 4)
    files = {
        "/proc/stat": idle,
        "/proc/interrupts": interrupts(4, n36=(900, 5000, 3, 1), LOC=(9, 9, 9, 9)),
        "/proc/cpuinfo": cpuinfo(4),
        "/proc/cmdline": "isolcpus=managed_irq,domain,2-3 nohz_full=3 audit=0"
        " randomize_kstack_offset=off mitigations=off tsc=reliable root=UUID=12 ",
        "/proc/self/status": status(Cpus_allowed_list="0-1"),
        "/proc/self/loginuid": "0",
        f"{SYSCTL}/perf_event_paranoid": "2",
        f"{SYSCTL}/randomize_va_space": "0",
        f"{CPU}/online": "0-3",
        f"{CPU}/isolated": "2-3",
        f"{CPU}/nohz_full": "3",
        f"{CPU}/smt/active": "0",
        f"{CPU}/intel_pstate/no_turbo": "1",
        f"{CPU}/cpu2/topology/thread_siblings_list": "2",
        f"{CLOCK}/current_clocksource": "tsc",
        "/sys/kernel/tracing/tracing_on": "1",
        "/sys/kernel/tracing/current_tracer": "nop",
        "/sys/kernel/tracing/events/enable": "0",
        "/sys/class/dmi/id/sys_vendor": "Amazon EC2",
        "/sys/class/dmi/id/product_name": "m7i.metal-24xl",
    }
    for cpu in (2, 3):
        files |= frequency(cpu, "performance", 2600, 2600)
    files |= vulnerabilities(meltdown="Vulnerable", spectre_v2="Vulnerable; BHI: Vulnerable")
    later = {"/proc/stat": stat(*[(1000, 9050, 0)] * 4)}
    return Machine(files, later)


def board() -> Machine:
    """An arm64 board of two kinds of cores, too hot; an older kernel that says little."""
    core = "processor\t: {}\nBogoMIPS\t: 48.00\nFeatures\t: fp asimd\nCPU implementer\t: 0x41\n"
    core += "CPU architecture: 8\nCPU variant\t: 0x0\nCPU part\t: 0xd03\nCPU revision\t: 4\n"
    files = {
        "/proc/stat": stat(*[(1000, 9000, 0)] * 4),
        "/proc/interrupts": "           CPU0       CPU1       CPU2       CPU3       \n"
        "  9:          0          0          0          0     GICv2  25 Level     vgic\n"
        " 11:     203049     100000      99999      88888     GICv2  30 Level     arch_timer\n"
        "IPI0:      3000       9000       8000       7000       Rescheduling interrupts\n"
        "Err:          0\n",
        "/proc/cpuinfo": "\n".join(core.format(cpu) for cpu in range(4)) + "\nHardware\t: X\n",
        "/proc/cmdline": "console=ttyAMA0,115200 randomize_kstack_offset=1",
        "/proc/self/status": status(Cpus_allowed_list="0-3", Pid=77).replace("Seccomp_", "X"),
        f"{CPU}/online": "0-3",
        f"{CPU}/cpufreq/boost": "0",
        f"{CPU}/cpu3/topology/thread_siblings_list": "3",
        f"{CLOCK}/current_clocksource": "arch_sys_counter",
        "/proc/device-tree/model": "Example Pi 4?",
    }
    files |= frequency(3, "ondemand", 600, 1800)
    later = {"/proc/stat": stat(*[(1000, 9050, 0)] * 4)}
    return Machine(files, later)


def container() -> Machine:
    """One of docker's, with half a cpu, a filter and a limited set of cpus."""
    files = {
        "/proc/stat": stat(*[(1000, 9000, 0)] * 8),
        "/proc/cpuinfo": cpuinfo(8),
        "/proc/cmdline": "root=/dev/sda1",
        "/proc/self/status": status(Seccomp=2, Seccomp_filters=1, Cpus_allowed_list="4-5"),
        "/proc/self/loginuid": "4294967295",
        "/sys/fs/cgroup/cpu.max": "50000 100000",
        "/sys/fs/cgroup/cpuset.cpus.effective": "4-5",
        f"{SYSCTL}/perf_event_paranoid": "2",
        f"{CPU}/online": "0-7",
        f"{CLOCK}/current_clocksource": "tsc",
    }
    later = {"/proc/stat": stat(*[(1000, 9050, 0)] * 8)}
    return Machine(files, later)


def first_process() -> Machine:
    """A guest in which the probe is all there is."""
    files = {
        "/proc/stat": stat((30, 200, 0)),
        "/proc/interrupts": interrupts(1, n4=(300,), LOC=(200,)),
        "/proc/cpuinfo": cpuinfo(1, "fpu hypervisor"),
        "/proc/cmdline": "console=ttyS0 randomize_kstack_offset=off -- facts=/proc/stat",
        "/proc/self/status": status(Pid=1, Cpus_allowed_list="0"),
        f"{CPU}/online": "0",
        f"{CLOCK}/current_clocksource": "tsc",
        "/sys/class/dmi/id/sys_vendor": "QEMU",
        "/sys/class/dmi/id/product_name": "Standard PC (Q35 + ICH9, 2009)",
    } | vulnerabilities(meltdown="Not affected")
    return Machine(files)


def unknown() -> Machine:
    """Nothing can be read."""
    return Machine({})


MACHINES = {
    make.__name__: make
    for make in (guest, laptop, server, board, container, first_process, unknown)
}
