# SPDX-License-Identifier: GPL-2.0-or-later
"""Options of the commands that run a program in a Debian user space, and what they boot."""

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from kentry.arch import Arch
from kentry.arch.processors import find_processor
from kentry.boot.emulator import check_append
from kentry.boot.guest_tasks import TracedWorkload, TraceOptions
from kentry.boot.userland.root_image import build_userland, find_release
from kentry.boot.userland.workloads import WORKLOADS, Workload, find_workload, parse_copy
from kentry.commands import measuring, values
from kentry.commands.options import RARE, list_option, operand, option, path_option
from kentry.kernels.kernel import Kernel
from kentry.kernels.resolve import resolve
from kentry.kernels.spec import parse
from kentry.progress import Update

_SECONDS = 1800.0
_MEMORY = 2048


class Guest(NamedTuple):
    """A kernel, the user space, and how to boot them."""

    kernel: Kernel
    arch: Arch
    userland: TracedWorkload
    options: TraceOptions


@dataclass(frozen=True, kw_only=True)
class UserlandOptions(measuring.KernelOptions):
    """Which kernel, user space and program."""

    spec: str = operand(metavar="SPEC", help=measuring.SPEC_HELP)
    workload: tuple[str, ...] = operand(
        nargs="+",
        metavar="WORKLOAD",
        help=f"after --: {', '.join(WORKLOADS)}, or a command line",
    )
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
    seed: int = option(
        "--seed N", default=1, type=values.seed, group=RARE, help="the emulator's seed"
    )
    console: Path | None = path_option(
        "--console", group=RARE, help="write the guest's console to FILE"
    )

    def find_workload(self) -> Workload:
        """The program with its packages and files; UserError."""
        return find_workload(self.workload, list(map(parse_copy, self.copy)), self.packages)

    def guest(self, update: Update, *, cpu: str = "", length: int | None = None) -> Guest:
        """Fetches what is to be booted; `cpu` is the default, `length` of vectors in bits."""
        arch, workload = self.find_arch(), self.find_workload()
        booted = parse(self.spec).booted
        words = f"{self.append} {booted.get('append', '')}".strip()
        check_append(words)
        cpu = booted.get("cpu", self.cpu or cpu)
        if cpu:
            find_processor(arch, cpu)
        release, memory = find_release(self.release, arch), self.memory or _MEMORY
        kernel = resolve(self.spec, arch, update, self.request())
        return Guest(
            kernel,
            arch,
            build_userland(arch, workload, release, memory, update),
            TraceOptions(
                memory=memory,
                seed=self.seed,
                timeout=self.timeout or _SECONDS,
                vector_length=length,
                cpu=cpu,
                append=words,
                console_file=self.console,
            ),
        )
