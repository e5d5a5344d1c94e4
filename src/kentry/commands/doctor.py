# SPDX-License-Identifier: GPL-2.0-or-later
"""kentry doctor: what is missing here, and the command that installs it."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from kentry.arch import ARCHES, Arch
from kentry.boot.exact import ExactOptions, emulator_of
from kentry.commands.emit import emit
from kentry.commands.options import ResultOptions, flag
from kentry.count.self_test import self_test
from kentry.errors import EXIT_DONE, EXIT_MISTAKE, KentryError, MissingToolError, UserError
from kentry.host import sandbox
from kentry.host.cache import cache_dir
from kentry.host.mirror import find_mirror
from kentry.host.native import plugin_file, probe_file
from kentry.host.packages import install_command
from kentry.host.process import need, status_clause
from kentry.kernels import build
from kentry.models.llvm import find_analyser
from kentry.show.blocks import Layout

EXAMPLES = ("kentry doctor", "kentry doctor --install", "kentry doctor --json")

# A kernel's source and its build; a distribution's package takes a tenth.
_LEAST_MIB = 4096
_PROGRAMS = ("git", "ssh", "setpriv", "pahole", "prlimit", "gpgv", "taskset")


@dataclass(frozen=True, kw_only=True)
class Options(ResultOptions):
    """What `kentry doctor` takes."""

    install: bool = flag(
        "--install", help="run the command that installs what is missing, once you said yes to it"
    )
    yes: bool = flag(
        "--yes",
        needs={"without --install": lambda options: options.install},
        help="with --install: run it without asking",
    )


def run(options: Options) -> int:
    """Prints a finding for each check; returns 2 if something is missing."""
    findings, tools = _findings()
    command = install_command(tools)
    if options.install and command:
        _install(command, options.yes)
        findings, tools = _findings()
        command = install_command(tools)
    width = max(len(finding["what"]) for finding in findings)
    lines = []
    for finding in findings:
        mark = "missing" if finding["remedy"] else "ok"
        lines.append(f"{mark:<8} {finding['what']:<{width}}  {finding['state']}")
        if finding["remedy"]:
            lines.append(f"{'':<8} {'':<{width}}  {finding['remedy']}")
    if command:
        lines += ["", f"To install what is missing (kentry doctor --install): {' '.join(command)}"]
    emit(
        options,
        lambda: Layout("doctor", "", "", lines),
        lambda: {"schema": "kentry/doctor/1", "findings": findings, "install": command},
    )
    return EXIT_MISTAKE if any(finding["remedy"] for finding in findings) else EXIT_DONE


def _findings() -> tuple[list[dict[str, str]], list[str]]:
    """Returns a finding for each check, and the programs that are missing."""
    findings: list[dict[str, str]] = []
    tools: list[str] = []
    for what, look in _checks():
        try:
            state, remedy = look(), ""
        except KentryError as err:
            state, remedy = err.sentence, err.remedy or "see docs/howto/troubleshooting.md"
            tools += err.tools if isinstance(err, MissingToolError) else ()
        findings.append({"what": what, "state": state, "remedy": remedy})
    return findings, tools


def _install(command: list[str], yes: bool) -> None:
    """Runs the command, with what it prints on standard error; UserError where it may not."""
    if os.geteuid() and command[0] != "nix-env":
        as_root = next(filter(shutil.which, ("sudo", "doas")), None)
        if not as_root:
            raise UserError(
                "Packages are installed as root, and neither sudo nor doas is here.",
                f"Run as root: {' '.join(command)}",
            )
        command = [as_root, *command]
    print(f"$ {' '.join(command)}", file=sys.stderr, flush=True)
    if not yes:
        if not sys.stdin.isatty():
            raise UserError(
                "kentry installs nothing without a yes, and nobody can be asked here.",
                "Add --yes, or run the command yourself.",
            )
        print("Run it? [y/N] ", end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            raise UserError("Nothing was installed.", "Say y, or run the command yourself.")
    try:
        # The package manager asks questions of its own.
        status = subprocess.run(command, stdout=2, check=False).returncode
    except OSError as err:
        raise UserError(f"{command[0]} does not run: {err.strerror}.", "Install it.") from err
    if status:
        raise UserError(
            f"{status_clause(command[0], status)}; not all is installed.",
            "Read its messages above.",
        )


def _checks() -> Iterator[tuple[str, Callable[[], str]]]:

    def probe(arch: Arch) -> str:
        return probe_file(arch).name

    def compiler(arch: Arch) -> str:
        build.check_tools(arch)
        return build.find_compiler(arch, "gcc").identity[0]

    def emulator(arch: Arch) -> str:
        options = ExactOptions(cases=())
        self_test(arch, options, lambda fraction, now: None)
        return f"QEMU {emulator_of(arch, options).version}"

    def confined() -> str:
        sandbox.check()
        allowed = f"no: {sandbox.ALLOW_VARIABLE}=1 is set, and bubblewrap does not work"
        return "by bubblewrap" if sandbox.works() else allowed

    def cache() -> str:
        folder = cache_dir()
        free = shutil.disk_usage(folder).free >> 20
        if free < _LEAST_MIB:
            raise UserError(
                f"{folder} has {free} MiB free; kernel builds need {_LEAST_MIB}.",
                "Free some, or name another folder in KENTRY_CACHE.",
            )
        return f"{folder}, {free} MiB free"

    yield "QEMU plugin", lambda: plugin_file().name
    for arch in ARCHES.values():
        yield f"{arch.name}: probe", partial(probe, arch)
        yield f"{arch.name}: emulator", partial(emulator, arch)
        yield f"{arch.name}: kernel builds", partial(compiler, arch)
    for program in _PROGRAMS:
        yield program, partial(need, program)
    yield "llvm-mca", lambda: f"LLVM {find_analyser().version}"
    yield "builds confined", confined
    yield "Debian mirror", lambda: find_mirror().base
    yield "cache", cache
