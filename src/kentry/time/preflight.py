# SPDX-License-Identifier: GPL-2.0-or-later
"""What a machine says about itself, and whether it is quiet enough to measure time on.

The probe reads files of /proc and /sys (`facts=`) without root.  What is missing or makes no sense
is unknown, never an error.  docs/howto/quiet-machine.md has a section for each check.
"""

import contextlib
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from statistics import fmean
from typing import Any, NamedTuple

from kentry.boot.mitigations import VULNERABILITIES, mitigations
from kentry.boot.probe_protocol import read_files
from kentry.errors import KentryError
from kentry.machines.machine import Machine

# Seconds between the two readings: 50 ticks of /proc/stat, so one tick is 2 %.
BETWEEN, TIMEOUT = 0.5, 30.0
# The probe cuts a file after this many bytes, perhaps in the middle of a line.
MOST_BYTES = 65536

CPU_FOLDER = "/sys/devices/system/cpu"
CLOCKSOURCE = "/sys/devices/system/clocksource/clocksource0"
TRACING = "/sys/kernel/tracing"
_SYSCTL = "/proc/sys/kernel"
_NO_TURBO = f"{CPU_FOLDER}/intel_pstate/no_turbo"
_BOOST = f"{CPU_FOLDER}/cpufreq/boost"
_CPU_MAX = "/sys/fs/cgroup/cpu.max"
_CPUSET = "/sys/fs/cgroup/cpuset.cpus.effective"
# The cpus of isolated cpuset partitions, in Linux 6.7 and later.
_PARTITIONS = "/sys/fs/cgroup/cpuset.cpus.isolated"

_CHANGING = ("/proc/stat", "/proc/interrupts")
_OF_MACHINE = (
    *_CHANGING,
    "/proc/cpuinfo",
    "/proc/cmdline",
    "/proc/version",
    "/proc/self/status",
    "/proc/self/loginuid",
    "/run/auditd.pid",
    *(f"{_SYSCTL}/{name}" for name in ("hostname", "randomize_va_space")),
    f"{_SYSCTL}/perf_event_paranoid",
    *(f"{CPU_FOLDER}/{name}" for name in ("online", "isolated", "nohz_full", "smt/active")),
    _NO_TURBO,
    _BOOST,
    *VULNERABILITIES,
    f"{CLOCKSOURCE}/current_clocksource",
    *(f"{TRACING}/{name}" for name in ("tracing_on", "current_tracer", "events/enable")),
    "/sys/class/dmi/id/sys_vendor",
    "/sys/class/dmi/id/product_name",
    "/proc/device-tree/model",
    _CPU_MAX,
    _CPUSET,
    _PARTITIONS,
    "/sys/kernel/mm/transparent_hugepage/enabled",
    "/sys/kernel/security/lsm",
)
_OF_CPU = (
    *(f"cpufreq/scaling_{name}" for name in ("governor", "min_freq", "max_freq")),
    "cpufreq/base_frequency",
    "cpufreq/cpuinfo_max_freq",
    "cpufreq/boost",
    "topology/thread_siblings_list",
)

# include/uapi/asm-generic/errno-base.h: errnos of a file that does not exist, or does.
_ENOENT = 2
_EXISTS = frozenset({1, 13})  # EPERM, EACCES

# Rows of /proc/interrupts that count errors, or the cpu's own timer: x86, arm64, riscv64.
_NO_WORK = re.compile(r"(ERR|MIS|Err|LOC) .*|.*\b(arch_timer|riscv-timer)")


class Ticks(NamedTuple):
    """What a cpu did, in ticks of 10 ms (USER_HZ): proc(5), /proc/stat."""

    busy: int
    idle: int
    steal: int


class Interrupts(NamedTuple):
    """One row of /proc/interrupts: its name ("36", "LOC"), its device, a count for each cpu."""

    name: str
    device: str
    counts: dict[int, int]


