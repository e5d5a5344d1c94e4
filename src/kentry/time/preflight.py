# SPDX-License-Identifier: GPL-2.0-or-later
"""Is the machine quiet enough to measure time on?  The checks, and what a recording keeps.

A check reads facts and returns None, or a sentence of at most MOST_TEXT characters and its remedy.
docs/howto/quiet-machine.md has a section for each.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

from kentry.time.machine_facts import (
    BOOST,
    CLOCKSOURCE,
    CPU_FOLDER,
    CPU_MAX,
    ENOENT,
    FIRMWARE_THROTTLED,
    KCSAN,
    LOCKDEP,
    NO_TURBO,
    SYSCTL,
    TRACING,
    VULNERABILITIES,
    Facts,
)

# A warning: results spread or are off on this machine.  A note: it belongs to the number, which
# compares only with others that have the same.
WARNING, NOTE = "warning", "note"
MOST_TEXT = 150

# Shares of the time between the two readings.  One tick is 2 % of it, and reading is work too.
_BUSY, _OTHERS_BUSY, _STOLEN = 0.05, 0.20, 0.01
# Interrupts a second besides the timer's: one in a turn of 10 ms.
_INTERRUPTS = 100.0
# The probe uses one cpu, and kentry now and then another.
_CPUS_USED = 2
# Bits of a Raspberry Pi's mask that hold now: too little voltage, capped, throttled, too hot.
_THROTTLED_NOW = 0xF
# The clocksources with a VDSO_CLOCKMODE of their own (arch/*/include/asm/vdso/clocksource.h):
# x86's tsc and its two paravirtual ones, arm64's, riscv64's.
_VDSO_CLOCKS = frozenset(
    {"tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter", "riscv_clocksource"}
)
_DEBUG_WORDS = re.compile(
    r"(slub_debug|slab_debug|debug_pagealloc|page_owner|kmemleak)(=(?!off).*)?"
)
_TOP = "ps -eo psr,pcpu,pid,comm --sort=-pcpu"
_OPEN = "vulnerable"

Advice = tuple[str, str] | None


class Finding(NamedTuple):
    """What a check says about the machine, what to do about it, and how much it matters."""

    kind: str
    text: str
    remedy: str
    level: str


def quota(facts: Facts) -> Advice:
    """Does the control group stop the probe when its part of each period is used up?"""
    words = (facts.text(CPU_MAX) or "").split()
    if len(words) != 2 or not all(word.isdecimal() for word in words):
        return None
    most, period = map(int, words)  # microseconds of work, and in which time
    if not most or not period or most >= _CPUS_USED * period:
        return None
    return (
        f"A control group allows {most / period:.2f} cpus: after {most / 1000:.0f} ms of work in"
        f" {period / 1000:.0f} ms all its tasks stop",
        "sudo systemctl set-property UNIT CPUQuota= (or docker run without --cpus)",
    )


def seccomp(facts: Facts) -> Advice:
    """Does a filter check every system call?"""
    if facts.status.get("Seccomp", "0") == "0":
        return None
    count = facts.status.get("Seccomp_filters", "")
    what = f"{count} seccomp filter{'s' if count != '1' else ''}" if count else "A seccomp filter"
    return (
        f"{what} checked each of the probe's calls, which is part of every time",
        "Measure outside the container or service, or docker run --security-opt seccomp=unconfined",
    )


def tracing(facts: Facts) -> Advice:
    """Is the kernel being traced?"""
    if facts.text(f"{TRACING}/tracing_on") == "0":
        return None
    function = facts.text(f"{TRACING}/current_tracer") or "nop"
    if function != "nop":
        return (
            f"The kernel's functions are being traced (current_tracer {_cut(function, 32)})",
            f"echo nop | sudo tee {TRACING}/current_tracer",
        )
    if facts.text(f"{TRACING}/events/enable") in ("1", "X"):
        return (
            "Trace events are on, and some of them lie on the path of a system call",
            f"sudo cat {TRACING}/set_event; echo 0 | sudo tee {TRACING}/events/enable",
        )
    return None


def audit_state(facts: Facts) -> str:
    """ "off", "on" or "unknown": only root can read the rules (kernel/auditsc.c, audit_alloc())."""
    if facts.argument("audit") in ("0", "off"):
        return "off"
    if facts.status and facts.missing.get("/proc/self/loginuid") == ENOENT:
        return "off"  # built without CONFIG_AUDIT
    if facts.argument("audit") in ("1", "on") or facts.exists("/run/auditd.pid"):
        return "on"
    return "unknown"


def audit(facts: Facts) -> Advice:
    """Do audit rules apply to each call?"""
    if audit_state(facts) != "on":
        return None
    return (
        "Audit is on: each call of a task is checked against its rules, unless one exempts tasks",
        "sudo auditctl -a never,task, then measure from a new shell",
    )


def debugging(facts: Facts) -> Advice:
    """Is this a kernel for finding bugs?"""
    signs = [name for path, name in ((LOCKDEP, "lockdep"), (KCSAN, "KCSAN")) if facts.exists(path)]
    signs += [word for word in facts.cmdline if _DEBUG_WORDS.fullmatch(word)]
    release = facts.text(f"{SYSCTL}/osrelease") or ""
    if re.search(r"[+_.-](debug|dbg|kasan)\b", release):
        signs.append(release)
    if not signs:
        return None
    return (
        f"This kernel checks itself while it runs, unlike users' kernels: {_cut(', '.join(signs))}",
        "Measure a kernel built with the options that users have",
    )


def load(facts: Facts) -> Advice:
    """Do other programs work on this cpu, or on the others, which share caches and memory?"""
    busy = facts.busy(facts.cpu) or 0.0
    if busy > _BUSY:
        return (
            f"cpu {facts.cpu} was {busy:.0%} busy with other work in the {facts.seconds:.1f} s"
            " before",
            f"{_TOP} | awk '$1 == {facts.cpu}' | head",
        )
    shares = [facts.busy(cpu) or 0.0 for cpu in facts.ticks_between() if cpu != facts.cpu]
    if shares and sum(shares) / len(shares) > _OTHERS_BUSY:
        return (
            f"The other cpus were {sum(shares) / len(shares):.0%} busy:"
            " they share caches, memory and the power for turbo",
            f"{_TOP} | head",
        )
    return None


def smt(facts: Facts) -> Advice:
    """Does the core's other thread work?"""
    if not facts.siblings:
        return None
    other = max(facts.siblings, key=lambda cpu: facts.busy(cpu) or 0.0)
    busy = facts.busy(other) or 0.0
    if busy <= _BUSY:
        return None
    return (
        f"cpu {other}, the other thread of cpu {facts.cpu}'s core, was {busy:.0%} busy:"
        " the two share all its units",
        f"echo 0 | sudo tee {CPU_FOLDER}/cpu{other}/online",
    )


