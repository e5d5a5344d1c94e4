# SPDX-License-Identifier: GPL-2.0-or-later
"""kentry run: boot a user space, run a program, count what each entry into the kernel costs it."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from kentry.commands import measuring, userland
from kentry.commands.emit import emit
from kentry.commands.options import path_option
from kentry.commands.settings import default_cpu
from kentry.errors import KentryError
from kentry.progress import progress
from kentry.results.workload import to_file, write_workload

EXAMPLES = (
    "kentry run debian:6.12 --arch arm64 --packages git -- git --version",
    "kentry run debian:6.12 -o shell.json -- shell",
    "kentry run tree:~/linux@HEAD --config userland --copy ./bench:/opt/bench -- /opt/bench 10",
)


@dataclass(frozen=True, kw_only=True)
class Options(userland.UserlandOptions):
    """What `kentry run` takes."""

    output: Path | None = path_option("-o", "--output", help="write the result to FILE")
    trace: Path | None = path_option(
        "--trace",
        help="write every entry, exit and switch to FILE (.parquet), as kentry vector trace does",
    )


def run(options: Options) -> None:
    """Boots, counts, writes, prints."""
    from kentry.count.workload import run_workload
    from kentry.show.workload import workload_layout

    if options.trace:
        from kentry.vector.tracing import policy_of, write_records

    for file in filter(None, (options.output, options.trace, options.console)):
        measuring.check_writable(file)
    name = options.find_workload().name
    unwritten: list[KentryError] = []

    def try_to(write: Callable[..., object], *words: object) -> None:
        try:
            write(*words)
        except KentryError as err:
            unwritten.append(err)

    with progress(f"running {name} on {options.spec}") as update:
        kernel, arch, guest, how = options.guest(update, cpu=default_cpu(options.find_arch()))
        keep = None
        if trace := options.trace:
            about = (kernel, arch, guest, None, policy_of(kernel, arch, None), trace)
            keep = partial(try_to, write_records, *about)
        workload, ending = run_workload(kernel, arch, guest, how, update, keep)
    if options.output:
        try_to(write_workload, workload, options.output)
    emit(options, lambda: workload_layout(workload), lambda: to_file(workload))
    # What was counted is printed first.
    if unwritten:
        raise unwritten[0]
    userland.check_ending(ending, f"what was counted is in {options.output}" * bool(options.output))
