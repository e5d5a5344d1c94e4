# SPDX-License-Identifier: GPL-2.0-or-later
"""riscv64: its names, its machine, its kernel entry, its vector unit (V)."""

import re

from kentry.arch import record
from kentry.arch.mechanism import VEC, CountingRules, Mechanism
from kentry.arch.record import Marker, Trap, Unit, any_of, bits, function_marker, word

# arch/riscv/include/asm/vector.h in 6.12.117; 7.3 has the same.  A discard marks the state dirty
# (:174), a switch saves dirty state (:180), a switch-in always asks for a load (:259), which is
# done if V is on (:189).  A first use asks for one, too (kernel/vector.c:213).  V is off after an
# exec and in a fork's child (process.c:225, :178).
_MECHANISM = Mechanism(
    sees_uses=True,  # sstatus.VS
    flush_dirties=True,
    reloads=True,
    trap_loads=True,
    frames_if_open=True,
    sigreturn_closes=False,
    trap_class=2,  # EXC_INST_ILLEGAL
)

_HINT = "Linux 6.5 and later have the option."
_XOR = re.compile(r"xor_regs_\w+")
_VECTOR = record.VectorSide(
    units=(Unit("vec", "V", (128, 256, 512, 1024), "RISCV_ISA_V", _HINT),),
    markers=(
        function_marker("trap", "riscv_v_first_use_handler"),
        Marker("discard", "vmv.v.i v0,-1", code=word(0xFFFFFFFF, 0x5E0FB057)),
        # The last group of registers: copies to and from user space use only the first.
        Marker("save", "vse8.v v24,(rs)", code=word(0xFFF07FFF, 0x02000C27), outside=_XOR),
        Marker("restore", "vle8.v v24,(rs)", code=word(0xFFF07FFF, 0x02000C07), outside=_XOR),
        function_marker("kernel-use", "kernel_vector_begin"),
        function_marker("allocation", record.ALLOCATORS, within=r"riscv_v_first_use_handler"),
    ),
    switch="__switch_to",
    alignment=2,
    policies=(((0, 0), "discard"),),
    mechanisms={VEC: (((0, 0), _MECHANISM),)},
    counting=CountingRules(
        events={"trap": "trap", "flush": "discard", "save": "save", "restore": "restore"},
        inner=("save", "restore"),
    ),
    trap_classes=(2,),  # illegal instruction
)

# The manual of the unprivileged ISA: the listings of RV32/64G and RVC, Zcb, Zicboz; calls and
# returns as in its table of return-address stack hints ("Unconditional Jumps"), where link
# registers are ra and t0.  The manual of the privileged ISA: hlv, hsv.
_JALR = bits(0x0000007F, 0x00000067)
_LINKED_JALR = any_of(bits(0x00000FFF, 0x000000E7), bits(0x00000FFF, 0x000002E7))
_C_JALR = any_of(bits(0xF07F, 0x9002, 2), but=bits(0xFFFF, 0x9002, 2))  # 9002 is c.ebreak
_C_JR = any_of(bits(0xF07F, 0x8002, 2), but=bits(0xFFFF, 0x8002, 2))
_RETURNS = any_of(
    bits(0xFFFFFFFF, 0x00008067),
    bits(0xFFFFFFFF, 0x00028067),
    bits(0xFFFF, 0x8082, 2),
    bits(0xFFFF, 0x8282, 2),
)
_CALLS = any_of(bits(0x00000FFF, 0x000000EF), bits(0x00000FFF, 0x000002EF), _LINKED_JALR, _C_JALR)
_AMO = bits(0x0000007F, 0x0000002F)
_LOAD_RESERVED = bits(0xF800007F, 0x1000002F)
_STORE_CONDITIONAL = bits(0xF800007F, 0x1800002F)


def _csr_write(funct3: int, reads_alone: bool = False) -> bytes:
    """A csr instruction that writes; one that `reads_alone` does where its source is x0 or 0."""
    code = funct3 << 12 | 0x73
    return any_of(bits(0x707F, code), but=bits(0xFF07F, code) if reads_alone else b"")


