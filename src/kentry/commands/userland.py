# SPDX-License-Identifier: GPL-2.0-or-later
"""Options of the commands that run a program in a Debian user space, and what they boot."""

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kentry.arch import Arch
from kentry.arch.processors import find_processor
from kentry.boot.emulator import INSTALLED, check_append
from kentry.boot.guest_tasks import Ending, TracedWorkload, TraceOptions
from kentry.boot.userland.root_image import build_userland, find_release
from kentry.boot.userland.workloads import WORKLOADS, Workload, find_workload, parse_copy
from kentry.commands import measuring, values
from kentry.commands.options import RARE, list_option, operand, option, path_option
from kentry.commands.settings import default_cpu
from kentry.errors import GuestError, UserError
from kentry.host import interrupt
from kentry.kernels.config import USERLAND
from kentry.kernels.kernel import Kernel
from kentry.kernels.resolve import resolve
from kentry.kernels.spec import parse
from kentry.progress import Update
from kentry.results.recording import FLOOR

if TYPE_CHECKING:
    from kentry.count.workload_cache import Program

_SECONDS = 1800.0
_MEMORY = 2048
# Of the output of a program that failed: lines, and characters of each.
_SHOWN_LINES, _SHOWN = 40, 200
# A change is called where it holds in the boots with these.
SEEDS = (1, 2, 3)


# By exit code: what a shell says of a program that is not there; 128 + SIGKILL.
_REMEDIES = {
    None: "Give it longer with --timeout SECONDS.",
    127: "Add the program with --packages NAME, or copy it with --copy FILE.",
    137: "It may have run out of memory: give the guest more with --memory MIB.",
}
# What programs say, in small letters, of what a guest does not have.
_LACKS = {
    "no network but its own loopback: copy what the program needs with --copy": re.compile(
        r"network is unreachable|name resolution|could not resolve|unknown host"
    ),
    "too little memory: give it more with --memory MIB": re.compile(
        r"cannot allocate memory|memoryerror|bad_alloc|out of memory"
    ),
    "its files in memory, and no room left: give it more with --memory MIB": re.compile(
        r"no space left on device"
    ),
}


_RELEASE: dict[str, Any] = {
    "help": "Debian's release of the user space; bookworm by default, on riscv64 trixie"
}
_PACKAGES: dict[str, Any] = {"help": "more packages for the user space"}
_COPY: dict[str, Any] = {
    "default": (),
    "action": "append",
    "help": "a file or folder to copy into the user space, as cp -r does; can be repeated",
}


@dataclass(frozen=True, kw_only=True)
class UserlandOptions(measuring.KernelOptions):
    """Which kernel, user space and program."""

    spec: str = operand(metavar="SPEC", help=measuring.LINUX_HELP)
    workload: tuple[str, ...] = operand(
        nargs="+", metavar="WORKLOAD", help=f"after --: {', '.join(WORKLOADS)}, or a command line"
    )
    release: str | None = option("--release NAME", **_RELEASE)
    packages: tuple[str, ...] = list_option("--packages NAME,...", **_PACKAGES)
    copy: tuple[str, ...] = option("--copy HOST[:GUEST]", **_COPY)
    memory: int | None = option("--memory MIB", **measuring.MEMORY)
    cpu: str | None = option("--cpu CPU", **measuring.CPU)
    append: str = option("--append WORDS", default="", **measuring.APPEND)
    seed: int = option(
        "--seed N", default=1, type=values.seed, group=RARE, help="the emulator's seed"
    )
    console: Path | None = path_option(
        "--console", group=RARE, help="write the guest's console to FILE"
    )

    @property
    def config(self) -> str:
        """A built kernel has what a user space needs."""
        return USERLAND

    def find_workload(self) -> Workload:
        """Returns the program with its packages and files; UserError."""
        return find_workload(self.workload, list(map(parse_copy, self.copy)), self.packages)

    def guest(
        self, update: Update, *, cpu: str = "", length: int | None = None
    ) -> tuple[Kernel, Arch, TracedWorkload, TraceOptions]:
        """Fetches what is to be booted; `cpu` is the default, `length` of vectors in bits."""
        arch, workload = self.find_arch(), self.find_workload()
        options = _trace_options(self, arch, self.spec, cpu)
        options = replace(options, seed=self.seed, vector_length=length, console_file=self.console)
        release = find_release(self.release, arch)
        kernel = resolve(self.spec, arch, update, self.request())
        userland = build_userland(arch, workload, release, options.memory, update)
        return kernel, arch, userland, options


