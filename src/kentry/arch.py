# SPDX-License-Identifier: GPL-2.0-or-later
"""Everything that differs between architectures: one frozen record each.

No other module asks which architecture it has.
"""

from __future__ import annotations

import platform
import re
from dataclasses import dataclass

from kentry.errors import UserError


@dataclass(frozen=True)
class Trap:
    """Where the kernel takes an interrupt or exception: symbols matching `symbol`, + offset."""

    kind: str  # "irq" or "exception"
    symbol: re.Pattern[str]
    offset: int = 0


@dataclass(frozen=True)
class Arch:
    """One architecture: its names, its machine in QEMU, the shape of its kernel entry.

    `boot_words` go on the guest kernel's command line.  `firmware` is the range of addresses,
    in the user half, where code below the kernel runs.  `assembly` matches the symbols of the
    entry code written in assembly, `handlers` those of system call handlers, `calls` the
    disassembly of instructions that call.
    """

    name: str
    aliases: tuple[str, ...]
    debian: str
    flavour: str
    cross: str
    compiler_package: str
    elf_machine: str
    qemu: str
    qemu_package: str
    qemu_split_package: str
    machine: str
    cpu: str
    console: str
    boot_words: tuple[str, ...]
    entries: tuple[str, ...]
    firmware: tuple[int, int] | None
    traps: tuple[Trap, ...]
    assembly: re.Pattern[str]
    handlers: re.Pattern[str]
    calls: re.Pattern[str]
    image_format: str
    image_magic: tuple[int, bytes]


_X86_64 = Arch(
    name="x86_64",
    aliases=("amd64", "x86-64"),
    debian="amd64",
    flavour="amd64",
    cross="x86_64-linux-gnu-",
    compiler_package="gcc-x86-64-linux-gnu",
    elf_machine="EM_X86_64",
    qemu="qemu-system-x86_64",
    qemu_package="qemu-system-x86",
    qemu_split_package="qemu-system-x86",
    machine="q35",
    # cx16=off: QEMU 7.2's cmpxchg16b makes 6.12 guests double-fault at random.
    cpu="max,cx16=off",
    console="ttyS0",
    # Without the APIC timer its calibration, a third of the boot, is left out; ticks come
    # from the PIT or HPET, and no path of a case changes.
    boot_words=("nolapic_timer",),
    entries=("syscall", "int80"),
    firmware=None,
    traps=(
        Trap("irq", re.compile(r"asm_sysvec_\w+|asm_common_interrupt|asm_spurious_interrupt")),
        Trap("exception", re.compile(r"asm_exc_\w+")),
    ),
    assembly=re.compile(
        r"entry_\w+|asm_\w+|error_(entry|return)|swapgs_\w+|syscall_return_via_sysret"
        r"|common_interrupt_return|restore_\w+|\w*untrain_ret|srso_\w+|retbleed_\w+"
        r"|clear_bhb_loop|native_irq_return_\w+|early_xen_iret_patch|native_iret|__x86_\w+|\w*paranoid_\w+"
    ),
    handlers=re.compile(r"(__do_sys|__se_sys|__(x64|ia32|ia32_compat)_(compat_)?sys)_\w+"),
    calls=re.compile(r"call"),
    image_format="bzImage",
    image_magic=(0x202, b"HdrS"),  # Documentation/arch/x86/boot.rst
)

_ARM64 = Arch(
    name="arm64",
    aliases=("aarch64",),
    debian="arm64",
    flavour="arm64",
    cross="aarch64-linux-gnu-",
    compiler_package="gcc-aarch64-linux-gnu",
    elf_machine="EM_AARCH64",
    qemu="qemu-system-aarch64",
    qemu_package="qemu-system-arm",
    qemu_split_package="qemu-system-arm",
    machine="virt",
    # pauth-impdef=on: the architected hash makes emulation twice as slow and is not
    # visible in instruction counts.  sve-max-vq=1: 128 bits; the default is 2048.
    cpu="max,pauth-impdef=on,sve-max-vq=1",
    console="ttyAMA0",
    boot_words=(),
    entries=("svc",),
    firmware=None,
    traps=(
        # Offsets into the vector table: Arm ARM, D1.10.2; 0x80 bytes a vector.
        Trap("irq", re.compile(r"vectors"), 0x280),  # current EL with SP_ELx: IRQ
        Trap("irq", re.compile(r"vectors"), 0x300),  # FIQ
        Trap("irq", re.compile(r"vectors"), 0x480),  # lower EL, AArch64: IRQ
        Trap("irq", re.compile(r"vectors"), 0x500),  # FIQ
        Trap("exception", re.compile(r"vectors"), 0x200),  # current EL: synchronous
        Trap("exception", re.compile(r"vectors"), 0x380),  # SError
    ),
    assembly=re.compile(
        r"vectors|el\dt?h?_\d\d_(sync|irq|fiq|error)|ret_to_(user|kernel)|tramp_\w+|__bp_\w+"
    ),
    handlers=re.compile(r"(__do_sys|__se_sys|__arm64_(compat_)?sys)_\w+"),
    calls=re.compile(r"blr?\b|blra\w*"),
    image_format="Image",
    image_magic=(0x38, b"ARMd"),  # Documentation/arch/arm64/booting.rst
)

_RISCV64 = Arch(
    name="riscv64",
    aliases=("riscv",),
    debian="riscv64",
    flavour="riscv64",
    cross="riscv64-linux-gnu-",
    compiler_package="gcc-riscv64-linux-gnu",
    elf_machine="EM_RISCV",
    qemu="qemu-system-riscv64",
    qemu_package="qemu-system-misc",
    qemu_split_package="qemu-system-riscv",
    machine="virt",
    cpu="rv64,v=true,vlen=128,vext_spec=v1.0",
    console="ttyS0",
    boot_words=(),
    entries=("ecall",),
    # OpenSBI, at the start of the virt machine's memory; the kernel is 2 MiB above.
    firmware=(0x80000000, 0x80200000),
    traps=(
        # One vector takes everything, so the causes are told apart by their C handlers.
        # do_irq: since 6.2 or so; before it, generic_handle_arch_irq from assembly.
        Trap("irq", re.compile(r"do_irq|generic_handle_arch_irq")),
        Trap("exception", re.compile(r"do_page_fault|do_trap_(?!ecall_u)\w+")),
    ),
    # Kernels before 6.4 also dispatch system calls there (commit f0bddf50586d).
    assembly=re.compile(
        r"handle_(exception|syscall)|ret_from_(exception|syscall\w*)|resume_(userspace|kernel)"
        r"|restore_all|check_syscall_nr|work_\w+|_save_context|_restore_\w+"
    ),
    handlers=re.compile(r"(__do_sys|__se_sys|__riscv_(compat_)?sys|sys)_\w+"),
    calls=re.compile(r"(c\.)?jalr?\s+ra,|c\.jalr|call"),
    image_format="Image",
    image_magic=(0x38, b"RSC\x05"),  # Documentation/arch/riscv/boot-image-header.rst
)

ARCHES: dict[str, Arch] = {arch.name: arch for arch in (_ARM64, _RISCV64, _X86_64)}


def find_arch(name: str) -> Arch:
    """The record for a name or alias; UserError lists the known ones."""
    for arch in ARCHES.values():
        if name == arch.name or name in arch.aliases:
            return arch
    raise UserError(f"Unknown architecture '{name}'.", f"Use one of: {', '.join(ARCHES)}.")


def host_arch() -> Arch:
    """This machine's own; UserError where kentry does not know it."""
    return find_arch(platform.machine())
