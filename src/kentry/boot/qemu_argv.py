# SPDX-License-Identifier: GPL-2.0-or-later
"""QEMU's command line, and the kernel's.

The guest is untrusted: no network device, QEMU's seccomp sandbox on, no default devices, its
memory and file size limited.
"""

import os
import resource
from collections.abc import Sequence
from pathlib import Path

from kentry.arch import Arch
from kentry.boot.emulator import Emulator
from kentry.errors import MachineError
from kentry.host.process import need
from kentry.kernels.kernel import Kernel

KVM, TCG, ICOUNT = "kvm", "tcg", "icount"

# As a recording's "target" names them.
ACCELERATORS = {
    KVM: "kvm",
    TCG: "tcg, one thread",
    ICOUNT: "tcg, one thread, -icount shift=0,sleep=off",
}

# With these every boot of a kernel runs the same instructions; the other lets its stacks vary.
STEADY = ("nokaslr", "randomize_kstack_offset=off")
RANDOM = ("randomize_kstack_offset=on",)

# Address space QEMU may take beyond the guest's memory: its code, 1 GiB of translated
# code at most, and thread stacks.
_QEMU_OVERHEAD_MIB = 4096
# No file QEMU writes (the trace) may grow beyond this.
_FILE_LIMIT_MIB = 1024

# The guest has a serial port and nothing else, and QEMU may do little.
_ALONE = (
    *("-nodefaults", "-no-user-config", "-no-reboot", "-display", "none"),
    *("-nic", "none", "-monitor", "none", "-serial", "stdio"),
    *("-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"),
)


def machine_argv(
    emulator: Emulator,
    arch: Arch,
    cpu: str,
    memory: int,
    seed: int = 1,
    accelerator: str = ICOUNT,
    file_limit: int = _FILE_LIMIT_MIB,
) -> list[str]:
    """The command line but for what is booted; `memory` and `file_limit` are in MiB.

    Under ICOUNT the guest's time counts instructions (one a nanosecond) from a fixed date, so
    every run with the same `seed` is alike.  MachineError where this process may not take so much.
    """
    mib = 1 << 20
    allowed = resource.getrlimit(resource.RLIMIT_AS)[1] // mib
    if 0 <= allowed < memory + _QEMU_OVERHEAD_MIB and os.geteuid():
        raise MachineError(
            f"QEMU needs {memory + _QEMU_OVERHEAD_MIB} MiB of memory (address space), and the limit"
            f" here is {allowed} MiB.",
            "Raise the limit (ulimit -v unlimited), or give the guest less: --memory.",
        )
    argv = [
        *(need("prlimit", "util-linux"), f"--as={(memory + _QEMU_OVERHEAD_MIB) * mib}"),
        *(f"--fsize={file_limit * mib}", "--core=0", "--", *emulator.argv),
        *("-machine", arch.machine, "-cpu", cpu),
        *("-accel", "kvm" if accelerator == KVM else "tcg,thread=single"),
        *("-smp", "1", "-m", f"{memory}M", *_ALONE),
    ]
    if accelerator == ICOUNT:
        argv += ["-icount", "shift=0,sleep=off", "-seed", str(seed)]
        argv += ["-rtc", "base=2020-01-01T00:00:00,clock=vm"]
    return argv


def boot_argv(kernel: Kernel, initramfs: Path, words: Sequence[str]) -> list[str]:
    """What is booted; `words` are the kernel's command line, and init's after "--"."""
    return [
        *("-kernel", str(kernel.image), "-initrd", str(initramfs)),
        *("-append", " ".join(words)),
    ]


def kernel_words(
    arch: Arch, steadiness: Sequence[str] = STEADY, accelerator: str = ICOUNT
) -> list[str]:
    """The kernel's own words; `steadiness` is STEADY, RANDOM or nothing."""
    # panic=-1: reboot at once, which -no-reboot turns into QEMU's end.
    words = ["panic=-1", "quiet", f"console={arch.console}"]
    # boot_words shorten an emulated boot; on a processor they would choose another timer.
    return [*words, *(() if accelerator == KVM else arch.boot_words), *steadiness]


def plugin_argv(plugin: Path, arch: Arch, words: Sequence[str]) -> list[str]:
    """Loads a plugin: its file, `words`, and which addresses are firmware."""
    firmware = ["firmware={:x}-{:x}".format(*arch.firmware)] if arch.firmware else []
    # QEMU splits options at commas; a doubled one stands for itself.
    argument = ",".join(word.replace(",", ",,") for word in [str(plugin), *words, *firmware])
    return ["-plugin", argument]
