# SPDX-License-Identifier: GPL-2.0-or-later
"""The same instructions are the same stream wherever they were linked, and others are not.

The lines are of real recordings: Debian's 6.12.117 (arm64), 6.12.117 and 6.1 (x86_64), and
6.12.94 and 6.12.107 (riscv64).
"""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kentry.arch import ARCHES
from kentry.path.stream import fold, stream
from kentry.results.recording import Instruction

ARM64, RISCV64, X86_64 = "arm64", "riscv64", "x86_64"
BASE = 0xFFFF800080010000


def path(lines: Sequence[str], at: int = BASE, function: str = "f") -> list[Instruction]:
    """Instructions in a row, 4 bytes each; "f: text" is f's, and "-> text" was jumped to."""
    code = []
    for line in lines:
        name, colon, text = line.partition(": ")
        function, text = (name, text) if colon else (function, line)
        jumped, _, there = text.rpartition("-> ")
        at += 0x100 if jumped or there != text else 0
        code.append(Instruction(at, "1f2003d5", there, function, at & 0xFFF))
        at += 4
    return code


def streams(arch: str, *sides: str, at: tuple[int, int] = (BASE, BASE + 0x12340)) -> list[object]:
    return [
        stream(path(side.split("; "), start), ARCHES[arch])
        for side, start in zip(sides, at, strict=True)
    ]


MOVED = [
    # Branches and calls.
    (ARM64, "cbz x2, <f+0x68>", "cbz x2, <f+0x6c>"),
    (ARM64, "bl <el0_svc_common.constprop.0>", "bl <el0_svc_common>"),
    (ARM64, "b.ne 0xffff800080f50000", "b.ne 0xffff800080f50040"),
    (RISCV64, "bltu a4,a5,<vfs_write+0x394>", "bltu a4,a5,<vfs_write+0x39a>"),
    (RISCV64, "j -18 # 0xffffffff81001d4e", "j -18 # 0xffffffff81001d6e"),
    (X86_64, "jae <do_syscall_64+0x98>", "jae <do_syscall_64+0x9a>"),
    (X86_64, "jmp 0xffffffff82001d4e", "jmp 0xffffffff82001d6e"),
    (X86_64, "callq <inode_permission.part.0>", "callq <inode_permission>"),
    # arm64: pages, and numbers in them.
    (
        ARM64,
        "adrp x28, #0xffff800081f52000; add x28, x28, #0x318",
        "adrp x28, #0xffff800081f53000; add x28, x28, #8",
    ),
    (
        ARM64,
        "adrp x1, 0xffff80008267e000; ldr w0, [x1, #0xd84]",
        "adrp x1, #0xffff80008267f000; ldr w0, [x1]",
    ),
    (
        ARM64,
        "adrp x0, #0xffff800082aa9000; stp x1, x2, [x0, #0x10]",
        "adrp x0, #0xffff800082aa9000; stp x1, x2, [x0, #0x20]",
    ),
    (ARM64, "adrp x3, <_stext>; nop", "adrp x3, #0xffff800080ff0000; nop"),
    (ARM64, "adr x2, <f+0x4c>", "adr x2, <f+0x50>"),
    (
        ARM64,
        "movz x5, #0x4f00; movk x5, #0x1fc5, lsl #16; movk x5, #0, lsl #32;"
        " movk x5, #0xfff0, lsl #48",
        "movz x5, #0x4e40; movk x5, #0x1fc6, lsl #16; movk x5, #0, lsl #32;"
        " movk x5, #0xfff0, lsl #48",
    ),
    # riscv64: distances from the program counter.
    (
        RISCV64,
        "auipc t1,5812224 # 0xffffffff8100175a; addi t1,t1,-1338",
        "auipc t1,0xffffffff8100275a; mv t1,t1",
    ),
    (
        RISCV64,
        "auipc a5,30240768 # 0xffffffff81db9ad2; lw a5,30(a5)",
        "auipc a5,30240768 # 0xffffffff81db9ad6; lw a5,-26(a5)",
    ),
    (
        RISCV64,
        "auipc ra,<fget_task+0x62>; jalr ra,ra,616; g: -> ret",
        "auipc ra,<put_task+0x6>; jalr ra,ra,-1396; g: -> ret",
    ),
    (
        RISCV64,
        "auipc t1,<fget_task+0x62>; jalr zero,t1,-1118; g: -> ret",
        "auipc t1,<fget_task+0x62>; jr t1; g: -> ret",
    ),
    (
        RISCV64,
        "auipc gp,20185088 # 0xffffffff81db673e; addi gp,gp,-38; ld t0,-1216(gp); lw a2,-1268(gp)",
        "auipc gp,1282048 # 0xffffffff802bb7a6; addi gp,gp,1402; ld t0,-1200(gp); lw a2,-1272(gp)",
    ),
    # x86_64: distances, per-cpu variables, numbers that are addresses.
    (X86_64, "movq %gs:0x7e205f85(%rip), %rsp", "movq %gs:0x7e235f85(%rip), %rsp"),
    (X86_64, "movzbl 0x1db6bfc(%rip), %ecx", "movzbl -0x6bfc(%rip), %ecx"),
    (X86_64, "movl 8(%rip), %ecx", "movl 0x10(%rip), %ecx"),
    (X86_64, "movq %gs:0x1fb80, %rax", "movq %gs:0x1fbc0, %rax"),
    (X86_64, "movq $-0x7c7ad280, %rdx", "movq $-0x7c7ad240, %rdx"),
    (X86_64, "movq $-0x7dfb8380, 0x10(%r10)", "movq $-0x7e9f2340, 0x10(%r10)"),
    (X86_64, "cmpq $-0x7e000000, %rbx", "cmpq $-0x7de00000, %rbx"),
    (X86_64, "movzbl -0x7db1da0c(%rdx), %ecx", "movzbl -0x7e977299(%rdx), %ecx"),
    (X86_64, "leaq -0x7deda400(, %rax, 8), %rdx", "leaq -0x7e9d7c60(, %rax, 8), %rdx"),
    (X86_64, "movabsq $0xff1100001fd27c40, %rdx", "movabsq $0xff1100001fd278c0, %rdx"),
    (X86_64, "movabsq $0xffff88801ff51bc0, %rdx", "movabsq $0xffff88801ff51b00, %rdx"),
]


