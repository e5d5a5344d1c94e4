# SPDX-License-Identifier: GPL-2.0-or-later
"""Events in paths: which instructions are events, and whose doing they are."""

import re
from dataclasses import replace

import pytest

from kentry.arch import ARCHES, Arch
from kentry.arch.record import Marker, VectorSide
from kentry.path.events import EventCounter, find_markers
from kentry.results.recording import Instruction, VectorEvent
from tests.unit.vector.builders import Program

ARM, RISCV, X86 = ARCHES["arm64"], ARCHES["riscv64"], ARCHES["x86_64"]
ARM64, RISCV64, X86_64 = ARM.vector, RISCV.vector, X86.vector

# Bytes in memory order, text as QEMU's disassembler has it.
NOP, RET = ("13000000", "nop"), ("67800000", "ret")
CALL, JUMP = ("ef000000", "jal ra,<it>"), ("6f000000", "j <it>")
DISCARD = ("57b00f5e", "vmv.v.i v0,-1")
SAVE = ("278c0202", "vse8.v v24,(t0)")
RESTORE = ("078c0202", "vle8.v v24,(t0)")

BL, WRFFR = ("00000094", "bl <x>"), ("00902825", ".byte 0x00, 0x90, 0x28, 0x25")
RDFFR = ("00f01925", ".byte 0x00, 0xf0, 0x19, 0x25")
AND, MSR = ("00f86e92", "and x0, x0, #0xfffffffffffdffff"), ("401018d5", "msr cpacr_el1, x0")
STR_ZA, LDR_ZA = ("000020e1", ".byte 0x00, 0x00, 0x20, 0xe1"), ("000000e1", ".byte 0, 0, 0, 0xe1")
FIRST_USE = "riscv_v_first_use_handler"


def function(*inside: tuple[str, str]) -> list[tuple[str, str]]:
    """NOP, CALL, what is inside, RET: the call's place is 1, what comes behind it is at 2."""
    return [NOP, CALL, *inside, RET]


def in_calls(*functions: str, event: tuple[str, str] = SAVE) -> list[VectorEvent]:
    """The events of `event` in the last of functions that call each other, the first first."""
    program = Program({name: function(event) for name in functions})
    *outer, inner = functions
    return program.events(RISCV, *(f"{name}:0-1" for name in outer), f"{inner}:0", f"{inner}:2")


def test_an_event_is_counted_where_it_is() -> None:
    program = Program({"do_trap_ecall_u": [NOP, DISCARD, NOP, DISCARD], "other": [DISCARD]})
    assert program.events(RISCV, "do_trap_ecall_u:0-3", "other:0", "do_trap_ecall_u:1") == [
        VectorEvent("discard", "syscall", "do_trap_ecall_u", 3),
        VectorEvent("discard", "syscall", "other", 1),
    ]
    assert program.events(RISCV, "do_trap_ecall_u:0") == program.events(RISCV) == []


@pytest.mark.parametrize(
    ("functions", "cause"),
    [
        ("do_trap_ecall_u", "syscall"),
        ("do_trap_ecall_u helper", "syscall"),
        (f"do_trap_insn_illegal {FIRST_USE} helper", "first use"),
        ("arch_do_signal_or_restart handle_signal helper", "signal"),
        ("__riscv_sys_rt_sigreturn helper", "signal"),
        ("__x64_sys_rt_sigreturn fpu__restore_sig", "signal"),
        ("__do_sys_clone kernel_clone copy_process.isra.0 helper", "fork"),
        ("load_elf_binary begin_new_exec fpsimd_flush_thread", "exec"),
        ("schedule __schedule helper", "switch"),
        ("__switch_to fpsimd_thread_switch helper", "switch"),
        ("xor_blocks kernel_neon_begin helper", "kernel use"),
        ("xor_blocks kernel_vector_begin helper", "kernel use"),
        ("xor_blocks kernel_fpu_begin_mask helper", "kernel use"),
        # The innermost of two.
        ("kernel_clone schedule helper", "switch"),
        ("__schedule do_signal helper", "signal"),
        # What the kernel uses the unit for says more than that it does.
        ("ksys_read enter_vector_usercopy kernel_vector_begin helper", "user copy"),
        ("do_signal kernel_vector_begin helper", "signal"),
        (f"do_signal {FIRST_USE} kernel_vector_begin", "first use"),
        # Not functions that only have such a name in theirs; a clone is its function.
        ("reschedule my_copy_process_x", "syscall"),
        ("do_signal.constprop.0 helper.isra.0.cold", "signal"),
    ],
)
def test_the_cause_is_the_innermost_function_that_stands_for_one(
    functions: str, cause: str
) -> None:
    (event,) = (one for one in in_calls(*functions.split()) if one.name == "save")
    inner = functions.split()[-1].partition(".")[0]
    assert event == VectorEvent("save", cause, inner, 1)


