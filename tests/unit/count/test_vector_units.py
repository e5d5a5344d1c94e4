# SPDX-License-Identifier: GPL-2.0-or-later
"""Boots, units that are not there, and events from a saved run to its recording."""

from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import UNSET, structs

from kentry.arch import ARCHES
from kentry.boot.exact import ExactOptions, FakeRunner, GuestRun
from kentry.boot.plugin_trace import PluginTrace
from kentry.boot.probe_protocol import ProbeReport
from kentry.count.recorder import measure
from kentry.count.vector_units import boots, check_options, check_units, with_events
from kentry.errors import KernelError, UserError
from kentry.kernels.kernel import Kernel, Symbol, SymbolTable
from kentry.results.recording import (
    MODAL,
    CaseResult,
    Instruction,
    KernelPath,
    Metric,
    Recording,
    VectorEvent,
)
from tests.builders import image_kernel as kernel
from tests.places import silent
from tests.unit.count.saved import save
from tests.unit.kernels import fakes


def options(*cases: str) -> ExactOptions:
    return ExactOptions(cases=cases, windows=10, path_windows=8)


# --- boots ---------------------------------------------------------------


def test_a_boot_a_length() -> None:
    names = ("getppid", "getppid+vec=once", "getpid+vec=none")
    of_256 = ("getppid+vec=once+vl=256", "getpid+vec=none+vl=256")
    of_512 = ("getpid+vec=none+vl=512",)
    found = boots(options(*names[:2], of_256[0], names[2], *of_512, of_256[1]))
    assert [(one.vector_length, one.cases) for one in found] == [
        (None, names),
        (256, of_256),
        (512, of_512),
    ]
    assert all(one.windows == 10 and one.path_windows == 8 for one in found)


@pytest.mark.parametrize("names", [("getppid", "read"), ("getppid+vec=none",), ("getppid+vl=256",)])
def test_one_boot_where_no_length_is_asked_for(names: tuple[str, ...]) -> None:
    assert boots(options(*names)) == [options(*names)]


# --- a kernel without the unit -------------------------------------------


def configured(folder: Path, arch: str, text: str) -> Kernel:
    file = folder / "config"
    file.write_text(text)
    return replace(kernel(arch), spec="debian:6.12", release="6.12.95", config=file)


@pytest.mark.parametrize(
    ("arch", "case", "option", "what", "hint"),
    [
        ("riscv64", "getppid+vec=once", "RISCV_ISA_V", "V", "Linux 6.5 and later"),
        ("arm64", "getppid+vec=none+vl=256", "ARM64_SVE", "SVE", ""),
        ("arm64", "getppid+za=once", "ARM64_SME", "ZA (SME)", "6.12's Kconfig marks SME broken"),
        ("arm64", "getppid+ssve=once", "ARM64_SME", "streaming SVE (SME)", "7.0 and later"),
    ],
)
def test_a_unit_that_is_built_out_is_said_before_the_boot(
    tmp_path: Path, arch: str, case: str, option: str, what: str, hint: str
) -> None:
    for text in ("CONFIG_MMU=y\n", f"# CONFIG_{option} is not set\n", f"CONFIG_{option}_X=y\n"):
        with pytest.raises(KernelError) as caught:
            check_options(configured(tmp_path, arch, text), options("getppid", case))
        assert f"without {what}: CONFIG_{option} is off" in caught.value.sentence
        assert f"--config CONFIG_{option}=y." in caught.value.remedy
        assert hint in caught.value.remedy
    check_options(configured(tmp_path, arch, f"CONFIG_{option}=y\n"), options("getppid", case))


def test_a_config_is_asked_only_for_what_is_measured(tmp_path: Path) -> None:
    check_options(
        configured(tmp_path, "arm64", "CONFIG_ARM64_SVE=y\n"), options("getppid+vec=once")
    )
    check_options(configured(tmp_path, "riscv64", ""), options("getppid", "read"))
    check_options(kernel("riscv64"), options("getppid+vec=once"))


def came_back(case: str, reason: str, **vector: int) -> GuestRun:
    report = ProbeReport(absent={case: reason, "other+vec=once": "no-unit"}, vector=vector)
    return GuestRun(report, PluginTrace(), {"emulator": "QEMU 7.2", "cpu": "rv64,vlen=128"})


@pytest.mark.parametrize(
    ("config", "arch", "case", "reason", "facts"),
    [
        (
            "CONFIG_RISCV_ISA_V=y\n",
            "riscv64",
            "getppid+vec=once",
            "no-unit",
            "V=y vlen=128 7.2 newest",
        ),
        ("", "arm64", "getppid+za=once", "no-unit", "ZA config=FILE; CONFIG_ARM64_SME=y"),
        ("", "riscv64", "getppid+vec=once+vl=512", "vl=256", "512 256. rv64,vlen=128"),
        ("", "riscv64", "getppid+vec=once", "vl=256", "128 256. rv64,vlen=128"),
    ],
)
def test_a_guest_without_the_unit_or_its_length(
    tmp_path: Path, config: str, arch: str, case: str, reason: str, facts: str
) -> None:
    booted = configured(tmp_path, arch, config) if config else kernel(arch)
    with pytest.raises(KernelError if reason == "no-unit" else UserError) as caught:
        check_units(booted, came_back(case, reason), options("read", case))
    said = f"{caught.value.sentence} {caught.value.remedy}"
    assert [fact for fact in facts.split() if fact not in said] == []


