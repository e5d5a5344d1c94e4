# SPDX-License-Identifier: GPL-2.0-or-later
"""x86-64: its names, its machine, its kernel entry, its vector unit (AVX2)."""

import re

from kentry.arch import record
from kentry.arch.mechanism import VEC, Act, CountingRules, Mechanism
from kentry.arch.record import Marker, Trap, Unit, any_of, byte_class, function_marker


def _modrm(digits: str = "01234567", below: int = 0xC0) -> bytes:
    """A ModRM byte with one of the digits in its reg field; below 0xC0 its operand is in memory."""
    return byte_class(byte for byte in range(below) if str(byte >> 3 & 7) in digits)


def _xsave_like(regs_ae: str, regs_c7: str) -> re.Pattern[bytes]:
    """REX.W 0F AE /r or 0F C7 /r with an operand in memory, r one of the digits given."""
    alternatives = [b"\\xae" + _modrm(regs_ae), b"\\xc7" + _modrm(regs_c7)]
    return re.compile(b"[\\x48-\\x4f]\\x0f(?:" + b"|".join(alternatives) + b")", re.DOTALL)


# arch/x86 in 6.12.117.  A switch-out and kernel_fpu_begin() save all state if it was loaded since
# (kernel/process_64.c:619, kernel/fpu/core.c:457).  It is loaded on the way to user mode unless
# the registers hold it (kernel/fpu/context.h:54-80).  A system call does nothing to it.  A fork
# stores it in the child (core.c:667), after a load where one was due.  A signal stores it in the
# frame, then resets the registers (fpu/signal.c:219, core.c:790).
_MECHANISM = Mechanism(
    always_open=True,
    drops=False,
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

_VECTOR = record.VectorSide(
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

# Intel's Software Developer's Manual (SDM), volume 2, "Opcode Map" and each instruction's page.
# Legacy prefixes in any order and REX; lock, or the ds that stands in its place: a kernel on one
# processor overwrites its lock prefixes with it (arch/x86/kernel/alternative.c,
# alternatives_smp_unlock), and a guest of kentry has one processor.  VEX, with its map.  There is
# nothing for EVEX and REX2: QEMU's software emulation has neither AVX-512 nor APX, up to 11.1.
_LEGACY = rb"[\x26\x2e\x36\x3e\x64-\x67\xf0\xf2\xf3]*"
_REX = rb"[\x40-\x4f]?"
_VEX1 = rb"(?:\xc5.|\xc4[\x01\x21\x41\x61\x81\xa1\xc1\xe1].)"
_VEX2 = rb"\xc4[\x02\x22\x42\x62\x82\xa2\xc2\xe2]."
_VEX3 = rb"\xc4[\x03\x23\x43\x63\x83\xa3\xc3\xe3]."
_MEMORY = _modrm()


def _behind_prefix(prefix: bytes, there: bool, opcode: bytes) -> bytes:
    """Returns an opcode, where a legacy prefix of that class is before it, or where none is."""
    return (b"(?=" if there else b"(?!") + _LEGACY + prefix + b")" + _LEGACY + _REX + opcode


def _opcodes(*patterns: bytes) -> bytes:
    """Returns instructions with one of these opcodes behind any legacy prefixes and REX."""
    return _LEGACY + _REX + any_of(*patterns)


def _digit(opcode: bytes, digits: str, below: int = 0xC0) -> bytes:
    return opcode + _modrm(digits, below)


# What lock may stand before: add, or, adc, sbb, and, sub, xor, inc, dec, not, neg, bts, btr, btc,
# cmpxchg, xadd, cmpxchg8b, cmpxchg16b, xchg.
_MODIFIES = (
    rb"[\x00\x01\x08\x09\x10\x11\x18\x19\x20\x21\x28\x29\x30\x31\x86\x87]" + _MEMORY,
    _digit(rb"[\x80\x81\x83]", "0123456"),
    _digit(rb"[\xf6\xf7]", "23"),
    _digit(rb"[\xfe\xff]", "01"),
    rb"\x0f[\xab\xb0\xb1\xb3\xbb\xc0\xc1]" + _MEMORY,
    _digit(rb"\x0f\xba", "567"),
    _digit(rb"\x0f\xc7", "1"),
)
_READS = (
    # One byte: arithmetic, movsxd, imul, test, xchg, mov, shifts, x87, not/neg/mul/div, inc/dec,
    # call, jmp, push.
    rb"[\x00-\x03\x08-\x0b\x10-\x13\x18-\x1b\x20-\x23\x28-\x2b\x30-\x33\x38-\x3b]" + _MEMORY,
    rb"[\x63\x69\x6b\x80\x81\x83-\x87\x8a\x8b\x8e\xc0\xc1\xd0-\xd3\xf6\xf7]" + _MEMORY,
    rb"[\xd8\xda\xdc\xde]" + _MEMORY,
    _digit(rb"\xd9", "045"),
    _digit(rb"\xdb", "05"),
    _digit(rb"\xdd", "04"),
    _digit(rb"\xdf", "045"),
    _digit(rb"\xfe", "01"),
    _digit(rb"\xff", "0123456"),
    # The stack: pop, popf, ret, leave, lret, iret.  movabs, strings, xlat, outs.
    rb"[\x58-\x5f\x8f\x9d\xc2\xc3\xc9\xca\xcb\xcf\xa0\xa1\xa4-\xa7\xac-\xaf\xd7\x6e\x6f]",
    rb"\x0f[\xa1\xa9]",
    # Two bytes.
    _digit(rb"\x0f\x00", "2345"),
    _digit(rb"\x0f\x01", "236"),
    rb"\x0f[\x02\x03\x10\x12\x14-\x16\x28\x2a\x2c-\x2f\x40-\x4f\x51-\x70\x74-\x76\x79\x7c\x7d]"
    + _MEMORY,
    rb"\x0f[\xa3-\xa5\xab-\xad\xaf-\xb8\xbb-\xbf\xc0-\xc2\xc4\xc6\xd0-\xd5\xd8-\xe6\xe8-\xfe]"
    + _MEMORY,
    _digit(rb"\x0f\xba", "4567"),
    _digit(rb"\x0f\xc7", "13"),
    # fxrstor, ldmxcsr, xrstor; xsave and xsaveopt read the header that they change.
    _digit(rb"\x0f\xae", "1245"),
    # Three bytes; invpcid and its kind read a descriptor.
    rb"\x0f\x38[^\xf1\xf5\xf6\xf8\xf9]" + _MEMORY,
    rb"\x0f\x3a[^\x14-\x17]" + _MEMORY,
)
_WRITES = (
    *_MODIFIES,
    # mov, pop, shifts, setcc; call and push write the stack.
    rb"[\x88\x89\x8c\x8f\xc0\xc1\xc6\xc7\xd0-\xd3]" + _MEMORY,
    _digit(rb"\xff", "26", 0x100),
    _digit(rb"\xff", "3"),
    rb"[\x50-\x57\x68\x6a\x9c\xe8\xc8\xa2-\xa5\xaa\xab\x6c\x6d]",
    rb"\x0f[\xa0\xa8]",
    _digit(rb"\xd9", "2367"),
    _digit(rb"\xdb", "1237"),
    _digit(rb"[\xdd\xdf]", "12367"),
    _digit(rb"\x0f[\x00\x01]", "01"),
    _digit(rb"\x0f\x01", "4"),
    rb"\x0f[\x11\x13\x17\x29\x2b\x78\x7f\x90-\x9f\xa4\xa5\xac\xad\xc3\xd6\xe7]" + _MEMORY,
    _digit(rb"\x0f\xae", "034"),
    _digit(rb"\x0f\xc7", "457"),
    rb"\x0f\x38[\xf5\xf8\xf9]" + _MEMORY,
    rb"\x0f\x3a[\x14-\x17]" + _MEMORY,
    rb"\x0f\xf7[\xc0-\xff]",  # maskmovq, maskmovdqu
)
# Opcodes whose prefix tells: movq or movd, crc32 or movbe, adcx and adox or wrss, xsaveopt or clwb;
# vmovq or vmovd.
_MOVQ, _CRC32 = rb"\x0f\x7e" + _MEMORY, rb"\x0f\x38\xf1" + _MEMORY
_ADCX = rb"\x0f\x38\xf6" + _MEMORY
_XSAVEOPT = _behind_prefix(rb"[\x66\xf3]", False, _digit(rb"\x0f\xae", "6"))
_VMOVQ = rb"(?:\xc5|\xc4.)" + byte_class(byte for byte in range(256) if byte & 3 == 2) + rb"\x7e"

_DECODING = record.Decoding(
    conditional=_opcodes(rb"[\x70-\x7f\xe0-\xe3]", rb"\x0f[\x80-\x8f]"),
    jumps=_opcodes(rb"[\xe9\xeb]", _digit(rb"\xff", "4", 0x100), _digit(rb"\xff", "5")),
    calls=_opcodes(rb"\xe8", _digit(rb"\xff", "2", 0x100), _digit(rb"\xff", "3")),
    returns=_opcodes(rb"[\xc2\xc3\xca\xcb]"),
    indirect=_opcodes(_digit(rb"\xff", "24", 0x100), _digit(rb"\xff", "35")),
    # xchg with memory locks without the prefix.
    atomic=any_of(
        _behind_prefix(rb"[\x3e\xf0]", True, any_of(*_MODIFIES)),
        _opcodes(rb"[\x86\x87]" + _MEMORY),
    ),
    reads=any_of(
        _opcodes(*_READS),
        _behind_prefix(rb"\xf3", True, _MOVQ),
        _behind_prefix(rb"\xf2", True, _CRC32),
        _behind_prefix(rb"[\x66\xf3]", True, _ADCX),
        _XSAVEOPT,
        _LEGACY + _VMOVQ + _MEMORY,
        _LEGACY + _VEX1 + rb"[^\x11\x13\x17\x29\x2b\x7e\x7f\xae\xd6\xe7]" + _MEMORY,
        _LEGACY + _VEX1 + _digit(rb"\xae", "2"),
        _LEGACY + _VEX2 + rb"[^\x2e\x2f\x8e]" + _MEMORY,
        _LEGACY + _VEX3 + rb"[^\x14-\x17\x19\x1d\x39]" + _MEMORY,
    ),
    writes=any_of(
        _opcodes(*_WRITES),
        _behind_prefix(rb"\xf3", False, _MOVQ),
        _behind_prefix(rb"\xf2", False, _CRC32),
        _behind_prefix(rb"[\x66\xf3]", False, _ADCX),
        _XSAVEOPT,
        b"(?!" + _LEGACY + _VMOVQ + b")" + _LEGACY + _VEX1 + rb"\x7e" + _MEMORY,
        _LEGACY + _VEX1 + rb"[\x11\x13\x17\x29\x2b\x7f\xd6\xe7]" + _MEMORY,
        _LEGACY + _VEX1 + _digit(rb"\xae", "3"),
        _LEGACY + _VEX2 + rb"[\x2e\x2f\x8e]" + _MEMORY,
        _LEGACY + _VEX3 + rb"[\x14-\x17\x19\x1d\x39]" + _MEMORY,
    ),
    # SDM, volume 3, "Serializing Instructions": invd, invept, invlpg, invvpid, lgdt, lidt, lldt,
    # ltr, mov to a control register other than cr8, mov to a debug register, wbinvd, wrmsr; cpuid,
    # iret, serialize.  lfence and mfence are from "Strengthening or Weakening the Memory-Ordering
    # Model"; sfence orders stores alone and is not among them.  What enters and leaves a privilege
    # level: syscall, sysret, sysenter, sysexit, int, int3, ud2.  The manual does not call these
    # serialising, but cores execute them as microcode that later instructions wait for: swapgs,
    # invpcid, xsetbv, verw (it clears buffers, see Documentation/arch/x86/mds.rst), hlt, mwait.
    serialising={
        "mov-cr0": _opcodes(_digit(rb"(?<![\x44-\x47\x4c-\x4f])\x0f\x22", "0", 0x100)),
        "mov-cr2": _opcodes(_digit(rb"\x0f\x22", "2", 0x100)),
        "mov-cr3": _opcodes(_digit(rb"\x0f\x22", "3", 0x100)),
        "mov-cr4": _opcodes(_digit(rb"\x0f\x22", "4", 0x100)),
        "mov-dr": _opcodes(rb"\x0f\x23"),
        "wrmsr": _opcodes(rb"\x0f\x30"),
        "cpuid": _opcodes(rb"\x0f\xa2"),
        "serialize": rb"\x0f\x01\xe8",
        "invd": _opcodes(rb"\x0f\x08"),
        "wbinvd": rb"\x0f\x09",
        "invlpg": _opcodes(_digit(rb"\x0f\x01", "7")),
        "invpcid": _opcodes(rb"\x0f\x38\x82"),
        "invept": _opcodes(rb"\x0f\x38\x80"),
        "invvpid": _opcodes(rb"\x0f\x38\x81"),
        "lgdt": _opcodes(_digit(rb"\x0f\x01", "2")),
        "lidt": _opcodes(_digit(rb"\x0f\x01", "3")),
        "lldt": _opcodes(_digit(rb"\x0f\x00", "2", 0x100)),
        "ltr": _opcodes(_digit(rb"\x0f\x00", "3", 0x100)),
        "verw": _opcodes(_digit(rb"\x0f\x00", "5", 0x100)),
        "lfence": rb"\x0f\xae[\xe8-\xef]",
        "mfence": rb"\x0f\xae[\xf0-\xf7]",
        "swapgs": _opcodes(rb"\x0f\x01\xf8"),
        "xsetbv": _opcodes(rb"\x0f\x01\xd1"),
        "mwait": _opcodes(rb"\x0f\x01\xc9"),
        "hlt": _opcodes(rb"\xf4"),
        "syscall": _opcodes(rb"\x0f\x05"),
        "sysretq": _LEGACY + rb"[\x48-\x4f]\x0f\x07",
        "sysretl": _LEGACY + rb"[\x40-\x47]?\x0f\x07",
        "sysenter": _opcodes(rb"\x0f\x34"),
        "sysexit": _opcodes(rb"\x0f\x35"),
        "iretq": _LEGACY + rb"[\x48-\x4f]\xcf",
        "iretl": _LEGACY + rb"[\x40-\x47]?\xcf",
        "int": _opcodes(rb"\xcd"),
        "int3": _opcodes(rb"\xcc"),
        "ud2": _opcodes(rb"\x0f\x0b"),
    },
)


def _table(name: str, what: str, entry: record.Entry) -> record.SiteTable:
    return record.SiteTable(f".{name}", what, (f"__{name}", f"__{name}_end"), (entry,))


_PLACE = record.Entry(4, "<i4")
# A call or jump has 5 bytes; what is patched there may be several instructions.
_SITE = record.Entry(4, "<i4", length=5)
_SITE_TABLES = (
    # struct alt_instr in arch/x86/include/asm/alternative.h: 6.12 and 7.3, 6.1.
    record.alternatives(record.Entry(14, "<i4", (12, "u1")), record.Entry(12, "<i4", (10, "u1"))),
    record.STATIC_KEYS,
    record.ftrace_sites(5),
    # struct static_call_site in include/linux/static_call_types.h of 6.1, 6.12 and 7.3.
    record.SiteTable(
        ".static_call_sites",
        "static call",
        ("__start_static_call_sites", "__stop_static_call_sites"),
        (record.Entry(8, "<i4"),),
    ),
    # arch/x86/kernel/alternative.c of 6.1, 6.12 and 7.3: a distance each.
    _table("smp_locks", "lock prefix", _PLACE),
    _table("retpoline_sites", "retpoline", _SITE),
    _table("return_sites", "return thunk", _SITE),
    _table("ibt_endbr_seal", "landing pad", _PLACE),
    # struct paravirt_patch_site in arch/x86/include/asm/paravirt_types.h of 6.1.
    _table("parainstructions", "paravirtual call", record.Entry(16, "<u8", (9, "u1"))),
)

X86_64 = record.Arch(
    name="x86_64",
    aliases=("amd64", "x86-64"),
    debian="amd64",
    cross="x86_64-linux-gnu-",
    elf_machine="EM_X86_64",
    qemu="qemu-system-x86_64",
    qemu_split_package="qemu-system-x86",
    floor={"getpid": 6, "getppid": 4},
    machine="q35",
    # cx16=off: QEMU 7.2's cmpxchg16b makes 6.12 guests double-fault at random.
    cpu="max,cx16=off",
    console="ttyS0",
    entries=("syscall", "int80"),
    traps=(
        Trap("irq", re.compile(r"asm_sysvec_\w+|asm_common_interrupt|asm_spurious_interrupt")),
        Trap("exception", re.compile(r"asm_exc_\w+")),
    ),
    assembly=re.compile(
        r"entry_\w+|asm_\w+|error_(entry|return)|swapgs_\w+|syscall_return_via_sysret"
        r"|common_interrupt_return|restore_\w+|\w*untrain_ret|srso_\w+|retbleed_\w+"
        r"|clear_bhb_loop|native_irq_return_\w+|early_xen_iret_patch|native_iret|__x86_\w+|\w*paranoid_\w+"
        rf"|{record.FLOOR_ASSEMBLY}"
    ),
    handlers=re.compile(
        rf"(__do_sys|__se_sys|__(x64|ia32|ia32_compat)_(compat_)?sys)_\w+|{record.FLOOR_HANDLERS}"
    ),
    calls=re.compile(r"call"),
    by_stack_pointer=re.compile(r"\(%rsp|^(push|pop|l?call|l?ret)"),
    linking=record.Linking(
        rewrites=(
            (r"(?:-?\w+)?\(%rip\)", "%addr(%rip)"),
            # Per-cpu variables, as in 6.1; 0x28 is the stack protector's canary, by the ABI.
            (r"(%gs:)(?!0x28\b)0x[0-9a-f]+\b(?!\()", r"\1%addr"),
            # The image is linked at 0xffffffff81000000, -0x7f000000 in 32 bits, and is less than
            # 512 MiB.  Constants that and, or, test take are masks.
            (
                r"^((?:mov|add|sub|cmp|push)q \$)"
                r"(?:-0x(?:7[0-9a-e]|6[0-9a-f])[0-9a-f]{6}|-0x7f000000|0xffffffff[89][0-9a-f]{7})\b",
                r"\1%addr",
            ),
            (
                r"(?:-0x(?:7[0-9a-e]|6[0-9a-f])[0-9a-f]{6}|-0x7f000000)(?=\()"
                r"|(?<![$\w])0xffff[89a-f][0-9a-f]{11}\b",
                "%addr",
            ),
            # What the kernel allocated and wrote into its code when it booted (runtime-const.h):
            # the direct map and above, Documentation/arch/x86/x86_64/mm.rst.
            (
                r"^(movabsq \$)0x(?!\w+0{7}\b)"
                r"(?:ffff[89a-e][0-9a-f]{11}|ff[1-9a-d][0-9a-f]{13})\b",
                r"\1%addr",
            ),
        ),
        # The mnemonic says how wide it is.
        chosen=(
            re.compile(
                r"%(?:[re]?(?:[abcd]x|[sd]i|bp)|[abcd][lh]|(?:[sd]i|bp)l|r(?:8|9|1[0-5])[dwb]?)\b"
            ),
            "%r",
        ),
    ),
    image_format="bzImage",
    image_magic=(0x202, b"HdrS"),  # Documentation/arch/x86/boot.rst
    kbuild="x86_64",
    source_folder="x86",
    vector=_VECTOR,
    # arch/x86/include/asm/idtentry.h
    exceptions=record.Exceptions(
        entries=(
            (re.compile(r"entry_SYSCALL_64"), "syscall", (0,)),
            (
                re.compile(
                    r"entry_INT80_compat|asm_int80_emulation|asm_exc_int80_emulation"
                    r"|entry_SYS(?:ENTER|CALL)_compat"
                ),
                "compat",
                (0,),
            ),
            (re.compile(r"asm_exc_(?!int80|xen)(\w+)"), "fault", (0,)),
            (re.compile(r"asm_sysvec_(?!xen)(\w+)"), "interrupt", (0,)),
        ),
    ),
    counter=record.Counter("icount", "-icount clock"),
    decoding=_DECODING,
    site_tables=_SITE_TABLES,
    llvm=record.Llvm(
        triple="x86_64",
        features="",
        mark=b"\xcc",  # int3
        # Intel SDM, volume 3, 9.3 (serialising instructions) and 2.8 (system instructions).
        unpriced=re.compile(
            r"(mov)[lq]? \S+, %([cd]r\d+)|(mov)[lq]? %([cd]r\d+), .*"
            r"|(swapgs|syscall|sysret|sysenter|sysexit|iret|sti|cli|stac|clac|[lms]fence|rdmsr"
            r"|wrmsrns|wrmsr|rdtscp?|rdpmc|cpuid|invlpg|invpcid|verw|wbinvd|xsetbv|serialize"
            r"|popf|(?:rd|wr)[fg]sbase|monitor|mwait|hlt|int\d?)[lqw]?\b.*"
        ),
        exceptions=re.compile(r"asm_(exc|sysvec)_\w+|asm_common_interrupt"),
    ),
    build_headers=("gelf.h",),  # objtool
    stubs=("irq_entries_start", "spurious_entries_start"),  # arch/x86/include/asm/idtentry.h
    switches={
        "meltdown": "pti=off",
        **{
            flaw: f"{flaw}=off"
            for flaw in (
                *("retbleed", "spec_rstack_overflow", "spectre_v2", "mds", "mmio_stale_data"),
                *("reg_file_data_sampling", "tsx_async_abort", "tsa", "vmscape", "srbds", "l1tf"),
                *("indirect_target_selection", "gather_data_sampling"),
            )
        },
        "bhi": "spectre_bhi=off",
        "spectre_v1": "nospectre_v1",
        "spec_store_bypass": "spec_store_bypass_disable=off",
    },
)
