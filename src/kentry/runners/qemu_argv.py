# SPDX-License-Identifier: GPL-2.0-or-later
"""QEMU's command line as far as it does not matter what runs in the guest.

The guest is untrusted: no network device, QEMU's seccomp sandbox on, no default devices,
its memory and file size limited, and it dies with kentry.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kentry.arch import Arch
from kentry.host.process import need
from kentry.runners.emulator import Emulator

# What machine_argv() asks for, for a recording's "target".
ACCELERATOR = "tcg, one thread, -icount shift=0,sleep=off"

# Address space QEMU may take beyond the guest's memory: its code, 1 GiB of translated
# code at most, and thread stacks.
_QEMU_OVERHEAD_MIB = 4096
# No file QEMU writes (the trace) may grow beyond this.
_FILE_LIMIT_MIB = 1024

# The guest has a serial port and nothing else, and QEMU may do little.
ALONE = (
    *("-nodefaults", "-no-user-config", "-no-reboot", "-display", "none"),
    *("-nic", "none", "-monitor", "none", "-serial", "stdio"),
    *("-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"),
)


def machine_argv(
    emulator: Emulator,
    arch: Arch,
    cpu: str,
    memory: int,
    seed: int,
    file_limit: int = _FILE_LIMIT_MIB,
) -> list[str]:
    """The command up to what is booted: `memory` and `file_limit` in MiB."""
    return [
        # The guest must not outlive us, whatever ends us.
        *(need("setpriv", "util-linux"), "--pdeathsig", "KILL", "--"),
        *limits(memory, file_limit),
        *emulator.argv,
        *("-machine", arch.machine, "-cpu", cpu),
        *("-accel", "tcg,thread=single", "-smp", "1", "-m", f"{memory}M"),
        *exact(seed),
        *ALONE,
    ]


def limits(memory: int, file_limit: int = _FILE_LIMIT_MIB) -> list[str]:
    """What goes before QEMU, so that it takes no more than its share."""
    mib = 1 << 20
    return [
        need("prlimit", "util-linux"),
        f"--as={(memory + _QEMU_OVERHEAD_MIB) * mib}",
        f"--fsize={file_limit * mib}",
        *("--core=0", "--"),
    ]


def exact(seed: int) -> list[str]:
    """Time is counted in instructions and starts at a fixed date: every run alike."""
    return [
        *("-icount", "shift=0,sleep=off", "-seed", str(seed)),
        *("-rtc", "base=2020-01-01T00:00:00,clock=vm"),
    ]


def plugin_argument(plugin: Path, arch: Arch, words: Sequence[str]) -> str:
    """-plugin's argument: the file, what is firmware, and `words`."""
    firmware = ["firmware={:x}-{:x}".format(*arch.firmware)] if arch.firmware else []
    # QEMU splits options at commas; a doubled one stands for itself.
    return ",".join(word.replace(",", ",,") for word in [str(plugin), *words, *firmware])
