# SPDX-License-Identifier: GPL-2.0-or-later
"""arm64: its names, its machine, its kernel entry, its vector units (SVE and SME)."""

import re
from collections.abc import Iterator, Mapping

from kentry.arch import record
from kentry.arch.mechanism import SME, VEC, Act, CountingRules, Mechanism, Mechanisms
from kentry.arch.record import Marker, Trap, Unit, any_of, bits, function_marker, word

# QEMU takes 256 bits for SME, whatever it has for SVE.
_SME_LENGTHS = (256, 128, 512, 1024, 2048)
_SME_HINT = "Linux 6.12's Kconfig marks SME broken; 7.0 and later have it."

# arch/arm64/kernel in 6.12.117.  Every user task has the small state, FPSIMD: it is saved at each
# switch-out while the registers are the task's (fpsimd.c:437-508, called from :1578), and loaded
# on the way to user mode where they are not (entry-common.c:153).  The registers are the task's
# whose state was loaded last (:1590-1595).  Inside a system call only the small state is saved
# (entry-common.c:421), so a load of that drops access.  6.1 saves by TIF_SVE, which its system
# calls clear (syscall.c:186): the record is the same.
_SVE = Mechanism(
    saves_clean=True,
    loads_closed=True,
    fork_saves=True,  # process.c:300
    sigreturn_loads=True,  # fpsimd.c:1804
    trap_flush=Act.TRAP_FLUSH,  # fpsimd.c:1368
    small_save=Act.SMALL_SAVE,
    small_restore=Act.SMALL_RESTORE,
    closed_restore=Act.SMALL_RESTORE,
    kept_load=Act.KEPT_LOAD,
    kernel_save=Act.SMALL_SAVE,  # fpsimd.c:1538
    kernel_restore=Act.SMALL_RESTORE,
    trap_class=0x19,  # ESR_ELx_EC_SVE
)
# SME, arch/arm64 of 6.12 and 7.3: ZA is saved while SVCR.ZA is set (fpsimd.c:476) and survives
# system calls; each of them leaves streaming mode on a cpu with SME (entry-common.c:399).  Who
# owns the registers is known as for SVE.  Access may be dropped whenever SM=ZA=0 (:278-280).
_SME = Mechanism(
    saves_clean=True,
    loads_closed=True,
    sees_uses=True,  # SVCR
    discards=False,
    za=True,
    fork_saves=True,
    sigreturn_loads=True,
    sigreturn_closes=False,
    trap=Act.SME_TRAP,
    flush=Act.NOTHING,
    save=Act.ZA_SAVE,
    small_save=Act.NOTHING,
    restore=Act.ZA_RESTORE,
    small_restore=Act.NOTHING,
    kernel_save=Act.NOTHING,
    kernel_restore=Act.NOTHING,
    smstop=Act.SMSTOP,
    trap_class=0x1D,  # ESR_ELx_EC_SME
)
# 7.3.4: fork, signal and sigreturn save the state and give up the registers
# (fpsimd.c:1838, process.c:371, signal.c:1043, :1551).  Since 6.16 (e0cb0f26594c for clone()).
_FLUSHING = {"fork_flushes": True, "signal_flushes": True, "sigreturn_loads": False}
_MECHANISMS: Mapping[str, Mechanisms] = {
    unit: (((0, 0), base), ((6, 16), base._replace(**_FLUSHING)))
    for unit, base in ((VEC, _SVE), (SME, _SME))
}

