# SPDX-License-Identifier: GPL-2.0-or-later
"""kentry vector trace: boot a user space, run a workload, write down what a policy turns on."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kentry.commands import measuring
from kentry.errors import EXIT_DONE, GuestError, UserError

if TYPE_CHECKING:
    from kentry.arch import Arch
    from kentry.measure.workload import Outcome, Workload
    from kentry.runners.userland.root_image import Userland

NAME = "trace"
HELP = "boot a Debian user space on a kernel, run a workload, write what its tasks did"

_MEMORY = 2048
_SECONDS = 1800.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("spec", metavar="SPEC", help=measuring.SPEC_HELP)
    parser.add_argument(
        "workload",
        metavar="WORKLOAD",
        nargs="+",
        help="after --: boot, shell, python, compile, server, idle, or a command line",
    )
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="the trace (WORKLOAD-ARCH.parquet)"
    )
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")
    guest = parser.add_argument_group("guest")
    guest.add_argument("--arch", metavar="A", help="arm64, riscv64 or x86_64; this machine's own")
    guest.add_argument(
        "--cpu", metavar="MODEL", help="QEMU's cpu model (arm64: neoverse-n2, with --vl 256 -v1)"
    )
    guest.add_argument("--vl", type=int, metavar="BITS", help="vector length of the cpu, in bits")
    guest.add_argument(
        "--release",
        metavar="NAME",
        help="Debian's release of the user space (bookworm; riscv64: trixie)",
    )
    guest.add_argument(
        "--packages", metavar="NAME,...", default="", help="more packages for the user space"
    )
    guest.add_argument(
        "--copy",
        metavar="HOST[:GUEST]",
        action="append",
        default=[],
        help="a file or folder to copy into the user space",
    )
    guest.add_argument(
        "--memory", type=int, default=_MEMORY, metavar="MIB", help=f"of the guest ({_MEMORY})"
    )
    guest.add_argument(
        "--timeout",
        type=float,
        default=_SECONDS,
        metavar="S",
        help=f"seconds it may take ({_SECONDS:.0f})",
    )
    guest.add_argument(
        "--emulator",
        default="installed",
        metavar="QEMU",
        help="installed, backports, newest, or a path; 9.2 or later, else backports is used",
    )
    guest.add_argument(
        "--seed", type=measuring.seed, default=1, metavar="N", help="of the emulator (1)"
    )
    guest.add_argument("--console", type=Path, metavar="FILE", help="keep the guest's console")
    parser.add_argument(
        "--append", metavar="WORDS", default="", help="words for the kernel's command line"
    )
    parser.add_argument(
        "--kernel-policy",
        metavar="POLICY",
        help="what this kernel does, where it is not what Linux of its release does",
    )
    measuring.add_build_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Builds the user space, boots it, writes the trace, says what is in it."""
    from kentry.kernels.resolve import resolve
    from kentry.measure.workload import trace_workload
    from kentry.progress import progress
    from kentry.runners.guest_tasks import TraceOptions
    from kentry.runners.userland.root_image import build_userland

    arch = measuring.arch_of(args)
    _check(args, arch)
    release, workload = _userland_of(args, arch)
    path = args.output or Path(f"{workload.name}-{arch.name}.parquet")
    for file in filter(None, (path, args.console)):
        measuring.check_writable(file)
    request = measuring.request_of(args)
    with progress(f"tracing {workload.name} on {args.spec} for {arch.name}") as update:
        kernel = resolve(args.spec, arch, update, request)
        userland = build_userland(arch, workload, release, args.memory, update)
        options = TraceOptions(
            memory=args.memory,
            seed=args.seed,
            timeout=args.timeout,
            vector_length=args.vl,
            cpu=args.cpu,
            emulator=args.emulator,
            console_file=args.console,
        )
        outcome = trace_workload(
            kernel,
            arch,
            _described(userland, args.append),
            options,
            args.kernel_policy,
            path,
            update,
        )
    _print(args, path)
    _check_status(path, outcome)
    return EXIT_DONE


def _check(args: argparse.Namespace, arch: Arch) -> None:
    lengths = arch.vector.units[0].lengths
    if args.vl is not None and args.vl not in lengths:
        raise UserError(
            f"No emulated {arch.name} cpu has vectors of {args.vl} bits.",
            f"Use one of {', '.join(map(str, lengths))}.",
        )
    if args.cpu and args.vl is None:
        args.vl = _length_of(args.cpu, arch)
    if not 0 < args.timeout < measuring.MAX_SECONDS:
        raise UserError(
            f"--timeout {args.timeout:g} is not a time in seconds.", "Try --timeout 1800."
        )
    if args.kernel_policy:
        from kentry.vector.policies import parse_policy

        parse_policy(args.kernel_policy)


def _length_of(model: str, arch: Arch) -> int:
    """The vector length in bits of QEMU's model of a core; UserError where it is not known."""
    known = {core.partition(",")[0]: bits for bits, core in arch.cores.items()}
    try:
        return known[model.partition(",")[0]]
    except KeyError:
        raise UserError(
            f"How long the vectors of --cpu {model} are is not known.", "Add --vl BITS."
        ) from None


def _userland_of(args: argparse.Namespace, arch: Arch) -> tuple[Any, Any]:
    """The release and the workload that are asked for."""
    from kentry.runners.userland.rootfs import find_release
    from kentry.runners.userland.workloads import find_workload, parse_copy

    packages = [name for name in args.packages.split(",") if name]
    copies = [parse_copy(text) for text in args.copy]
    return find_release(args.release, arch), find_workload(args.workload, copies, packages)


def _described(userland: Userland, append: str) -> Workload:
    from kentry.measure.workload import Workload
    from kentry.runners.guest_tasks import Guest

    guest = Guest(userland.initramfs, (*userland.kernel_words, *append.split()))
    return Workload(userland.workload.name, guest, userland.describe())


def _print(args: argparse.Namespace, path: Path) -> None:
    from kentry.model.recording import dump
    from kentry.report.trace import statistics_to_json, trace_text
    from kentry.vector.statistics import statistics
    from kentry.vector.trace import read_trace

    trace, cut = read_trace(path)
    if args.json:
        sys.stdout.write(dump(statistics_to_json(trace, statistics(trace), cut)))
        return
    sys.stdout.write(trace_text(trace, cut, path.stat().st_size))
    print(f"\nThe trace is in {path}; kentry vector stats and replay read it.")


def _check_status(path: Path, outcome: Outcome) -> None:
    """The trace is kept, but a workload that failed did not do what it was to do."""
    if outcome.ending.status == 0:
        return
    raise GuestError(
        f"The workload {outcome.ending.clause}; what was recorded of it is in {path}.",
        "The last of what it printed is below; --console FILE keeps all of it.",
        outcome.ending.output,
    )
