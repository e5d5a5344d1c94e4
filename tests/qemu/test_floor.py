# SPDX-License-Identifier: GPL-2.0-or-later
"""The floor's counts against those by hand in guest/floor/, and the emulated machine's counter."""

import subprocess
from pathlib import Path

import pytest

from kentry.arch import Arch
from kentry.arch.processors import find_processor
from kentry.boot.console import boot
from kentry.boot.emulator import Guest, boot_argv
from kentry.boot.exact import ExactOptions, QemuRunner
from kentry.boot.initramfs import build_initramfs
from kentry.count.catalogue import on_floor
from kentry.count.recorder import measure
from kentry.host import native as native_module
from kentry.kernels.image import resolve_floor
from kentry.kernels.spec import parse
from kentry.path.calls import parts
from kentry.results.recording import INSTRUCTIONS, Recording
from tests.places import silent

from .conftest import GetEmulator, timed

pytestmark = pytest.mark.qemu

# By architecture and kind: entry, dispatch, handler, exit and return of getppid, counted by hand
# in guest/floor/ARCH/least.S and linux.S; then getpid's whole.
HAND_COUNTS = {
    ("arm64", ""): ((5, 2, 1, 0, 2), 12),
    ("arm64", "linux"): ((25, 12, 3, 3, 16), 58),
    ("riscv64", ""): ((7, 2, 1, 0, 2), 14),
    ("riscv64", "linux"): ((44, 14, 3, 3, 23), 86),
    ("x86_64", ""): ((0, 2, 1, 0, 1), 6),
    ("x86_64", "linux"): ((24, 9, 3, 3, 11), 49),
}
PARTS = ("entry", "dispatch", "handler", "exit", "return")


@pytest.fixture(params=["", "linux"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def program(arch: Arch, kind: str, native: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The floor of this tree, as an ELF file."""
    monkeypatch.setattr(native_module, "_FOLDER", native)
    return native_module.floor_files(arch, kind)[1]


def recorded(arch: Arch, kind: str, choice: str, *, check: bool) -> Recording:
    options = ExactOptions(
        cases=("getpid", "getppid"), windows=100, path_windows=8, emulator=choice, check=check
    )
    kernel = resolve_floor(parse(f"floor:{kind}"), arch)
    with timed(f"floor:{kind} for {arch.name} under QEMU {choice}"):
        return measure(kernel, QemuRunner(arch), on_floor(options, arch), silent)


def test_counts_are_those_counted_by_hand(
    arch: Arch, kind: str, choice: str, program: Path, get_emulator: GetEmulator
) -> None:
    get_emulator(arch, choice)
    recording = recorded(arch, kind, choice, check=False)
    by_part, getpid = HAND_COUNTS[arch.name, kind]
    counts = {}
    for case in recording.cases:
        count = case.metrics[INSTRUCTIONS]
        assert count.agreeing == count.windows == 100, case.name
        assert [path.length for path in case.paths] == [count.value], case.name
        counts[case.name] = count.value
    assert counts == {"getpid": getpid, "getppid": sum(by_part)}
    getppid = recording.case("getppid")
    assert getppid and getppid.modal_path
    found = {
        part.name: len(part.instructions)
        for part in parts(recording.instructions(getppid.modal_path), arch)
    }
    assert tuple(found.get(name, 0) for name in PARTS) == by_part
    # Lines of source, against those of binutils.
    code = recording.instructions(getppid.modal_path)
    argv = [f"{arch.cross}addr2line", "-e", str(program), *(hex(insn.address) for insn in code)]
    judged = subprocess.run(argv, check=True, capture_output=True, text=True).stdout.splitlines()
    assert [f"{own.file}:{own.line}" for insn in code for own in insn.source_lines[:1]] == judged


@pytest.mark.parametrize("memory", [64, 4096])
def test_it_runs_with_little_memory_and_much(
    arch: Arch, memory: int, native: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native_module, "_FOLDER", native)
    options = ExactOptions(cases=("getppid",), windows=16, path_windows=1, rounds=1, memory=memory)
    kernel = resolve_floor(parse("floor:linux"), arch)
    (case,) = measure(kernel, QemuRunner(arch), options, silent).cases
    assert case.metrics[INSTRUCTIONS].value == sum(HAND_COUNTS[arch.name, "linux"][0])


def test_the_machines_own_counter_agrees_and_twice_is_the_same(
    arch: Arch, kind: str, program: Path, get_emulator: GetEmulator
) -> None:
    get_emulator(arch, "installed")
    once, again = (recorded(arch, kind, "installed", check=True) for _ in range(2))
    for case in once.cases:
        assert case.checked
        assert case.checked_counts == (case.metrics[INSTRUCTIONS].value,) * 2
    assert once == again


def test_a_call_keeps_every_register_but_the_result(
    arch: Arch, kind: str, program: Path, get_emulator: GetEmulator, tmp_path: Path
) -> None:
    emulator = get_emulator(arch, "installed")
    source = Path(__file__).parent / "registers" / f"{arch.name}.S"
    words = ["-nostdlib", "-static", "-no-pie", "-Wl,-Ttext=0x100000", str(source)]
    subprocess.run([f"{arch.cross}gcc", *words, "-o", str(tmp_path / "init")], check=True)
    files = tmp_path / "initramfs"
    files.write_bytes(build_initramfs(tmp_path / "init", ()))
    kernel = resolve_floor(parse(f"floor:{kind}"), arch)
    argv = Guest(emulator, arch, find_processor(arch), 512).argv()
    guest = boot([*argv, *boot_argv(kernel, files, ["--"])], emulator, 20, silent)
    assert guest.console.split()[-1] == "kept", guest