@dataclass(frozen=True)
class Facts:
    """What the probe read: files and errnos by path, and `before`, those of `seconds` ago."""

    cpu: int = 0  # the one to measure on
    files: dict[str, str] = field(default_factory=dict)
    missing: dict[str, int] = field(default_factory=dict)
    before: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    virtualization: str = ""  # what systemd-detect-virt says

    def text(self, path: str) -> str:
        """Returns a file without surrounding blanks and a final NUL, which is printed as "?"."""
        return self.files.get(path, "").strip().rstrip("?")

    def number(self, path: str) -> int | None:
        """Returns a decimal number."""
        with contextlib.suppress(ValueError):
            return int(self.text(path))
        return None

    def of_cpu(self, name: str) -> str:
        """Returns the path of a file of the chosen cpu."""
        return f"{CPU_FOLDER}/cpu{self.cpu}/{name}"

    @property
    def online(self) -> tuple[int, ...]:
        """The cpus that are online; at least one."""
        return cpu_list(self.text(f"{CPU_FOLDER}/online")) or (*self.ticks(),) or (self.cpu,)

    @property
    def isolated(self) -> tuple[int, ...]:
        """The cpus that the scheduler leaves alone, from boot on or as a cpuset partition."""
        return cpu_list(self.text(f"{CPU_FOLDER}/isolated")) + cpu_list(self.text(_PARTITIONS))

    @property
    def status(self) -> dict[str, str]:
        """The probe's own /proc/self/status."""
        return _fields(self.text("/proc/self/status"))

    @property
    def is_first_process(self) -> bool:
        """Whether the probe was PID 1 of a guest, with nothing else running there."""
        return self.status.get("Pid") == "1"

    @property
    def cmdline(self) -> list[str]:
        """The kernel's command line; words after "--" are the first process's."""
        parameters = self.files.get("/proc/cmdline", "").split()
        return parameters[: parameters.index("--")] if "--" in parameters else parameters

    @property
    def processor(self) -> dict[str, str]:
        """What /proc/cpuinfo says about the chosen cpu, or the first one if it is not there."""
        blocks = map(_fields, re.split(r"\n\s*\n", self.files.get("/proc/cpuinfo", "")))
        by_number = {block["processor"]: block for block in blocks if "processor" in block}
        return by_number.get(str(self.cpu)) or next(iter(by_number.values()), {})

    def ticks(self) -> dict[int, Ticks]:
        """Returns each cpu's ticks since boot."""
        cpus = {}
        for line in self.files.get("/proc/stat", "").splitlines():
            if match := re.fullmatch(r"cpu(\d+)((?: +\d+){4,})\s*", line):
                values = [int(word) for word in match[2].split()] + [0] * 4
                user, nice, system, idle, iowait, irq, softirq, steal = values[:8]
                busy = user + nice + system + irq + softirq
                cpus[int(match[1])] = Ticks(busy, idle + iowait, steal)
        return cpus

    def ticks_between(self) -> dict[int, Ticks]:
        """Returns each cpu's ticks between the two readings; empty after one reading."""
        before, now = Facts(files=self.before).ticks(), self.ticks()
        # iowait may go backwards, so no difference counts below 0.
        passed = {
            cpu: Ticks(*(max(new - old, 0) for old, new in zip(before[cpu], now[cpu], strict=True)))
            for cpu in now.keys() & before.keys()
        }
        return {cpu: ticks for cpu, ticks in sorted(passed.items()) if sum(ticks) >= 10}

    def busy(self, cpu: int) -> float:
        """Returns the share of the time between the readings that a cpu worked; 0 if unknown."""
        passed = self.ticks_between().get(cpu)
        return passed.busy / sum(passed) if passed else 0.0

    def interrupts(self) -> list[Interrupts]:
        """Returns the rows that count interrupts of every cpu since boot, but for its timer's."""
        text = self.files.get("/proc/interrupts", "")
        lines = text.splitlines()
        if len(text) >= MOST_BYTES - 1:
            lines = lines[:-1]
        cpus = (
            [int(number) for number in re.findall(r"\bCPU(\d{1,9})\b", lines[0])] if lines else []
        )
        rows = []
        for line in lines[1:]:
            name, _, rest = line.strip().partition(":")
            cells = rest.split(None, len(cpus))
            numbers = [int(word) for word in cells[: len(cpus)] if word.isdecimal()]
            device = " ".join(cells[len(cpus) :])
            if cpus and len(numbers) == len(cpus) and not _NO_WORK.fullmatch(f"{name} {device}"):
                rows.append(Interrupts(name, device, dict(zip(cpus, numbers, strict=True))))
        return rows

    def interrupt_rates(self) -> list[tuple[float, Interrupts]]:
        """Returns each row's interrupts a second on the chosen cpu between the readings."""
        rows = Facts(files=self.before).interrupts()
        before = {row.name: row.counts[self.cpu] for row in rows if self.cpu in row.counts}
        return [
            (max(row.counts[self.cpu] - before[row.name], 0) / self.seconds, row)
            for row in self.interrupts()
            if self.seconds > 0 and self.cpu in row.counts and row.name in before
        ]