def _trace_options(
    options: "UserlandOptions | ProgramOptions", arch: Arch, spec: str, cpu: str
) -> TraceOptions:
    """How to boot the spec; UserError for a processor or a command line that cannot be."""
    booted = parse(spec).booted
    append = f"{options.append or ''} {booted.get('append', '')}".strip()
    check_append(append)
    cpu = booted.get("cpu", options.cpu or cpu)
    if cpu:
        find_processor(arch, cpu)
    return TraceOptions(
        memory=options.memory or _MEMORY,
        timeout=options.timeout or _SECONDS,
        cpu=cpu,
        append=append,
        emulator=options.emulator or INSTALLED,
    )


def check_ending(ending: Ending, kept: str) -> None:
    """GuestError for a program that did not end with 0; `kept` says where its numbers are.

    KeyboardInterrupt where it was the user who ended it.
    """
    interrupt.check()
    if ending.status == 0:
        return
    said = ending.output.lower()
    lacks = next((f"The guest has {word}." for word, of in _LACKS.items() if of.search(said)), "")
    remedy = _REMEDIES.get(ending.status, lacks)
    # Bytes at random have many ends of lines, and long lines.
    lines = ending.output.splitlines()[-_SHOWN_LINES:]
    raise GuestError(
        f"The program {ending.clause}{kept and '; '}{kept}.",
        f"{remedy}{' The last of what it printed is below.' * bool(lines)}".strip(),
        "\n".join(line[:_SHOWN] for line in lines),
    )


_A_PROGRAM = {"without a program, --run": lambda options: options.program is not None}


@dataclass(frozen=True, kw_only=True)
class ProgramOptions(measuring.MeasureOptions):
    """A program to run instead of cases, for a command that measures kernels."""

    program: str | None = option(
        "--run PROGRAM",
        group=RARE,
        needs=measuring.A_KERNEL,
        help="measure a program instead of cases, as kentry run does, in three boots of each"
        f" kernel: {', '.join(WORKLOADS)}, or a script",
    )
    release: str | None = option("--release NAME", group=RARE, needs=_A_PROGRAM, **_RELEASE)
    packages: tuple[str, ...] = list_option(
        "--packages NAME,...", group=RARE, needs=_A_PROGRAM, **_PACKAGES
    )
    copy: tuple[str, ...] = option("--copy HOST[:GUEST]", group=RARE, needs=_A_PROGRAM, **_COPY)
    memory: int | None = option("--memory MIB", needs=_A_PROGRAM, **measuring.MEMORY)

    @property
    def config(self) -> str:
        """With a program a built kernel has what a user space needs."""
        return super().config if self.program is None else USERLAND

    def refuse_with_program(self, *names: str) -> None:
        """UserError for one of these options, which shape cases and their text."""
        for name in names:
            if getattr(self, name):
                raise UserError(f"--{name} has no effect on a program.", f"Leave --{name} out.")

    def find_program(self, arch: Arch, spec: str) -> "Program | None":
        """What to run on the spec, None for cases; UserError before anything is fetched."""
        from kentry.count.workload_cache import Program

        if self.program is None:
            return None
        if parse(spec).kind == FLOOR:
            raise UserError(f"{spec} has no user space for a program.", "Name a kernel of Linux.")
        how = _trace_options(self, arch, spec, default_cpu(arch))
        return Program(
            workload=find_workload([self.program], list(map(parse_copy, self.copy)), self.packages),
            release=find_release(self.release, arch),
            options=how,
            seeds=SEEDS,
        )
