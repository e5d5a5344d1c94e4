# SPDX-License-Identifier: GPL-2.0-or-later
"""kentry vector trace: boot a user space, run a workload, write what its tasks did."""

from dataclasses import dataclass, replace
from pathlib import Path

from kentry.boot.guest_tasks import TraceOptions
from kentry.boot.userland.root_image import build_userland, find_release
from kentry.boot.userland.workloads import WORKLOADS, find_workload, parse_copy
from kentry.commands import measuring, values
from kentry.commands.emit import emit
from kentry.commands.options import RARE, list_option, operand, option, path_option
from kentry.errors import EXIT_DONE, GuestError, UserError
from kentry.kernels.resolve import resolve
from kentry.kernels.spec import parse
from kentry.progress import progress
from kentry.vector.policies import parse_policy

EXAMPLES = (
    "kentry vector trace debian:6.12 --arch arm64 -- shell",
    "kentry vector trace debian:6.12 --arch riscv64 -o server.parquet -- server",
    "kentry vector trace debian:6.12 --packages bc --copy ./bench:/opt/bench -- /opt/bench 10",
)


@dataclass(frozen=True, kw_only=True)
class Options(measuring.KernelOptions):
    """What `kentry vector trace` takes."""

    spec: str = operand(metavar="SPEC", help=measuring.SPEC_HELP)
    workload: tuple[str, ...] = operand(
        nargs="+",
        metavar="WORKLOAD",
        help=f"after --: {', '.join(WORKLOADS)}, or a command line",
    )
    output: Path | None = path_option(
        "-o", "--output", help="write the trace to FILE; WORKLOAD-ARCH.parquet by default"
    )
    vl: int | None = option("--vl BITS", type=values.bits, help="vector length of the cpu in bits")
    release: str | None = option(
        "--release NAME",
        help="Debian's release of the user space; bookworm by default, on riscv64 trixie",
    )
    packages: tuple[str, ...] = list_option(
        "--packages NAME,...", help="more packages for the user space"
    )
    copy: tuple[str, ...] = option(
        "--copy HOST[:GUEST]",
        default=(),
        action="append",
        help="a file or folder to copy into the user space; can be repeated",
    )
    memory: int | None = option("--memory MIB", **measuring.MEMORY)
    cpu: str | None = option("--cpu CPU", **measuring.CPU)
    append: str = option("--append WORDS", default="", **measuring.APPEND)
    kernel_policy: str | None = option(
        "--kernel-policy POLICY",
        group=RARE,
        help="the kernel's own policy, if it is not that of Linux of its release",
    )


def run(options: Options) -> int:
    """Builds the user space, boots it, writes the trace, says what is in it."""
    from kentry.show.vector import statistics_to_json, trace_layout
    from kentry.vector.statistics import statistics
    from kentry.vector.trace import read_trace
    from kentry.vector.tracing import trace_workload

    arch = options.find_arch()
    lengths = arch.vector.units[0].lengths
    if options.vl is not None and options.vl not in lengths:
        raise UserError(
            f"No emulated {arch.name} cpu has vectors of {options.vl} bits.",
            f"Use one of {', '.join(map(str, lengths))}.",
        )
    if options.kernel_policy:
        parse_policy(options.kernel_policy)
    copies = [parse_copy(text) for text in options.copy]
    workload = find_workload(options.workload, copies, options.packages)
    path = options.output or Path(f"{workload.name}-{arch.name}.parquet")
    measuring.check_writable(path)
    release, memory = find_release(options.release, arch), options.memory or 2048
    booted = parse(options.spec).booted
    words = [*options.append.split(), *booted.get("append", "").split()]
    with progress(f"tracing {workload.name} on {options.spec} for {arch.name}") as update:
        kernel = resolve(options.spec, arch, update, options.request())
        userland = build_userland(arch, workload, release, memory, update)
        ending = trace_workload(
            kernel,
            arch,
            replace(userland, words=(*userland.words, *words)),
            TraceOptions(
                memory,
                timeout=options.timeout or 1800.0,
                vector_length=options.vl,
                cpu=booted.get("cpu", options.cpu or ""),
            ),
            options.kernel_policy,
            path,
            update,
        )
    trace = read_trace(path)
    emit(
        options,
        lambda: trace_layout(trace, path.stat().st_size, path),
        lambda: statistics_to_json(trace, statistics(trace)),
    )
    if ending.status != 0:
        raise GuestError(
            f"The workload {ending.clause}; what was recorded of it is in {path}.",
            "The last of what it printed is below.",
            ending.output,
        )
    return EXIT_DONE
