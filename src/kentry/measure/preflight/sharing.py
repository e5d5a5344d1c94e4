# SPDX-License-Identifier: GPL-2.0-or-later
"""Checks: who else uses the cpu, its core and the machine."""

from __future__ import annotations

from kentry.measure.preflight import parse
from kentry.measure.preflight.facts import CPU_FOLDER, Facts
from kentry.measure.preflight.finding import Finding, note, shortened, warning

# Shares of the time between the looks.  A tick is 2 % of it, and what prepares the looks is work.
_BUSY = 0.05
_NEIGHBOURS_BUSY = 0.20
_STOLEN = 0.01
# Device and cross-cpu interrupts a second: 1 in a turn of 10 ms.
_INTERRUPTS = 100.0
# The probe takes one, and kentry now and then another.
_CPUS_USED = 2


def sibling(facts: Facts) -> Finding | None:
    """Does the core's other thread work?"""
    others = facts.siblings
    if not others:
        return None
    other = max(others, key=lambda cpu: facts.busy(cpu) or 0.0)
    busy = facts.busy(other)
    remedy = f"echo 0 | sudo tee {CPU_FOLDER}/cpu{other}/online"
    if busy is not None and busy > _BUSY:
        return warning(
            "smt",
            f"cpu {other}, the other thread of cpu {facts.cpu}'s core, was {busy:.0%} busy:"
            " the two share all its units",
            remedy,
        )
    idle = "" if busy is None else ", idle now"
    return note(
        "smt",
        f"cpu {facts.cpu} shares its core with cpu {other}{idle}: work there slows it down",
        remedy,
    )


def load(facts: Facts) -> Finding | None:
    """Does the cpu do other work?"""
    busy = facts.busy(facts.cpu)
    if busy is None or busy <= _BUSY:
        return None
    return warning(
        "load",
        f"cpu {facts.cpu} was {busy:.0%} busy with other work in the {facts.seconds:.1f} s before",
        f"ps -eo psr,pcpu,pid,comm --sort=-pcpu | awk '$1 == {facts.cpu}' | head",
    )


def neighbours(facts: Facts) -> Finding | None:
    """Do the other cpus work, on the memory, the caches and the power that all share?"""
    shares = [facts.busy(cpu) for cpu in facts.ticks_between() if cpu != facts.cpu]
    known = [share for share in shares if share is not None]
    average = parse.load_average(facts.files.get("/proc/loadavg", ""))
    look_for = "ps -eo psr,pcpu,pid,comm --sort=-pcpu | head"
    if known and sum(known) / len(known) > _NEIGHBOURS_BUSY:
        return warning(
            "neighbours",
            f"The other cpus were {sum(known) / len(known):.0%} busy:"
            " caches, memory and the power for turbo are shared with them",
            look_for,
        )
    if not facts.ticks_between() and average is not None and average / len(facts.online) > 0.5:
        return warning(
            "neighbours",
            f"{average:.1f} tasks ran or wanted to in the last minute,"
            f" on {len(facts.online)} cpus (load average)",
            look_for,
        )
    return None


def steal(facts: Facts) -> Finding | None:
    """Does the host give the cpu's time to others?"""
    remedy = "Ask for a cpu of its own: on the host, virsh vcpupin, or a dedicated instance"
    passed = facts.ticks_between().get(facts.cpu)
    if passed and passed.steal / passed.total > _STOLEN:
        return warning(
            "steal",
            f"The host took {passed.steal / passed.total:.0%} of cpu {facts.cpu}'s time"
            " for others (steal)",
            remedy,
        )
    ever = facts.ticks().get(facts.cpu)
    wanted = ever.busy + ever.steal if ever else 0
    if ever and wanted and ever.steal / wanted > _STOLEN:
        return note(
            "steal",
            f"Since boot the host took {ever.steal / wanted:.1%} of the time"
            f" that cpu {facts.cpu} had work (steal)",
            remedy,
        )
    return None


def interrupts(facts: Facts) -> Finding | None:
    """Do devices and other cpus interrupt it?"""
    others = [(rate, row) for rate, row in facts.interrupt_rates().values() if not row.is_timer]
    total = sum(rate for rate, _ in others)
    if total < _INTERRUPTS:
        return None
    rate, row = max(others, key=lambda pair: pair[0])
    elsewhere = next((cpu for cpu in facts.online if cpu != facts.cpu), None)
    if row.name.isdecimal() and elsewhere is not None:
        remedy = f"echo {elsewhere} | sudo tee /proc/irq/{row.name}/smp_affinity_list"
    else:
        remedy = f"Stop what causes {row.name}: watch -d grep {row.name}: /proc/interrupts"
    words = row.device.split()
    device = shortened(words[-1] if row.name.isdecimal() and words else row.device, 32)
    return warning(
        "interrupts",
        f"cpu {facts.cpu} took {total:.0f} interrupts a second besides its timer's,"
        f" {rate:.0f} of {row.name} ({device})",
        remedy,
    )


def isolation(facts: Facts) -> Finding | None:
    """Does the scheduler put other tasks on it?"""
    if facts.is_first_process or len(facts.online) == 1 or facts.cpu in facts.isolated:
        return None
    cpu = facts.cpu or next((other for other in facts.online if other), 0)
    return note(
        "isolation",
        f"cpu {facts.cpu} is not isolated: other tasks and the kernel's own work run there too",
        f"Boot with isolcpus=managed_irq,domain,{cpu} rcu_nocbs={cpu} irqaffinity=0",
    )


def tick(facts: Facts) -> Finding | None:
    """Does the scheduler's timer interrupt it?  CONFIG_HZ_100 to CONFIG_HZ_1000 are what is built.

    Most do, and to stop it makes each kernel entry dearer: see context_tracking().
    """
    if facts.cpu in facts.nohz_full:
        return None
    return note(
        "tick",
        f"The scheduler's timer interrupts cpu {facts.cpu} 100 to 1000 times a second, as usual",
        "None: low quantiles leave it out, and nohz_full= would add to each kernel entry",
    )


def quota(facts: Facts) -> Finding | None:
    """Is the probe stopped when it has used up its part of each period?"""
    limits = [limit for limit in _quotas(facts) if limit[0] < _CPUS_USED * limit[1]]
    if not limits:
        return None
    most, period = min(limits, key=lambda limit: limit[0] / limit[1])
    return warning(
        "quota",
        f"A control group allows {most / period:.2f} cpus: after {most / 1000:.0f} ms of work in"
        f" {period / 1000:.0f} ms all its tasks are stopped",
        "sudo systemctl set-property UNIT CPUQuota= (or docker run without --cpus)",
    )


def _quotas(facts: Facts) -> list[tuple[int, int]]:
    """Microseconds of work, and of how many; only those that are limited."""
    found = []
    for path, text in facts.files.items():
        words = text.split()
        if path.endswith("/cpu.max") and len(words) == 2 and words[0].isdecimal():
            found.append((int(words[0]), int(words[1])))
        if path.endswith("/cpu.cfs_quota_us"):
            most = facts.number(path)
            period = facts.number(path.replace("quota", "period"))
            if most and most > 0 and period:
                found.append((most, period))
    return [(most, period) for most, period in found if period > 0]


def one_cpu(facts: Facts) -> Finding | None:
    """Is there a cpu for everything else?"""
    known = facts.cpus(f"{CPU_FOLDER}/online") or tuple(facts.ticks())
    if facts.is_first_process or len(known) != 1:
        return None
    return note(
        "one-cpu",
        "This machine has one cpu: its interrupts and all its other work share it with the probe",
        "Stop what can be stopped, and take more groups",
    )
