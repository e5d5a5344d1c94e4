# SPDX-License-Identifier: GPL-2.0-or-later
"""Makes a cost table: counts the acts of a kernel in a guest, or times them on this machine."""

import platform
import re
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from kentry.arch import Arch, host_arch
from kentry.boot.console import boot, tail
from kentry.boot.emulator import find_emulator
from kentry.boot.exact import ExactOptions
from kentry.boot.initramfs import build_initramfs
from kentry.boot.qemu_argv import boot_argv, kernel_words, machine_argv
from kentry.count import cache
from kentry.count.catalogue import choose
from kentry.errors import GuestError, KentryError
from kentry.host.cache import kept_file
from kentry.host.native import built_file
from kentry.host.process import command_line, supervise
from kentry.kernels.kernel import Kernel, config_lines
from kentry.models.costs import CostTable
from kentry.progress import Update
from kentry.vector import cost_counts, cost_times

# A few hundred blocks of a millisecond take seconds; a slow machine gets more.
_SECONDS_HERE = 300.0

# A block of 500 system calls, or 50 round trips, is shorter than the time between two ticks.
_ROUNDS, _CALLS = 16, 500


@dataclass(frozen=True)
class MadeTable:
    """A table, and what was counted twice: (what, counted, timed)."""

    table: CostTable
    checks: list[tuple[str, float, float]] = field(default_factory=list)


def timing_program(arch: Arch) -> Path:
    """Finds the static program that times, built beside the probe; MissingToolError without it."""
    what = f"the program that times costs on {arch.name}"
    return built_file(f"costs-{arch.name}", what, arch.compiler_package)


def time_here(length: int | None) -> CostTable:
    """Times this machine at a vector length in bits; KentryError where the program fails."""
    arch = host_arch()
    argv = [str(timing_program(arch)), *([f"vl={length}"] if length else [])]
    lines: list[str] = []
    end = supervise(argv, _SECONDS_HERE, lines.append)
    if end.stopped:
        raise KentryError(
            f"The program that times costs was stopped {end.stopped}.",
            f"Run it by hand: {command_line(argv)}",
        )
    timing = cost_times.parse("\n".join(lines))
    host = re.sub(r"[^a-z0-9._-]+", "-", f"{timing.arch}-{platform.node()}".lower())
    linux = f"Linux {timing.release}"
    about = f"timed by kentry vector costs on {linux}"
    command = f"kentry vector costs --here, {linux}"
    return cost_times.tabulate(timing, host.strip("-._")[:64], about, command).table


def count_costs(kernel: Kernel, arch: Arch, length: int | None, update: Update) -> MadeTable:
    """Counts the table of a kernel, in instructions, at a vector length in bits.

    Acts are counted along recorded paths.  The same kernel then boots with the program that times,
    whose clock counts instructions there: that gives what no path has, and a check.
    """
    rules, own = arch.vector.counting, arch.vector.units[0].lengths[0]
    bits, length = length or own, length if length != own else None
    sme = (config_lines(kernel) or {}).get("ARM64_SME") == "y"
    names = cost_counts.cases_needed(rules, length, sme=sme)
    options = ExactOptions(cases=tuple(choose(arch, names)), vector_length=length)
    recording = cache.record(kernel, arch, options, update, reuse=True)
    where = f"{kernel.spec} --arch {arch.name}"
    counted = cost_counts.count(recording, rules, length, f"kentry record {where}")
    table = msgspec.structs.replace(counted, vl=bits)
    # Where nothing is flushed, nothing traps, and there is nothing more to time.
    if "flush" not in rules.events:
        return MadeTable(table)
    console = _time_in_guest(kernel, arch, options, update)
    command = f"kentry vector costs {where}" + (f" --vl {length}" if length else "")
    timing = cost_times.parse(console, virtual=True)
    timed = cost_times.tabulate(timing, "timed", "", command)
    return MadeTable(cost_times.completed(table, timed), cost_times.checks(table, timed))


def _time_in_guest(kernel: Kernel, arch: Arch, options: ExactOptions, update: Update) -> str:
    """Runs guest/costs.c as the only program of an emulated guest; returns what it prints.

    The guest's time counts instructions, one a nanosecond, and the program reads it through the
    guest's own clock: 62.5 MHz on arm64's machine, 10 MHz on riscv64's.
    """
    emulator = find_emulator(arch, options.emulator)
    cpu = arch.cpu_with(options.vector_length)
    initramfs = kept_file("initramfs", build_initramfs(timing_program(arch), ()))
    words = [*kernel_words(arch), "--", f"rounds={_ROUNDS}", f"calls={_CALLS}"]
    argv = [
        *machine_argv(emulator, arch, cpu, options.memory, options.seed),
        *boot_argv(kernel, initramfs, words),
    ]
    guest = boot(argv, emulator, options.timeout, update)
    if "kentry-costs end" not in guest.console:
        raise GuestError(
            f"The guest did not come to the end of what it timed: {guest.clause}.",
            "-v shows the command line.",
            guest.stderr or tail(guest.console),
        )
    return guest.console
