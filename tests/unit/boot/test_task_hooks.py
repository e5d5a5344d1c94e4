# SPDX-License-Identifier: GPL-2.0-or-later
"""Where the tasks plugin looks in a kernel, without a guest."""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pytest

from kentry.arch import ARCHES
from kentry.boot import task_hooks
from kentry.boot.task_hooks import _ACTS, Event, Hooks, find_hooks
from kentry.errors import KernelError
from kentry.kernels.kernel import Kernel, Symbol, SymbolTable
from kentry.kernels.payload import KernelText
from tests import ROOT
from tests.builders import image_kernel as kernel
from tests.unit.kernels import fakes

TEXT = 0xFFFF800080000000
OFFSETS = {"__state": 24, "flags": 44, "pid": 2432, "comm": 2976}

HooksOf = Callable[..., Hooks]


def kernel_of(arch: str, names: list[tuple[int, str]]) -> Kernel:
    rows = [Symbol(TEXT + place, "T", name) for place, name in names]
    return replace(kernel(arch), symbols=SymbolTable.of(rows))


@pytest.fixture
def hooks_of(monkeypatch: pytest.MonkeyPatch) -> HooksOf:
    """Of a kernel with these symbols and these bytes, both by their distance from TEXT."""

    def find(
        arch: str, names: list[tuple[int, str]], code: Mapping[int, str] = MappingProxyType({})
    ) -> Hooks:
        text = bytearray(0x4000)
        for place, digits in code.items():
            text[place : place + len(digits) // 2] = bytes.fromhex(digits)
        found = KernelText(b"the image", bytes(text), TEXT)
        monkeypatch.setattr(task_hooks, "text_of", lambda kernel: found)
        monkeypatch.setattr(task_hooks, "member_offsets", offsets)
        return find_hooks(kernel_of(arch, names), ARCHES[arch], tracing=True)

    def offsets(image: bytes, name: str, members: tuple[str, ...], spec: str) -> dict[str, int]:
        assert (image, name, spec) == (b"the image", "task_struct", "image:Image")
        return {member: OFFSETS[member] for member in members}

    return find


def places(hooks: Hooks, kind: str | Event, number: int | None = None) -> list[int]:
    """Of the lines of a kind, by their distance from TEXT."""
    found = []
    for line in hooks.lines:
        word, address, argument = line.split()
        own = Event(int(argument)) if word == "event" else word
        if own == kind and number in (None, int(argument)):
            found.append(int(address, 16) - TEXT)
    return found


def test_the_members_of_a_task_come_first(hooks_of: HooksOf) -> None:
    found = hooks_of("arm64", [])
    assert found.lines == tuple(f"offset {name} {place}" for name, place in OFFSETS.items())
    # Only x86 saves the previous task after the switch.
    for arch in ("arm64", "riscv64"):
        assert not places(hooks_of(arch, [(0, "finish_task_switch")]), "settled")


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
        ("x86_64", "asm_int80_emulation", "compat"),
        ("riscv64", "handle_exception", "nested"),
    ],
)
def test_functions_are_hooks_by_name(
    hooks_of: HooksOf, arch: str, name: str, kind: str | Event
) -> None:
    found = hooks_of(arch, [(0, f"{name}_x"), (16, f"x_{name}"), (32, name)])
    assert places(found, kind) == [32]
    others = [line for line in found.lines if not line.startswith(("offset ", "handler "))]
    assert len(others) == 1


def test_every_handler_of_a_system_call_is_a_hook(hooks_of: HooksOf) -> None:
    found = hooks_of("riscv64", [(0, "__riscv_sys_exit"), (16, "__se_sys_read"), (32, "do_exit")])
    assert places(found, "handler") == [0, 16]


def test_names_of_one_function_are_one_hook(hooks_of: HooksOf) -> None:
    """An event would be recorded once for every line."""
    rows = [
        *((16, f"__pfx___{kind}_sys_rt_sigreturn") for kind in ("do", "ia32", "x64")),
        *((32, f"__{kind}_sys_rt_sigreturn") for kind in ("do", "ia32", "x64")),
    ]
    found = hooks_of("x86_64", rows)
    assert places(found, Event.SIGRETURN) == [32]
    assert max(Counter(found.lines).values()) == 1


