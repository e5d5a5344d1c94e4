# SPDX-License-Identifier: GPL-2.0-or-later
"""kentry doctor: what is missing here, and the command that installs it."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from kentry.arch import ARCHES, Arch
from kentry.boot.emulator import find_emulator
from kentry.commands.emit import emit
from kentry.commands.options import ResultOptions
from kentry.errors import EXIT_DONE, EXIT_MISTAKE, KentryError, UserError
from kentry.host import sandbox
from kentry.host.apt import find_mirror
from kentry.host.cache import cache_dir
from kentry.host.native import plugin_file, probe_file
from kentry.host.process import need
from kentry.kernels import build
from kentry.models.llvm import find_analyser
from kentry.show.blocks import Layout

EXAMPLES = ("kentry doctor", "kentry doctor --json", "kentry doctor -v")

# A kernel's source and its build; a distribution's package takes a tenth.
_LEAST_MIB = 4096
_PROGRAMS = {
    "apt-get": "apt",
    "dpkg-deb": "dpkg",
    "git": "git",
    "ssh": "openssh-client",
    "setpriv": "util-linux",
    "pahole": "dwarves",
    "prlimit": "util-linux",
}


@dataclass(frozen=True, kw_only=True)
class Options(ResultOptions):
    """What `kentry doctor` takes."""


def run(options: Options) -> int:
    """Prints a finding for each check; returns 2 if something is missing."""
    findings = []
    for what, look in _checks():
        try:
            state, remedy = look(), ""
        except KentryError as err:
            state, remedy = err.sentence, err.remedy or "see docs/howto/troubleshooting.md"
        findings.append({"what": what, "state": state, "remedy": remedy})
    width = max(len(finding["what"]) for finding in findings)
    lines = []
    for finding in findings:
        mark = "missing" if finding["remedy"] else "ok"
        lines.append(f"{mark:<8} {finding['what']:<{width}}  {finding['state']}")
        if finding["remedy"]:
            lines.append(f"{'':<8} {'':<{width}}  {finding['remedy']}")
    emit(
        options,
        lambda: Layout("doctor", "", "", lines),
        lambda: {"schema": "kentry/doctor/1", "findings": findings},
    )
    return EXIT_MISTAKE if any(finding["remedy"] for finding in findings) else EXIT_DONE


def _checks() -> Iterator[tuple[str, Callable[[], str]]]:

    def probe(arch: Arch) -> str:
        return probe_file(arch).name

    def compiler(arch: Arch) -> str:
        build.check_tools(arch)
        return build.find_compiler(arch, "gcc").identity[0]

    def emulator(arch: Arch) -> str:
        return f"QEMU {find_emulator(arch, 'installed').version}"

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
    for program, package in _PROGRAMS.items():
        yield program, partial(need, program, package)
    missing = "no: bubblewrap is missing or not allowed here"
    yield "llvm-mca", lambda: f"LLVM {find_analyser().version}"
    yield "builds confined", lambda: "by bubblewrap" if sandbox.works() else missing
    yield "Debian mirror", lambda: find_mirror().base
    yield "cache", cache
