# SPDX-License-Identifier: GPL-2.0-or-later
"""x86-64: its names, its machine, its kernel entry, its vector unit (AVX2)."""

import re

from kentry.arch.mechanism import VEC, Act, CountingRules, Mechanism
from kentry.arch.record import (
    FLOOR_ASSEMBLY,
    FLOOR_HANDLERS,
    Arch,
    Counter,
    Linking,
    Marker,
    Trap,
    Unit,
    VectorSide,
    function_marker,
)


def _xsave_like(regs_ae: str, regs_c7: str) -> re.Pattern[bytes]:
    """REX.W 0F AE /r or 0F C7 /r with an operand in memory, r one of the digits given."""

    def modrm(digits: str) -> bytes:
        fitting = [b for b in range(0xC0) if str(b >> 3 & 7) in digits]
        return b"[" + b"".join(b"\\x%02x" % b for b in fitting) + b"]"

    alternatives = [b"\\xae" + modrm(regs_ae), b"\\xc7" + modrm(regs_c7)]
    return re.compile(b"[\\x48-\\x4f]\\x0f(?:" + b"|".join(alternatives) + b")", re.DOTALL)


# arch/x86 in 6.12.117.  A switch-out and kernel_fpu_begin() save all state if it was loaded since
# (kernel/process_64.c:619, kernel/fpu/core.c:457).  It is loaded on the way to user mode unless
# the registers hold it (kernel/fpu/context.h:54-80).  A system call does nothing to it.  A fork
# stores it in the child (core.c:667), after a load where one was due.  A signal stores it in the
# frame, then resets the registers (fpu/signal.c:219, core.c:790).
_MECHANISM = Mechanism(
    always_open=True,
    drops=False,
    lazy=True,
    discards=False,
    exit_dirties=True,
    trap_loads=True,
    fork_loads=True,
    signal_resets=True,
    sigreturn_loads=True,
    sigreturn_closes=False,
    flush=Act.NOTHING,
    kernel_save=Act.NOTHING,
    kernel_restore=Act.NOTHING,
)

_VECTOR = VectorSide(
    units=(Unit("vec", "AVX2", (256,), "X86"),),
    markers=(
        function_marker("trap", "exc_device_not_available"),
        Marker("save", "xsave, xsaveopt, xsavec, xsaves or fxsave", code=_xsave_like("046", "45")),
        Marker("restore", "xrstor, xrstors or fxrstor", code=_xsave_like("15", "3")),
        function_marker("kernel-use", r"kernel_fpu_begin_mask"),
    ),
    switch="__switch_to_asm",
    # __switch_to() saves the previous task's registers on the next one's stack.
    settled="finish_task_switch",
    fork="fpu_clone",
    alignment=1,
    policies=(((0, 0), "eager"),),
    mechanisms={VEC: (((0, 0), _MECHANISM),)},
    counting=CountingRules(
        events={"trap": "trap", "save": "save", "restore": "restore"},
        calls={"save": "save_fpregs_to_fpstate", "restore": "switch_fpu_return"},
    ),
    unmodelled={
        "amx": "QEMU's software emulation has no AMX, up to 11.1",
        "avx512": "QEMU's software emulation has no AVX-512, up to 11.1",
        "vec 512": "512 bits are AVX-512, which QEMU's software emulation has not, up to 11.1",
        "vec 128": "128 bits are SSE's registers, which every program has live",
    },
)

X86_64 = Arch(
    name="x86_64",
    aliases=("amd64", "x86-64"),
    debian="amd64",
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
    traps=(
        Trap("irq", re.compile(r"asm_sysvec_\w+|asm_common_interrupt|asm_spurious_interrupt")),
        Trap("exception", re.compile(r"asm_exc_\w+")),
    ),
    assembly=re.compile(
        r"entry_\w+|asm_\w+|error_(entry|return)|swapgs_\w+|syscall_return_via_sysret"
        r"|common_interrupt_return|restore_\w+|\w*untrain_ret|srso_\w+|retbleed_\w+"
        r"|clear_bhb_loop|native_irq_return_\w+|early_xen_iret_patch|native_iret|__x86_\w+|\w*paranoid_\w+"
        rf"|{FLOOR_ASSEMBLY}"
    ),
    handlers=re.compile(
        rf"(__do_sys|__se_sys|__(x64|ia32|ia32_compat)_(compat_)?sys)_\w+|{FLOOR_HANDLERS}"
    ),
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
    vector=_VECTOR,
    counter=Counter("icount", "-icount clock"),
    build_headers={"gelf.h": "libelf-dev"},  # objtool
    stubs=("irq_entries_start", "spurious_entries_start"),  # arch/x86/include/asm/idtentry.h
)