@pytest.mark.parametrize(("arch", "old", "new"), MOVED)
def test_what_the_linker_chose_is_no_difference(arch: str, old: str, new: str) -> None:
    one, other = streams(arch, old, new)
    assert one == other


CHANGED = [
    # Another register, function, constant, field, order; one more.
    (ARM64, "cbz x2, <f+0x68>", "cbz x3, <f+0x68>"),
    (ARM64, "cbz x2, <f+0x68>", "cbnz x2, <f+0x68>"),
    (ARM64, "bl <el0_svc_common.constprop.0>", "bl <el0_svc>"),
    (ARM64, "nop; ret", "ret; nop"),
    (ARM64, "nop", "nop; nop"),
    (ARM64, "f: nop", "g: nop"),
    (ARM64, "and x0, x0, #0xffffffffffe01fff", "and x0, x0, #0xffffffffffe00fff"),
    (ARM64, "orr x1, xzr, #0xffff80007fffffff", "orr x1, xzr, #0xffff80003fffffff"),
    (ARM64, "ldr x0, [x28, #0x1240]", "ldr x0, [x28, #0x1290]"),
    (ARM64, "movk x20, #0x61c8, lsl #48", "movk x20, #0x61c9, lsl #48"),
    (
        ARM64,
        "movz x20, #0x83eb; movk x20, #0x80b5, lsl #16; movk x20, #0x8646, lsl #32;"
        " movk x20, #0x61c8, lsl #48",
        "movz x20, #0x83ed; movk x20, #0x80b5, lsl #16; movk x20, #0x8646, lsl #32;"
        " movk x20, #0x61c8, lsl #48",
    ),
    (RISCV64, "lui t0,286720", "lui t0,290816"),
    (RISCV64, "lui a2,4096; addi a2,a2,-1", "lui a2,4096; addi a2,a2,-2"),
    (RISCV64, "ld a5,1392(tp)", "ld a5,1400(tp)"),
    (RISCV64, "addi gp,gp,8; sd ra,-8(gp)", "addi gp,gp,16; sd ra,-16(gp)"),
    (RISCV64, "jalr ra,a5,0", "jalr ra,a5,4"),
    (RISCV64, "auipc ra,<g>; jalr ra,ra,616; g: -> ret", "auipc ra,<g>; jalr ra,ra,616; h: -> ret"),
    (X86_64, "movq %gs:0x28, %rax", "movq %gs:0x30, %rax"),
    (X86_64, "movq %gs:8(%rsi), %rax", "movq %gs:0x10(%rsi), %rax"),
    (X86_64, "movq 0x160(%rax), %rbp", "movq 0x168(%rax), %rbp"),
    (X86_64, "movl -0x803000(%rdi), %eax", "movl -0xa03000(%rdi), %eax"),
    (X86_64, "andq $0xfffffffffffffff0, %rsp", "andq $0xffffffffffffffe0, %rsp"),
    (X86_64, "testq $-0x7c000000, %rax", "testq $-0x78000000, %rax"),
    (X86_64, "movq $-0x80000000, %rdx", "movq $-0x7f800000, %rdx"),
    (X86_64, "movabsq $0x61c8864680b583eb, %rsi", "movabsq $0x61c8864680b583ed, %rsi"),
    (X86_64, "movabsq $0xffff888000000000, %rbp", "movabsq $0xffff800000000000, %rbp"),
    (X86_64, "cmpl $0x1ce, %r12d", "cmpl $0x1cf, %r12d"),
    (X86_64, "movl $5, 0x10(%rip)", "movl $6, 0x10(%rip)"),
]


