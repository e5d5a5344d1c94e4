# SPDX-License-Identifier: GPL-2.0-or-later
"""kentry vector costs: what an act on vector state costs: shown, counted, or timed."""

from __future__ import annotations

import argparse
import platform
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from kentry.commands import measuring
from kentry.errors import EXIT_DONE, KentryError, MissingToolError, UserError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kentry.arch import Arch
    from kentry.kernels.kernel import Kernel
    from kentry.progress import Update
    from kentry.runners.exact import ExactOptions
    from kentry.vector.cost_times import Timed
    from kentry.vector.costs import CostTable

NAME = "costs"
HELP = "what an act on vector state costs on a core: show a table, or make one"

# Of the program on this machine: some hundred blocks of a millisecond.
_SECONDS_HERE = 300.0
_MEMORY = 512
Checks = list[tuple[str, float, float]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument(
        "what",
        metavar="TABLE|SPEC",
        nargs="?",
        help="a table that comes with kentry, or its file, to be shown; or a kernel to be counted: "
        + measuring.SPEC_HELP
        + "; nothing: a list of the tables",
    )
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write the table (TOML)")
    parser.add_argument("--json", action="store_true", help="print the table as JSON")
    parser.add_argument("--name", metavar="NAME", help="of the table that is made")
    timing = parser.add_argument_group("timing, on real hardware")
    timing.add_argument(
        "--here", action="store_true", help="time this machine: some seconds, without root"
    )
    timing.add_argument(
        "--program",
        action="store_true",
        help="print where the static program is that another machine can run (--arch)",
    )
    timing.add_argument(
        "--from",
        dest="printed",
        type=Path,
        metavar="FILE",
        help="make the table of what the program printed on another machine",
    )
    timing.add_argument("--rounds", type=int, metavar="N", help="blocks of each measure (30)")
    _add_kernel_arguments(parser)


def _add_kernel_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("counting, of a kernel")
    group.add_argument("--arch", metavar="A", help="x86_64, arm64 or riscv64; this machine's own")
    group.add_argument("--vl", type=int, metavar="BITS", help="vector length of the emulated cpu")
    group.add_argument(
        "--emulator",
        default="installed",
        metavar="QEMU",
        help="installed, backports, newest, or a path to a qemu-system program",
    )
    group.add_argument(
        "--timeout", type=float, default=120.0, metavar="S", help="seconds a boot may take (120)"
    )
    group.add_argument(
        "--fresh", action="store_true", help="measure again what the cache has from before"
    )
    measuring.add_build_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Shows a table, or makes one and shows it."""
    _check(args)
    if args.program:
        print(_program(measuring.arch_of(args)))
        return EXIT_DONE
    if not (args.what or args.here or args.printed):
        return _list()
    if args.output:
        measuring.check_writable(args.output)
    table, absent, checks = _table(args)
    _show(args, table, absent, checks)
    return EXIT_DONE


def _check(args: argparse.Namespace) -> None:
    ways = [args.what is not None, args.here, args.program, args.printed is not None]
    if sum(ways) > 1:
        raise UserError(
            "A table, --here, --program and --from are different things to do.", "Take one of them."
        )
    if args.rounds is not None and not 1 <= args.rounds <= measuring.MAX_WINDOWS:
        raise UserError(f"--rounds {args.rounds} is not a number of rounds.", "Try --rounds 30.")
    if not 0 < args.timeout < measuring.MAX_SECONDS:
        raise UserError(
            f"--timeout {args.timeout:g} is not a time in seconds.", "Try --timeout 600."
        )


def _list() -> int:
    from kentry.report.costs import list_text
    from kentry.vector.costs import load_costs, shipped

    sys.stdout.write(list_text(map(load_costs, shipped())))
    return EXIT_DONE


def _table(args: argparse.Namespace) -> tuple[CostTable, Mapping[str, str], Checks]:
    """The table, why acts have no figure, and what was counted twice."""
    from kentry.vector.costs import load_costs

    if args.here or args.printed:
        timed = _timed(args)
        return timed.table, timed.absent, []
    if measuring.is_spec(args.what):
        return _counted(args)
    table = load_costs(args.what)
    return replace(table, name=_name(args, table.name)), {}, []


def _name(args: argparse.Namespace, otherwise: str) -> str:
    """--name, or what is left of `otherwise` as a name; UserError for one that is none."""
    from kentry.vector.costs import is_name

    if args.name is None:
        return re.sub(r"[^a-z0-9._-]+", "-", otherwise.lower()).strip("-._")[:64] or "table"
    if not is_name(args.name):
        raise UserError(
            f"'{args.name}' is no name for a table.", "Make it of a-z, 0-9, '.', '_' and '-'."
        )
    name: str = args.name
    return name


def _show(
    args: argparse.Namespace, table: CostTable, absent: Mapping[str, str], checks: Checks
) -> None:
    from kentry.host.cache import write_atomically
    from kentry.model.recording import dump
    from kentry.report.costs import costs_text
    from kentry.vector.costs import to_json, to_toml

    if args.json:
        sys.stdout.write(dump({**to_json(table), "absent": dict(absent)}))
    else:
        sys.stdout.write(costs_text(table, absent, checks))
    if args.output:
        write_atomically(args.output, to_toml(table))


# --- timed ------------------------------------------------------------------------------------


def _program(arch: Arch) -> Path:
    """The program that times, as built beside the probe."""
    from kentry.host.native import probe_file

    file = probe_file(arch).with_name(f"costs-{arch.name}")
    if not file.exists():
        raise MissingToolError(
            f"The program that times costs on {arch.name} is not built.",
            f"Run: apt-get install {arch.compiler_package} make, then install kentry again"
            " (make setup).",
        )
    return file


def _timed(args: argparse.Namespace) -> Timed:
    """The table of what the program prints here, or printed elsewhere."""
    from kentry.vector.cost_times import parse, tabulate

    timing = parse(_read(args.printed) if args.printed else _run_here(args))
    where = args.printed.name.partition(".")[0] if args.printed else platform.node()
    about = f"timed by kentry vector costs on Linux {timing.release}"
    way = "--from" if args.printed else "--here"
    command = f"kentry vector costs {way}, Linux {timing.release}"
    return tabulate(timing, _name(args, f"{timing.arch}-{where}"), about, command)


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError as err:
        raise UserError(
            f"{file} cannot be read: {err.strerror}.", "Name a file that the program wrote."
        ) from err


def _run_here(args: argparse.Namespace) -> str:
    from kentry.arch import host_arch
    from kentry.host.process import command_line, log
    from kentry.progress import progress

    arch = host_arch()
    argv = [str(_program(arch)), *([f"rounds={args.rounds}"] if args.rounds else [])]
    argv += [f"vl={args.vl}"] if args.vl else []
    log.info("$ %s", command_line(argv))
    with progress(f"timing vector state on this machine ({arch.name})"):
        try:
            done = subprocess.run(
                argv, capture_output=True, text=True, timeout=_SECONDS_HERE, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as err:
            raise KentryError(
                f"The program that times costs did not end well: {err}.",
                f"Run it by hand: {command_line(argv)}",
            ) from err
    return done.stdout


# --- counted ----------------------------------------------------------------------------------


def _counted(args: argparse.Namespace) -> tuple[CostTable, Mapping[str, str], Checks]:
    from kentry.kernels.resolve import resolve
    from kentry.progress import progress
    from kentry.vector.cost_counts import cases_needed, count
    from kentry.vector.cost_times import checks, completed

    arch = measuring.arch_of(args)
    length = args.vl if args.vl != arch.vector.units[0].lengths[0] else None
    with progress(f"{args.what} ({arch.name})") as update:
        kernel = resolve(args.what, arch, update, measuring.request_of(args))
        names = cases_needed(arch.name, length, sme=_has_sme(kernel))
        options = _options(args, names, length)
        args.fake = None
        recording = measuring.measured(kernel, arch, options, args, update, reuse=not args.fresh)
        counted = count(recording, length, _command(args, arch, length, "record"))
        timed = _timed_in_guest(kernel, arch, options, update, _command(args, arch, length, NAME))
    bits = length or arch.vector.units[0].lengths[0]
    table = replace(counted.table, vl=bits, name=_name(args, counted.table.name))
    if not timed:
        return table, counted.absent, []
    whole = completed(table, timed)
    absent = {act: why for act, why in counted.absent.items() if act not in whole.figures}
    return whole, absent, checks(table, timed)


def _has_sme(kernel: Kernel) -> bool:
    from kentry.kernels import config

    if kernel.config is None:
        return False
    text = kernel.config.read_text(encoding="utf-8", errors="replace")
    return config.read(text).get("CONFIG_ARM64_SME") == "y"


def _options(args: argparse.Namespace, names: tuple[str, ...], length: int | None) -> ExactOptions:
    from kentry.measure.catalogue import choose
    from kentry.runners.exact import ExactOptions

    chosen = tuple(choose(measuring.arch_of(args), names))
    return ExactOptions(
        cases=chosen,
        timeout=args.timeout,
        memory=_MEMORY,
        emulator=args.emulator,
        vector_length=length,
    )


def _command(args: argparse.Namespace, arch: Arch, length: int | None, name: str) -> str:
    """The command that a figure is from, without its cases."""
    # A case's name has its vector length in it.
    costs = name == NAME
    words = ["kentry", *(["vector"] if costs else []), name, args.what, "--arch", arch.name]
    words += ["--vl", str(length)] if length and costs else []
    for option in args.sets:
        words += ["--set", option]
    return " ".join([*words, *(["--config", args.config] if args.config != "tiny" else [])])


def _timed_in_guest(
    kernel: Kernel, arch: Arch, options: ExactOptions, update: Update, command: str
) -> Timed | None:
    """The second way: the program that times, in the same guest; None where it has no trap."""
    from kentry.runners.guest_costs import time_in_guest
    from kentry.vector.cost_counts import RULES
    from kentry.vector.cost_times import parse, tabulate

    if "flush" not in RULES[arch.name].events:
        return None
    console = time_in_guest(kernel, arch, _program(arch), options, update)
    return tabulate(parse(console, virtual=True), "timed", "", command)
