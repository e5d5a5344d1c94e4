# SPDX-License-Identifier: GPL-2.0-or-later
"""Every caveat: what a reader must know beside a number.

A caveat is a kind and a sentence; it travels with the result, in JSON as
{"kind", "text"}, and is printed under it.
"""

from __future__ import annotations

from typing import TypedDict


class Caveat(TypedDict):
    """A kind, by which programs know it, and a sentence."""

    kind: str
    text: str


# With this option every function begins on a cache line of its own.
ALIGNMENT = "CONFIG_DEBUG_FORCE_FUNCTION_ALIGN_64B=y"

# How many cases a sentence names.
_NAMED = 4


def _caveat(kind: str, text: str) -> Caveat:
    return {"kind": kind, "text": text}


def not_time() -> Caveat:
    """What is counted is not time; every exact result carries it."""
    return _caveat("not-time", "exact instruction counts under emulation; not time")


def one_instruction_a_nanosecond() -> Caveat:
    """The clock of a trace; every trace carries it."""
    return _caveat(
        "emulated-clock", "times are of the guest's clock: 1 ns per instruction, without sleep"
    )


def private_emulator(version: str) -> Caveat:
    """Another QEMU than the installed one ran."""
    return _caveat(
        "private-emulator",
        f"measured with kentry's own copy of the emulator, {version}: plugins cannot read registers"
        " in the installed one",
    )


def randomised() -> Caveat:
    """Randomisation, which makes paths vary, was left on."""
    return _caveat("randomised", "KASLR and stack-offset randomisation were on")


def steady() -> Caveat:
    """Randomisation, which distributions leave on, was turned off."""
    return _caveat("steady", "KASLR and stack-offset randomisation were off (--randomise: on)")


def archive_incomplete(spec: str) -> Caveat:
    """A part of the archive could not be read when the kernel was chosen."""
    return _caveat(
        "archive-incomplete",
        f"part of the archive's lists could not be read: {spec} may have a newer version",
    )


def case_failed(name: str, reason: str) -> Caveat:
    """A case was not measured, for instance because a system call failed."""
    return _caveat("case-failed", f"{name} was not measured: {reason}")


def case_absent(name: str, reason: str) -> Caveat:
    """The kernel cannot run the case at all."""
    return _caveat("case-absent", f"{name} is absent: {reason}")


def user_side(name: str, wanted: int, windows: int) -> Caveat:
    """Windows were dropped: user code other than the probe's ran between their marks."""
    return _caveat(
        "user-side",
        f"{windows} windows of {name} were dropped: their user side was not {wanted} instructions",
    )


def no_majority(name: str, share: float) -> Caveat:
    """At most half of the windows have the commonest value."""
    return _caveat(
        "no-majority", f"only {share:.0%} of the windows of {name} have its commonest count"
    )


def unrecorded_path(name: str, value: int) -> Caveat:
    """The value was counted but no window with it was recorded as a path."""
    return _caveat("unrecorded-path", f"no path of {value} instructions was recorded for {name}")


def unnamed(share: float) -> Caveat:
    """Instructions outside every symbol."""
    return _caveat("unnamed", f"{share:.1%} of the instructions carry no function name")


def of_side(side: str, caveat: Caveat) -> Caveat:
    """A caveat of one of two recordings."""
    return _caveat(caveat["kind"], f"{side}: {caveat['text']}")


def windows_lost(name: str, seen: int, wanted: int) -> Caveat:
    """Fewer windows than asked for."""
    return _caveat("windows-lost", f"{name} has {seen} windows of {wanted}")


def self_checked(windows: int) -> Caveat:
    """The run counted everything twice."""
    return _caveat("self-checked", f"two ways of counting agreed in all {windows} windows")


def differs(what: str, old: str, new: str) -> Caveat:
    """The sides differ in something besides the thing compared."""
    return _caveat("differs", f"{what} differs: {old} / {new}")


def only_in(what: str, name: str) -> Caveat:
    """A case was measured on one side only."""
    return _caveat("only-in", f"{name} was measured only in the {what} recording")


def config_differs(changed: int, gone: int, new: int, named: list[str]) -> Caveat:
    """The two kernels were configured differently; options built in, modules left out.

    `named` are those that shape kernel entry, as NAME=old/new.
    """
    text = f"config differs in {changed} built-in options: {gone} only old, {new} only new"
    entry = f"; of kernel entry: {', '.join(named)}" if named else ""
    return _caveat("config-differs", text + entry)


def config_unknown(whose: str) -> Caveat:
    """A config that might differ is not known."""
    return _caveat("config-unknown", f"{whose} config is not known, so it may differ")


def series_note(text: str) -> Caveat:
    """How the patches of a series were read."""
    return _caveat("series", text)


def other_base(wanted: str, base: str) -> Caveat:
    """The patches were made for another source than they are measured on."""
    return _caveat("other-base", f"the patches name base-commit {wanted[:12]}; measured on {base}")


def left_out(numbers: list[int]) -> Caveat:
    """Patches that later ones are measured without."""
    named = ", ".join(map(str, numbers))
    return _caveat("left-out", f"what follows is measured without patch {named}: not applied")


