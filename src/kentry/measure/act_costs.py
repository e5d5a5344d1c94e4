# SPDX-License-Identifier: GPL-2.0-or-later
"""What acts on vector state cost: counted of a kernel, or timed on this machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from kentry.arch import Arch
from kentry.errors import KentryError, MissingToolError
from kentry.host.native import probe_file
from kentry.host.process import command_line, supervise
from kentry.kernels import config
from kentry.kernels.kernel import Kernel
from kentry.measure import cache
from kentry.measure.catalogue import choose
from kentry.progress import Update
from kentry.runners.exact import ExactOptions
from kentry.runners.guest_costs import time_in_guest
from kentry.vector import cost_counts, cost_times
from kentry.vector.costs import CostTable

# A few hundred blocks of a millisecond take seconds; a slow machine gets more.
_SECONDS_HERE = 300.0


@dataclass(frozen=True)
class ActCosts:
    """A table; why acts have no figure; what was counted twice: (what, counted, timed)."""

    table: CostTable
    absent: Mapping[str, str] = field(default_factory=dict)
    checks: list[tuple[str, float, float]] = field(default_factory=list)


def costs_program(arch: Arch) -> Path:
    """The static program that times, built beside the probe; MissingToolError where it is not."""
    file = probe_file(arch).with_name(f"costs-{arch.name}")
    if not file.exists():
        raise MissingToolError(
            f"The program that times costs on {arch.name} is not built.",
            f"Run: apt-get install {arch.compiler_package} make, then install kentry again"
            " (make setup).",
        )
    return file


def run_here(arch: Arch, length: int | None) -> str:
    """What the program prints on this machine; KentryError where it fails."""
    argv = [str(costs_program(arch)), *([f"vl={length}"] if length else [])]
    lines: list[str] = []
    end = supervise(argv, _SECONDS_HERE, lines.append)
    if end.stopped:
        raise KentryError(
            f"The program that times costs was stopped {end.stopped}.",
            f"Run it by hand: {command_line(argv)}",
        )
    return "".join(f"{line}\n" for line in lines)


def count_costs(kernel: Kernel, arch: Arch, length: int | None, update: Update) -> ActCosts:
    """The table of a kernel in instructions; `length` of its vectors in bits, None for the cpu's.

    Acts are counted along recorded paths.  The same kernel then boots with the program that times,
    whose clock counts instructions there: that gives what no path has, and a check.
    """
    rules = arch.vector.counting
    sme = False
    if kernel.config:
        text = kernel.config.read_text(encoding="utf-8", errors="replace")
        sme = config.read(text).get("CONFIG_ARM64_SME") == "y"
    names = cost_counts.cases_needed(rules, length, sme=sme)
    options = ExactOptions(cases=tuple(choose(arch, names)), vector_length=length)
    recording = cache.record(kernel, arch, options, update, reuse=True)
    where = f"{kernel.spec} --arch {arch.name}"
    counted = cost_counts.count(recording, rules, length, f"kentry record {where}")
    bits = length or arch.vector.units[0].lengths[0]
    table = msgspec.structs.replace(counted.table, vl=bits)
    # Where nothing is flushed, nothing traps, and there is nothing more to time.
    if "flush" not in rules.events:
        return ActCosts(table, counted.absent)
    console = time_in_guest(kernel, arch, costs_program(arch), options, update)
    command = f"kentry vector costs {where}" + (f" --vl {length}" if length else "")
    timing = cost_times.parse(console, virtual=True)
    timed = cost_times.tabulate(timing, "timed", "", command)
    whole = cost_times.completed(table, timed)
    absent = {act: why for act, why in counted.absent.items() if act not in whole.figures}
    return ActCosts(whole, absent, cost_times.checks(table, timed))