@pytest.mark.parametrize(("arch", "old", "new"), CHANGED)
def test_other_instructions_are_a_difference(arch: str, old: str, new: str) -> None:
    one, other = streams(arch, old, new)
    assert one != other


ARM64_HIGH, RISCV64_HIGH = "adrp x0, #0xffff800081f52000", "auipc a5,20185088 # 0xffffffff81db673e"


@pytest.mark.parametrize(
    ("arch", "lines", "shown"),
    [
        # A whole address: what is added to it is a field.
        (ARM64, f"{ARM64_HIGH}; add x0, x0, #0xe8; ldr x1, [x0, #0x10]", "ldr x1, [x0, #0x10]"),
        (ARM64, f"{ARM64_HIGH}; ldr x0, [x0, #0xe8]; ldr x1, [x0, #0x10]", "ldr x1, [x0, #0x10]"),
        (RISCV64, f"{RISCV64_HIGH}; addi a5,a5,-38; ld a4,16(a5)", "ld a4,16(a5)"),
        (RISCV64, f"{RISCV64_HIGH}; ld a5,-38(a5); ld a4,16(a5)", "ld a4,16(a5)"),
        # The sum is in another register; the part remains.
        (ARM64, f"{ARM64_HIGH}; add x1, x0, #0xe8; ldr x2, [x1, #8]", "ldr x2, [x1, #8]"),
        (ARM64, f"{ARM64_HIGH}; add x1, x0, #0xe8; ldr x2, [x0, #0xe8]", "ldr x2, [x0, %lo]"),
        # Fields of one variable.
        (ARM64, f"{ARM64_HIGH}; ldr x1, [x0, #0xe8]; ldr x2, [x0, #0xf0]", "ldr x2, [x0, %lo+8]"),
        (RISCV64, f"{RISCV64_HIGH}; ld a4,-38(a5); sd a4,-46(a5)", "sd a4,%lo-8(a5)"),
        # Anything else that may have written the register.
        (ARM64, f"{ARM64_HIGH}; mov w0, w1; ldr x1, [x0, #0x10]", "ldr x1, [x0, #0x10]"),
        (ARM64, f"{ARM64_HIGH}; ldp x2, x0, [sp]; ldr x1, [x0, #0x10]", "ldr x1, [x0, #0x10]"),
        (ARM64, f"{ARM64_HIGH}; ldr x2, [x0, #8]!; ldr x1, [x0, #0x10]", "ldr x1, [x0, #0x10]"),
        (
            ARM64,
            f"{ARM64_HIGH}; .byte 0x82, 0x7c, 0x20, 0x48; ldr x1, [x0, #8]",
            "ldr x1, [x0, #8]",
        ),
        (RISCV64, f"{RISCV64_HIGH}; amoadd.w a5,s1,(a0); ld a4,16(a5)", "ld a4,16(a5)"),
        (
            RISCV64,
            "auipc gp,1282048 # 0xffffffff802bb7a6; ld gp,24(sp); ld a4,16(gp)",
            "ld a4,16(gp)",
        ),
        # More than a page is no lower part.
        (ARM64, f"{ARM64_HIGH}; ldr x1, [x0, #0x1240]", "ldr x1, [x0, #0x1240]"),
        (ARM64, f"{ARM64_HIGH}; add x1, x0, #1, lsl #12", "add x1, x0, #1, lsl #12"),
        # Without one.
        (ARM64, "ldr x1, [x0, #0x10]", "ldr x1, [x0, #0x10]"),
        (RISCV64, "lui a5,4096; ld a4,16(a5)", "ld a4,16(a5)"),
    ],
)
def test_only_what_completes_an_address_is_left_out(arch: str, lines: str, shown: str) -> None:
    assert stream(path(lines.split("; ")), ARCHES[arch])[-1] == ("f", shown)


