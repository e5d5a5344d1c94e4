# SPDX-License-Identifier: GPL-2.0-or-later
"""Checks: what this kernel, set up as it is, does at each kernel entry."""

from __future__ import annotations

import re

from kentry.measure.preflight.facts import (
    CLOCKSOURCE,
    CPU_FOLDER,
    KCSAN,
    LOCKDEP,
    SYSCTL,
    TRACING,
    VULNERABILITIES,
    Facts,
)
from kentry.measure.preflight.finding import Finding, fitted, note, shortened, unknown, warning

# include/uapi/linux/capability.h: either lets a task count what the kernel does.
_MAY_COUNT = 1 << 38 | 1 << 21  # CAP_PERFMON, CAP_SYS_ADMIN
# Those with a VDSO_CLOCKMODE of their own: x86's tsc and its two paravirtual ones, arm64, riscv64.
_VDSO_CLOCKS = frozenset(
    {
        "tsc",
        "kvm-clock",
        "hyperv_clocksource_tsc_page",
        "arch_sys_counter",
        "riscv_clocksource",
    }
)

_OPEN, _FINE = "vulnerable", "unaffected"

_DEBUG_WORDS = re.compile(
    r"(slub_debug|slab_debug|debug_pagealloc|page_owner|kmemleak)(=(?!off).*)?"
)


def mitigations(facts: Facts) -> dict[str, str]:
    """One word for each vulnerability that this cpu has: the mitigation's, or "vulnerable".

    Beside them "bhi", which the kernel has within spectre_v2 and which is work at each entry.
    """
    found = {}
    for name, text in _vulnerabilities(facts).items():
        word = _mitigation(text)
        if word != _FINE:
            found[name] = word
        if match := re.search(r"; BHI: (?!Not affected)([^;,]*)", text):
            found["bhi"] = _OPEN if "ulnerable" in match[1] else _word(match[1])
    return found


def _vulnerabilities(facts: Facts) -> dict[str, str]:
    texts = {name: facts.text(f"{CPU_FOLDER}/vulnerabilities/{name}") for name in VULNERABILITIES}
    return {name: text for name, text in texts.items() if text}


def knows_mitigations(facts: Facts) -> bool:
    """Whether the kernel says anything of them."""
    return bool(_vulnerabilities(facts))


def _mitigation(text: str) -> str:
    if text.startswith("Not affected"):
        return _FINE
    if match := re.match(r"(?:KVM: )?Mitigation: ([^;,]*)", text):
        return _word(match[1].partition(" and ")[0])
    return _OPEN if "ulnerable" in text else _word(re.split("[;,:]", text)[0])


def _word(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9.]+", "-", text).strip("-")


def mitigated(facts: Facts) -> Finding | None:
    """What does the kernel do against its cpu's flaws?"""
    if not knows_mitigations(facts):
        return unknown(
            "mitigations",
            "Which of its cpu's flaws the kernel works around at each entry is not known",
            f"Look for a newer kernel's {CPU_FOLDER}/vulnerabilities/",
        )
    found = mitigations(facts)
    if not found:
        return None
    done = [f"{name} {word}" for name, word in found.items() if word != _OPEN]
    still = [name for name, word in found.items() if word == _OPEN]
    tail = f"; {len(still)} left open" if still else ""
    remedy = f"grep . {CPU_FOLDER}/vulnerabilities/*; compare numbers that have the same"
    if not done:
        return note("mitigations", fitted("Nothing is mitigated; open: ", still), remedy)
    return note("mitigations", fitted("Mitigated: ", done, tail), remedy)


def speculation(facts: Facts) -> Finding | None:
    """Is the probe's own speculation held back?"""
    state = facts.status.get("Speculation_Store_Bypass", "")
    if "mitigated" not in state or "thread" not in state:
        return None
    return note(
        "speculation",
        f"Speculative stores are off for the probe ({shortened(state, 40)}),"
        " which slows its own code, too",
        "Boot with spec_store_bypass_disable=prctl, or measure outside the container",
    )


def seccomp(facts: Facts) -> Finding | None:
    """Is there a filter that looks at each call?"""
    mode = facts.status.get("Seccomp", "0")
    if mode == "0":
        return None
    count = facts.status.get("Seccomp_filters", "")
    what = f"{count} seccomp filter{'s' if count != '1' else ''}" if count else "A seccomp filter"
    return warning(
        "seccomp",
        f"{what} checked each of the probe's calls: their cost is in every time",
        "Measure outside the container or service, or docker run --security-opt seccomp=unconfined",
    )


def traced(facts: Facts) -> Finding | None:
    """Is a debugger attached?"""
    tracer = facts.status.get("TracerPid", "0")
    if tracer == "0":
        return None
    return warning(
        "traced",
        f"Process {shortened(tracer, 16)} traces the probe, and may stop it at each entry and exit",
        "Run it without strace, gdb and the like",
    )


def tracing(facts: Facts) -> Finding | None:
    """Is something in the kernel being traced?"""
    tracer = facts.text(f"{TRACING}/current_tracer")
    events = facts.text(f"{TRACING}/events/enable")
    if facts.is_hidden(f"{TRACING}/current_tracer"):
        return unknown(
            "tracing",
            f"Whether the kernel is being traced is not known: {TRACING} is root's",
            f"sudo grep . {TRACING}/current_tracer {TRACING}/events/enable; sudo bpftool prog",
        )
    if facts.text(f"{TRACING}/tracing_on") == "0":
        return None
    if tracer and tracer != "nop":
        return warning(
            "tracing",
            f"The kernel's functions are being traced (current_tracer {shortened(tracer, 32)})",
            f"echo nop | sudo tee {TRACING}/current_tracer",
        )
    if events in ("1", "X"):
        return warning(
            "tracing",
            "Trace events are on, and some are on the way of a system call",
            f"sudo cat {TRACING}/set_event; echo 0 | sudo tee {TRACING}/events/enable",
        )
    return None


