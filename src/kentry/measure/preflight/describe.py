# SPDX-License-Identifier: GPL-2.0-or-later
"""Which machine a number belongs to: what a recording keeps of the facts."""

from __future__ import annotations

import re

from kentry.measure.preflight import entry, frequency, machine
from kentry.measure.preflight.facts import CLOCKSOURCE, CPU_FOLDER, SYSCTL, Facts

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
    """Provenance, for a recording's target; what is not known is left out."""
    found: dict[str, str | int | None] = {
        "cpu_model": _cpu_model(facts),
        "microcode": facts.processor.get("microcode"),
        "machine": _machine(facts),
        "host": facts.text(f"{SYSCTL}/hostname"),
        "cpus": len(facts.online),
        "isolated": facts.text(f"{CPU_FOLDER}/isolated"),
        "clocksource": facts.text(f"{CLOCKSOURCE}/current_clocksource"),
        "hypervisor": machine.hypervisor(facts),
        "container": machine.container(facts),
        "cmdline": " ".join(word for word in facts.cmdline if _is_relevant(word)),
        "governor": facts.text(facts.of_cpu("cpufreq/scaling_governor")),
        "frequency": _frequency(facts),
        "turbo": {True: "on", False: "off", None: None}[frequency.turbo(facts)],
        "smt": {"1": "on", "0": "off"}.get(facts.text(f"{CPU_FOLDER}/smt/active") or ""),
        "mitigations": _mitigations(facts),
        "audit": entry.audit_state(facts),
        "seccomp_filters": _seccomp_filters(facts),
        "preemption": _preemption(facts),
        "aslr": facts.number(f"{SYSCTL}/randomize_va_space"),
        "thp": _chosen(facts.text("/sys/kernel/mm/transparent_hugepage/enabled")),
        "lsm": facts.text("/sys/kernel/security/lsm"),
        "perf_event_paranoid": facts.number(f"{SYSCTL}/perf_event_paranoid"),
    }
    return {name: value for name, value in found.items() if value not in (None, "")}


def _is_relevant(word: str) -> bool:
    return bool(_RELEVANT.fullmatch(word.partition("=")[0]))


def _cpu_model(facts: Facts) -> str | None:
    """As x86 names it; the numbers of arm64 and riscv64, which say the core and its version."""
    about = facts.processor
    if name := about.get("model name"):
        return name
    if part := about.get("CPU part"):
        variant = about.get("CPU variant", "?").removeprefix("0x")
        version = f"r{variant}p{about.get('CPU revision', '?')}"
        return f"implementer {about.get('CPU implementer', '?')} part {part} {version}"
    if name := about.get("uarch"):
        return name
    if name := about.get("marchid"):
        return f"mvendorid {about.get('mvendorid', '?')} marchid {name}"
    return about.get("isa")


def _machine(facts: Facts) -> str | None:
    vendor = facts.text("/sys/class/dmi/id/sys_vendor")
    product = facts.text("/sys/class/dmi/id/product_name")
    named = " ".join(word for word in (vendor, product) if word)
    return named or facts.text("/proc/device-tree/model")


def _frequency(facts: Facts) -> str | None:
    limits = frequency.frequencies(facts)
    return None if limits is None else f"{limits[0]}-{limits[1]} MHz"


def _mitigations(facts: Facts) -> str | None:
    """Words "NAME=HOW", of the flaws that this cpu has."""
    if not entry.knows_mitigations(facts):
        return None
    return " ".join(f"{name}={how}" for name, how in entry.mitigations(facts).items()) or "none"


def _seccomp_filters(facts: Facts) -> int | None:
    status = facts.status
    if status.get("Seccomp", "0") == "0":
        return 0 if status else None
    count = status.get("Seccomp_filters", "1")
    return int(count) if count.isdecimal() else None


def _preemption(facts: Facts) -> str | None:
    """As the kernel's version has it: PREEMPT_RT, PREEMPT_DYNAMIC, PREEMPT, or none."""
    version = facts.text("/proc/version")
    if not version:
        return None
    match = re.search(r"\bPREEMPT(_\w+)?\b", version)
    return match[0] if match else "none"


def _chosen(text: str | None) -> str | None:
    """The word in brackets: "always [madvise] never"."""
    match = re.search(r"\[(\w+)\]", text or "")
    return match[1] if match else None