# Linux has 8192 at most (NR_CPUS).
_MOST_CPUS = 1 << 14


def cpu_list(text: str) -> tuple[int, ...]:
    """Returns the cpus of a list as the kernel writes it: "0-3,8"; "" and "(null)" have none."""
    cpus: set[int] = set()
    for part in text.split(",")[:_MOST_CPUS]:
        if match := re.fullmatch(r"\s*(\d{1,9})(?:-(\d{1,9}))?\s*", part):
            first, last = int(match[1]), int(match[2] or match[1])
            cpus.update(range(first, min(last + 1, _MOST_CPUS)))
    return tuple(sorted(cpus))


def _fields(text: str) -> dict[str, str]:
    """Parses lines "NAME: VALUE"."""
    pairs = (line.partition(":") for line in text.splitlines())
    return {name.strip(): value.strip() for name, colon, value in pairs if colon}


def paths_to_read(cpu: int | None, of_machine: Sequence[str] = _OF_MACHINE) -> list[str]:
    """Returns the files of the machine, and those of `cpu` if it is chosen already."""
    of_cpu = [] if cpu is None else [f"{CPU_FOLDER}/cpu{cpu}/{name}" for name in _OF_CPU]
    return [*of_machine, *of_cpu]


def gather(machine: Machine, cpu: int | None, clock: Any = time) -> Facts:
    """Reads twice, half a second apart, but once where only the probe runs; chooses the cpu."""

    def read(paths: Sequence[str], cpu: int) -> Facts:
        lines: list[str] = []
        machine.run_probe([f"facts={','.join(paths)}"], TIMEOUT, lines.append)
        return parse_lines(lines, cpu)

    start = clock.monotonic()
    first = read(paths_to_read(cpu), cpu or 0)
    chosen = choose_cpu(first) if cpu is None else cpu
    if first.is_first_process:
        return Facts(chosen, first.files, first.missing)
    virtualization = ""
    with contextlib.suppress(KentryError):
        answer = machine.run_command(["systemd-detect-virt", "--vm"], TIMEOUT).stdout.strip()
        virtualization = answer if re.fullmatch(r"[a-z0-9-]+", answer) else ""
    clock.sleep(BETWEEN)
    again = clock.monotonic()
    second = read(paths_to_read(chosen, _CHANGING), chosen)
    return Facts(
        chosen,
        first.files | second.files,
        first.missing | second.missing,
        {path: first.files[path] for path in _CHANGING if path in first.files},
        again - start,
        virtualization,
    )


def parse_lines(lines: Sequence[str], cpu: int = 0) -> Facts:
    """Collects the files that the probe printed (guest/facts.h); it skips a console's lines."""
    return Facts(cpu, *read_files(lines))


def choose_cpu(facts: Facts) -> int:
    """Chooses an isolated cpu, best not nohz_full, whose entry does more; else not 0; idlest."""
    online, isolated = set(facts.online), set(facts.isolated)
    tickless = set(cpu_list(facts.text(f"{CPU_FOLDER}/nohz_full")))
    # A task starts on the cpus that are not isolated and may ask for the others, so its list of
    # allowed cpus is a limit only if it has fewer than those.
    allowed = set(cpu_list(facts.status.get("Cpus_allowed_list", ""))) or online
    if allowed >= online - isolated:
        allowed |= isolated
    in_group = set(cpu_list(facts.text(_CPUSET))) or online
    usable = online & allowed & in_group or online & allowed or {min(allowed)}
    rows = facts.interrupts()
    return min(
        usable,
        key=lambda cpu: (
            cpu not in isolated | tickless,
            cpu in tickless,
            cpu == 0,
            sum(row.counts.get(cpu, 0) for row in rows),
            cpu,
        ),
    )