CALLS = Program(
    {name: function(NOP, SAVE) for name in ("main", "do_signal", "leaf")}
    | {"jumps": [NOP, JUMP], "do_signal_jumps": [NOP, JUMP], "__switch_to": [NOP, JUMP]}
    | {"helper": [SAVE, RET]}
)


@pytest.mark.parametrize(
    ("path", "events"),
    [
        # A function that returned is no cause.
        (
            "main:0-1 do_signal:0 do_signal:3-4 main:2-4",
            [("signal", "do_signal"), ("syscall", "main")],
        ),
        # A return over several calls leaves them all.
        (
            "main:0-1 do_signal:0-1 leaf:0 leaf:2-4 main:2-3",
            [("signal", "leaf"), ("syscall", "main")],
        ),
        # A recursion returns one call at a time.
        ("leaf:0-1 do_signal:0-1 leaf:0-1 leaf:0 leaf:4 leaf:2-4", [("signal", "leaf")]),
        (
            "leaf:0-1 do_signal:0-1 leaf:0-1 leaf:0 leaf:4 leaf:2-4 do_signal:2 leaf:2-3",
            [("signal", "leaf"), ("syscall", "leaf")],
        ),
        # do_signal calls a function that jumps to helper, which returns to do_signal.
        (
            "main:0-1 do_signal:0-1 jumps:0-1 helper:0-1 do_signal:2 main:2-3",
            [("signal", "helper"), ("syscall", "main")],
        ),
        # Who left by a tail call is no cause any more.
        ("main:0-1 do_signal_jumps:0-1 helper:0-1", [("syscall", "helper")]),
        # Only the switch's first instruction leaves the stack.
        ("do_signal:0-1 jumps:0-1 __switch_to:1 helper:0", [("signal", "helper")]),
        ("do_signal:0-1 jumps:0-1 __switch_to:0-1 helper:0", [("syscall", "helper")]),
    ],
)
def test_calls_and_returns(path: str, events: list[tuple[str, str]]) -> None:
    found = CALLS.events(RISCV, *path.split())
    assert found == [VectorEvent("save", cause, name, 1) for cause, name in events]


@pytest.mark.parametrize(
    ("arch", "call", "event"),
    [
        (ARM, BL, RDFFR),
        (ARM, ("20003fd6", "blr x1"), RDFFR),
        (RISCV, ("8297", "jalr ra,a5,0"), SAVE),
        (RISCV, ("ef807071", "jal ra,<x>"), SAVE),
        (X86, ("e800000000", "callq <x>"), ("480fae27", "xsave64 (%rdi)")),
        (X86, ("ffd0", "callq *%rax"), ("480fc72f", "xsaves64 (%rdi)")),
    ],
)
def test_calls_of_every_architecture(
    arch: Arch, call: tuple[str, str], event: tuple[str, str]
) -> None:
    program = Program({"main": [call, event], "do_signal": [call, event], "helper": [event, RET]})
    path = ("main:0", "do_signal:0", "helper:0-1", "do_signal:1", "main:1")
    assert [(one.cause, one.function) for one in program.events(arch, *path)] == [
        ("signal", "helper"),
        ("signal", "do_signal"),
        ("syscall", "main"),
    ]
    # Also where the call is the first instruction of all.
    first = Program({"do_signal": [call], "helper": [event]})
    assert [one.cause for one in first.events(arch, "do_signal:0", "helper:0")] == ["signal"]