_DECODING = record.Decoding(
    conditional=any_of(bits(0x0000007F, 0x00000063), bits(0xC003, 0xC001, 2)),
    jumps=any_of(
        bits(0x0000007F, 0x0000006F),
        _JALR,
        bits(0xE003, 0xA001, 2),
        _C_JR,
        but=any_of(_CALLS, _RETURNS),
    ),
    calls=_CALLS,
    returns=_RETURNS,
    indirect=any_of(_JALR, _C_JR, _C_JALR, but=_RETURNS),
    # auipc and a jalr by the same register: what "call" and "tail" are to an assembler.
    far=any_of(
        *(
            bits(0x00000FFF, 0x00000017 | register << 7) + bits(0x000FF07F, 0x67 | register << 15)
            for register in range(1, 32)
        )
    ),
    atomic=_AMO,  # lr and sc, too
    reads=any_of(
        bits(0x0000007F, 0x00000003),
        bits(0x0000007F, 0x00000007),  # vectors, too
        any_of(_AMO, but=_STORE_CONDITIONAL),
        bits(0xF200707F, 0x60004073),  # hlv
        bits(0xE003, 0x2000, 2),  # c.fld
        bits(0xC003, 0x4000, 2),  # c.lw, c.ld
        bits(0xF803, 0x8000, 2),  # c.lbu, c.lhu, c.lh
        bits(0xE003, 0x2002, 2),  # c.fldsp
        bits(0xC003, 0x4002, 2),  # c.lwsp, c.ldsp
    ),
    writes=any_of(
        bits(0x0000007F, 0x00000023),
        bits(0x0000007F, 0x00000027),
        any_of(_AMO, but=_LOAD_RESERVED),
        bits(0xF200707F, 0x62004073),  # hsv
        bits(0xFFF07FFF, 0x0040200F),  # cbo.zero
        bits(0xE003, 0xA000, 2),  # c.fsd
        bits(0xC003, 0xC000, 2),  # c.sw, c.sd
        bits(0xF803, 0x8800, 2),  # c.sb, c.sh
        bits(0xE003, 0xA002, 2),  # c.fsdsp
        bits(0xC003, 0xC002, 2),  # c.swsp, c.sdsp
    ),
    # Every write of a csr: Zicsr has it take effect before the instruction behind it.  The fences
    # of the privileged manual (Svinval, H) and Zifencei; what enters and leaves a privilege mode;
    # wfi.  fence orders memory alone and is not among them.
    serialising={
        "csrrw": _csr_write(1),
        "csrrs": _csr_write(2, reads_alone=True),
        "csrrc": _csr_write(3, reads_alone=True),
        "csrrwi": _csr_write(5),
        "csrrsi": _csr_write(6, reads_alone=True),
        "csrrci": _csr_write(7, reads_alone=True),
        "fence.i": bits(0x0000707F, 0x0000100F),
        "sfence.vma": bits(0xFE007FFF, 0x12000073),
        "sinval.vma": bits(0xFE007FFF, 0x16000073),
        "sfence.w.inval": bits(0xFFFFFFFF, 0x18000073),
        "sfence.inval.ir": bits(0xFFFFFFFF, 0x18100073),
        "hfence.vvma": bits(0xFE007FFF, 0x22000073),
        "hfence.gvma": bits(0xFE007FFF, 0x62000073),
        "ecall": bits(0xFFFFFFFF, 0x00000073),
        "ebreak": any_of(bits(0xFFFFFFFF, 0x00100073), bits(0xFFFF, 0x9002, 2)),
        "sret": bits(0xFFFFFFFF, 0x10200073),
        "mret": bits(0xFFFFFFFF, 0x30200073),
        "wfi": bits(0xFFFFFFFF, 0x10500073),
    },
)

