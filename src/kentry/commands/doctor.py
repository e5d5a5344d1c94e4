# SPDX-License-Identifier: GPL-2.0-or-later
"""kentry doctor: what is missing here, and the command that installs it."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from kentry.errors import EXIT_DONE, EXIT_MISTAKE, KentryError

if TYPE_CHECKING:
    from kentry.arch import Arch

NAME = "doctor"
HELP = "say what is missing here, and the command that installs it"

# A kernel's source with what is built of it; a distribution's package takes a tenth.
_SPACE_WANTED_MIB = 4096


@dataclass(frozen=True)
class Finding:
    """One thing looked at: `state` is what was found, `remedy` empty when all is well."""

    what: str
    state: str
    remedy: str = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")


def run(args: argparse.Namespace) -> int:
    """Looks, prints, and exits with 2 where something is missing."""
    findings = list(_look())
    if args.json:
        document = {"schema": "kentry/doctor/1", "findings": [asdict(f) for f in findings]}
        sys.stdout.write(json.dumps(document, indent=1) + "\n")
    else:
        width = max(len(finding.what) for finding in findings)
        for finding in findings:
            mark = "missing" if finding.remedy else "ok"
            print(f"{mark:<8} {finding.what:<{width}}  {finding.state}")
            if finding.remedy:
                print(f"{'':<8} {'':<{width}}  {finding.remedy}")
    return EXIT_MISTAKE if any(finding.remedy for finding in findings) else EXIT_DONE


def _look() -> Iterator[Finding]:
    from kentry.arch import ARCHES
    from kentry.host.native import plugin_file, probe_file
    from kentry.runners.emulator import find_emulator

    yield _try("QEMU plugin", lambda: str(plugin_file().name))
    for arch in ARCHES.values():
        yield _try(f"{arch.name}: probe", lambda arch=arch: probe_file(arch).name)  # type: ignore[misc]
        yield _try(
            f"{arch.name}: emulator",
            lambda arch=arch: f"QEMU {find_emulator(arch, 'installed').version}",  # type: ignore[misc]
        )
        yield _try(f"{arch.name}: kernel builds", lambda arch=arch: _builds(arch))  # type: ignore[misc]
    for program, package in (
        ("apt-get", "apt"),
        ("dpkg-deb", "dpkg"),
        ("git", "git"),
        ("ssh", "openssh-client"),
        ("setpriv", "util-linux"),
        ("pahole", "dwarves"),
        ("prlimit", "util-linux"),
    ):
        yield _program(program, package)
    yield Finding("builds confined", _confined())
    yield _try("Debian mirror", _mirror)
    yield _try("cache", _cache)


def _try(what: str, look: Callable[[], str]) -> Finding:
    try:
        return Finding(what, look())
    except KentryError as err:
        return Finding(what, err.sentence, err.remedy or "see docs/howto/troubleshooting.md")


def _program(program: str, package: str) -> Finding:
    from kentry.host.process import need

    return _try(program, lambda: need(program, package))


def _builds(arch: Arch) -> str:
    from kentry.kernels import toolchain

    toolchain.check_tools(arch)
    return toolchain.find(arch, "gcc").identity[0]


def _confined() -> str:
    from kentry.kernels import sandbox

    return "by bubblewrap" if sandbox.works() else "no: bubblewrap is missing or not allowed here"


def _mirror() -> str:
    from kentry.host.mirror import find_mirror

    return find_mirror().base


def _cache() -> str:
    from kentry.errors import UserError
    from kentry.host.cache import cache_dir

    folder = cache_dir()
    free = shutil.disk_usage(folder).free >> 20
    if free < _SPACE_WANTED_MIB:
        raise UserError(
            f"{folder} has {free} MiB free, {_SPACE_WANTED_MIB} are wanted.",
            "Free some, or name another folder in KENTRY_CACHE.",
        )
    return f"{folder}, {free} MiB free"