def steal(facts: Facts) -> Advice:
    """Does the host give the cpu's time to other guests?"""
    passed = facts.ticks_between().get(facts.cpu)
    if not passed or passed.steal / sum(passed) <= _STOLEN:
        return None
    return (
        f"The host took {passed.steal / sum(passed):.0%} of cpu {facts.cpu}'s time for other"
        " guests (steal)",
        "Get a cpu of its own: on the host, virsh vcpupin, or a dedicated instance",
    )


def governor(facts: Facts) -> Advice:
    """Does the frequency follow the load?"""
    path = facts.of_cpu("cpufreq/scaling_governor")
    name, limits = facts.text(path), frequency_limits(facts)
    if name in (None, "", "performance", "userspace") or (limits and limits[0] == limits[1]):
        return None
    between = f" between {limits[0]} and {limits[1]} MHz" if limits else ""
    return (
        f"cpu {facts.cpu}'s frequency follows the load{between} (governor {_cut(name or '', 16)}),"
        " and so does the time of each call",
        f"echo performance | sudo tee {path}",
    )


def frequency_limits(facts: Facts) -> tuple[int, int] | None:
    """The lowest and highest frequency that cpufreq allows, in MHz."""
    low = facts.number(facts.of_cpu("cpufreq/scaling_min_freq"))
    high = facts.number(facts.of_cpu("cpufreq/scaling_max_freq"))
    return None if low is None or high is None else (low // 1000, high // 1000)


def turbo_switch(facts: Facts) -> tuple[str, bool] | None:
    """The file that switches turbo, and whether turbo is on; None if there is no such file."""
    if (off := facts.number(NO_TURBO)) is not None:
        return NO_TURBO, off == 0
    for path in (BOOST, facts.of_cpu("cpufreq/boost")):
        if (boost := facts.number(path)) is not None:
            return path, boost != 0
    return None


def turbo(facts: Facts) -> Advice:
    """May the frequency rise above the nominal one?"""
    path, is_on = turbo_switch(facts) or ("", False)
    if not is_on:
        return None
    base = facts.number(facts.of_cpu("cpufreq/base_frequency"))
    most = facts.number(facts.of_cpu("cpufreq/cpuinfo_max_freq"))
    between = f"from {base // 1000} to {most // 1000} MHz" if base and most else ""
    return (
        f"Turbo is on: cpu {facts.cpu} goes {between or 'above its nominal frequency'}"
        " while few cores work and they are cool",
        f"echo {int(path == NO_TURBO)} | sudo tee {path}",
    )


def throttle(facts: Facts) -> Advice:
    """Was the cpu slowed down because of heat or voltage?"""
    mask = 0
    if re.fullmatch(r"(0x)?[0-9a-fA-F]+", text := facts.text(FIRMWARE_THROTTLED) or ""):
        mask = int(text, 16)
    times = facts.number(facts.of_cpu("thermal_throttle/core_throttle_count"))
    if mask & _THROTTLED_NOW:
        return (
            "The firmware slows the cpus down now: too hot, or too little voltage"
            f" (get_throttled {mask:#x})",
            "vcgencmd get_throttled, then a better supply or cooling",
        )
    if not times and not mask:
        return None
    how = f"{times} times" if times else f"by its firmware (get_throttled {mask:#x})"
    return (
        f"cpu {facts.cpu} was slowed down {how} since boot because of heat or voltage",
        "Let it cool, and lower scaling_max_freq (docs/howto/quiet-machine.md)",
    )


def interrupts(facts: Facts) -> Advice:
    """Do devices and other cpus interrupt this cpu?"""
    rates = [(rate, row) for rate, row in facts.interrupt_rates() if not row.is_timer]
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
    return (
        f"cpu {facts.cpu} took {total:.0f} interrupts a second besides its timer's,"
        f" {rate:.0f} of {row.name} ({_cut(device, 32)})",
        remedy,
    )


def clocksource(facts: Facts) -> Advice:
    """Can a program read the time without a system call?"""
    name = facts.text(f"{CLOCKSOURCE}/current_clocksource")
    if not name or name in _VDSO_CLOCKS:
        return None
    others = (facts.text(f"{CLOCKSOURCE}/available_clocksource") or "").split()
    better = next((other for other in others if other in _VDSO_CLOCKS), None)
    why = "sudo dmesg | grep -i -e clocksource -e tsc"
    switch = f"echo {better} | sudo tee {CLOCKSOURCE}/current_clocksource; " if better else ""
    return (
        f"The clocksource is {_cut(name, 40)}, which no vDSO can read, so each reading of the time"
        " is a system call",
        switch + why,
    )


def virtual(facts: Facts) -> Advice:
    """Is this a virtual machine?"""
    name = hypervisor(facts)
    if name is None:
        return None
    kind = "" if name == "unnamed" else f" ({_cut(name, 30)})"
    return (
        f"This is a virtual machine{kind}: exits to the host and its other guests are in the times",
        "Measure on the host, or pin the guest's cpus there: virsh vcpupin GUEST 1 3",
    )


def mitigated(facts: Facts) -> Advice:
    """Which of its cpu's flaws does the kernel work around?"""
    states = mitigations(facts) or {}
    done = [f"{name} {word}" for name, word in states.items() if word != _OPEN]
    still_open = len(states) - len(done)
    if not states:
        return None
    tail = f"; {still_open} left open" if still_open else ""
    return (
        f"Mitigated: {_cut(', '.join(done) or 'nothing')}{tail}",
        f"grep . {CPU_FOLDER}/vulnerabilities/*; compare numbers that have the same",
    )


def isolation(facts: Facts) -> Advice:
    """May the scheduler put other tasks on this cpu?"""
    if facts.is_first_process or len(facts.online) == 1 or facts.cpu in facts.isolated:
        return None
    cpu = facts.cpu or next((other for other in facts.online if other), 0)
    return (
        f"cpu {facts.cpu} is not isolated: other tasks and the kernel's own work run there too",
        f"Boot with isolcpus=managed_irq,domain,{cpu} rcu_nocbs={cpu} irqaffinity=0",
    )


# Each check with its kind and level, the most important first.
CHECKS: tuple[tuple[str, str, Callable[[Facts], Advice]], ...] = (
    ("quota", WARNING, quota),
    ("seccomp", WARNING, seccomp),
    ("tracing", WARNING, tracing),
    ("audit", WARNING, audit),
    ("debugging", WARNING, debugging),
    ("load", WARNING, load),
    ("smt", WARNING, smt),
    ("steal", WARNING, steal),
    ("governor", WARNING, governor),
    ("turbo", WARNING, turbo),
    ("throttle", WARNING, throttle),
    ("interrupts", WARNING, interrupts),
    ("clocksource", WARNING, clocksource),
    ("virtual", NOTE, virtual),
    ("mitigations", NOTE, mitigated),
    ("isolation", NOTE, isolation),
)


def check(facts: Facts) -> list[Finding]:
    """What the checks find, in their order: warnings, then notes."""
    return [
        Finding(f"preflight-{kind}", *advice, level)
        for kind, level, run in CHECKS
        if (advice := run(facts)) is not None
    ]


def _cut(text: str, most: int = 80) -> str:
    """A name from outside, cut to at most `most` characters."""
    return text if len(text) <= most else text[: most - 3] + "..."


def hypervisor(facts: Facts) -> str | None:
    """What the machine is a guest of; "unnamed" if only x86's cpu flag says that it is one."""
    if facts.virtualization:
        return None if facts.virtualization == "none" else facts.virtualization
    return "unnamed" if "hypervisor" in facts.processor.get("flags", "").split() else None


def mitigations(facts: Facts) -> dict[str, str] | None:
    """A word for each flaw that this cpu has: the mitigation's, or "vulnerable".

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


def describe(facts: Facts) -> dict[str, str | int]:
    """The facts that a recording's target keeps; unknown ones are left out."""
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
    """The name that x86 gives; the numbers of arm64 and riscv64, which name core and version."""
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