@pytest.mark.parametrize(
    ("register", "shown"), [("x21", "ldr x1, [x21, %lo]"), ("x9", "ldr x1, [x9, #0x18]")]
)
def test_a_function_called_restores_only_the_registers_it_must(register: str, shown: str) -> None:
    caller = path([f"adrp {register}, #0xffff800082a69000", "bl <g>"])
    callee = path(["stp x21, x22, [sp, #0x10]", "mov x9, x21", "mov x21, x0", "ret"], BASE + 0x800)
    after = path([f"ldr x1, [{register}, #0x18]"], BASE + 8)
    callee = [insn._replace(function="g") for insn in callee]
    assert stream(caller + callee + after, ARCHES[ARM64])[-1] == ("f", shown)


def test_where_execution_went_on_is_part_of_a_branch() -> None:
    taken, not_taken = streams(ARM64, "cbz x2, <f+0x68>; -> nop", "cbz x2, <f+0x68>; nop")
    assert taken != not_taken
    near, far = streams(ARM64, "cbz x2, <f+0x68>; -> nop", "cbz x2, <f+0x168>; -> nop")
    assert near == far


def test_a_clone_is_its_function() -> None:
    one, other = streams(ARM64, "f.constprop.0: nop", "f: nop")
    assert one == other == (("f", "nop"),)


@pytest.mark.parametrize("arch", ARCHES)
def test_an_empty_path_has_an_empty_stream(arch: str) -> None:
    assert stream([], ARCHES[arch]) == ()


# --- loops ---------------------------------------------------------------


def nops(*addresses: int) -> list[Instruction]:
    return [Instruction(address, "13000000", "nop", "f", 0) for address in addresses]


def folded(*addresses: int) -> list[tuple[int, int]]:
    return [(one.instruction.address, one.times) for one in fold(nops(*addresses))]


def test_rounds_of_a_loop_are_one() -> None:
    assert folded(1, 2, 3, 2, 3, 2, 3, 4) == [(1, 1), (2, 3), (3, 3), (4, 1)]
    # One that is cut short stays apart.
    assert folded(1, 2, 3, 2, 3, 2, 4) == [(1, 1), (2, 2), (3, 2), (2, 1), (4, 1)]
    # A loop in a loop.
    assert folded(1, 2, 2, 2, 3, 1, 2, 2, 2, 3) == [(1, 2), (2, 6), (3, 2)]
    # A function that is called twice from two places is no loop.
    assert folded(1, 8, 9, 2, 8, 9, 3) == [(1, 1), (8, 1), (9, 1), (2, 1), (8, 1), (9, 1), (3, 1)]


@given(st.lists(st.integers(0, 4), max_size=60))
def test_as_many_of_each_are_left(addresses: list[int]) -> None:
    found = fold(nops(*addresses))
    for address in range(5):
        times = sum(one.times for one in found if one.instruction.address == address)
        assert times == addresses.count(address)
    assert all(addresses[one.position] == one.instruction.address for one in found)
