# SPDX-License-Identifier: GPL-2.0-or-later
"""Paths taken apart, on hand-written ones of each architecture's shape."""

import pytest

from kentry.arch import find_arch
from kentry.path.calls import call_depths, parts, spans, split_calls
from kentry.results.recording import Instruction, read_recording
from tests import ROOT

FUNCTIONS: dict[str, int] = {}


def path(text: str) -> list[Instruction]:
    """Lines "function+offset text"; 4 bytes an instruction, functions 4 KiB apart."""
    found = []
    for line in text.strip().splitlines():
        place, words = line.split(maxsplit=1)
        function, offset = place.split("+")
        base = FUNCTIONS.setdefault(function, 0xFFFF000000000000 + 0x1000 * len(FUNCTIONS))
        at = int(offset)
        found.append(Instruction(base + at, "00000000", words.strip(), function, at))
    return found


ARM64 = path("""
    vectors+1024           b <el0t_64_sync>
    el0t_64_sync+0         stp x0, x1, [sp]
    el0t_64_sync+4         bl <el0t_64_sync_handler>
    el0t_64_sync_handler+0 bl <el0_svc>
    el0_svc+0              blr x1
    __arm64_sys_getppid+0  bl <__task_pid_nr_ns>
    __task_pid_nr_ns+0     ret
    __arm64_sys_getppid+4  ret
    el0_svc+4              ret
    el0t_64_sync_handler+4 ret
    el0t_64_sync+8         b <ret_to_user>
    ret_to_user+0          eret
""")

# 6.12's x64_sys_call jumps to the handler; the return thunk is part of every return.
X86_64 = path("""
    entry_SYSCALL_64+0     swapgs
    entry_SYSCALL_64+4     callq <do_syscall_64>
    do_syscall_64+0        callq <x64_sys_call>
    x64_sys_call+0         jmp <__x64_sys_getppid>
    __x64_sys_getppid+0    callq <__x86_indirect_thunk_rax>
    __x86_indirect_thunk_rax+0 callq <__x86_indirect_thunk_rax+0x20>
    __x86_indirect_thunk_rax+32 retq
    getter+0               jmp <__x86_return_thunk>
    __x86_return_thunk+0   retq
    __x64_sys_getppid+4    jmp <__x86_return_thunk>
    __x86_return_thunk+0   retq
    do_syscall_64+4        retq
    entry_SYSCALL_64+8     sysretq
""")

# riscv's entry jumps to its C handler with the return address set by hand.
RISCV64 = path("""
    handle_exception+0     csrrw tp,sscratch,tp
    handle_exception+4     jr t1
    do_trap_ecall_u+0      jalr ra,a5,0
    __riscv_sys_getppid+0  ret
    do_trap_ecall_u+4      ret
    ret_from_exception+0   sret
""")


NAMES = ("entry", "dispatch", "handler", "exit", "return")


@pytest.mark.parametrize(
    ("name", "instructions", "sizes", "depths"),
    [
        ("arm64", ARM64, [3, 2, 3, 2, 2], [0, 0, 0, 1, 2, 3, 4, 3, 2, 1, 0, 0]),
        ("x86_64", X86_64, [2, 2, 7, 1, 1], [0, 0, 1, 2, 2, 3, 3, 3, 3, 2, 2, 1, 0]),
        ("riscv64", RISCV64, [2, 1, 1, 1, 1], [0, 0, 1, 2, 1, 0]),
        # A handler that jumps to the assembly ends all calls.
        ("riscv64", [*RISCV64[:4], RISCV64[5]], [2, 1, 1, 0, 1], [0, 0, 1, 2, 0]),
        # Without a handler everything in C is dispatch.
        ("arm64", [*ARM64[:4], *ARM64[9:]], [3, 2, 0, 0, 2], [0, 0, 0, 1, 1, 0, 0]),
        ("arm64", [], [0, 0, 0, 0, 0], []),
    ],
)
def test_a_call_has_parts_and_depths(
    name: str, instructions: list[Instruction], sizes: list[int], depths: list[int]
) -> None:
    arch = find_arch(name)
    found = parts(instructions, arch)
    assert {part.name: len(part.instructions) for part in found} == {
        part: size for part, size in zip(NAMES, sizes, strict=True) if size
    }
    assert [insn for part in found for insn in part.instructions] == instructions
    assert [depth for part in found for depth in part.depths] == depths
    assert call_depths(instructions, arch) == depths