def metric_only_in(side: str, metric: str, names: list[str]) -> Caveat:
    """Both sides have the cases, but only one has this metric of them."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    cases = ", ".join(names[:_NAMED]) + more
    return _caveat("only-in", f"{metric} was measured only in the {side} recording: {cases}")


def measured_apart() -> Caveat:
    """Two times are from two runs, so the machine's drift between them is in the difference."""
    return _caveat(
        "measured-apart",
        "the times were measured apart, one run after the other, so the machine's drift is in their"
        " difference and nothing is decided; kentry stat --compare measures both interleaved",
    )


def unsupported(side: str, metric: str, absent: list[str]) -> Caveat:
    """An imported number lacks what a verdict needs."""
    what = ", ".join(absent)
    return _caveat(
        "unsupported", f"{side}: {metric} was imported without {what}: shown, and nothing decided"
    )


def no_statistics(name: str, metric: str) -> Caveat:
    """Measured values have no ratio, because some are not above 0."""
    text = f"{metric} of {name} has values not above 0, so no change can be calculated"
    return _caveat("unsupported", text)


def sign_conflict(name: str, counted: str, metric: str, timed: str) -> Caveat:
    """Instructions and time changed in opposite directions."""
    return _caveat(
        "sign-conflict",
        f"{name}: instructions {counted}, {metric} {timed}: opposite directions; report both",
    )


def layout(name: str, metric: str, timed: str) -> Caveat:
    """Time changed although the executed instructions did not."""
    return _caveat(
        "layout",
        f"{name}: the path is identical, instruction by instruction, and {metric} differs by"
        f" {timed}: layout or noise, not the code executed; to test it, build both with --set"
        f" {ALIGNMENT}",
    )


def kernel_unknown(whose: list[str]) -> Caveat:
    """Two recordings were joined although a build ID is missing."""
    return _caveat(
        "kernel-unknown",
        f"the build ID is not known of the {' and the '.join(whose)}, so counts and times may be"
        " of different kernels",
    )


def imported(name: str) -> Caveat:
    """Every recording of imported numbers carries it."""
    return _caveat(
        "imported", f"published in {name}, not measured by kentry: no interval, so no verdict"
    )


def imported_numbers() -> Caveat:
    """Every import carries it."""
    return _caveat(
        "no-interval",
        "the numbers have no interval, the sides were not interleaved, and kernel, config and"
        " compiler are not known: a change of a few per cent may be noise, and no verdict follows",
    )


def imported_ticks() -> Caveat:
    """Ticks were imported."""
    return _caveat("ticks", "the timer's frequency is not known, so ticks are not converted to ns")


def imported_percentages() -> Caveat:
    """Percentages were imported."""
    return _caveat("only-percent", "a percentage without its two values cannot be checked")


# --- time ----------------------------------------------------------------

# The errnos of perf_event_open() that do not mean "this cpu has no such counter".
_EPERM, _EACCES, _EBADF, _EMFILE = "-1", "-13", "-9", "-24"


def preflight(kind: str, text: str, remedy: str) -> Caveat:
    """A check of the machine found something; the kind begins with "preflight-"."""
    return _caveat(kind, f"{text}. {remedy}")


def emulated_time() -> Caveat:
    """A guest was timed under software emulation."""
    return _caveat(
        "emulated-time",
        "times and ratios from software emulation say nothing about real hardware",
    )


def no_counters(errno: str) -> Caveat:
    """The probe could not open the cpu's counters: perf_event_open() returned `errno`."""
    if errno in (_EPERM, _EACCES):
        why = (
            "perf_event_open is not permitted; sysctl kernel.perf_event_paranoid=1 lets the probe"
            " count"
        )
    elif errno in (_EBADF, _EMFILE):
        why = "too few file descriptors; ulimit -n 1024"
    else:
        why = (
            "this machine's cpu shows no counters (most virtual machines); kentry record counts"
            " instructions without any"
        )
    return _caveat("no-counters", f"no cycles, instructions or branches: {why}")


def few_counters(names: str) -> Caveat:
    """Some counters could be opened, kernel cycles not among them."""
    return _caveat("no-counters", f"only {names} could be counted: see perf_event_paranoid")


def multiplexed(names: list[str]) -> Caveat:
    """The cpu has fewer counters than were asked for."""
    text = f"more counters than the cpu has: {', '.join(names)} left out"
    return _caveat("multiplexed", text)


def clock_jumped(times: int, first: str) -> Caveat:
    """A clock jumped; the processes that it may have touched were dropped."""
    return _caveat("clock-jumped", f"processes were dropped {times} times: {first}")


def coarse_clock(step: float) -> Caveat:
    """The machine's clock has long steps (ns)."""
    return _caveat(
        "coarse-clock",
        f"the clock has steps of {step:g} ns: the time of one call is a whole number of steps, and"
        " so are percentiles",
    )


def slow_clock() -> Caveat:
    """The machine's vDSO cannot read its clock."""
    text = "the vDSO has no clock here: each reading of the time is a system call"
    return _caveat("slow-clock", text)


def one_cpu() -> Caveat:
    """The machine has one cpu."""
    return _caveat("one-cpu", "one cpu only: all other work interrupts the measurement")
