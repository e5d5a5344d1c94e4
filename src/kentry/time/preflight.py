# SPDX-License-Identifier: GPL-2.0-or-later
"""Is the machine quiet enough to measure time on?  The checks, and what a recording keeps.

docs/howto/quiet-machine.md has a section for each check.
"""

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from kentry.time.machine_facts import (
    BOOST,
    CLOCKSOURCE,
    CPU_FOLDER,
    CPU_MAX,
    ENOENT,
    NO_TURBO,
    SYSCTL,
    TRACING,
    VULNERABILITIES,
    Facts,
)

# A warning: results spread or are off on this machine.  A note: it belongs to the number, which
# compares only with others that have the same.
WARNING, NOTE = "warning", "note"

# Shares of the time between the two readings.  One tick is 2 % of it, and reading is work too.
_BUSY, _OTHERS_BUSY, _STOLEN = 0.05, 0.20, 0.01
# Interrupts a second besides the timer's: one in a turn of 10 ms.
_INTERRUPTS = 100.0
# The probe uses one cpu, and kentry now and then another.
_CPUS_USED = 2
# The clocksources with a VDSO_CLOCKMODE of their own (arch/*/include/asm/vdso/clocksource.h):
# x86's tsc and its two paravirtual ones, arm64's, riscv64's.
_VDSO_CLOCKS = frozenset(
    {"tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter", "riscv_clocksource"}
)
_OPEN = "vulnerable"

# What the sentence of a check names; None where there is nothing to say.
Values = Mapping[str, object] | None


class Finding(NamedTuple):
    """What a check says about the machine, what to do about it, and how much it matters."""

    kind: str
    text: str
    remedy: str
    level: str


class Check(NamedTuple):
    """A check: `read` answers with the values that `text` and `remedy` name."""

    kind: str
    read: Callable[[Facts], Values]
    text: str
    remedy: str
    level: str = WARNING


def _quota(facts: Facts) -> Values:
    """Returns the limit of a control group below what the probe uses."""
    words = (facts.text(CPU_MAX) or "").split()
    if len(words) != 2 or not all(word.isdecimal() for word in words):
        return None
    most, period = map(int, words)  # microseconds of work, and in which time
    if not most or not period or most >= _CPUS_USED * period:
        return None
    return {"cpus": most / period, "work": most / 1000, "period": period / 1000}


def _tracing(facts: Facts) -> Values:
    """Returns the kernel's tracer, or events."""
    if facts.text(f"{TRACING}/tracing_on") == "0":
        return None
    function = facts.text(f"{TRACING}/current_tracer") or "nop"
    if function != "nop":
        return {"what": f"current_tracer {function}", "file": "current_tracer", "off": "nop"}
    if facts.text(f"{TRACING}/events/enable") in ("1", "X"):
        return {"what": "trace events are on", "file": "events/enable", "off": "0"}
    return None


def _load(facts: Facts) -> Values:
    """Returns other work on this cpu, or on the others, which share caches and memory."""
    busy = facts.busy(facts.cpu) or 0.0
    if busy > _BUSY:
        return {
            "who": f"cpu {facts.cpu} was {busy:.0%} busy with other work",
            "only": f" | awk '$1 == {facts.cpu}'",
        }
    shares = [facts.busy(cpu) or 0.0 for cpu in facts.ticks_between() if cpu != facts.cpu]
    if shares and sum(shares) / len(shares) > _OTHERS_BUSY:
        mean = sum(shares) / len(shares)
        return {"who": f"The other cpus, which share caches and power, were {mean:.0%} busy"}
    return None


def _smt(facts: Facts) -> Values:
    """Returns the other thread of the core, if it works."""
    busy = {other: facts.busy(other) or 0.0 for other in facts.siblings}
    other = max(busy, key=busy.__getitem__, default=-1)
    return {"other": other, "busy": busy[other]} if busy.get(other, 0.0) > _BUSY else None


def _steal(facts: Facts) -> Values:
    """Returns the share of the cpu's time that the host gives to other guests."""
    passed = facts.ticks_between().get(facts.cpu)
    share = passed.steal / sum(passed) if passed else 0.0
    return {"share": share} if share > _STOLEN else None


def _governor(facts: Facts) -> Values:
    """Returns the governor of a frequency that follows the load."""
    path = facts.of_cpu("cpufreq/scaling_governor")
    name, limits = facts.text(path), frequency_limits(facts)
    if name in (None, "", "performance", "userspace") or (limits and limits[0] == limits[1]):
        return None
    between = f" between {limits[0]} and {limits[1]} MHz" if limits else ""
    return {"name": name, "between": between, "path": path}