_VECTOR = record.VectorSide(
    units=(
        Unit("vec", "SVE", (128, 256, 512, 1024, 2048), "ARM64_SVE"),
        Unit("ssve", "streaming SVE (SME)", _SME_LENGTHS, "ARM64_SME", _SME_HINT),
        Unit("za", "ZA (SME)", _SME_LENGTHS, "ARM64_SME", _SME_HINT),
    ),
    markers=(
        function_marker("trap", "do_sve_acc"),
        function_marker("sme-trap", "do_sme_acc"),
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
        function_marker("kernel-use", "kernel_neon_begin"),
        function_marker("allocation", record.ALLOCATORS, within="sve_alloc|sme_alloc"),
    ),
    switch="cpu_switch_to",
    alignment=4,
    # 8c845e273104 ("arm64/sve: Leave SVE enabled on syscall if we don't context switch"), 6.2.
    policies=(((0, 0), "drop-each-syscall"), ((6, 2), "drop-on-load")),
    mechanisms=_MECHANISMS,
    counting=CountingRules(
        events={
            "trap": "trap",
            "flush": "flush",
            "drop": "drop",
            "small_save": "fpsimd-save",
            "small_restore": "fpsimd-restore",
            "za_save": "za-save",
            "za_restore": "za-restore",
            "sme_trap": "sme-trap",
            "smstop": "smstop",
        },
        calls={
            # fpsimd_save: before 6.8.
            "small_save": "fpsimd_save|fpsimd_save_user_state",
            "small_restore": "fpsimd_restore_current_state",
        },
    ),
    trap_classes=(0x19, 0x1D),  # SVE, SME: arch/arm64/include/asm/esr.h
)

# Arm ARM, D1.10.2: vectors for the current exception level with SP_ELx, 0x80 bytes each;
# arch/arm64/kernel/entry.S: __bp_harden_el1_vectors is three such tables of 0x800 bytes.
_CURRENT = (0x200, 0x280, 0x300, 0x380)
_EXCEPTIONS = record.Exceptions(
    entries=(
        (re.compile(r"vectors"), "nested", _CURRENT),
        (
            re.compile(r"__bp_harden_el1_vectors"),
            "nested",
            tuple(table * 0x800 + vector for table in range(3) for vector in _CURRENT),
        ),
    ),
    # ESR_EL1.EC: arch/arm64/include/asm/esr.h
    faults={
        0x00: "unknown instruction",
        0x07: "first use of FP",
        0x0E: "illegal state",
        0x18: "emulated system register",
        0x19: "first use of SVE",
        0x1D: "first use of SME",
        0x20: "page fault of code",
        0x21: "page fault of code",
        0x22: "misaligned PC",
        0x24: "page fault",
        0x25: "page fault",
        0x26: "misaligned SP",
        0x27: "memory copy",
        0x2C: "floating point",
        0x2F: "SError",
        0x30: "hardware breakpoint",
        0x32: "single step",
        0x34: "watchpoint",
        0x3C: "brk",
    },
)

# The Arm Architecture Reference Manual (DDI 0487), "A64 instruction set encoding", the groups named
# beside the words.  Encodings that are not allocated are not excluded.
_BR = bits(0xFEFFF000, 0xD61F0000)  # br, braa, brab, and those with a zero modifier
_BLR = bits(0xFEFFF000, 0xD63F0000)
_MSR = any_of(bits(0xFFF00000, 0xD5100000), bits(0xFFF00000, 0xD5500000))
_PREFETCHES = any_of(
    bits(0xFF000000, 0xD8000000),  # prfm, literal
    bits(0xFFC00000, 0xF9800000),
    bits(0xFFE00C00, 0xF8800000),  # prfum
    bits(0xFFE00C00, 0xF8A00800),  # register; rprfm, too
    # SVE: prfb, prfh, prfw, prfd
    bits(0xFFA08010, 0x84200000),
    bits(0xFE60E010, 0x8400E000),
    bits(0xFE60E010, 0x8400C000),
    bits(0xFFC08010, 0x85C00000),
    bits(0xFFE08010, 0xC4608000),
    bits(0xFFA08010, 0xC4200000),
    bits(0xFE60E010, 0xC400E000),
)
_EXCLUSIVES = bits(0x3F800000, 0x08000000)  # ldxr, stxr, ldxp, stxp; casp is encoded among them
_COMPARE_AND_SWAP = any_of(
    bits(0x3FA00000, 0x08A00000),  # cas
    bits(0xBFA00000, 0x08200000),  # casp
    bits(0x3F800000, 0x09800000),  # cast, caspt (LSUI)
)
# "Atomic memory operations": ld<op>, swp, and with a zero destination st<op>; in the other words
# those of 128 bits, of RCW and LSUI, and those of floating-point numbers.  ldapr and st64b have
# the same group.
_LD64B = bits(0xFFFFFC00, 0xF83FD000)
_ST64B = any_of(
    bits(0xFFFFFC00, 0xF83F9000), bits(0xFFE0FC00, 0xF820B000), bits(0xFFE0FC00, 0xF820A000)
)
_LDAPR = bits(0x3FFFFC00, 0x38BFC000)
_OPERATIONS = any_of(
    bits(0x3B200C00, 0x38200000),
    bits(0xBF200000, 0x19200000),
    but=any_of(_LDAPR, _LD64B, _ST64B),
)


