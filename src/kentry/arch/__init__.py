# SPDX-License-Identifier: GPL-2.0-or-later
"""Everything that differs between architectures: one frozen record each.

No other module asks which architecture it has.
"""

from __future__ import annotations

import platform
import re
from dataclasses import dataclass, field

from kentry.arch import vector as unit
from kentry.arch.vector import VectorSide
from kentry.errors import UserError


@dataclass(frozen=True)
class Trap:
    """Where the kernel takes an interrupt or exception: symbols matching `symbol`, + offset."""

    kind: str  # "irq" or "exception"
    symbol: re.Pattern[str]
    offset: int = 0


@dataclass(frozen=True)
class Linking:
    """How the disassembly spells what the linker chose; path/stream.py puts placeholders there.

    `rewrites` are applied to a path's text, a line an instruction.  `high` is an instruction that
    puts the upper part of an address into a register, `low` those that add the rest to their
    `base`: what to find and what to write.  `register` finds the registers of a line; its group
    is the same for all names of one.  `preserved` are those that a function leaves as they were,
    `global_pointer` the one that points into the middle of the data.
    """

    rewrites: tuple[tuple[re.Pattern[str], str], ...]
    high: re.Pattern[str] | None = None
    low: tuple[tuple[re.Pattern[str], str], ...] = ()
    register: re.Pattern[str] | None = None
    preserved: re.Pattern[str] | None = None
    global_pointer: str = ""


