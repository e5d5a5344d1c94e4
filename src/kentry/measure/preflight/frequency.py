# SPDX-License-Identifier: GPL-2.0-or-later
"""Checks: how fast the cpu runs, and whether that stays so."""

from __future__ import annotations

from kentry.measure.preflight.facts import BATTERIES, CPU_FOLDER, FIRMWARE_THROTTLED, MAINS, Facts
from kentry.measure.preflight.finding import Finding, note, shortened, unknown, warning

_NO_TURBO = f"{CPU_FOLDER}/intel_pstate/no_turbo"
_BOOST = f"{CPU_FOLDER}/cpufreq/boost"
# A Raspberry Pi's firmware, now: too little voltage, capped, throttled, at its soft limit of heat.
_THROTTLED_NOW = 0xF
# arch_topology.c: the largest core of a machine has this capacity.
_LARGEST = 1024

# Governors under which the frequency does not follow the load.
_STEADY = frozenset({"performance", "userspace"})


def frequencies(facts: Facts) -> tuple[int, int] | None:
    """The lowest and highest that cpufreq lets the cpu run at, in MHz."""
    low = facts.number(facts.of_cpu("cpufreq/scaling_min_freq"))
    high = facts.number(facts.of_cpu("cpufreq/scaling_max_freq"))
    return None if low is None or high is None else (low // 1000, high // 1000)


def turbo(facts: Facts) -> bool | None:
    """Whether cores may run above their nominal frequency; None where nothing says so."""
    if (off := facts.number(_NO_TURBO)) is not None:
        return off == 0
    boost = facts.number(_BOOST)
    if boost is None:
        boost = facts.number(facts.of_cpu("cpufreq/boost"))
    return None if boost is None else boost != 0


def governor(facts: Facts) -> Finding | None:
    """Does the frequency follow the load?"""
    path = facts.of_cpu("cpufreq/scaling_governor")
    name = facts.text(path)
    limits = frequencies(facts)
    if not name:
        return unknown(
            "governor",
            f"Nothing tells the frequency of cpu {facts.cpu} (no cpufreq), or whether it changes",
            "Fix it in the firmware's set-up; for a guest, on its host",
        )
    if name in _STEADY or (limits and limits[0] == limits[1]):
        return None
    between = f" between {limits[0]} and {limits[1]} MHz" if limits else ""
    return warning(
        "governor",
        f"cpu {facts.cpu}'s frequency follows the load{between} (governor {shortened(name, 16)}),"
        " and with it the time of each call",
        f"echo performance | sudo tee {path}",
    )


def turbo_on(facts: Facts) -> Finding | None:
    """May the frequency rise above the nominal one?"""
    if not turbo(facts):
        return None
    base = facts.number(facts.of_cpu("cpufreq/base_frequency"))
    most = facts.number(facts.of_cpu("cpufreq/cpuinfo_max_freq"))
    between = f" from {base // 1000} to {most // 1000} MHz" if base and most else ""
    if facts.number(_NO_TURBO) is not None:
        remedy = f"echo 1 | sudo tee {_NO_TURBO}"
    else:
        path = _BOOST if facts.number(_BOOST) is not None else facts.of_cpu("cpufreq/boost")
        remedy = f"echo 0 | sudo tee {path}"
    return warning(
        "turbo",
        f"Turbo is on: cpu {facts.cpu} goes{between or ' above its nominal frequency'}"
        " while few cores work and they are cool",
        remedy,
    )


def unfixed(facts: Facts) -> Finding | None:
    """Is one frequency all that is allowed?  Said where the governor is none that follows load."""
    limits = frequencies(facts)
    if not limits or limits[0] == limits[1]:
        return None
    if facts.text(facts.of_cpu("cpufreq/scaling_governor")) not in _STEADY:
        return None
    base = facts.number(facts.of_cpu("cpufreq/base_frequency")) or limits[1] * 1000
    folder = facts.of_cpu("cpufreq")
    return note(
        "frequency",
        f"cpu {facts.cpu} is not held at one frequency: {limits[0]} to {limits[1]} MHz are allowed",
        f"echo {base} | sudo tee {folder}/scaling_max_freq {folder}/scaling_min_freq",
    )


def battery(facts: Facts) -> Finding | None:
    """Does the machine save its battery?"""
    mains = [facts.number(f"/sys/class/power_supply/{name}/online") for name in MAINS]
    states = [facts.text(f"/sys/class/power_supply/{name}/status") for name in BATTERIES]
    plugged = 1 in mains
    if plugged or not (0 in mains or "Discharging" in states):
        return None
    return warning(
        "battery",
        "It runs on its battery: firmware and governors hold the frequency down to save it",
        "Plug it in; compare only with numbers taken on mains power",
    )


def throttled(facts: Facts) -> Finding | None:
    """Was the cpu slowed down to cool it?"""
    cool = "Let it cool, and lower scaling_max_freq (docs/howto/quiet-machine.md)"
    with_firmware = _firmware_throttled(facts)
    if with_firmware is not None and with_firmware & _THROTTLED_NOW:
        return warning(
            "throttle",
            "The firmware slows the cpus down now: too hot, or too little voltage"
            f" (get_throttled {with_firmware:#x})",
            "vcgencmd get_throttled, then a better supply or cooling",
        )
    times = facts.number(facts.of_cpu("thermal_throttle/core_throttle_count"))
    if times:
        return note(
            "throttle",
            f"cpu {facts.cpu} was slowed down {times} times since boot because it was too hot",
            cool,
        )
    if with_firmware:
        return note(
            "throttle",
            f"The firmware has slowed the cpus down since boot (get_throttled {with_firmware:#x})",
            cool,
        )
    return None


def _firmware_throttled(facts: Facts) -> int | None:
    try:
        return int(facts.text(FIRMWARE_THROTTLED) or "", 16)
    except ValueError:
        return None


def smaller_core(facts: Facts) -> Finding | None:
    """Is it one of the smaller cores of its machine?"""
    capacity = facts.number(facts.of_cpu("cpu_capacity"))
    small = capacity is not None and 0 < capacity < _LARGEST
    if not small and facts.cpu not in facts.cpus("/sys/devices/cpu_atom/cpus"):
        return None
    share = f", {capacity / _LARGEST:.0%} of the largest" if small and capacity else ""
    return note(
        "core",
        f"cpu {facts.cpu} is one of this machine's smaller cores{share}:"
        " compare only with numbers from the same kind",
        f"grep . {CPU_FOLDER}/cpu*/cpu_capacity /sys/devices/cpu_core/cpus",
    )