@pytest.mark.parametrize("jump", ["b <x>", "br x1", "ret"])
def test_a_jump_is_no_call(jump: str) -> None:
    program = Program({"do_signal": [("00000014", jump), RDFFR], "helper": [RDFFR]})
    assert program.events(ARM, "do_signal:0", "helper:0") == [
        VectorEvent("save", "syscall", "helper", 1)
    ]


# --- restores ------------------------------------------------------------

LOSS_AND_RESTORE = Program(
    {
        "main": function(SAVE, RESTORE, DISCARD),
        "enter_vector_usercopy": function(),
        "kernel_vector_begin": function(SAVE),
        "__schedule": function(SAVE, RESTORE),
        "back_to_user": [RESTORE],
    }
)
USER_COPY = (
    "main:0-1 enter_vector_usercopy:0-1 kernel_vector_begin:0 kernel_vector_begin:2-3"
    " enter_vector_usercopy:2"
)


@pytest.mark.parametrize(
    ("path", "cause"),
    [
        (f"{USER_COPY} back_to_user:0", "user copy"),
        ("__schedule:0 __schedule:2 back_to_user:0", "switch"),
        (
            f"{USER_COPY} main:0-1 __schedule:0 __schedule:2 __schedule:4 back_to_user:0",
            "switch",
        ),
        (f"{USER_COPY} main:2 back_to_user:0", "syscall"),
        # Lost before the window; a discard is no loss that a restore makes good.
        ("main:0 back_to_user:0", "earlier"),
        ("main:4 back_to_user:0", "earlier"),
        # A cause of its own.
        (f"{USER_COPY} main:0-1 __schedule:0 __schedule:3", "switch"),
    ],
)
def test_a_restore_is_for_what_was_lost_last(path: str, cause: str) -> None:
    events = LOSS_AND_RESTORE.events(RISCV, *path.split())
    assert [event.cause for event in events if event.name == "restore"] == [cause]


def test_use_by_the_kernel_is_a_loss_even_where_nothing_was_saved() -> None:
    program = Program({"xor": function(), "kernel_vector_begin": [NOP, RET], "end": [RESTORE]})
    assert program.events(RISCV, "xor:0-1", "kernel_vector_begin:0-1", "end:0") == [
        VectorEvent("kernel-use", "kernel use", "kernel_vector_begin", 1),
        VectorEvent("restore", "kernel use", "end", 1),
    ]


def test_what_is_dropped_while_registers_are_loaded_is_for_the_same_reason() -> None:
    program = Program(
        {
            "fpsimd_thread_switch": [RDFFR],
            "fpsimd_bind_task_to_cpu": [AND, MSR],
            "el0_svc": [AND, MSR],
        }
    )
    path = ("fpsimd_thread_switch:0", "fpsimd_bind_task_to_cpu:0-1", "el0_svc:0-1")
    assert program.events(ARM, *path) == [
        VectorEvent("save", "switch", "fpsimd_thread_switch", 1),
        VectorEvent("drop", "switch", "fpsimd_bind_task_to_cpu", 1),
        VectorEvent("drop", "syscall", "el0_svc", 1),
    ]


@pytest.mark.parametrize(
    ("arch", "call", "save", "restore"),
    [
        (ARM, "bl <x>", RDFFR, ("1f408085", "ldr z31, [x0]")),
        (RISCV, "jal ra,<x>", SAVE, RESTORE),
        (X86, "callq <x>", ("480fae27", "xsave64 (%rdi)"), ("480fae2f", "xrstor64 (%rdi)")),
    ],
)
def test_behind_a_switch_nothing_is_known_of_the_calls(
    arch: Arch, call: str, save: tuple[str, str], restore: tuple[str, str]
) -> None:
    switch = arch.vector.switch
    program = Program(
        {
            "do_signal": [("00000000", call), save],
            "sleep": [("00000000", call), save],
            switch: [NOP, NOP],
            "other_task": [save, restore],
        }
    )
    path = ("do_signal:0", "sleep:0", f"{switch}:0-1")
    events = program.events(arch, *path, "other_task:0")
    assert [(one.name, one.cause) for one in events] == [("save", "syscall")]
    events = program.events(arch, *path, "other_task:1")
    assert [(one.name, one.cause) for one in events] == [("restore", "switch")]
    # Not even where the first task's stack is come back to.
    events = program.events(arch, *path, "sleep:1", "do_signal:1")
    assert [(one.cause, one.function) for one in events] == [
        ("syscall", "sleep"),
        ("signal", "do_signal"),
    ]