def _loads_and_stores(load: bool) -> Iterator[bytes]:
    """Yields the group "loads and stores" without the atomic ones, SVE's and SME's."""
    bit = load << 22
    yield bits(0x3F400000, 0x08000000 | bit)  # exclusive, ordered
    yield bits(0x3F400000, 0x09000000 | bit)  # exclusive unprivileged (LSUI)
    yield bits(0xBE400000, 0x0C000000 | bit)  # ld1 to ld4, st1 to st4
    yield bits(0x3A400000, 0x28000000 | bit)  # pairs
    yield bits(0x3F600C00, 0x19000800 | bit)  # ldiapp, stilp, writeback (LRCPC3)
    yield bits(0x3F600C00, 0x1D000800 | bit)  # ldapur, stlur of a vector register
    # An offset of 12 bits; of 9 bits; in a register.
    offsets = ((0x01000000, 0x01000000), (0x01200000, 0), (0x01200C00, 0x00200800))
    for mask, value in offsets:
        yield bits(0x3E400000 | mask, 0x3C000000 | value | bit)  # of a vector register
        if load:
            yield bits(0x3E400000 | mask, 0x38400000 | value)
            yield bits(0x3E800000 | mask, 0x38800000 | value)  # ldrs
        else:
            yield bits(0x3EC00000 | mask, 0x38000000 | value)
    # ldapur, stlur.
    if load:
        yield bits(0x3FE00C00, 0x19400000)
        yield bits(0x3FA00C00, 0x19800000)
    else:
        yield bits(0x3FE00C00, 0x19000000)


