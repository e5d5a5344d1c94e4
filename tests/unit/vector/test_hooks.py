# SPDX-License-Identifier: GPL-2.0-or-later
"""Where the tasks plugin looks, in kernels made of a few symbols and instructions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pytest

from kentry.arch import ARCHES
from kentry.errors import KernelError
from kentry.kernels.kernel import Kernel, Symbol, SymbolTable
from kentry.kernels.payload import KernelText
from kentry.vector import tracing as hooks_module
from kentry.vector.trace import Event
from kentry.vector.tracing import _ACTS, find_hooks
from tests.builders import image_kernel as kernel

TEXT = 0xFFFF800080000000
OFFSETS = {"__state": 24, "flags": 44, "pid": 2432, "comm": 2976}

HooksOf = Callable[..., tuple[str, ...]]


def kernel_of(arch: str, names: list[tuple[int, str]]) -> Kernel:
    rows = [Symbol(TEXT + place, "T", name) for place, name in names]
    return replace(kernel(arch), symbols=SymbolTable.of(rows))


@pytest.fixture
def hooks_of(monkeypatch: pytest.MonkeyPatch) -> HooksOf:
    """Of a kernel with these symbols and these bytes, both by their distance from TEXT."""

    def find(
        arch: str, names: list[tuple[int, str]], code: Mapping[int, str] = MappingProxyType({})
    ) -> tuple[str, ...]:
        text = bytearray(0x4000)
        for place, digits in code.items():
            text[place : place + len(digits) // 2] = bytes.fromhex(digits)
        found = KernelText(b"the image", bytes(text), TEXT)
        monkeypatch.setattr(hooks_module, "text_of", lambda kernel: found)
        monkeypatch.setattr(hooks_module, "member_offsets", offsets)
        return find_hooks(kernel_of(arch, names), ARCHES[arch])

    def offsets(image: bytes, name: str, members: tuple[str, ...], spec: str) -> dict[str, int]:
        assert (image, name, spec) == (b"the image", "task_struct", "image:Image")
        return {member: OFFSETS[member] for member in members}

    return find


def places(hooks: tuple[str, ...], kind: str | Event) -> list[int]:
    """Of the lines of a kind, by their distance from TEXT."""
    word = str(kind.value) if isinstance(kind, Event) else kind
    return [int(line.split()[1], 16) - TEXT for line in hooks if line.startswith(f"{word} ")]


def test_the_members_of_a_task_come_first(hooks_of: HooksOf) -> None:
    found = hooks_of("arm64", [])
    assert found == tuple(f"offset {name} {place}" for name, place in OFFSETS.items())


@pytest.mark.parametrize(
    ("arch", "name", "kind"),
    [
        ("arm64", "cpu_switch_to", "switch"),
        ("riscv64", "__switch_to", "switch"),
        ("x86_64", "__switch_to_asm", "switch"),
        ("x86_64", "finish_task_switch.isra.0", "settled"),
        ("arm64", "arch_dup_task_struct", "fork"),
        ("riscv64", "arch_dup_task_struct", "fork"),
        ("x86_64", "fpu_clone", "fork"),
        ("arm64", "wake_up_new_task", "born"),
        ("arm64", "flush_thread", "exec"),
        ("arm64", "do_exit", Event.DIE),
        ("arm64", "signal_setup_done", Event.SIGNAL),
        ("arm64", "__arm64_sys_rt_sigreturn", Event.SIGRETURN),
        ("riscv64", "__riscv_sys_rt_sigreturn", Event.SIGRETURN),
        ("arm64", "kernel_neon_end", Event.KERNEL_USE_END),
        ("riscv64", "kernel_vector_end", Event.KERNEL_USE_END),
        ("x86_64", "kernel_fpu_end", Event.KERNEL_USE_END),
        ("x86_64", "entry_SYSCALL_64", "syscall"),
        ("x86_64", "asm_common_interrupt", "interrupt"),
    ],
)
def test_a_function_is_a_hook_by_its_whole_name(
    hooks_of: HooksOf, arch: str, name: str, kind: str | Event
) -> None:
    found = hooks_of(arch, [(0, f"{name}_x"), (16, f"x_{name}"), (32, name)])
    assert places(found, kind) == [32]
    assert len(found) == len(OFFSETS) + 1


def test_only_x86_saves_the_previous_task_after_the_switch(hooks_of: HooksOf) -> None:
    for arch in ("arm64", "riscv64"):
        assert not places(hooks_of(arch, [(0, "finish_task_switch")]), "settled")


def test_names_of_one_function_are_one_hook(hooks_of: HooksOf) -> None:
    """An event would be recorded once for every line."""
    rows = [
        *((16, f"__pfx___{kind}_sys_rt_sigreturn") for kind in ("do", "ia32", "x64")),
        *((32, f"__{kind}_sys_rt_sigreturn") for kind in ("do", "ia32", "x64")),
    ]
    found = hooks_of("x86_64", rows)
    assert places(found, Event.SIGRETURN) == [32]
    assert max(Counter(found).values()) == 1


def test_every_stub_of_an_interrupt_is_a_place_of_entry(hooks_of: HooksOf) -> None:
    rows = [(0, "f"), (64, "irq_entries_start"), (112, "spurious_entries_start"), (128, "g")]
    found = hooks_of("x86_64", rows)
    assert places(found, "interrupt") == list(range(64, 128, 8))
    # At the end of what is known, one will have to do.
    found = hooks_of("x86_64", [(64, "irq_entries_start")])
    assert places(found, "interrupt") == [64]


def test_arm64s_interrupts_are_offsets_into_its_vectors(hooks_of: HooksOf) -> None:
    found = hooks_of("arm64", [(0x800, "vectors")])
    assert 0x800 + 0x480 in places(found, "interrupt")


# --- what the kernel does ------------------------------------------------


def test_acts_are_found_by_instruction_and_by_name(hooks_of: HooksOf) -> None:
    rows = [(0, "f"), (0x100, "do_sve_acc"), (0x200, "sve_load_state"), (0x300, "g")]
    code = {
        0x10: "00902825",  # wrffr p0.b
        0x210: "00902825",  # the same, where registers are loaded
        0x304: "00f01925",  # rdffr p0.b
        0x312: "00f01925",  # at no multiple of 4
        0x320: "7f4203d5",  # smstop sm: 0xd503427f
    }
    found = hooks_of("arm64", rows, code)
    assert places(found, Event.SEEN_TRAP) == [0x100]
    assert places(found, Event.SEEN_FLUSH) == [0x10]
    assert places(found, Event.SEEN_SAVE) == [0x304]
    assert places(found, Event.SEEN_SMSTOP) == [0x320]
    wanted = {Event.SEEN_TRAP, Event.SEEN_FLUSH, Event.SEEN_SAVE, Event.SEEN_SMSTOP}
    assert {int(line.split()[0]) for line in found[len(OFFSETS) :]} == wanted


def test_a_drop_is_the_instruction_behind_the_one_that_clears_the_bit(hooks_of: HooksOf) -> None:
    clear, write = "00f86e92", "401018d5"  # and x0, x0, #~(1 << 17); msr cpacr_el1, x0
    code = {0x10: clear + write, 0x20: write, 0x30: clear + "1f2003d5" + write}
    found = hooks_of("arm64", [(0, "f")], code)
    assert places(found, Event.SEEN_DROP) == [0x14]


def test_a_discard_is_a_flush(hooks_of: HooksOf) -> None:
    found = hooks_of("riscv64", [(0, "f")], {0x12: "57b00f5e", 0x21: "57b00f5e"})
    assert places(found, Event.SEEN_FLUSH) == [0x12]


@pytest.mark.parametrize("arch", ARCHES)
def test_every_marker_but_an_allocation_is_an_act(arch: str) -> None:
    # An allocation is known by the call that it is in.
    names = {marker.event for marker in ARCHES[arch].vector.markers}
    assert names - set(_ACTS) <= {"allocation"}


def test_without_type_information_it_says_so(tmp_path: Path) -> None:
    file = tmp_path / "Image"
    data = bytearray(0x1000)
    offset, magic = ARCHES["arm64"].image_magic
    data[offset : offset + len(magic)] = magic
    file.write_bytes(data)
    booted = replace(kernel_of("arm64", [(0, "_stext"), (64, "_etext")]), image=file)
    with pytest.raises(KernelError, match="image:Image"):
        find_hooks(booted, ARCHES["arm64"])