def audit_state(facts: Facts) -> str:
    """ "off", "on" or "unknown"."""
    if facts.argument("audit") in ("0", "off"):
        return "off"
    if facts.status and facts.is_absent("/proc/self/loginuid"):
        return "off"  # built without it: CONFIG_AUDIT
    if facts.argument("audit") in ("1", "on") or facts.is_there("/run/auditd.pid"):
        return "on"
    return "unknown"


def audit(facts: Facts) -> Finding | None:
    """Does the kernel go through audit rules at each call?

    A task does from its fork on, when audit was on then and no rule says otherwise
    (audit_alloc() in kernel/auditsc.c); what is in force is root's to read.
    """
    state = audit_state(facts)
    if state == "off":
        return None
    if state == "on":
        return warning(
            "audit",
            "Audit runs: each call of a task goes through its rules, unless one leaves tasks out",
            "sudo auditctl -a never,task, then measure from a new shell",
        )
    return unknown(
        "audit",
        "Whether calls are audited is not known: the rules are root's, and a daemon may set them",
        "sudo auditctl -s; sudo auditctl -l, or boot with audit=0",
    )


def context_tracking(facts: Facts) -> Finding | None:
    """Does each entry tell RCU and the accounting?"""
    if facts.cpu not in facts.nohz_full:
        return None
    return note(
        "context-tracking",
        f"cpu {facts.cpu} is nohz_full: each entry and exit also does the context tracking of it",
        "Boot without nohz_full= for what most machines do; keep isolcpus=",
    )


def stack_offset(facts: Facts) -> Finding | None:
    """Does each entry move the kernel's stack by a random number?"""
    value = facts.argument("randomize_kstack_offset")
    remedy = "Boot with randomize_kstack_offset=off"
    if value in ("off", "0", "n", "no"):
        return None
    if value is not None:
        return note(
            "stack-offset",
            "Each call moves the kernel's stack by a random number, which costs time, and varies",
            remedy,
        )
    return unknown(
        "stack-offset",
        "Whether each call moves the kernel's stack by a random number is not known: as built",
        f"grep RANDOMIZE_KSTACK /boot/config-$(uname -r), or {remedy.lower()}",
    )


def debugging(facts: Facts) -> Finding | None:
    """Is it a kernel to find mistakes with?"""
    signs = [
        name for path, name in ((LOCKDEP, "lockdep"), (KCSAN, "KCSAN")) if facts.is_there(path)
    ]
    signs += [word for word in facts.cmdline if _DEBUG_WORDS.fullmatch(word)]
    release = facts.text(f"{SYSCTL}/osrelease") or ""
    if re.search(r"[+_.-](debug|dbg|kasan)\b", release):
        signs.append(release)
    if not signs:
        return None
    return warning(
        "debugging",
        fitted("This kernel checks itself while it runs, which users' kernels do not: ", signs),
        "Measure a kernel built with the options that users have",
    )


def clock(facts: Facts) -> Finding | None:
    """Can a program read the time without a system call?  arch/*/include/asm/vdso/clocksource.h."""
    name = facts.text(f"{CLOCKSOURCE}/current_clocksource")
    if not name:
        return unknown(
            "clocksource",
            "Which clock the kernel reads is not known; the probe measures what a reading takes",
            f"cat {CLOCKSOURCE}/current_clocksource",
        )
    if name in _VDSO_CLOCKS:
        return None
    others = (facts.text(f"{CLOCKSOURCE}/available_clocksource") or "").split()
    better = next((other for other in others if other in _VDSO_CLOCKS), None)
    remedy = "sudo dmesg | grep -i -e clocksource -e tsc"
    if better:
        remedy = f"echo {better} | sudo tee {CLOCKSOURCE}/current_clocksource; {remedy}"
    return warning(
        "clocksource",
        f"The clocksource is {shortened(name, 40)}: no vDSO reads that, so each reading of the time"
        " is a call",
        remedy,
    )


def counters(facts: Facts) -> Finding | None:
    """May the kernel's instructions and cycles be counted?"""
    path = f"{SYSCTL}/perf_event_paranoid"
    level = facts.number(path)
    if _may_count(facts):
        return None
    if facts.status and facts.is_absent(path):
        return note(
            "counters",
            "This kernel has no perf events: cycles and instructions are not counted, only time",
            "Use a kernel with CONFIG_PERF_EVENTS",
        )
    if level is None or level <= 1:
        return None
    return note(
        "counters",
        f"The kernel's cycles and instructions are root's to count (perf_event_paranoid {level})",
        "sudo sysctl kernel.perf_event_paranoid=1",
    )


def _may_count(facts: Facts) -> bool:
    try:
        return bool(int(facts.status.get("CapEff", "0"), 16) & _MAY_COUNT)
    except ValueError:
        return False


def layout(facts: Facts) -> Finding | None:
    """Does each process have other addresses?"""
    if facts.number(f"{SYSCTL}/randomize_va_space") != 0:
        return None
    return note(
        "layout",
        "Addresses are not randomised: every process has one layout, and its luck is in the time",
        "sudo sysctl kernel.randomize_va_space=2",
    )