_SITE_TABLES = (
    # arch/riscv/include/asm/alternative.h: struct alt_entry in 6.12 and 7.3, in 6.1.
    record.SiteTable(
        ".alternative",
        "alternative",
        ("__alt_start", "__alt_end"),
        (record.Entry(16, "<i4", (10, "<u2")), record.Entry(36, "<u8", (24, "<u8"))),
    ),
    record.STATIC_KEYS,
    # ftrace_call_adjust() in arch/riscv/kernel/ftrace.c of 7.3; a pointer may stand before.
    record.ftrace_sites(8, before=8),
)

RISCV64 = record.Arch(
    name="riscv64",
    aliases=("riscv",),
    debian="riscv64",
    cross="riscv64-linux-gnu-",
    elf_machine="EM_RISCV",
    qemu="qemu-system-riscv64",
    qemu_split_package="qemu-system-riscv",
    floor={"getpid": 14, "getppid": 12},
    machine="virt",
    cpu="rv64,v=true,vlen={vl},vext_spec=v1.0",
    console="ttyS0",
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
        rf"|{record.FLOOR_ASSEMBLY}"
    ),
    handlers=re.compile(
        rf"(__do_sys|__se_sys|__riscv_(compat_)?sys|sys)_\w+|{record.FLOOR_HANDLERS}"
    ),
    calls=re.compile(r"(c\.)?jalr?\s+ra,|c\.jalr|call"),
    by_stack_pointer=re.compile(r"\(sp\)"),
    linking=record.Linking(
        # lui is left as it is: the kernel's code model is medany, where symbols are found from
        # the program counter, and lui makes constants.
        rewrites=(
            (r"^(auipc \w+,).*$", r"\1%hi"),
            # Numbers are decimal: these are the targets that have no name.
            (r"(?:-?\w+ # )?0xffff[0-9a-f]{12}$", "%addr"),
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
        chosen=(re.compile(r"\b(?:t[0-6]|s(?:\d|1[01])|a[0-7])\b"), "r"),
    ),
    image_format="Image",
    image_magic=(0x38, b"RSC\x05"),  # Documentation/arch/riscv/boot-image-header.rst
    kbuild="riscv",
    source_folder="riscv",
    vector=_VECTOR,
    exceptions=record.Exceptions(
        entries=((re.compile(r"handle_exception"), "nested", (0,)),),
        # scause: the privileged ISA, table "Supervisor cause register"
        faults={
            0: "misaligned jump",
            1: "code access",
            2: "illegal instruction",
            3: "breakpoint",
            4: "misaligned load",
            5: "load access",
            6: "misaligned store",
            7: "store access",
            12: "page fault of code",
            13: "page fault of load",
            15: "page fault of store",
        },
        interrupts={1: "software", 5: "timer", 9: "device"},
    ),
    counter=record.Counter("instret", "instret"),
    decoding=_DECODING,
    site_tables=_SITE_TABLES,
    llvm=record.Llvm(
        triple="riscv64",
        # RVA22, V, and what Linux 6.12 patches into its code where a core has it.
        features="+m,+a,+f,+d,+c,+v,+zicsr,+zifencei,+zba,+zbb,+zbs,+zicbom,+zicbop,+zicboz"
        ",+zihintpause,+zicond,+zawrs,+svinval",
        mark=b"\x73\x10\x00\xc0",  # unimp
        # Privileged ISA, 2.1 (csr instructions), 3.3 (traps and returns), 4.2 (sfence.vma).
        unpriced=re.compile(
            r"(csrr[wsc]i?) \w+, (\w+),.*|(csrr) \w+, (\w+)|(csr[wsc]i?) (\w+),.*"
            r"|(rd(?:time|cycle|instret)) \w+|(fscsr) .*"
            r"|(sret|mret|ecall|ebreak|wfi|fence(?:\.\w+)?|sfence\.\S+|sinval\.\S+|wrs\.\w+)\b.*"
        ),
        exceptions=re.compile(r"do_page_fault|do_irq|do_trap_(?!ecall_u)\w+"),
    ),
)