_DECODING = record.Decoding(
    conditional=any_of(
        bits(0xFF000000, 0x54000000),  # b.cond, bc.cond
        bits(0x7E000000, 0x34000000),  # cbz, cbnz
        bits(0x7E000000, 0x36000000),  # tbz, tbnz
        bits(0x7E000000, 0x74000000),  # cb<cond>
    ),
    jumps=any_of(bits(0xFC000000, 0x14000000), _BR),
    calls=any_of(bits(0xFC000000, 0x94000000), _BLR),
    returns=any_of(
        bits(0xFFFFF000, 0xD65F0000),  # ret, retaa, retab
        bits(0xFFC0001F, 0x5500001F),  # retaasppc, retabsppc
    ),
    indirect=any_of(_BR, _BLR),
    atomic=any_of(_EXCLUSIVES, bits(0x3F800000, 0x09000000), _COMPARE_AND_SWAP, _OPERATIONS),
    reads=any_of(
        *_loads_and_stores(load=True),
        _COMPARE_AND_SWAP,
        _OPERATIONS,
        _LDAPR,
        _LD64B,
        bits(0x3B000000, 0x18000000),  # literals
        bits(0xFF200400, 0xF8200400),  # ldraa, ldrab
        # MOPS: cpy; a set reads nothing.
        bits(0x3BA00C00, 0x19000400),
        bits(0x3BE00C00, 0x19800400),
        # SVE; SME.
        bits(0xFE000000, 0x84000000),
        bits(0xFE000000, 0xA4000000),
        bits(0xFE000000, 0xC4000000),
        bits(0xFEA00000, 0xA0000000),
        bits(0xFE200000, 0xE0000000),
        but=_PREFETCHES,
    ),
    writes=any_of(
        *_loads_and_stores(load=False),
        _COMPARE_AND_SWAP,
        _OPERATIONS,
        _ST64B,
        bits(0x3B200C00, 0x19000400),  # MOPS: cpy, set
        # Of the instructions for allocation tags, those that store data too: stzg, stz2g, stzgm.
        bits(0xFF600400, 0xD9600400),
        bits(0xFF600800, 0xD9600800),
        bits(0xFFFFFC00, 0xD9200000),
        bits(0xFFFFEC00, 0xD91F0C00),  # gcsstr, gcssttr
        bits(0xFFFFFFE0, 0xD50B7420),  # dc zva
        bits(0xFFFFFFE0, 0xD50B7480),  # dc gzva
        # SVE; SME.
        bits(0xFE000000, 0xE4000000),
        bits(0xFEA00000, 0xA0200000),
        bits(0xFE200000, 0xE0200000),
    ),
    # The same manual.  Its "context synchronization events" are isb, the taking of an exception
    # (svc, hvc, smc, brk) and the return from one.  dsb waits until accesses to memory, and the
    # maintenance of caches and TLBs, are complete; ssbb and pssbb are dsb with operands of their
    # own; dmb orders accesses and waits for none, and is not among them.  sb keeps what is behind
    # it from being executed speculatively.  msr is a write to a System register whose effect has
    # to be waited for ("Synchronization requirements for AArch64 System registers").  These are
    # all but the special-purpose registers (op0 3, CRn 4: SPSR_EL1, ELR_EL1, SP_EL0, DAIF, FPCR,
    # ...), which take effect in program order, as do the fields of PSTATE, and the software
    # thread ids (TPIDR), which have no effect.
    serialising={
        "isb": bits(0xFFFFF0FF, 0xD50330DF),
        "dsb": any_of(bits(0xFFFFF0FF, 0xD503309F), bits(0xFFFFF3FF, 0xD503323F)),
        "sb": bits(0xFFFFF0FF, 0xD50330FF),
        "msr": any_of(
            _MSR,
            but=any_of(
                bits(0xFFF8F000, 0xD5184000),
                bits(0xFFF8FFE0, 0xD518D040),  # TPIDR_EL0, TPIDR_EL2
                bits(0xFFFFFFE0, 0xD51BD060),  # TPIDRRO_EL0
                bits(0xFFFFFFE0, 0xD518D080),  # TPIDR_EL1
                bits(0xFFFFFFE0, 0xD51BD0A0),  # TPIDR2_EL0
            ),
        ),
        "svc": bits(0xFFE0001F, 0xD4000001),
        "hvc": bits(0xFFE0001F, 0xD4000002),
        "smc": bits(0xFFE0001F, 0xD4000003),
        "brk": bits(0xFFE0001F, 0xD4200000),
        "eret": any_of(bits(0xFFFFFFFF, 0xD69F03E0), bits(0xFFFFFBFF, 0xD69F0BFF)),
        "wfi": bits(0xFFFFFFFF, 0xD503207F),
    },
)

_SITE_TABLES = (
    # struct alt_instr in arch/arm64/include/asm/alternative.h of 6.1, 6.12 and 7.3.
    record.alternatives(record.Entry(12, "<i4", (10, "u1"))),
    record.STATIC_KEYS,
    # ftrace_call_adjust() in arch/arm64/kernel/ftrace.c of 6.12; a pointer may stand before.
    record.ftrace_sites(8, before=8),
)