def frequency_limits(facts: Facts) -> tuple[int, int] | None:
    """Returns the lowest and highest frequency that cpufreq allows, in MHz."""
    low = facts.number(facts.of_cpu("cpufreq/scaling_min_freq"))
    high = facts.number(facts.of_cpu("cpufreq/scaling_max_freq"))
    return None if low is None or high is None else (low // 1000, high // 1000)


def turbo_switch(facts: Facts) -> tuple[str, bool] | None:
    """Returns the file that switches turbo, and whether turbo is on; None without such a file."""
    if (off := facts.number(NO_TURBO)) is not None:
        return NO_TURBO, off == 0
    for path in (BOOST, facts.of_cpu("cpufreq/boost")):
        if (boost := facts.number(path)) is not None:
            return path, boost != 0
    return None


def _turbo(facts: Facts) -> Values:
    """Returns how far above the nominal one the frequency may rise."""
    path, is_on = turbo_switch(facts) or ("", False)
    base = facts.number(facts.of_cpu("cpufreq/base_frequency"))
    most = facts.number(facts.of_cpu("cpufreq/cpuinfo_max_freq"))
    between = f"from {base // 1000} to {most // 1000} MHz" if base and most else ""
    between = between or "above its nominal frequency"
    return {"between": between, "off": int(path == NO_TURBO), "path": path} if is_on else None


def _interrupts(facts: Facts) -> Values:
    """Returns the most frequent interrupt, if devices or other cpus often interrupt this cpu."""
    rates = facts.interrupt_rates()
    total = sum(rate for rate, _ in rates)
    if total < _INTERRUPTS:
        return None
    rate, row = max(rates, key=lambda pair: pair[0])
    device, remedy = row.device, f"watch -d grep {row.name}: /proc/interrupts, and stop its cause"
    elsewhere = next((cpu for cpu in facts.online if cpu != facts.cpu), None)
    if row.name.isdecimal():
        device = row.device.split()[-1] if row.device else row.name
        if elsewhere is not None:
            remedy = f"echo {elsewhere} | sudo tee /proc/irq/{row.name}/smp_affinity_list"
    return {"total": total, "rate": rate, "name": row.name, "device": device, "remedy": remedy}


def _clocksource(facts: Facts) -> Values:
    """Returns a clocksource that a program reads by a system call."""
    name = facts.text(f"{CLOCKSOURCE}/current_clocksource")
    if not name or name in _VDSO_CLOCKS:
        return None
    others = (facts.text(f"{CLOCKSOURCE}/available_clocksource") or "").split()
    better = next((other for other in others if other in _VDSO_CLOCKS), None)
    switch = f"echo {better} | sudo tee {CLOCKSOURCE}/current_clocksource; " if better else ""
    return {"name": name, "switch": switch}


def _virtual(facts: Facts) -> Values:
    """Returns what this virtual machine is a guest of."""
    name = hypervisor(facts)
    return {"kind": "" if name == "unnamed" else f" ({name:.30})"} if name else None


def _isolation(facts: Facts) -> Values:
    """Returns a cpu on which the scheduler may put other tasks."""
    if facts.is_first_process or len(facts.online) == 1 or facts.cpu in facts.isolated:
        return None
    return {"other": facts.cpu or next((other for other in facts.online if other), 0)}


# The most important first.
CHECKS = (
    Check(
        "quota",
        _quota,
        "A control group allows {cpus:.2f} cpus: after {work:.0f} ms of work in {period:.0f} ms"
        " all its tasks stop",
        "sudo systemctl set-property UNIT CPUQuota= (or docker run without --cpus)",
    ),
    Check(
        "tracing",
        _tracing,
        "The kernel is being traced: {what:.60}",
        f"echo {{off}} | sudo tee {TRACING}/{{file}}",
    ),
    Check(
        "load",
        _load,
        "{who} in the {seconds:.1f} s before",
        "ps -eo psr,pcpu,pid,comm --sort=-pcpu{only} | head",
    ),
    Check(
        "smt",
        _smt,
        "cpu {other}, the other thread of cpu {cpu}'s core, was {busy:.0%} busy:"
        " the two share all its units",
        f"echo 0 | sudo tee {CPU_FOLDER}/cpu{{other}}/online",
    ),
    Check(
        "steal",
        _steal,
        "The host took {share:.0%} of cpu {cpu}'s time for other guests (steal)",
        "Get a cpu of its own: on the host, virsh vcpupin, or a dedicated instance",
    ),
    Check(
        "governor",
        _governor,
        "cpu {cpu}'s frequency follows the load{between} (governor {name:.16}),"
        " and so does the time of each call",
        "echo performance | sudo tee {path}",
    ),
    Check(
        "turbo",
        _turbo,
        "Turbo is on: cpu {cpu} goes {between} while few cores work and they are cool",
        "echo {off} | sudo tee {path}",
    ),
    Check(
        "interrupts",
        _interrupts,
        "cpu {cpu} took {total:.0f} interrupts a second besides its timer's,"
        " {rate:.0f} of {name} ({device:.32})",
        "{remedy}",
    ),
    Check(
        "clocksource",
        _clocksource,
        "The clocksource is {name:.40}, which no vDSO can read, so each reading of the time"
        " is a system call",
        "{switch}sudo dmesg | grep -i -e clocksource -e tsc",
    ),
    Check(
        "virtual",
        _virtual,
        "This is a virtual machine{kind}: exits to the host and its other guests are in the times",
        "Measure on the host, or pin the guest's cpus there: virsh vcpupin GUEST 1 3",
        NOTE,
    ),
    Check(
        "isolation",
        _isolation,
        "cpu {cpu} is not isolated: other tasks and the kernel's own work run there too",
        "Boot with isolcpus=managed_irq,domain,{other} rcu_nocbs={other} irqaffinity=0",
        NOTE,
    ),
)


def check(facts: Facts) -> list[Finding]:
    """Returns what the checks find, in their order: warnings, then notes."""
    findings = []
    for kind, read, text, remedy, level in CHECKS:
        if (values := read(facts)) is not None:
            named = {"cpu": facts.cpu, "seconds": facts.seconds, "only": "", **values}
            text, remedy = text.format(**named), remedy.format(**named)
            findings.append(Finding(f"preflight-{kind}", text, remedy, level))
    return findings


def hypervisor(facts: Facts) -> str | None:
    """Names what the machine is a guest of; "unnamed" if only x86's cpu flag says so."""
    if facts.virtualization:
        return None if facts.virtualization == "none" else facts.virtualization
    return "unnamed" if "hypervisor" in facts.processor.get("flags", "").split() else None


def mitigations(facts: Facts) -> dict[str, str] | None:
    """Returns a word for each flaw that this cpu has: the mitigation's, or "vulnerable".

    None if the kernel says nothing about them.  "bhi", which the kernel lists within spectre_v2
    and which is work at each entry, has a word of its own.
    """
    paths = {name: f"{CPU_FOLDER}/vulnerabilities/{name}" for name in VULNERABILITIES}
    texts = {name: text for name, path in paths.items() if (text := facts.text(path))}
    states = {}
    for name, text in texts.items():
        if match := re.match(r"(?:KVM: )?Mitigation: ([^;,]*)", text):
            states[name] = _word(match[1].partition(" and ")[0])
        elif "ulnerable" in text:
            states[name] = _OPEN
        elif not text.startswith("Not affected"):
            states[name] = _word(re.split("[;,:]", text)[0])
        if match := re.search(r"; BHI: (?!Not affected)([^;,]*)", text):
            states["bhi"] = _OPEN if "ulnerable" in match[1] else _word(match[1])
    return states if texts else None


def _word(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9.]+", "-", text).strip("-")


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
    without_audit = facts.status and facts.missing.get("/proc/self/loginuid") == ENOENT
    if without_audit or told in (["audit=0"], ["audit=off"]):
        return "off"
    is_on = told in (["audit=1"], ["audit=on"]) or facts.exists("/run/auditd.pid")
    return "on" if is_on else "unknown"


def describe(facts: Facts) -> dict[str, str | int]:
    """Returns the facts that a recording's target keeps; unknown ones are left out."""
    limits, switch, states = frequency_limits(facts), turbo_switch(facts), mitigations(facts)
    vendor = facts.text("/sys/class/dmi/id/sys_vendor")
    product = facts.text("/sys/class/dmi/id/product_name")
    filters: str | None = facts.status.get("Seccomp_filters", "1")
    if facts.status.get("Seccomp", "0") == "0":
        filters = "0" if facts.status else None
    version = facts.text("/proc/version")
    preemption = re.search(r"\bPREEMPT(_\w+)?\b", version or "")
    thp = re.search(r"\[(\w+)\]", facts.text("/sys/kernel/mm/transparent_hugepage/enabled") or "")
    relevant = [word for word in facts.cmdline if _RELEVANT.fullmatch(word.partition("=")[0])]
    target: dict[str, str | int | None] = {
        "cpu_model": cpu_model(facts.processor),
        "microcode": facts.processor.get("microcode"),
        "machine": " ".join(word for word in (vendor, product) if word)
        or facts.text("/proc/device-tree/model"),
        "host": facts.text(f"{SYSCTL}/hostname"),
        "cpus": len(facts.online),
        "isolated": facts.text(f"{CPU_FOLDER}/isolated"),
        "clocksource": facts.text(f"{CLOCKSOURCE}/current_clocksource"),
        "hypervisor": hypervisor(facts),
        "cmdline": " ".join(relevant),
        "governor": facts.text(facts.of_cpu("cpufreq/scaling_governor")),
        "frequency": limits and f"{limits[0]}-{limits[1]} MHz",
        "turbo": switch and ("on" if switch[1] else "off"),
        "smt": {"1": "on", "0": "off"}.get(facts.text(f"{CPU_FOLDER}/smt/active") or ""),
        "mitigations": None
        if states is None
        else " ".join(f"{name}={how}" for name, how in states.items()) or "none",
        "audit": audit_state(facts),
        "seccomp_filters": int(filters) if filters and filters.isdecimal() else None,
        "preemption": preemption[0] if preemption else "none" if version else None,
        "aslr": facts.number(f"{SYSCTL}/randomize_va_space"),
        "thp": thp and thp[1],
        "lsm": facts.text("/sys/kernel/security/lsm"),
        "perf_event_paranoid": facts.number(f"{SYSCTL}/perf_event_paranoid"),
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
