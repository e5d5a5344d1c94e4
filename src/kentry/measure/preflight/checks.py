# SPDX-License-Identifier: GPL-2.0-or-later
"""All checks, the most important first."""

from __future__ import annotations

from kentry.measure.preflight import entry, frequency, machine, sharing
from kentry.measure.preflight.facts import Facts
from kentry.measure.preflight.finding import LEVELS, Finding

CHECKS = (
    entry.traced,
    sharing.quota,
    entry.seccomp,
    entry.tracing,
    entry.audit,
    entry.debugging,
    sharing.load,
    sharing.sibling,
    sharing.steal,
    frequency.governor,
    frequency.turbo_on,
    frequency.battery,
    frequency.throttled,
    sharing.interrupts,
    sharing.neighbours,
    entry.clock,
    machine.virtual,
    entry.mitigated,
    entry.stack_offset,
    entry.context_tracking,
    sharing.isolation,
    sharing.one_cpu,
    frequency.smaller_core,
    frequency.unfixed,
    entry.speculation,
    machine.contained,
    entry.counters,
    sharing.tick,
    entry.layout,
)


def check(facts: Facts) -> list[Finding]:
    """What there is to say of the machine: warnings, then notes, then what is not known."""
    found = [finding for look_at in CHECKS if (finding := look_at(facts)) is not None]
    return sorted(found, key=lambda finding: LEVELS.index(finding.level))