ARM64 = record.Arch(
    name="arm64",
    aliases=("aarch64",),
    debian="arm64",
    cross="aarch64-linux-gnu-",
    elf_machine="EM_AARCH64",
    qemu="qemu-system-aarch64",
    qemu_split_package="qemu-system-arm",
    floor={"getpid": 12, "getppid": 10},
    # Seen with 8.2.2 (Ubuntu 24.04); docs/reference/emulators.md has what is known.
    failing_emulators={(8, 2): "never finishes the boot of an arm64 Linux"},
    machine="virt",
    # With memory for tags the kernel may do more in every case: only a boot with this one has it.
    machines={"getppid-mte": "virt,mte=on"},
    # pauth-impdef=on: the architected hash makes emulation twice as slow and is not
    # visible in instruction counts.  sve-max-vq: the default is 2048 bits.
    cpu="max,pauth-impdef=on,sve-max-vq={vq}",
    console="ttyAMA0",
    entries=("svc",),
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
        rf"|{record.FLOOR_ASSEMBLY}"
    ),
    handlers=re.compile(rf"(__do_sys|__se_sys|__arm64_(compat_)?sys)_\w+|{record.FLOOR_HANDLERS}"),
    calls=re.compile(r"blr?\b|blra\w*"),
    by_stack_pointer=re.compile(r"\[sp\b"),
    linking=record.Linking(
        rewrites=(
            (r"^(adrp x\d+, ).*$", r"\1%hi"),
            # One version of kentry left the # off.
            (r"#(?=0xffff[0-9a-f]{12}\b)", ""),
            # Near addresses without a name: of branches, adr and literals.
            (
                r"^((?:adr|bl?|b\.\w+|cbn?z|tbn?z|ldr|ldrsw) [^\[\n]*)0xffff[0-9a-f]{12}$",
                r"\1%addr",
            ),
            # What the kernel allocated and wrote into its code when it booted (runtime-const.h);
            # a compiler makes no constant like it of all four parts.
            (
                r"^(movz (x\d+), )#\w+\n(movk \2, )#\w+(, lsl #16\nmovk \2, )#\w+"
                r"(, lsl #32\nmovk \2, )#0xfff[0f](, lsl #48)$",
                r"\1%addr\n\3%addr\4%addr\5%addr\6",
            ),
        ),
        high=re.compile(r"adrp x(\d+), %hi"),
        # 12 bits.
        low=(
            (re.compile(r"(add x\d+, x(?P<base>\d+), )#(?P<low>0x[0-9a-f]{1,3}|\d)$"), r"\1%lo"),
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
        # x18, x29 and x30 have one purpose each.
        chosen=(re.compile(r"\b([xw])(?:\d|1[0-79]|2[0-8])\b"), r"\1"),
    ),
    image_format="Image",
    image_magic=(0x38, b"ARMd"),  # Documentation/arch/arm64/booting.rst
    kbuild="arm64",
    source_folder="arm64",
    vector=_VECTOR,
    exceptions=_EXCEPTIONS,
    counter=record.Counter("pmu", "PMU", kernel_alone=True),
    decoding=_DECODING,
    site_tables=_SITE_TABLES,
    relocations=("__pi_rela_start", "__pi_rela_end"),  # kernel/vmlinux.lds.S in 6.12 and 7.3
    llvm=record.Llvm(
        triple="aarch64",
        features="+all",
        mark=b"\xad\xde\x00\x00",  # udf #57005
        # Arm ARM, D1.10 (exceptions), B2.3 and C6.2 (barriers), C5 (system registers and tlbi).
        unpriced=re.compile(
            r"(msr) (\w+),.*|(mrs) \w+, (\w+)"
            r"|(eret\w*|isb|sb|[dt]sb|dmb|tlbi|at|ic|wf[ei]t?|svc|hvc|smc|brk)\b(?: (\w+))?.*"
        ),
        exceptions=re.compile(r"el0_(?!svc)\w+|el0t_64_(irq|fiq|error)\w*"),
    ),
    capstone=("CS_ARCH_ARM64", "CS_MODE_ARM"),
    switches={
        "meltdown": "kpti=off",
        "spectre_v2": "nospectre_v2",
        "bhb": "nospectre_bhb",
        "spec_store_bypass": "ssbd=force-off",
    },
    # arch/arm64/kernel/entry.S, tramp_ventry, and proton-pack.c of 6.12: the loop's number is
    # patched to the core's, the instruction is clearbhb, and the firmware is called by x0.
    branch_history=(
        "__bp_harden_el1_vectors",
        (
            (re.compile(r"movz? x30, #0x([0-9a-f]+)"), "loop-of-{}"),
            (re.compile(r"clearbhb|clrbhb|hint #0x16"), "clearbhb"),
            (re.compile(r"smc .*|hvc .*"), "firmware-call"),
        ),
    ),
    cores={128: "neoverse-n2", 256: "neoverse-v1"},
)