def test_a_case_without_a_length_is_of_the_models_own_and_else_nothing_is_refused() -> None:
    booted, named = (
        kernel("riscv64"),
        options("read", "getppid+vec=once+vl=256", "getppid+vec=once"),
    )
    for length in (128, 0):
        check_units(booted, came_back("getppid+vec=once", "no read", vec=length), named)
    check_units(booted, came_back("read", "no-unit"), named)
    with pytest.raises(UserError, match="128 bits .* has 256"):
        check_units(booted, came_back("read", "", vec=256), named)


# --- events --------------------------------------------------------------

TEXT = 0xFFFFFFFF80000000
DISCARD, NOP = "57b00f5e", "13000000"


def image(file: Path, arch: str, *more: tuple[int, str]) -> Path:
    """An Image of 16 KiB of zeros, with these bytes at these places."""
    data = bytearray(fakes.image(ARCHES[arch], bytes(0x4000)))
    for place, code in more:
        data[place : place + len(code) // 2] = bytes.fromhex(code)
    file.write_bytes(data)
    return file


def of_text(arch: str, file: Path, *functions: str) -> Kernel:
    """A kernel whose text is the image's first 8 KiB, a function every 256 bytes from 4096 on."""
    symbols = [Symbol(TEXT, "T", "_text"), Symbol(TEXT, "T", "_stext")]
    symbols += [Symbol(TEXT + 0x2000, "T", "_etext")]
    symbols += [
        Symbol(TEXT + 0x1000 + 0x100 * number, "T", name) for number, name in enumerate(functions)
    ]
    return replace(kernel(arch), image=file, symbols=SymbolTable.of(symbols))


def case(name: str, *paths: KernelPath) -> CaseResult:
    return CaseResult(name, {"instructions": Metric.of({2: 10})}, (), (("f", 2),), paths)


def test_every_path_of_a_state_has_its_events_and_the_others_none(tmp_path: Path) -> None:
    booted = of_text("riscv64", image(tmp_path / "Image", "riscv64", (0x1000, DISCARD)), "f")
    code = [Instruction(TEXT + 0x1000, DISCARD, "vmv.v.i v0,-1", "f", 0)]
    code.append(Instruction(TEXT + 0x1004, NOP, "nop", "f", 4))
    paths = (
        KernelPath(role=MODAL, times=7, runs=((0, 2),)),
        KernelPath(role="other", times=1, runs=((0, 2), (0, 1)), why="more in f"),
        KernelPath(role="other", times=1, runs=((1, 1),)),
    )
    cases, markers = with_events(
        [case("getppid", *paths), case("getppid+vec=once", *paths)], code, booted
    )
    assert cases[0] == case("getppid", *paths)
    assert [path.events for path in cases[1].paths] == [
        (VectorEvent("discard", "syscall", "f", 1),),
        (VectorEvent("discard", "syscall", "f", 2),),
        (),
    ]
    assert [structs.replace(path, events=()) for path in cases[1].paths] == list(paths)
    assert markers == {"discard": "vmv.v.i v0,-1"}


def test_a_kernel_without_any_marker_was_looked_at(tmp_path: Path) -> None:
    booted = of_text("riscv64", image(tmp_path / "Image", "riscv64"), "f")
    assert with_events([case("getppid+vec=once")], [], booted) == ([case("getppid+vec=once")], {})


def test_what_only_looks_like_an_instruction_in_data_is_no_marker(tmp_path: Path) -> None:
    # ldr za: Debian's arm64 kernels, built without SME, have its bytes in read-only data only.
    file = image(tmp_path / "Image", "arm64", (0x1000, "00f01925"), (0x3000, "000000e1"))
    _, markers = with_events([case("getppid+vec=once")], [], of_text("arm64", file, "f"))
    assert list(markers) == ["save"]


TRACE = f"""\
message case {{name}} count 1
window 10 2 0 1 0 0 0 -
message case {{name}} path 1
insn 0 ffffffff80001000 {DISCARD} 5e0fb057 vmv.v.i v0,-1
insn 1 ffffffff80001004 {NOP} 00000013 nop
path 0 2 0+2
window 8 2 0 1 0 0 0 0
"""


def measured(folder: Path, name: str, said: str = "") -> Recording:
    save(folder, TRACE.format(name=name), said, "riscv64")
    file = image(folder / "Image", "riscv64", (0x1000, DISCARD))
    booted = of_text("riscv64", file, "do_trap_ecall_u")
    return measure(booted, FakeRunner(folder), options(name), silent)


def test_from_a_run_to_the_events_of_its_recording(tmp_path: Path) -> None:
    recording = measured(tmp_path, "getppid+vec=once")
    [found] = recording.cases
    assert found.modal_path
    assert found.modal_path.events == (VectorEvent("discard", "syscall", "do_trap_ecall_u", 1),)
    assert recording.markers == {"discard": "vmv.v.i v0,-1"}
    # Nothing is looked for without a state.
    recording = measured(tmp_path, "getppid")
    assert (recording.cases[0].paths[0].events, recording.markers) == ((), UNSET)


def test_a_run_without_the_unit_is_no_recording(tmp_path: Path) -> None:
    said = "kentry-probe vector vec 0\nkentry-probe absent getppid+vec=once no-unit\n"
    with pytest.raises(KernelError, match="No V in"):
        measured(tmp_path, "getppid+vec=once", said)
