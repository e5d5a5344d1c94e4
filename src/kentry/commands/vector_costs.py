# SPDX-License-Identifier: GPL-2.0-or-later
"""kentry vector costs: what an act on vector state costs: shown, counted, or timed."""

import platform
import re
import sys
from dataclasses import dataclass
from pathlib import Path

import msgspec

from kentry.arch import Arch, find_arch, host_arch
from kentry.commands import measuring, output, values
from kentry.commands.options import Need, ResultOptions, flag, operand, option, path_option
from kentry.errors import EXIT_DONE, UserError
from kentry.host.cache import write_atomically
from kentry.kernels.resolve import resolve
from kentry.models.costs import load_costs, shipped, to_toml
from kentry.progress import progress
from kentry.results.document import dump
from kentry.show.cost_table import costs_text, list_text
from kentry.vector.act_costs import ActCosts, costs_program, count_costs, run_here
from kentry.vector.cost_times import parse, tabulate

EXAMPLES = (
    "kentry vector costs sve128",
    "kentry vector costs debian:6.12 --arch riscv64 -o counted.toml",
    "kentry vector costs --here -o my-core.toml",
)

_TABLE = Need(
    lambda options: options.what or options.here or options.printed,
    "without a table: name one, a kernel, --here or --from",
)
_ARCH = Need(
    lambda options: options.program or measuring.is_spec(options.what or ""),
    "here: it is for a kernel, or for --program",
)
_LENGTH = Need(
    lambda options: options.here or measuring.is_spec(options.what or ""),
    "here: it is for a kernel, or for --here",
)


@dataclass(frozen=True, kw_only=True)
class Options(ResultOptions):
    """What `kentry vector costs` takes."""

    what: str | None = operand(
        default=None,
        nargs="?",
        metavar="TABLE|SPEC",
        help="a table's name or file to print, or a kernel to count on: "
        + measuring.SPEC_HELP
        + "; without it, a list of the tables",
    )
    output: Path | None = path_option(
        "-o", "--output", needs=(_TABLE,), help="write the table (TOML) to FILE"
    )
    here: bool = flag("--here", help="time this machine: takes some seconds, and no root")
    program: bool = flag(
        "--program",
        help="print the path of the static program that times another machine (see --arch)",
    )
    printed: Path | None = path_option(
        "--from", help="make the table from what that program printed on another machine"
    )
    arch: str | None = option("--arch", needs=[_ARCH], **measuring.ARCH)
    vl: int | None = option(
        "--vl",
        type=values.bits,
        metavar="BITS",
        needs=[_LENGTH],
        help="vector length in bits; that of the cpu by default",
    )


def run(options: Options) -> int:
    """Shows a table, or makes one and shows it."""
    ways = [options.what is not None, options.here, options.program, options.printed is not None]
    if sum(ways) > 1:
        raise UserError(
            "A table, --here, --program and --from are different things to do.", "Take one of them."
        )
    arch = find_arch(options.arch) if options.arch else host_arch()
    if options.program:
        print(costs_program(arch))
        return EXIT_DONE
    if options.output:
        measuring.check_writable(options.output)
    if options.here or options.printed:
        costs = _timed(options, arch)
    elif not options.what:
        output.show(options, list_text, map(load_costs, shipped()))
        return EXIT_DONE
    elif measuring.is_spec(options.what):
        length = options.vl if options.vl != arch.vector.units[0].lengths[0] else None
        with progress(f"{options.what} ({arch.name})") as update:
            kernel = resolve(options.what, arch, update)
            costs = count_costs(kernel, arch, length, update)
    else:
        costs = ActCosts(load_costs(options.what))
    if options.json:
        sys.stdout.write(dump(msgspec.to_builtins(costs.table)))
    else:
        output.show(options, costs_text, costs.table, costs.checks)
    if options.output:
        write_atomically(options.output, to_toml(costs.table))
    return EXIT_DONE


def _timed(options: Options, arch: Arch) -> ActCosts:
    """The table of what the program prints here, or printed elsewhere."""
    if options.printed:
        try:
            text = options.printed.read_text(encoding="utf-8", errors="replace")
        except OSError as err:
            raise UserError(
                f"{options.printed} cannot be read: {err.strerror}.",
                "Name a file that the program wrote.",
            ) from err
        where, way = options.printed.name.partition(".")[0], "--from"
    else:
        with progress(f"timing vector state on this machine ({arch.name})"):
            text = run_here(arch, options.vl)
        where, way = platform.node(), "--here"
    timing = parse(text)
    name = re.sub(r"[^a-z0-9._-]+", "-", f"{timing.arch}-{where}".lower()).strip("-._")[:64]
    linux = f"Linux {timing.release}"
    about = f"timed by kentry vector costs on {linux}"
    command = f"kentry vector costs {way}, {linux}"
    return ActCosts(tabulate(timing, name, about, command).table)
