# SPDX-License-Identifier: GPL-2.0-or-later
"""Events in paths: which instructions are events, and whose doing they are."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kentry.arch import ARCHES, Arch
from kentry.arch.record import Marker, VectorSide
from kentry.path.events import EventCounter, Markers, find_markers
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

WRFFR = ("00902825", ".byte 0x00, 0x90, 0x28, 0x25")
RDFFR = ("00f01925", ".byte 0x00, 0xf0, 0x19, 0x25")
AND, MSR = ("00f86e92", "and x0, x0, #0xfffffffffffdffff"), ("401018d5", "msr cpacr_el1, x0")
STR_ZA, LDR_ZA = ("000020e1", ".byte 0x00, 0x00, 0x20, 0xe1"), ("000000e1", ".byte 0, 0, 0, 0xe1")


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


def test_a_path_without_events_has_none() -> None:
    assert Program({"f": [NOP, RET]}).events(RISCV, "f:0-1") == []
    assert Program({"f": [NOP, RET]}).events(RISCV) == []


@pytest.mark.parametrize(
    ("functions", "cause"),
    [
        (["do_trap_ecall_u"], "syscall"),
        (["do_trap_ecall_u", "helper"], "syscall"),
        (["do_trap_insn_illegal", "riscv_v_first_use_handler", "helper"], "first use"),
        (["arch_do_signal_or_restart", "handle_signal", "helper"], "signal"),
        (["__riscv_sys_rt_sigreturn", "helper"], "signal"),
        (["__x64_sys_rt_sigreturn", "fpu__restore_sig"], "signal"),
        (["__do_sys_clone", "kernel_clone", "copy_process.isra.0", "helper"], "fork"),
        (["load_elf_binary", "begin_new_exec", "fpsimd_flush_thread"], "exec"),
        (["schedule", "__schedule", "helper"], "switch"),
        (["__switch_to", "fpsimd_thread_switch", "helper"], "switch"),
        (["xor_blocks", "kernel_neon_begin", "helper"], "kernel use"),
        (["xor_blocks", "kernel_vector_begin", "helper"], "kernel use"),
        (["xor_blocks", "kernel_fpu_begin_mask", "helper"], "kernel use"),
        # The innermost of two.
        (["kernel_clone", "schedule", "helper"], "switch"),
        (["__schedule", "do_signal", "helper"], "signal"),
        # What the kernel uses the unit for says more than that it does.
        (["ksys_read", "enter_vector_usercopy", "kernel_vector_begin", "helper"], "user copy"),
        (["do_signal", "kernel_vector_begin", "helper"], "signal"),
        (["do_signal", "riscv_v_first_use_handler", "kernel_vector_begin"], "first use"),
        # Not functions that only have such a name in theirs.
        (["reschedule", "my_copy_process_x"], "syscall"),
    ],
)
def test_the_cause_is_the_innermost_function_that_stands_for_one(
    functions: list[str], cause: str
) -> None:
    found = [event for event in in_calls(*functions) if event.name == "save"]
    assert [(event.cause, event.times) for event in found] == [(cause, 1)]


def test_a_function_that_returned_is_no_cause() -> None:
    program = Program({"main": function(SAVE), "do_signal": function(SAVE)})
    path = ("main:0-1", "do_signal:0", "do_signal:2-3", "main:2-3")
    assert program.events(RISCV, *path) == [
        VectorEvent("save", "signal", "do_signal", 1),
        VectorEvent("save", "syscall", "main", 1),
    ]


def test_a_return_over_several_calls_leaves_them_all() -> None:
    program = Program({"main": function(SAVE), "do_signal": function(), "leaf": function(SAVE)})
    path = ("main:0-1", "do_signal:0-1", "leaf:0", "leaf:2-3", "main:2")
    assert [(event.cause, event.function) for event in program.events(RISCV, *path)] == [
        ("signal", "leaf"),
        ("syscall", "main"),
    ]


def test_a_recursion_returns_one_call_at_a_time() -> None:
    program = Program({"do_signal": function(), "walk": function(SAVE)})
    path = ("walk:0-1", "do_signal:0-1", "walk:0-1", "walk:0", "walk:3", "walk:2-3")
    assert program.events(RISCV, *path) == [VectorEvent("save", "signal", "walk", 1)]
    assert program.events(RISCV, *path, "do_signal:2", "walk:2") == [
        VectorEvent("save", "signal", "walk", 1),
        VectorEvent("save", "syscall", "walk", 1),
    ]


def test_a_tail_call_is_in_the_calls_of_the_function_that_made_it() -> None:
    program = Program(
        {
            "main": function(SAVE),
            "do_signal": function(),
            "wrapper": [NOP, JUMP],
            "helper": [SAVE, RET],
        }
    )
    # do_signal calls wrapper, which jumps to helper, which returns to do_signal.
    path = ("main:0-1", "do_signal:0-1", "wrapper:0-1", "helper:0-1", "do_signal:2", "main:2")
    assert program.events(RISCV, *path) == [
        VectorEvent("save", "signal", "helper", 1),
        VectorEvent("save", "syscall", "main", 1),
    ]


def test_who_left_by_a_tail_call_is_no_cause_any_more() -> None:
    program = Program({"main": function(), "do_signal": [NOP, JUMP], "helper": [SAVE, RET]})
    assert program.events(RISCV, "main:0-1", "do_signal:0-1", "helper:0-1") == [
        VectorEvent("save", "syscall", "helper", 1)
    ]


@pytest.mark.parametrize(
    ("arch", "call", "event"),
    [
        (ARM, ("00000094", "bl <x>"), RDFFR),
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
    "main:0-1",
    "enter_vector_usercopy:0-1",
    "kernel_vector_begin:0",
    "kernel_vector_begin:2-3",
    "enter_vector_usercopy:2",
    "main:2",
)


def causes_of_restores(*path: str) -> list[str]:
    events = LOSS_AND_RESTORE.events(RISCV, *path)
    return [event.cause for event in events if event.name == "restore"]


def test_a_restore_is_for_what_was_lost_last() -> None:
    assert causes_of_restores(*USER_COPY[:-1], "back_to_user:0") == ["user copy"]
    assert causes_of_restores("__schedule:0", "__schedule:2", "back_to_user:0") == ["switch"]
    assert causes_of_restores(
        *USER_COPY[:-1],
        "main:0-1",
        "__schedule:0",
        "__schedule:2",
        "__schedule:4",
        "back_to_user:0",
    ) == ["switch"]
    assert causes_of_restores(*USER_COPY, "back_to_user:0") == ["syscall"]


def test_a_restore_of_what_was_lost_before_the_window() -> None:
    assert causes_of_restores("main:0", "back_to_user:0") == ["earlier"]
    # A discard is no loss that a restore makes good.
    assert causes_of_restores("main:4", "back_to_user:0") == ["earlier"]


def test_a_restore_with_a_cause_of_its_own_keeps_it() -> None:
    path = (*USER_COPY[:-1], "main:0-1", "__schedule:0", "__schedule:3")
    assert causes_of_restores(*path) == ["switch"]


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


# --- another task --------------------------------------------------------


@pytest.mark.parametrize(
    ("arch", "save", "restore"),
    [
        (ARM, RDFFR, ("1f408085", "ldr z31, [x0]")),
        (RISCV, SAVE, RESTORE),
        (X86, ("480fae27", "xsave64 (%rdi)"), ("480fae2f", "xrstor64 (%rdi)")),
    ],
)
def test_behind_a_switch_nothing_is_known_of_the_calls(
    arch: Arch, save: tuple[str, str], restore: tuple[str, str]
) -> None:
    call = {"arm64": "bl <x>", "riscv64": "jal ra,<x>", "x86_64": "callq <x>"}[arch.name]
    switch = arch.vector.switch
    program = Program(
        {
            "do_signal": [("00000000", call), save],
            "sleep": [("00000000", call), save],
            switch: [NOP, NOP],
            "other_task": [save, restore],
        }
    )
    path = ("do_signal:0", "sleep:0", f"{switch}:0-1", "other_task:0")
    events = program.events(arch, *path)
    assert [(one.name, one.cause) for one in events] == [("save", "syscall")]
    events = program.events(arch, *path[:-1], "other_task:1")
    assert [(one.name, one.cause) for one in events] == [("restore", "switch")]
    # Not even where the first task's stack is come back to.
    events = program.events(arch, *path[:-1], "sleep:1", "do_signal:1")
    assert [(one.cause, one.function) for one in events] == [
        ("syscall", "sleep"),
        ("signal", "do_signal"),
    ]


def test_only_the_switchs_first_instruction_leaves_the_stack() -> None:
    program = Program(
        {"do_signal": function(), "wrap": [NOP, JUMP], "__switch_to": [NOP, JUMP], "x": [SAVE]}
    )
    calls = ("do_signal:0-1", "wrap:0-1")
    events = program.events(RISCV, *calls, "__switch_to:1", "x:0")
    assert [one.cause for one in events] == ["signal"]
    events = program.events(RISCV, *calls, "__switch_to:0-1", "x:0")
    assert [one.cause for one in events] == ["syscall"]


# --- conditions of markers -----------------------------------------------


def test_behind_means_directly_behind() -> None:
    nop = ("1f2003d5", "nop")
    program = Program({"f": [AND, MSR, nop, MSR, AND, nop, MSR]})
    assert program.events(ARM, "f:0-1") == [VectorEvent("drop", "syscall", "f", 1)]
    assert program.events(ARM, "f:1") == []
    assert program.events(ARM, "f:2-3") == []
    assert program.events(ARM, "f:4-6") == []
    # What a path begins with is behind nothing.
    assert Program({"f": [MSR, AND]}).events(ARM, "f:0") == []


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
    bl = ("00000094", "bl <x>")
    program = Program(
        {
            "do_sve_acc": [NOP, bl],
            "sve_alloc": [NOP, bl, NOP],
            "__kmalloc": [NOP, RET],
            "do_pipe_flags": [NOP, bl, NOP],
        }
    )
    calls = ("do_sve_acc:0-1", "sve_alloc:0-1", "__kmalloc:0-1", "sve_alloc:2")
    assert program.events(ARM, *calls) == [
        VectorEvent("trap", "first use", "do_sve_acc", 1),
        VectorEvent("allocation", "first use", "__kmalloc", 1),
    ]
    assert program.events(ARM, "do_pipe_flags:0-1", "__kmalloc:0-1") == []
    # Behind sve_alloc's return it is another's again.
    calls = ("do_pipe_flags:0-1", "sve_alloc:0", "sve_alloc:2", "do_pipe_flags:2")
    assert program.events(ARM, *calls, "__kmalloc:0") == []


def test_a_function_is_within_itself() -> None:
    marker = Marker(
        "x", "save in f", code=re.compile(bytes.fromhex(SAVE[0])), within=re.compile("f")
    )
    code = Program({"f": [SAVE], "g": [SAVE]}).code
    counter = EventCounter(Markers((marker,), ()), RISCV64, RISCV.calls, code)
    assert counter.count([0, 1]) == (VectorEvent("x", "syscall", "f", 1),)


def test_a_function_is_entered_at_its_first_instruction() -> None:
    program = Program({"riscv_v_first_use_handler": [NOP, NOP, RET]})
    name = "riscv_v_first_use_handler"
    assert program.events(RISCV, f"{name}:0-2", f"{name}:1-2") == [
        VectorEvent("trap", "first use", name, 1)
    ]


def test_turns_of_a_loop_are_one_event_until_another_comes_between() -> None:
    branch = ("01000054", "b.ne <f+0x4>")
    program = Program({"f": [NOP, STR_ZA, branch, LDR_ZA, branch, RDFFR, branch]})
    save, load = ["f:1-2"] * 16, ["f:3-4"] * 16
    assert program.events(ARM, "f:0", *save) == [VectorEvent("za-save", "syscall", "f", 1)]
    counted = program.events(ARM, "f:0", *save, *load, *save, "f:5", *save)
    assert {(one.name, one.times) for one in counted} == {
        ("za-save", 3),
        ("za-restore", 1),
        ("save", 1),
    }
    # Others are as many as they are.
    assert [one.times for one in program.events(ARM, "f:5-6", "f:5-6")] == [2]


def test_only_markers_that_the_kernel_has_are_counted() -> None:
    code = Program({"f": [SAVE, DISCARD]}).code
    found = tuple(one for one in RISCV64.markers if one.event == "save")
    counter = EventCounter(Markers(found, ("discard",)), RISCV64, RISCV.calls, code)
    assert counter.count([0, 1]) == (VectorEvent("save", "syscall", "f", 1),)


def test_a_clones_name_is_its_functions() -> None:
    assert in_calls("do_signal.constprop.0", "helper.isra.0.cold") == [
        VectorEvent("save", "signal", "helper", 1)
    ]


KINDS = {"discard": DISCARD, "save": SAVE, "restore": RESTORE}
PROGRAM = Program(
    {
        name: [NOP, CALL, DISCARD, SAVE, RESTORE, RET]
        for name in ("main", "do_signal", "__schedule", "__switch_to", "enter_vector_usercopy")
    }
)


@pytest.mark.slow
@given(st.lists(st.integers(0, len(PROGRAM.code) - 1), max_size=60))
def test_whatever_the_calls_no_event_is_lost_or_made_up(path: list[int]) -> None:
    counter = EventCounter(Markers(RISCV64.markers, ()), RISCV64, RISCV.calls, PROGRAM.code)
    events = counter.count(path)
    for name, (code, _) in KINDS.items():
        times = [event.times for event in events if event.name == name]
        assert sum(times) == sum(PROGRAM.code[index].code == code for index in path)
    assert len({(one.name, one.cause, one.function) for one in events}) == len(events)
    # Counted again it is the same: nothing is left over from a path.
    assert counter.count(path) == events


# --- which markers a kernel has ------------------------------------------


def side_of(*events: str, of: VectorSide = ARM64) -> VectorSide:
    return replace(of, markers=tuple(one for one in of.markers if one.event in events))


def found(side: VectorSide, symbols: list[str], image: bytes = b"") -> list[str]:
    markers = find_markers(side, symbols, image)
    names = [marker.event for marker in markers.found]
    assert sorted([*names, *markers.absent]) == sorted(one.event for one in side.markers)
    return names


def raw(*instructions: tuple[str, str]) -> bytes:
    return b"".join(bytes.fromhex(code) for code, _ in instructions)


def test_every_marker_of_a_kernel_that_has_them() -> None:
    symbols = ["riscv_v_first_use_handler", "kernel_vector_begin", "kmem_cache_alloc_noprof"]
    image = bytes(6) + raw(DISCARD, NOP, SAVE, RESTORE)
    assert find_markers(RISCV64, iter(symbols), image) == Markers(RISCV64.markers, ())


def test_a_kernel_without_vectors_has_none() -> None:
    assert found(RISCV64, ["do_trap_ecall_u", "kmalloc"], raw(NOP) * 64) == []
    assert find_markers(RISCV64, [], b"").absent == tuple(one.event for one in RISCV64.markers)


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
    assert found(side_of("trap", "allocation"), symbols) == events


@pytest.mark.parametrize("offset", range(8))
def test_an_encoding_between_two_instructions_is_none(offset: int) -> None:
    image = bytes(offset) + raw(RDFFR) + bytes(8)
    assert found(side_of("save"), [], image) == (["save"] if offset % 4 == 0 else [])
    image = bytes(offset) + raw(SAVE) + bytes(8)
    side = side_of("save", of=RISCV64)
    assert found(side, [], image) == (["save"] if offset % 2 == 0 else [])
    image = bytes(offset) + bytes.fromhex("480fc72f")
    assert found(side_of("save", of=X86_64), [], image) == ["save"]


def test_an_encoding_must_be_behind_the_other_in_the_image_too() -> None:
    side = side_of("drop")
    assert found(side, [], raw(AND, MSR)) == ["drop"]
    assert found(side, [], raw(MSR, AND)) == []
    assert found(side, [], raw(AND, NOP, MSR)) == []


def test_a_marker_that_is_nothing_but_a_name_needs_no_image() -> None:
    marker = Marker("x", "entry of f or g", symbol=re.compile("f|g"))
    side = replace(RISCV64, markers=(marker,))
    assert find_markers(side, ["g"], b"").found == (marker,)
    assert find_markers(side, ["h"], b"").absent == ("x",)


# --- parts, clones, operands ---------------------------------------------


def test_a_function_that_is_there_as_a_clone_only_is_there() -> None:
    assert found(side_of("trap", of=RISCV64), ["riscv_v_first_use_handler.constprop.0"]) == ["trap"]


@pytest.mark.parametrize("part", ["part.0", "cold"])
def test_a_part_of_a_function_is_not_entered_by_who_calls_the_function(part: str) -> None:
    name = "riscv_v_first_use_handler"
    program = Program({name: function(), f"{name}.{part}": [NOP, RET]})
    assert program.events(RISCV, f"{name}:0-1", f"{name}.{part}:0-1", f"{name}:2") == [
        VectorEvent("trap", "first use", name, 1)
    ]


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
    assert event in found(X86_64, [], bytes.fromhex(code))
    instruction = Instruction(0x1000, code, text, "f", 0)
    counter = EventCounter(Markers(X86_64.markers, ()), X86_64, X86.calls, [instruction])
    assert [one.name for one in counter.count([0])] == [event]


def test_an_encoding_is_found_behind_one_that_only_overlaps_it() -> None:
    # str za[w12, 1], [x7] at 4; the bytes from 1 on look like another one.
    image = bytes.fromhex("1f000020 e10020e1 00000000")
    assert found(side_of("za-save"), [], image) == ["za-save"]


def test_one_allocation_is_counted_once() -> None:
    # As in Debian's arm64 6.1: sve_alloc calls __kmalloc, which calls kmalloc_slab.
    bl, nop = ("00000094", "bl <x>"), ("1f2003d5", "nop")
    functions = {name: [nop, bl, nop] for name in ("do_sve_acc", "sve_alloc", "__kmalloc")}
    program = Program({**functions, "kmalloc_slab": [nop, nop]})
    calls = ("do_sve_acc:0-1", "sve_alloc:0-1", "__kmalloc:0-1", "kmalloc_slab:0-1")
    events = program.events(ARM, *calls, "__kmalloc:2", "sve_alloc:2")
    assert sum(one.times for one in events if one.name == "allocation") == 1
