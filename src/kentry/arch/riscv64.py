# SPDX-License-Identifier: GPL-2.0-or-later
"""riscv64: its names, its machine, its kernel entry, its vector unit (V)."""

import re

from kentry.arch.mechanism import VEC, CountingRules, Mechanism
from kentry.arch.record import (
    ALLOCATORS,
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
    word,
)

# arch/riscv/include/asm/vector.h in 6.12.117; 7.3 has the same.  A discard marks the state dirty
# (:174), a switch saves dirty state (:180), a switch-in always asks for a load (:259), which is
# done if V is on (:189).  A first use asks for one, too (kernel/vector.c:213).  V is off after an
# exec and in a fork's child (process.c:225, :178).
_MECHANISM = Mechanism(
    lazy=True,
    sees_uses=True,  # sstatus.VS
    flush_dirties=True,
    reloads=True,
    trap_loads=True,
    frames_if_open=True,
    sigreturn_closes=False,
    trap_class=2,  # EXC_INST_ILLEGAL
)

_VECTOR = VectorSide(
    units=(
        Unit(
            "vec", "V", (128, 256, 512, 1024), "RISCV_ISA_V", "Linux 6.5 and later have the option."
        ),
    ),
    markers=(
        function_marker("trap", "riscv_v_first_use_handler"),
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
        function_marker("kernel-use", "kernel_vector_begin"),
        function_marker("allocation", ALLOCATORS, within=r"riscv_v_first_use_handler"),
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

RISCV64 = Arch(
    name="riscv64",
    aliases=("riscv",),
    debian="riscv64",
    cross="riscv64-linux-gnu-",
    compiler_package="gcc-riscv64-linux-gnu",
    elf_machine="EM_RISCV",
    qemu="qemu-system-riscv64",
    qemu_package="qemu-system-misc",
    qemu_split_package="qemu-system-riscv",
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
        rf"|{FLOOR_ASSEMBLY}"
    ),
    handlers=re.compile(rf"(__do_sys|__se_sys|__riscv_(compat_)?sys|sys)_\w+|{FLOOR_HANDLERS}"),
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
    vector=_VECTOR,
    counter=Counter("instret", "instret"),
)