def test_every_stub_of_an_interrupt_is_a_place_of_entry(hooks_of: HooksOf) -> None:
    rows = [(0, "f"), (64, "irq_entries_start"), (112, "spurious_entries_start"), (128, "g")]
    found = hooks_of("x86_64", rows)
    assert places(found, "interrupt") == list(range(64, 128, 8))
    # At the end of what is known, one will have to do.
    found = hooks_of("x86_64", [(64, "irq_entries_start")])
    assert places(found, "interrupt") == [64]
    assert found.interrupts[-1] == "device"
    # arm64's are offsets into its vectors: synchronous, IRQ, FIQ, SError of the kernel's own level.
    found = hooks_of("arm64", [(0x800, "vectors")])
    assert places(found, "nested") == [0x800 + place for place in (0x200, 0x280, 0x300, 0x380)]


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
    events = {int(line.split()[2]) for line in found.lines if line.startswith("event ")}
    assert events == wanted
    # A discard is a flush.
    found = hooks_of("riscv64", [(0, "f")], {0x12: "57b00f5e", 0x21: "57b00f5e"})
    assert places(found, Event.SEEN_FLUSH) == [0x12]
    # A drop is the instruction behind the one that clears the bit.
    clear, write = "00f86e92", "401018d5"  # and x0, x0, #~(1 << 17); msr cpacr_el1, x0
    code = {0x10: clear + write, 0x20: write, 0x30: clear + "1f2003d5" + write}
    found = hooks_of("arm64", [(0, "f")], code)
    assert places(found, Event.SEEN_DROP) == [0x14]


@pytest.mark.parametrize("arch", ARCHES)
def test_every_marker_but_an_allocation_is_an_act(arch: str) -> None:
    # An allocation is known by the call that it is in.
    names = {marker.event for marker in ARCHES[arch].vector.markers}
    assert names - set(_ACTS) <= {"allocation"}


def test_without_type_information_it_says_so(tmp_path: Path) -> None:
    file = tmp_path / "Image"
    file.write_bytes(fakes.image(content=bytes(0x1000)))
    booted = replace(kernel_of("arm64", [(0, "_stext"), (64, "_etext")]), image=file)
    with pytest.raises(KernelError, match="image:Image"):
        find_hooks(booted, ARCHES["arm64"])


def test_without_tracing_only_what_counting_needs_is_a_hook(hooks_of: HooksOf) -> None:
    rows = [(0, "signal_setup_done"), (16, "do_exit"), (32, "flush_thread"), (48, "do_sve_acc")]
    traced = hooks_of("arm64", rows)
    found = find_hooks(kernel_of("arm64", rows), ARCHES["arm64"])
    assert set(found.lines) < set(traced.lines)
    assert (places(found, Event.DIE), places(found, "exec")) == ([16], [32])
    assert not places(found, Event.SIGNAL) + places(found, Event.SEEN_TRAP)


def test_causes_without_a_register_are_numbered_by_their_symbols(hooks_of: HooksOf) -> None:
    rows = [(0, "asm_exc_page_fault"), (16, "asm_exc_debug"), (32, "asm_sysvec_reboot")]
    found = hooks_of("x86_64", rows)
    (number,) = (at for at, name in found.faults.items() if name == "page fault")
    assert places(found, "fault", number) == [0]
    assert set(found.faults.values()) == {"page fault", "debug"}
    assert "reboot" in found.interrupts.values()


def test_the_plugins_words_are_those_of_the_hooks() -> None:
    """plugin/tasks.c says them a second time."""
    text = (ROOT / "plugin/tasks.c").read_text()
    names = set(
        re.findall(r'"(\w+)"', text.partition("hook_names[HOOKS] = {")[2].partition("}")[0])
    )
    words = {word for arch in ARCHES.values() for _, word, _ in arch.exceptions.entries}
    assert words < names
    order = re.search(r"enum \{ (OF_\w+), (OF_\w+), (OF_\w+), (OF_\w+) \}", text)
    assert order
    assert order.groups() == ("OF_USER", "OF_FIRMWARE", "OF_NO_SYMBOL", "OF_FUNCTIONS")
    numbers = (task_hooks.OF_USER, task_hooks.OF_FIRMWARE, task_hooks.OF_NO_SYMBOL)
    assert (*numbers, task_hooks.FIRST_FUNCTION) == (0, 1, 2, 3)
