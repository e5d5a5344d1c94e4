# SPDX-License-Identifier: GPL-2.0-or-later
"""kentry vector trace: boot a user space, run a workload, write what its tasks did."""

from dataclasses import dataclass
from pathlib import Path

from kentry.boot.guest_tasks import traced_processor
from kentry.commands import measuring, userland, values
from kentry.commands.emit import emit
from kentry.commands.options import RARE, option, path_option
from kentry.count.vector_units import check_unit
from kentry.kernels.spec import parse
from kentry.progress import progress
from kentry.vector.policies import parse_policy

EXAMPLES = (
    "kentry vector trace debian:6.12 --arch arm64 -- shell",
    "kentry vector trace debian:6.12 --arch riscv64 -o server.parquet -- server",
    "kentry vector trace debian:6.12 --packages bc --copy ./bench:/opt/bench -- /opt/bench 10",
)


@dataclass(frozen=True, kw_only=True)
class Options(userland.UserlandOptions):
    """What `kentry vector trace` takes."""

    output: Path | None = path_option(
        "-o", "--output", help="write the trace to FILE; WORKLOAD-ARCH.parquet by default"
    )
    vl: int | None = option("--vl BITS", type=values.bits, help="vector length of the cpu in bits")
    kernel_policy: str | None = option(
        "--kernel-policy POLICY",
        group=RARE,
        help="the kernel's own policy, if it is not that of Linux of its release",
    )


def run(options: Options) -> None:
    """Builds the user space, boots it, writes the trace, says what is in it."""
    from kentry.show.vector import statistics_to_json, trace_layout
    from kentry.vector.statistics import statistics
    from kentry.vector.trace import read_trace
    from kentry.vector.tracing import trace_workload

    arch = options.find_arch()
    cpu = parse(options.spec).booted.get("cpu", options.cpu or "")
    check_unit(traced_processor(arch, cpu, options.vl), arch.vector.units[0], options.vl)
    if options.kernel_policy:
        parse_policy(options.kernel_policy)
    workload = options.find_workload()
    path = options.output or Path(f"{workload.name}-{arch.name}.parquet")
    measuring.check_writable(path)
    with progress(f"tracing {workload.name} on {options.spec} for {arch.name}") as update:
        kernel, arch, guest, how = options.guest(update, length=options.vl)
        ending = trace_workload(kernel, arch, guest, how, options.kernel_policy, path, update)
    trace = read_trace(path)
    emit(
        options,
        lambda: trace_layout(trace, path.stat().st_size, path),
        lambda: statistics_to_json(trace, statistics(trace)),
    )
    userland.check_ending(ending, f"what was recorded of it is in {path}")