# --- the checks -------------------------------------------------------------------------

# Shares of the time between the two readings.  One tick is 2 % of it, and reading is work too.
_BUSY, _OTHERS_BUSY, _STOLEN = 0.05, 0.20, 0.01
# Interrupts a second besides the timer's: one in a turn of 10 ms.
_INTERRUPTS = 100.0
# The probe uses one cpu, and kentry now and then another.
_CPUS_USED = 2

# The kind of a check, what is wrong, and what to do about it.
Advice = Iterator[tuple[str, str, str]]


class Finding(NamedTuple):
    """What makes times spread or shifts them on the machine, and what to do about it."""

    kind: str
    text: str
    remedy: str


def _check_work(facts: Facts) -> Advice:
    """Yields who else uses the cpus."""
    cpu, busy, ticks = facts.cpu, facts.busy(facts.cpu), facts.ticks_between()
    match = re.fullmatch(r"([0-9]+)\s+([0-9]+)", facts.text(_CPU_MAX))
    most, period = map(int, match.groups()) if match else (0, 0)  # us of work, and in which time
    if 0 < most < _CPUS_USED * period:
        yield (
            "quota",
            f"A control group allows {most / period:.2f} cpus: after {most / 1000:.0f} ms of work"
            f" in {period / 1000:.0f} ms all its tasks stop",
            "sudo systemctl set-property UNIT CPUQuota= (or docker run without --cpus)",
        )
    what, function = "", facts.text(f"{TRACING}/current_tracer") or "nop"
    if function != "nop":
        what, switch = f"current_tracer {function}", f"echo nop | sudo tee {TRACING}/current_tracer"
    elif facts.text(f"{TRACING}/events/enable") in ("1", "X"):
        what, switch = "trace events are on", f"echo 0 | sudo tee {TRACING}/events/enable"
    if what and facts.text(f"{TRACING}/tracing_on") != "0":
        yield "tracing", f"The kernel is being traced: {what:.60}", switch
    mean = fmean([facts.busy(other) for other in ticks if other != cpu] or [0.0])
    who, only = "", ""
    if busy > _BUSY:
        who, only = f"cpu {cpu} was {busy:.0%} busy with other work", f" | awk '$1 == {cpu}'"
    elif mean > _OTHERS_BUSY:
        who = f"The other cpus, which share caches and power, were {mean:.0%} busy"
    if who:
        remedy = f"ps -eo psr,pcpu,pid,comm --sort=-pcpu{only} | head"
        yield "load", f"{who} in the {facts.seconds:.1f} s before", remedy
    siblings = cpu_list(facts.text(facts.of_cpu("topology/thread_siblings_list")))
    threads = [other for other in siblings if other != cpu and other in facts.online]
    other = max(threads, key=facts.busy, default=-1)
    if facts.busy(other) > _BUSY:
        yield (
            "smt",
            f"cpu {other}, the other thread of cpu {cpu}'s core, was {facts.busy(other):.0%} busy:"
            " the two share all its units",
            f"echo 0 | sudo tee {CPU_FOLDER}/cpu{other}/online",
        )
    share = ticks[cpu].steal / sum(ticks[cpu]) if cpu in ticks else 0.0
    if share > _STOLEN:
        yield (
            "steal",
            f"The host took {share:.0%} of cpu {cpu}'s time for other guests (steal)",
            "Get a cpu of its own: on the host, virsh vcpupin, or a dedicated instance",
        )