# --- conditions of markers -----------------------------------------------


def test_behind_means_directly_behind() -> None:
    nop = ("1f2003d5", "nop")
    program = Program({"f": [AND, MSR, nop, MSR, AND, nop, MSR, AND]})
    assert program.events(ARM, "f:0-1") == [VectorEvent("drop", "syscall", "f", 1)]
    # What a path begins with is behind nothing.
    for path in ("f:1", "f:2-3", "f:4-6", "f:6-7"):
        assert program.events(ARM, path) == []


@pytest.mark.parametrize(
    ("arch", "event", "name", "is_event"),
    [
        (ARM, WRFFR, "sve_flush_live", True),
        (ARM, WRFFR, "sve_load_state", False),
        (ARM, WRFFR, "__sve_restore_state", False),
        (RISCV, SAVE, "__switch_to_vector", True),
        (RISCV, SAVE, "xor_regs_2_", False),
        (RISCV, RESTORE, "xor_regs_5_", False),
    ],
)
def test_outside_some_functions(
    arch: Arch, event: tuple[str, str], name: str, is_event: bool
) -> None:
    assert bool(Program({name: [event]}).events(arch, f"{name}:0")) == is_event


def test_within_a_function_or_what_it_calls() -> None:
    names = ("do_sve_acc", "sve_alloc", "__kmalloc", "do_pipe_flags", "kmalloc_slab")
    program = Program({name: [NOP, BL, NOP] for name in names})
    # As in Debian's arm64 6.1: __kmalloc calls kmalloc_slab, and that is one allocation.
    calls = ("do_sve_acc:0-1", "sve_alloc:0-1", "__kmalloc:0-1", "kmalloc_slab:0-1", "__kmalloc:2")
    assert program.events(ARM, *calls, "sve_alloc:2") == [
        VectorEvent("trap", "first use", "do_sve_acc", 1),
        VectorEvent("allocation", "first use", "__kmalloc", 1),
    ]
    assert program.events(ARM, "do_pipe_flags:0-1", "__kmalloc:0-1") == []
    # Behind sve_alloc's return it is another's again.
    returned = ("do_pipe_flags:0-1", "sve_alloc:0", "sve_alloc:2", "do_pipe_flags:2")
    assert program.events(ARM, *returned, "__kmalloc:0") == []


def test_only_markers_that_the_kernel_has_are_counted_and_a_function_is_within_itself() -> None:
    encoding = re.compile(bytes.fromhex(SAVE[0]))
    marker = Marker("x", "save in f", code=encoding, within=re.compile("f"))
    code = Program({"f": [SAVE, DISCARD], "g": [SAVE]}).code
    counter = EventCounter([marker], RISCV, code)
    assert counter.count([0, 1, 2]) == (VectorEvent("x", "syscall", "f", 1),)


@pytest.mark.parametrize("part", ["part.0", "cold"])
def test_a_function_is_entered_at_its_first_instruction(part: str) -> None:
    """A part of it is not entered by who calls the function."""
    program = Program({FIRST_USE: function(), f"{FIRST_USE}.{part}": [NOP, RET]})
    trap = [VectorEvent("trap", "first use", FIRST_USE, 1)]
    path = (f"{FIRST_USE}:0-1", f"{FIRST_USE}.{part}:0-1", f"{FIRST_USE}:2")
    assert program.events(RISCV, *path) == trap
    assert program.events(RISCV, f"{FIRST_USE}:0-2", f"{FIRST_USE}:1-2") == trap


