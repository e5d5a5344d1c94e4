# SPDX-License-Identifier: GPL-2.0-or-later
"""kentry vector costs: what an act on vector state costs: shown, counted, or timed."""

from dataclasses import dataclass
from pathlib import Path

from kentry.arch.processors import find_processor
from kentry.boot.emulator import INSTALLED
from kentry.commands import measuring, values
from kentry.commands.emit import emit
from kentry.commands.options import ResultOptions, anywhere, flag, operand, option, path_option
from kentry.commands.settings import default_arch, default_cpu
from kentry.count.catalogue import choose
from kentry.count.vector_units import check_unit
from kentry.errors import UserError
from kentry.host.cache import write_atomically
from kentry.kernels.resolve import resolve
from kentry.kernels.spec import parse
from kentry.models.costs import load_costs, shipped, to_toml
from kentry.progress import progress
from kentry.show.beside import costs_layout, list_layout
from kentry.vector.cost_tables import count_costs, time_here

EXAMPLES = (
    "kentry vector costs sve128",
    "kentry vector costs debian:6.12 --arch riscv64 -o counted.toml",
    "kentry vector costs --here -o my-core.toml",
)

_TABLE = {
    "without a table: name one, a kernel, or --here": lambda options: options.what or options.here
}
_KERNEL = {"here: it is for a kernel": lambda options: measuring.is_spec(options.what or "")}
_LENGTH = {
    "here: it is for a kernel, or for --here": lambda options: (
        options.here or measuring.is_spec(options.what or "")
    )
}


@dataclass(frozen=True, kw_only=True)
class Options(ResultOptions):
    """What `kentry vector costs` takes."""

    what: str | None = operand(
        default=None,
        nargs="?",
        metavar="TABLE|SPEC",
        help="a table's name or file to print, or a kernel to count on: "
        + measuring.LINUX_HELP
        + "; without it, a list of the tables",
    )
    output: Path | None = path_option(
        "-o", "--output", needs=_TABLE, help="write the table (TOML) to FILE"
    )
    here: bool = flag("--here", help="time this machine: takes some seconds, and no root")
    arch: str | None = option("--arch ARCH", needs=_KERNEL, **measuring.ARCH)
    cpu: str | None = option("--cpu CPU", needs=_KERNEL, **measuring.CPU)
    vl: int | None = option(
        "--vl BITS",
        type=values.bits,
        needs=_LENGTH,
        help="vector length in bits; that of the cpu by default",
    )
    emulator: str | None = anywhere("emulator", _KERNEL)
    no_sandbox: bool = anywhere("no_sandbox", _KERNEL)


def run(options: Options) -> None:
    """Shows a table, or makes one and shows it."""
    if options.what and options.here:
        raise UserError("--here takes no table and no kernel.", "Leave one of them out.")
    if not options.what and not options.here:
        emit(options, lambda: list_layout(map(load_costs, shipped())))
        return
    if options.output:
        measuring.check_writable(options.output)
    checks: list[tuple[str, float, float]] = []
    if not options.what:
        with progress("timing vector state on this machine"):
            table = time_here(options.vl)
    elif not measuring.is_spec(options.what):
        table = load_costs(options.what)
    else:
        arch = measuring.named_arch(options.arch, [options.what]) or default_arch()
        # A length that there is not is refused before a kernel is fetched.
        choose(arch, ["getppid+vec=once"], options.vl)
        cpu = parse(options.what).booted.get("cpu", options.cpu or default_cpu(arch))
        check_unit(find_processor(arch, cpu), arch.vector.units[0], options.vl)
        with progress(f"{options.what} ({arch.name})") as update:
            kernel = resolve(options.what, arch, update)
            table, checks = count_costs(
                kernel, arch, options.vl, cpu, options.emulator or INSTALLED, update
            )
    emit(options, lambda: costs_layout(table, checks), lambda: table)
    if options.output:
        write_atomically(options.output, to_toml(table))
