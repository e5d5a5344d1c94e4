# SPDX-License-Identifier: GPL-2.0-or-later
"""Everything that differs between architectures: one record each.

No other module asks which architecture it has.
"""

import platform

from kentry.arch.arm64 import ARM64
from kentry.arch.record import Arch
from kentry.arch.riscv64 import RISCV64
from kentry.arch.x86_64 import X86_64
from kentry.errors import UserError, did_you_mean

__all__ = ["ARCHES", "Arch", "find_arch", "host_arch"]

ARCHES: dict[str, Arch] = {arch.name: arch for arch in (ARM64, RISCV64, X86_64)}

# Go's GOARCH (internal/goarch) where it is not the kernel's name, imported recordings included.
GOARCH = {"x86_64": "amd64", "loongarch64": "loong64", "powerpc": "ppc64"}


def find_arch(name: str) -> Arch:
    """Returns the record for a name or alias; UserError lists the supported ones."""
    for arch in ARCHES.values():
        if name == arch.name or name in arch.aliases:
            return arch
    meant = did_you_mean(name, ARCHES)
    raise UserError(f"Unknown architecture '{name}'.{meant}", f"Use one of: {', '.join(ARCHES)}.")


def host_arch() -> Arch:
    """This machine's architecture; UserError where kentry does not support it."""
    return find_arch(platform.machine())