def test_turns_of_a_loop_are_one_event_until_another_comes_between() -> None:
    branch = ("01000054", "b.ne <f+0x4>")
    program = Program({"f": [NOP, STR_ZA, branch, LDR_ZA, branch, RDFFR, branch]})
    save, load = ["f:1-2"] * 16, ["f:3-4"] * 16
    assert program.events(ARM, "f:0", *save) == [VectorEvent("za-save", "syscall", "f", 1)]
    counted = program.events(ARM, "f:0", *save, *load, *save, "f:5", *save)
    assert {one.name: one.times for one in counted} == {"za-save": 3, "za-restore": 1, "save": 1}
    # Others are as many as they are.
    assert [one.times for one in program.events(ARM, "f:5-6", "f:5-6")] == [2]


# --- which markers a kernel has ------------------------------------------


def found(events: str, symbols: list[str], image: bytes = b"", of: VectorSide = ARM64) -> list[str]:
    markers = tuple(one for one in of.markers if one.event in events.split())
    return [marker.event for marker in find_markers(replace(of, markers=markers), symbols, image)]


def raw(*instructions: tuple[str, str]) -> bytes:
    return b"".join(bytes.fromhex(code) for code, _ in instructions)


def test_every_marker_of_a_kernel_that_has_them_and_none_of_others() -> None:
    symbols = [f"{FIRST_USE}.constprop.0", "kernel_vector_begin", "kmem_cache_alloc_noprof"]
    image = bytes(6) + raw(DISCARD, NOP, SAVE, RESTORE)
    assert find_markers(RISCV64, iter(symbols), image) == list(RISCV64.markers)
    assert find_markers(RISCV64, ["do_trap_ecall_u", "kmalloc"], raw(NOP) * 64) == []


@pytest.mark.parametrize(
    ("symbols", "events"),
    [
        (["do_sve_acc"], ["trap"]),
        (["do_sve_acc_x", "x_do_sve_acc", "do_sve_ac"], []),
        (["__kmalloc_noprof"], []),
        (["sve_alloc"], []),
        (["sve_alloc", "__kmalloc_noprof"], ["allocation"]),
    ],
)
def test_a_function_must_be_there_and_so_must_the_one_around_it(
    symbols: list[str], events: list[str]
) -> None:
    assert found("trap allocation", symbols) == events


@pytest.mark.parametrize("offset", range(8))
def test_an_encoding_between_two_instructions_is_none(offset: int) -> None:
    before = bytes(offset)
    assert bool(found("save", [], before + raw(RDFFR) + bytes(8))) == (offset % 4 == 0)
    assert bool(found("save", [], before + raw(SAVE) + bytes(8), RISCV64)) == (offset % 2 == 0)
    assert found("save", [], before + bytes.fromhex("480fc72f"), X86_64) == ["save"]


def test_an_encoding_must_be_behind_the_other_in_the_image_too() -> None:
    assert found("drop", [], raw(AND, MSR)) == ["drop"]
    assert found("drop", [], raw(MSR, AND)) == found("drop", [], raw(AND, NOP, MSR)) == []
    # str za[w12, 1], [x7] at 4; the bytes from 1 on look like another one.
    image = bytes.fromhex("1f000020 e10020e1 00000000")
    assert found("za-save", [], image) == ["za-save"]


@pytest.mark.parametrize(
    ("code", "text", "event"),
    [
        ("480fae4040", "fxsave64 0x40(%rax)", "save"),
        ("480fae0424", "fxsave64 (%rsp)", "save"),
        ("480fc76f40", "xsaves64 0x40(%rdi)", "save"),
        ("480fae8b40020000", "fxrstor64 0x240(%rbx)", "restore"),
        ("480fae0d00000000", "fxrstor64 0x0(%rip)", "restore"),
    ],
)
def test_an_operand_may_have_a_displacement(code: str, text: str, event: str) -> None:
    # find_markers() says that this is a marker the kernel has, so it must be one of a path, too.
    assert found("save restore", [], bytes.fromhex(code), X86_64) == [event]
    counter = EventCounter(X86_64.markers, X86, [Instruction(0x1000, code, text, "f", 0)])
    assert [one.name for one in counter.count([0])] == [event]
