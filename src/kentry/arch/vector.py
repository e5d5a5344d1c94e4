# SPDX-License-Identifier: GPL-2.0-or-later
"""What an architecture record says about its vector units, and how events are known.

A marker is found in the kernel's own symbols and encodings, never at a typed-in address.
Encodings are from the instruction sets' manuals; in which functions they stand was read in
Linux 6.1, 6.12 and 7.3 (arch/arm64/kernel/fpsimd.c, arch/riscv/include/asm/vector.h,
arch/x86/kernel/fpu/).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from kentry.model.case_name import State


@dataclass(frozen=True)
class Unit:
    """A vector unit: `name` as in a case's state, `what` as people call it.

    `lengths` are the vector lengths in bits that the emulated cpu can have, the first its own;
    `option` is the kernel's config option, `hint` what else is to be said when it is missing.
    """

    name: str
    what: str
    lengths: tuple[int, ...]
    option: str
    hint: str = ""


@dataclass(frozen=True)
class Marker:
    """How an event is known among executed instructions.

    By the first instruction of a function that `symbol` matches, or by an instruction whose
    bytes `code` matches: outside the functions that `outside` matches, directly behind one that
    `behind` matches, in a call of a function that `within` matches, where these are given.
    `repeats`: it stands in a loop, whose turns in a row are one event.
    """

    event: str
    label: str
    symbol: re.Pattern[str] | None = None
    code: re.Pattern[bytes] | None = None
    outside: re.Pattern[str] | None = None
    behind: re.Pattern[bytes] | None = None
    within: re.Pattern[str] | None = None
    repeats: bool = False


@dataclass(frozen=True)
class VectorSide:
    """All that is vector about an architecture.

    `switch` is the function in which one task's stack is left for another's; `settled` the one
    before which the task that was left may yet be saved, where that is not done before `switch`;
    `entered` are the labels behind the vectors for user mode, with the tasks plugin's word for
    each; `fork` is called with the new task and saves the parent's registers.  `alignment` is
    the bytes an instruction's address is a multiple of; `unmodelled` what may be asked for and no
    emulator has, by unit or by unit and length, with a sentence each.  `policies` are what Linux
    does about the state of a task that does not use it any more, each from the release on that it
    names; `trap_classes` the exceptions that a first use may be (ESR_EL1.EC, scause).
    """

    units: tuple[Unit, ...]
    markers: tuple[Marker, ...]
    switch: str
    alignment: int
    policies: tuple[tuple[tuple[int, int], str], ...]
    trap_classes: tuple[int, ...] = ()
    settled: str = ""
    fork: str = "arch_dup_task_struct"
    entered: tuple[tuple[re.Pattern[str], str], ...] = ()
    unmodelled: Mapping[str, str] = field(default_factory=dict)

    def unit(self, name: str) -> Unit | None:
        """The unit of that name."""
        return next((unit for unit in self.units if unit.name == name), None)

    def policy_of(self, release: tuple[int, int]) -> str:
        """The policy of Linux of that release."""
        return max(row for row in self.policies if row[0] <= release)[1]

    def bits(self, state: State) -> int:
        """The vector length of a state: its own, or that which the cpu model has."""
        return state.length or (self.unit(state.unit) or self.units[0]).lengths[0]


def word(mask: int, value: int) -> re.Pattern[bytes]:
    """Matches a 32-bit instruction, least significant byte first, by value under a mask."""
    classes = []
    for shift in range(0, 32, 8):
        m, v = mask >> shift & 0xFF, value >> shift & 0xFF
        fitting = [byte for byte in range(256) if byte & m == v]
        classes.append(b"[" + b"".join(b"\\x%02x" % byte for byte in fitting) + b"]")
    return re.compile(b"".join(classes), re.DOTALL)


def _function(event: str, name: str, within: str | None = None) -> Marker:
    where = f" in {within.replace('|', ' or ')}" if within else ""
    label = re.sub(r"\\w[*+]", "*", name).replace("|", " or ")
    return Marker(
        event,
        f"entry of {label}{where}",
        symbol=re.compile(name),
        within=re.compile(within) if within else None,
    )


_ALLOCATORS = r"kmem_cache_alloc\w*|__kmalloc\w*|kmalloc\w*|vmalloc\w*"

# QEMU takes 256 bits for SME, whatever it has for SVE.
_SME_LENGTHS = (256, 128, 512, 1024, 2048)

ARM64 = VectorSide(
    units=(
        Unit("vec", "SVE", (128, 256, 512, 1024, 2048), "ARM64_SVE"),
        Unit(
            "ssve",
            "streaming SVE (SME)",
            _SME_LENGTHS,
            "ARM64_SME",
            "Linux 6.12's Kconfig marks SME broken; 7.0 and later have it.",
        ),
        Unit(
            "za",
            "ZA (SME)",
            _SME_LENGTHS,
            "ARM64_SME",
            "Linux 6.12's Kconfig marks SME broken; 7.0 and later have it.",
        ),
    ),
    markers=(
        _function("trap", "do_sve_acc"),
        _function("sme-trap", "do_sme_acc"),
        # wrffr also ends the loading of SVE registers.
        Marker(
            "flush",
            "wrffr p0.b, not where registers are loaded",
            code=word(0xFFFFFFFF, 0x25289000),
            outside=re.compile(r"\w*(load|restore)\w*"),
        ),
        # CPACR_EL1.ZEN, bit 17: EL0's access is taken away.
        Marker(
            "drop",
            "msr cpacr_el1 behind and #~(1 << 17)",
            code=word(0xFFFFFFE0, 0xD5181040),
            behind=word(0xFFFFFC00, 0x926EF800),
        ),
        Marker("smstop", "smstop sm", code=word(0xFFFFFFFF, 0xD503427F)),
        Marker("save", "rdffr p0.b", code=word(0xFFFFFFFF, 0x2519F000)),
        Marker("restore", "ldr z31, [xN]", code=word(0xFFC0E01F, 0x8580401F)),
        Marker("fpsimd-save", "stp q30, q31, [xN, #480]", code=word(0xFF7FFC1F, 0xAD0F7C1E)),
        Marker("fpsimd-restore", "ldp q30, q31, [xN, #480]", code=word(0xFF7FFC1F, 0xAD4F7C1E)),
        Marker("za-save", "str za", code=word(0xFFFF9C10, 0xE1200000), repeats=True),
        Marker("za-restore", "ldr za", code=word(0xFFFF9C10, 0xE1000000), repeats=True),
        _function("kernel-use", "kernel_neon_begin"),
        _function("allocation", _ALLOCATORS, within="sve_alloc|sme_alloc"),
    ),
    switch="cpu_switch_to",
    # arch/arm64/kernel/entry.S: every table of vectors jumps to them.
    entered=(
        (re.compile(r"el0t_(32|64)_sync"), "entered"),
        (re.compile(r"el0t_(32|64)_(irq|fiq|error)"), "interrupted"),
    ),
    alignment=4,
    # 8c845e273104 ("arm64/sve: Leave SVE enabled on syscall if we don't context switch"), 6.2.
    policies=(((0, 0), "drop-each-syscall"), ((6, 2), "drop-on-load")),
    trap_classes=(0x19, 0x1D),  # SVE, SME: arch/arm64/include/asm/esr.h
)

RISCV64 = VectorSide(
    units=(
        Unit(
            "vec", "V", (128, 256, 512, 1024), "RISCV_ISA_V", "Linux 6.5 and later have the option."
        ),
    ),
    markers=(
        _function("trap", "riscv_v_first_use_handler"),
        Marker("discard", "vmv.v.i v0,-1", code=word(0xFFFFFFFF, 0x5E0FB057)),
        # The last group of registers: copies to and from user space use only the first.
        Marker(
            "save",
            "vse8.v v24,(rs)",
            code=word(0xFFF07FFF, 0x02000C27),
            outside=re.compile(r"xor_regs_\w+"),
        ),
        Marker(
            "restore",
            "vle8.v v24,(rs)",
            code=word(0xFFF07FFF, 0x02000C07),
            outside=re.compile(r"xor_regs_\w+"),
        ),
        _function("kernel-use", "kernel_vector_begin"),
        _function("allocation", _ALLOCATORS, within=r"riscv_v_first_use_handler"),
    ),
    switch="__switch_to",
    alignment=2,
    policies=(((0, 0), "discard"),),
    trap_classes=(2,),  # illegal instruction
)


def _xsave_like(regs_ae: str, regs_c7: str) -> re.Pattern[bytes]:
    """REX.W 0F AE /r or 0F C7 /r with an operand in memory, r one of the digits given."""

    def modrm(digits: str) -> bytes:
        fitting = [b for b in range(0xC0) if str(b >> 3 & 7) in digits]
        return b"[" + b"".join(b"\\x%02x" % b for b in fitting) + b"]"

    alternatives = [b"\\xae" + modrm(regs_ae), b"\\xc7" + modrm(regs_c7)]
    return re.compile(b"[\\x48-\\x4f]\\x0f(?:" + b"|".join(alternatives) + b")", re.DOTALL)


X86_64 = VectorSide(
    units=(Unit("vec", "AVX2", (256,), "X86"),),
    markers=(
        _function("trap", "exc_device_not_available"),
        Marker("save", "xsave, xsaveopt, xsavec, xsaves or fxsave", code=_xsave_like("046", "45")),
        Marker("restore", "xrstor, xrstors or fxrstor", code=_xsave_like("15", "3")),
        _function("kernel-use", r"kernel_fpu_begin_mask"),
    ),
    switch="__switch_to_asm",
    # __switch_to() saves the previous task's registers on the next one's stack.
    settled="finish_task_switch",
    fork="fpu_clone",
    alignment=1,
    policies=(((0, 0), "eager"),),
    unmodelled={
        "amx": "QEMU's software emulation has no AMX, up to 11.1",
        "avx512": "QEMU's software emulation has no AVX-512, up to 11.1",
        "vec 512": "512 bits are AVX-512, which QEMU's software emulation has not, up to 11.1",
        "vec 128": "128 bits are SSE's registers, which every program has live",
    },
)