@pytest.mark.parametrize(
    ("arch", "functions"),
    [
        ("arm64", "vectors el0t_64_sync ret_to_user tramp_vectors"),
        ("riscv64", "handle_exception ret_from_exception ret_from_syscall handle_syscall"),
        (
            "x86_64",
            "entry_SYSCALL_64 entry_SYSCALL_64_after_hwframe asm_int80_emulation error_entry"
            " error_return common_interrupt_return early_xen_iret_patch native_irq_return_iret"
            " swapgs_restore_regs_and_return_to_usermode syscall_return_via_sysret",
        ),
    ],
)
def test_what_is_entry_assembly_and_what_is_not(arch: str, functions: str) -> None:
    assembly = find_arch(arch).assembly
    assert all(assembly.fullmatch(name) for name in functions.split())
    others = "el0_svc do_syscall_64 do_trap_ecall_u do_int80_emulation x64_sys_call"
    assert not any(assembly.fullmatch(name) for name in others.split())


# --- calls within calls ----------------------------------------------------

_CALL, _OTHER, _RETURN = "bl 0x1000 <f>", "nop", "ret"


def linked(*lines: tuple[str, int, str]) -> list[Instruction]:
    """Instructions of (function, offset in it, text); each function at an address of its own."""
    bases = {name: 0x10000 * n for n, name in enumerate(dict.fromkeys(f for f, _, _ in lines), 1)}
    return [
        Instruction(bases[name] + offset, "1f2003d5", text, name, offset)
        for name, offset, text in lines
    ]


RECURSIVE = [("f", 0, _OTHER), ("f", 4, _CALL), ("f", 0, _RETURN), ("f", 8, _RETURN)]
ONCE = linked(("vectors", 0, _CALL), ("f", 0, _OTHER))


@pytest.mark.parametrize(
    ("path", "found", "inner"),
    [
        # A call is within its caller, and a jump takes the place of what jumps.
        (
            linked(
                ("vectors", 0, "b 0x1 <el0t_64_sync>"),
                ("el0t_64_sync", 0, _CALL),
                ("outer", 0, _OTHER),
                ("outer", 4, _CALL),
                ("inner", 0, "b 0x1 <tail>"),
                ("tail", 0, _RETURN),
                ("outer", 8, _CALL),
                ("inner", 0, _RETURN),
                ("outer", 12, _RETURN),
                ("el0t_64_sync", 4, "eret"),
            ),
            [
                ("vectors", 0, 1, None, None),
                ("el0t_64_sync", 1, 10, None, None),
                ("outer", 2, 9, 1, 1),
                ("inner", 4, 5, 2, 3),
                ("tail", 5, 6, 2, 3),
                ("inner", 7, 8, 2, 6),
            ],
            (0, 1, 2, 2, 3, 4, 2, 5, 2, 1),
        ),
        # A function that calls itself is within itself.
        (
            linked(("vectors", 0, _CALL), *RECURSIVE),
            [("vectors", 0, 5, None, None), ("f", 1, 5, 0, 0), ("f", 3, 4, 1, 2)],
            (0, 1, 1, 2, 1),
        ),
        # Each system call of a window begins outside.
        (
            ONCE * 2,
            [
                ("vectors", 0, 2, None, None),
                ("f", 1, 2, 0, 0),
                ("vectors", 2, 4, None, None),
                ("f", 3, 4, 2, 2),
            ],
            (0, 1, 2, 3),
        ),
        ([], [], ()),
    ],
)
def test_a_call_is_a_span(
    path: list[Instruction], found: list[tuple[object, ...]], inner: tuple[int, ...]
) -> None:
    assert spans(path, find_arch("arm64")) == (tuple(found), inner)


@pytest.mark.parametrize("name", ["arm64-6.1", "arm64-6.12", "floor-arm64"])
def test_spans_of_a_kernel_are_as_deep_as_its_calls(name: str) -> None:
    recording = read_recording(ROOT / "tests" / "golden" / f"{name}.json")
    for case in recording.cases:
        assert case.modal_path
        code = recording.instructions(case.modal_path)
        found = spans(code, find_arch("arm64"))
        depths = [
            depth for call in split_calls(code) for depth in call_depths(call, find_arch("arm64"))
        ]
        for position, (insn, depth) in enumerate(zip(code, depths, strict=True)):
            at: int | None = found.inner[position]
            around = []
            while at is not None:
                span = found.spans[at]
                assert span.start <= position < span.end
                around.append(span.function)
                at = span.caller
            assert around[0] == insn.function
            assert len(around) == depth + 1
        # A call's instruction is in the function that makes it, or in one that it jumped to.
        for one in found.spans:
            assert (one.caller is None) == (one.site is None)
            assert one.site is None or one.site < one.start
