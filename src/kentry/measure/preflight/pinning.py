# SPDX-License-Identifier: GPL-2.0-or-later
"""The cpu to measure on, where the user names none."""

from __future__ import annotations

from kentry.measure.preflight.facts import Facts


def choose_cpu(facts: Facts) -> int:
    """An isolated cpu, else one that is not cpu 0; the one that took the fewest interrupts.

    Of isolated ones, rather one that is not nohz_full, whose kernel entry does more.
    """
    return min(_usable(facts), key=lambda cpu: _rank(facts, cpu))


def _rank(facts: Facts, cpu: int) -> tuple[bool, bool, bool, int, int]:
    chosen, tickless = cpu in facts.isolated, cpu in facts.nohz_full
    return (
        not (chosen or tickless),
        tickless,
        cpu == 0,
        sum(row.counts.get(cpu, 0) for row in facts.interrupts() if not row.is_timer),
        cpu,
    )


def _usable(facts: Facts) -> set[int]:
    """The cpus that run and that the probe may be put on; cpu 0 where none is known.

    A task begins on all cpus that are not isolated, and may ask for the others: only where it
    was given fewer than those is its list a limit.
    """
    online = set(facts.online)
    allowed = set(facts.cpus_allowed) or online
    if allowed >= online - set(facts.isolated):
        allowed |= set(facts.isolated)
    return online & allowed & (set(facts.cpuset) or online) or online & allowed or {min(allowed)}