@dataclass(frozen=True)
class Arch:
    """One architecture: its names, its machine in QEMU, the shape of its kernel entry.

    `cpu` is QEMU's model, {vl} and {vq} its vector length in bits and in units of 128 bits; see
    cpu_with().  `boot_words` go on the guest kernel's command line.  `firmware` is the range of
    addresses, in the user half, where code below the kernel runs.  `stubs` are tables of code,
    an entry every 8 bytes or a multiple, through which interrupts reach `traps`.  `assembly`
    matches the symbols of the entry code written in assembly, `handlers` those of system call
    handlers, `calls` the disassembly of instructions that call, `linking` that of what was
    linked.  `kbuild` is ARCH= of the kernel's makefiles, `source_folder` the folder below arch/,
    `boot_target` what make makes for -kernel, `cores` are QEMU's models of real cores by their
    vector length, for core_with(), and `build_headers` maps headers that programs of its build
    include to Debian's packages.
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
    linking: Linking
    image_format: str
    image_magic: tuple[int, bytes]
    kbuild: str
    source_folder: str
    boot_target: str
    vector: VectorSide
    build_headers: dict[str, str] = field(default_factory=dict)
    cores: dict[int, str] = field(default_factory=dict)
    stubs: tuple[str, ...] = ()

    def cpu_with(self, length: int | None = None) -> str:
        """QEMU's cpu model with vectors of `length` bits, or of its own length."""
        bits = length or self.vector.units[0].lengths[0]
        return self.cpu.format(vl=bits, vq=bits // 128)

    def core_with(self, length: int | None = None) -> str:
        """As cpu_with(), but the model of a core people have, where there is one.

        User space looks at what a cpu has: with everything QEMU emulates, glibc's memcpy takes
        neither of arm64's vector instructions but those of FEAT_MOPS, which no core with SVE of
        2022 to 2024 has.
        """
        bits = length or self.vector.units[0].lengths[0]
        return self.cores.get(bits, self.cpu_with(length))


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
    linking=Linking(
        rewrites=(
            (re.compile(r"(?:-?\w+)?\(%rip\)"), "%addr(%rip)"),
            # Per-cpu variables, as in 6.1; 0x28 is the stack protector's canary, by the ABI.
            (re.compile(r"(%gs:)(?!0x28\b)0x[0-9a-f]+\b(?!\()"), r"\1%addr"),
            # The image is linked at 0xffffffff81000000, -0x7f000000 in 32 bits, and is less than
            # 512 MiB.  Constants that and, or, test take are masks.
            (
                re.compile(
                    r"^((?:mov|add|sub|cmp|push)q \$)"
                    r"(?:-0x(?:7[0-9a-e]|6[0-9a-f])[0-9a-f]{6}|-0x7f000000|0xffffffff[89][0-9a-f]{7})\b",
                    re.MULTILINE,
                ),
                r"\1%addr",
            ),
            (
                re.compile(
                    r"(?:-0x(?:7[0-9a-e]|6[0-9a-f])[0-9a-f]{6}|-0x7f000000)(?=\()"
                    r"|(?<![$\w])0xffff[89a-f][0-9a-f]{11}\b"
                ),
                "%addr",
            ),
            # What the kernel allocated and wrote into its code when it booted (runtime-const.h):
            # the direct map and above, Documentation/arch/x86/x86_64/mm.rst.
            (
                re.compile(
                    r"^(movabsq \$)0x(?!\w+0{7}\b)"
                    r"(?:ffff[89a-e][0-9a-f]{11}|ff[1-9a-d][0-9a-f]{13})\b",
                    re.MULTILINE,
                ),
                r"\1%addr",
            ),
        )
    ),
    image_format="bzImage",
    image_magic=(0x202, b"HdrS"),  # Documentation/arch/x86/boot.rst
    kbuild="x86_64",
    source_folder="x86",
    boot_target="bzImage",
    vector=unit.X86_64,
    build_headers={"gelf.h": "libelf-dev"},  # objtool
    stubs=("irq_entries_start", "spurious_entries_start"),  # arch/x86/include/asm/idtentry.h
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
    # visible in instruction counts.  sve-max-vq: the default is 2048 bits.
    cpu="max,pauth-impdef=on,sve-max-vq={vq}",
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
    linking=Linking(
        rewrites=(
            (re.compile(r"^(adrp x\d+, ).*$", re.MULTILINE), r"\1%hi"),
            # One version of kentry left the # off.
            (re.compile(r"#(?=0xffff[0-9a-f]{12}\b)"), ""),
            # Near addresses without a name: of branches, adr and literals.
            (
                re.compile(
                    r"^((?:adr|bl?|b\.\w+|cbn?z|tbn?z|ldr|ldrsw) [^\[\n]*)0xffff[0-9a-f]{12}$",
                    re.MULTILINE,
                ),
                r"\1%addr",
            ),
            # What the kernel allocated and wrote into its code when it booted (runtime-const.h);
            # a compiler makes no constant like it of all four parts.
            (
                re.compile(
                    r"^(movz (x\d+), )#\w+\n(movk \2, )#\w+(, lsl #16\nmovk \2, )#\w+"
                    r"(, lsl #32\nmovk \2, )#0xfff[0f](, lsl #48)$",
                    re.MULTILINE,
                ),
                r"\1%addr\n\3%addr\4%addr\5%addr\6",
            ),
        ),
        high=re.compile(r"adrp x(\d+), %hi"),
        # 12 bits.
        low=(
            (
                re.compile(r"(add x\d+, x(?P<base>\d+), )#(?P<low>0x[0-9a-f]{1,3}|\d)$"),
                r"\1%lo",
            ),
            (
                re.compile(
                    r"((?:ld|st|prf)\w+ [^\[]+\[x(?P<base>\d+))"
                    r"(?:, #(?P<low>0x[0-9a-f]{1,3}|\d))?\]$"
                ),
                r"\1, %lo]",
            ),
        ),
        register=re.compile(r"\b[xw](\d+)\b"),
        preserved=re.compile(r"19|2\d"),  # AAPCS64
    ),
    image_format="Image",
    image_magic=(0x38, b"ARMd"),  # Documentation/arch/arm64/booting.rst
    kbuild="arm64",
    source_folder="arm64",
    boot_target="Image",
    vector=unit.ARM64,
    cores={128: "neoverse-n2,pauth-impdef=on", 256: "neoverse-v1,pauth-impdef=on"},
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
    cpu="rv64,v=true,vlen={vl},vext_spec=v1.0",
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
    linking=Linking(
        # lui is left as it is: the kernel's code model is medany, where symbols are found from
        # the program counter, and lui makes constants.
        rewrites=(
            (re.compile(r"^(auipc \w+,).*$", re.MULTILINE), r"\1%hi"),
            # Numbers are decimal: these are the targets that have no name.
            (re.compile(r"(?:-?\w+ # )?0xffff[0-9a-f]{12}$", re.MULTILINE), "%addr"),
        ),
        high=re.compile(r"auipc (\w+),%hi"),
        # Where the number is 0, addi is shown as mv, and jalr as jr.
        low=(
            (
                re.compile(r"(?:addi|mv) (\w+),(?P<base>\w+)(?:,(?P<low>-?\d+))?$"),
                r"addi \1,\2,%lo",
            ),
            (re.compile(r"(jalr \w+,(?P<base>\w+),)(?P<low>-?\d+)$"), r"\1%lo"),
            (re.compile(r"jr (?P<base>\w+)(?P<low>)$"), r"jalr zero,\1,%lo"),
            (re.compile(r"(f?[ls]\w+ \w+,)(?P<low>-?\d+)\((?P<base>\w+)\)$"), r"\1%lo(\3)"),
        ),
        register=re.compile(r"\b(ra|gp|tp|t[0-6]|s\d+|a[0-7])\b"),
        preserved=re.compile(r"gp|s\d+"),  # the RISC-V calling convention
        global_pointer="gp",
    ),
    image_format="Image",
    image_magic=(0x38, b"RSC\x05"),  # Documentation/arch/riscv/boot-image-header.rst
    kbuild="riscv",
    source_folder="riscv",
    boot_target="Image",
    vector=unit.RISCV64,
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