def _check_frequency(facts: Facts) -> Advice:
    path = facts.of_cpu("cpufreq/scaling_governor")
    name, limits = facts.text(path), frequency_limits(facts)
    is_fixed = limits and limits[0] == limits[1]
    if name not in ("", "performance", "userspace") and not is_fixed:
        between = f" between {limits[0]} and {limits[1]} MHz" if limits else ""
        yield (
            "governor",
            f"cpu {facts.cpu}'s frequency follows the load{between} (governor {name:.16}),"
            " and so does the time of each call",
            f"echo performance | sudo tee {path}",
        )
    path, is_on = turbo_switch(facts) or ("", False)
    if is_on:
        base = facts.number(facts.of_cpu("cpufreq/base_frequency"))
        most = facts.number(facts.of_cpu("cpufreq/cpuinfo_max_freq"))
        between = "above its nominal frequency"
        if base and most:
            between = f"from {base // 1000} to {most // 1000} MHz"
        yield (
            "turbo",
            f"Turbo is on: cpu {facts.cpu} goes {between} while few cores work and they are cool",
            f"echo {int(path == _NO_TURBO)} | sudo tee {path}",
        )


def frequency_limits(facts: Facts) -> tuple[int, int] | None:
    """Returns the lowest and highest frequency that cpufreq allows, in MHz."""
    low = facts.number(facts.of_cpu("cpufreq/scaling_min_freq"))
    high = facts.number(facts.of_cpu("cpufreq/scaling_max_freq"))
    return None if low is None or high is None else (low // 1000, high // 1000)


def turbo_switch(facts: Facts) -> tuple[str, bool] | None:
    """Returns the file that switches turbo, and whether turbo is on; None without such a file."""
    for path in (_NO_TURBO, _BOOST, facts.of_cpu("cpufreq/boost")):
        if (value := facts.number(path)) is not None:
            return path, (value == 0) == (path == _NO_TURBO)
    return None


def _check_interrupts(facts: Facts) -> Advice:
    """Yields whether other interrupts than the timer's come often."""
    rates = facts.interrupt_rates()
    total = sum(rate for rate, _ in rates)
    if total >= _INTERRUPTS:
        rate, (name, device, _) = max(rates, key=lambda pair: pair[0])
        remedy = f"watch -d grep {name}: /proc/interrupts, and stop its cause"
        if name.isdecimal():
            device = (device or name).split()[-1]
            for elsewhere in [cpu for cpu in facts.online if cpu != facts.cpu][:1]:
                remedy = f"echo {elsewhere} | sudo tee /proc/irq/{name}/smp_affinity_list"
        text = f"cpu {facts.cpu} took {total:.0f} interrupts a second besides its timer's,"
        yield "interrupts", f"{text} {rate:.0f} of {name} ({device:.32})", remedy


def check(facts: Facts) -> list[Finding]:
    """Returns what the checks find, the most important first.

    What a recording's target says of the machine, such as its hypervisor, is no finding.
    """
    findings = chain(_check_work(facts), _check_frequency(facts), _check_interrupts(facts))
    return [Finding(f"preflight-{kind}", text, remedy) for kind, text, remedy in findings]


def hypervisor(facts: Facts) -> str:
    """Names what the machine is a guest of; "unnamed" if only x86's cpu flag says so."""
    if facts.virtualization:
        return "" if facts.virtualization == "none" else facts.virtualization
    return "unnamed" if "hypervisor" in facts.processor.get("flags", "").split() else ""


# --- what a recording keeps --------------------------------------------------------

# The words of a command line that change what a kernel entry does, or how steadily.
_RELEVANT = re.compile(
    r"mitigations|no?pti|kpti|nospec\w*|spec\w*|retbleed|mds|mmio_stale_data|taa|tsx\w*|l1tf|srbds"
    r"|reg_file_data_sampling|gather_data_sampling|its|indirect_target_selection|tsa|vmscape|bhi"
    r"|ssbd|nosmt|nosmt=force|maxcpus|nr_cpus|isolcpus|nohz\w*|rcu_nocb\w*|irqaffinity|skew_tick"
    r"|audit|randomize_kstack_offset|nokaslr|kaslr|vsyscall|vdso|idle|cpuidle[\w.]*|intel_idle[\w.]*"
    r"|processor\.max_cstate|intel_pstate|amd_pstate|cpufreq[\w.]*|tsc|clocksource|nohpet|preempt"
    r"|threadirqs|nmi_watchdog|nowatchdog|transparent_hugepage|kasan[\w.]*|slub_debug|slab_debug"
    r"|init_on_(alloc|free)|page_\w+|hardened_usercopy|lsm|security|apparmor|selinux"
    r"|no(sve|sme|fpu|xsave\w*|apic\w*)|arm64\.no\w+|kfence[\w.]*|cfi|fineibt|noibt|ibt"
)


def audit_state(facts: Facts) -> str:
    """ "off", "on" or "unknown": only root can read the rules (kernel/auditsc.c, audit_alloc())."""
    told = [word for word in facts.cmdline if word.startswith("audit=")][-1:]
    without_audit = facts.status and facts.missing.get("/proc/self/loginuid") == _ENOENT
    if without_audit or told in (["audit=0"], ["audit=off"]):
        return "off"
    daemon = "/run/auditd.pid"
    is_running = daemon in facts.files or facts.missing.get(daemon) in _EXISTS
    return "on" if told in (["audit=1"], ["audit=on"]) or is_running else "unknown"


def describe(facts: Facts) -> dict[str, str | int]:
    """Returns the facts that a recording's target keeps; unknown ones are left out."""
    limits, switch = frequency_limits(facts), turbo_switch(facts)
    names = (facts.text(f"/sys/class/dmi/id/{name}") for name in ("sys_vendor", "product_name"))
    filters = "0" if facts.status else ""
    if facts.status.get("Seccomp", "0") != "0":
        filters = facts.status.get("Seccomp_filters", "1")
    version = facts.text("/proc/version")
    preemption = re.search(r"\bPREEMPT(_\w+)?\b", version)
    thp = re.search(r"\[(\w+)\]", facts.text("/sys/kernel/mm/transparent_hugepage/enabled"))
    relevant = [word for word in facts.cmdline if _RELEVANT.fullmatch(word.partition("=")[0])]
    target: dict[str, str | int | None] = {
        "cpu_model": cpu_model(facts.processor),
        "microcode": facts.processor.get("microcode"),
        "machine": " ".join(filter(None, names)) or facts.text("/proc/device-tree/model"),
        "host": facts.text(f"{_SYSCTL}/hostname"),
        "cpus": len(facts.online),
        "isolated": facts.text(f"{CPU_FOLDER}/isolated"),
        "clocksource": facts.text(f"{CLOCKSOURCE}/current_clocksource"),
        "hypervisor": hypervisor(facts),
        "cmdline": " ".join(relevant),
        "governor": facts.text(facts.of_cpu("cpufreq/scaling_governor")),
        "frequency": limits and f"{limits[0]}-{limits[1]} MHz",
        "turbo": switch and ("on" if switch[1] else "off"),
        "smt": {"1": "on", "0": "off"}.get(facts.text(f"{CPU_FOLDER}/smt/active")),
        "mitigations": mitigations(facts.files),
        "audit": audit_state(facts),
        "seccomp_filters": int(filters) if filters.isdecimal() else None,
        "preemption": preemption[0] if preemption else "none" if version else None,
        "aslr": facts.number(f"{_SYSCTL}/randomize_va_space"),
        "thp": thp and thp[1],
        "lsm": facts.text("/sys/kernel/security/lsm"),
        "perf_event_paranoid": facts.number(f"{_SYSCTL}/perf_event_paranoid"),
    }
    return {name: value for name, value in target.items() if value not in (None, "")}


def cpu_model(processor: dict[str, str]) -> str | None:
    """Names the cpu: x86 by its name, arm64 and riscv64 by the numbers of core and version."""
    if name := processor.get("model name"):
        return name
    if part := processor.get("CPU part"):
        variant = processor.get("CPU variant", "?").removeprefix("0x")
        version = f"r{variant}p{processor.get('CPU revision', '?')}"
        return f"implementer {processor.get('CPU implementer', '?')} part {part} {version}"
    if name := processor.get("uarch"):
        return name
    if name := processor.get("marchid"):
        return f"mvendorid {processor.get('mvendorid', '?')} marchid {name}"
    return processor.get("isa")
