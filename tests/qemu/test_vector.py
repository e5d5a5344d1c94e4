# SPDX-License-Identifier: GPL-2.0-or-later
"""Vector states on real kernels: what a state costs, which events are behind it, and who agrees."""

from __future__ import annotations

import json
import re
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kentry.arch import ARCHES, find_arch
from kentry.arch.processors import find_processor
from kentry.boot.emulator import INSTALLED
from kentry.boot.exact import ExactOptions, QemuRunner
from kentry.boot.initramfs import build_initramfs
from kentry.count.recorder import measure
from kentry.kernels import build
from kentry.kernels.config import Request
from kentry.kernels.resolve import line_up
from kentry.results.recording import CaseResult, Recording
from tests.builders import validate
from tests.places import silent
from tests.processes import PATIENCE

from .conftest import GetEmulator, timed
from .test_examples import BASE_SPEC, EXAMPLES, read_source, source
from .test_record import KERNEL, fetched, kentry
from .test_record import recorded as measured

pytestmark = pytest.mark.qemu

# What one loop of fp-pidbench.S executes besides the system call's kernel side: svc, sub, cbnz,
# and rdvl where SVE is used in it.
LOOP, LOOP_WITH_USE = 3, 4
LOOPS = 10000
# The guest's counter at 62.5 MHz, an instruction a nanosecond: -icount shift=0.
INSTRUCTIONS_A_TICK = 16
# Of a loop: the timer's interrupts, some thousand instructions in 10000 loops.
INTERRUPTS = 3.0
NUMBERS = {"getpid": 172, "write": 64, "exit": 93, "prctl": 167, "rt_sigaction": 134, "tgkill": 131}


def recorded(kernel: str, arch: str, *words: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(
        kentry("record", kernel, "--arch", arch, "--json", "-q", *words).stdout
    )
    validate(document, "recording-1")
    return document


def counts(document: dict[str, Any]) -> dict[str, int]:
    return {case["name"]: case["metrics"]["instructions"]["value"] for case in document["cases"]}


USES = ("none", "once", "each", "after")


@cache
def of_null_calls(arch: str) -> Recording:
    """One boot: what it counts is in all contexts."""
    with_units = () if arch == "x86_64" else tuple(f"getppid+vec={use}" for use in USES)
    more = {
        "arm64": tuple(f"getpid+vec={use}" for use in USES),
        "riscv64": ("pipe-4k+vec=after",),
    }.get(arch, ("getppid+vec=none",))
    options = ExactOptions(("getppid", *with_units, *more), 100, 16, rounds=1)
    return measured(fetched(KERNEL, arch), options)


def counts_of(found: Recording) -> dict[str, float]:
    return {case.name: case.metrics["instructions"].value for case in found.cases}


def case_of(found: Recording, name: str) -> CaseResult:
    case = found.case(name)
    assert case
    return case


def events(found: Recording, name: str) -> dict[tuple[str, str], int]:
    return {(one.name, one.cause): one.times for one in case_of(found, name).events or ()}


@pytest.mark.parametrize("arch", ARCHES)
def test_a_task_without_vectors_costs_what_the_plain_case_does(arch: str) -> None:
    found = counts_of(of_null_calls(arch))
    assert found["getppid"] == found["getppid+vec=none"]


def test_riscv_discards_at_every_call_and_saves_for_a_copy() -> None:
    all_uses = of_null_calls("riscv64")
    found = counts_of(all_uses)
    assert events(all_uses, "getppid+vec=none") == {}
    assert events(all_uses, "getppid+vec=once") == {("discard", "syscall"): 1}
    # The posted series' subject, and all of it in the function that the discard is inlined into.
    none, once = (dict(case_of(all_uses, f"getppid+vec={use}").functions) for use in USES[:2])
    added = {name: once[name] - none.get(name, 0) for name in once if once[name] != none.get(name)}
    assert added == {"do_trap_ecall_u": found["getppid+vec=once"] - found["getppid+vec=none"]}
    assert events(all_uses, "pipe-4k+vec=after") == {
        ("discard", "syscall"): 2,
        ("kernel-use", "user copy"): 2,
        ("save", "user copy"): 2,
        ("restore", "user copy"): 2,
    }


def test_arm64_traded_a_trap_for_a_flush() -> None:
    for kernel in ("debian:6.1", KERNEL):
        fetched(kernel, "arm64")
    words = ("diff", "debian:6.1", KERNEL, "--arch", "arm64", "--case", "getppid+vec=each")
    document = json.loads(kentry(*words, "--json", "-q").stdout)
    validate(document, "comparison-1")
    [case] = document["cases"]
    changes = {(one["name"], one["cause"]): (one["old"], one["new"]) for one in case["events"]}
    assert changes["trap", "first use"] == (1, 0)
    assert changes["drop", "syscall"] == (1, 0)
    assert changes["flush", "syscall"] == (0, 1)
    assert case["delta"] < 0


def test_longer_vectors_are_flushed_with_more_instructions() -> None:
    """sve_flush_live() leaves out the 32 Z registers at 128 bits: they are V's then."""
    fetched(KERNEL, "arm64")
    found = counts(recorded(KERNEL, "arm64", "--case", "getpid+vec=once", "--vl", "128,256"))
    assert found["getpid+vec=once+vl=256"] - found["getpid+vec=once"] == 32


@pytest.mark.parametrize("arch", ["arm64", "riscv64"])
def test_the_matrix_is_whole_and_counts_what_its_cases_alone_count(arch: str) -> None:
    fetched(KERNEL, arch)
    whole = recorded(KERNEL, arch, "--matrix", "vector", "--paths", "4")
    assert len(whole["cases"]) >= 60
    assert not [one for one in whole["caveats"] if one["kind"] in ("case-failed", "case-absent")]
    alone = counts_of(of_null_calls(arch))
    for name in (f"getppid+vec={use}" for use in USES):
        assert counts(whole)[name] == alone[name]


def test_fp_pidbench_and_the_guests_clock_agree(tmp_path: Path, get_emulator: GetEmulator) -> None:
    """The selftests' own program, timed by the guest's counter, which counts instructions."""
    kernel = fetched(KERNEL, "arm64")
    source(BASE_SPEC)
    found = counts_of(of_null_calls("arm64"))
    ticks = _ticks(_fp_pidbench(tmp_path), kernel.image, tmp_path, get_emulator)
    for label, name, loop in (
        ("No SVE", "getpid+vec=none", LOOP),
        ("SVE used once", "getpid+vec=once", LOOP),
        ("SVE used per syscall", "getpid+vec=each", LOOP_WITH_USE),
    ):
        a_call = ticks[label] * INSTRUCTIONS_A_TICK / LOOPS - loop
        assert 0 <= a_call - found[name] <= INTERRUPTS, label


def test_initial_tracking_makes_a_vector_task_as_cheap_as_any_other(riscv_spec: str) -> None:
    """The whole of examples/riscv-vector-initial; make docs measures it patch by patch."""
    arch = find_arch("riscv64")
    patches = sorted((EXAMPLES / "riscv-vector-initial").glob("*.patch"))
    lineup = line_up(riscv_spec, [str(patch) for patch in patches], silent)
    last = lineup.steps[-1].revision
    assert last, lineup.steps
    with timed(f"6.12 with {len(patches)} patches, built for riscv64"):
        kernel = build.kernel("patched", last, arch, Request(), silent)
    cases = ("getppid+vec=none", "getppid+vec=once", "pipe-4k+vec=after")
    found = measure(kernel, QemuRunner(arch), ExactOptions(cases, 100, 16, rounds=1), silent)
    none, once, copies = found.cases
    assert once.metrics["instructions"].value - none.metrics["instructions"].value <= 3
    assert once.events == ()
    assert copies.events and not {"save", "restore"} & {event.name for event in copies.events}


@pytest.mark.parametrize("name", ["arm64-sve-timeout", "arm64-sve-count"])
def test_the_arm64_series_applies(name: str) -> None:
    source(BASE_SPEC)
    patches = sorted((EXAMPLES / name).glob("*.patch"))
    lineup = line_up(BASE_SPEC, [str(patch) for patch in patches], silent)
    assert patches and all(step.revision for step in lineup.steps)


def _fp_pidbench(folder: Path) -> Path:
    """fp-pidbench with 10000 loops and not 2560000, after two seconds in which boot's work ends."""
    compiler = f"{find_arch('arm64').cross}gcc"
    text = read_source("tools/testing/selftests/arm64/fp/fp-pidbench.S")
    sleep = "sub sp, sp, #16; mov x0, #2; stp x0, xzr, [sp]; mov x0, sp; mov x1, xzr; mov x8, #101"
    shorter, times = re.subn(
        r"\tlsl\tx20, x20, #8\n", f"\t{sleep}; svc #0; add sp, sp, #16\n", text
    )
    assert times == 1
    (folder / "fp-pidbench.S").write_text(shorter)
    for name in ("asm-utils.S", "assembler.h"):
        (folder / name).write_text(read_source(f"tools/testing/selftests/arm64/fp/{name}"))
    (folder / "asm").mkdir()
    (folder / "asm" / "unistd.h").write_text(
        "".join(f"#define __NR_{name} {number}\n" for name, number in NUMBERS.items())
    )
    program = folder / "fp-pidbench"
    files = [str(folder / name) for name in ("fp-pidbench.S", "asm-utils.S")]
    subprocess.run(
        [compiler, "-nostdlib", "-static", f"-I{folder}", *files, "-o", str(program)], check=True
    )
    return program


def _ticks(program: Path, image: Path, folder: Path, get_emulator: GetEmulator) -> dict[str, int]:
    """What the program prints as PID 1; that it then ends is a panic, and QEMU's end."""
    arch = find_arch("arm64")
    emulator = get_emulator(arch, INSTALLED)
    (folder / "initramfs").write_bytes(build_initramfs(program, []))
    argv = [
        *emulator.argv,
        *("-machine", arch.machine, "-cpu", find_processor(arch).qemu(), "-m", "512M", "-smp", "1"),
        *("-accel", "tcg,thread=single", "-icount", "shift=0,sleep=off", "-seed", "1"),
        *("-rtc", "base=2020-01-01T00:00:00,clock=vm", "-nodefaults", "-no-user-config"),
        *("-no-reboot", "-display", "none", "-nic", "none", "-monitor", "none"),
        *("-serial", "stdio", "-kernel", str(image), "-initrd", str(folder / "initramfs")),
        "-append",
        "panic=-1 quiet console=ttyAMA0 nokaslr randomize_kstack_offset=off",
    ]
    with timed("fp-pidbench, debian:6.12 (arm64)"):
        done = subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE, check=False)
    rows = re.findall(r"^([\w ]+?): *(\d+)\s*$", done.stdout.replace("\r", ""), re.MULTILINE)
    return {label: int(number) for label, number in rows}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arch", "forgotten", "register"),
    [("arm64", "sve_flush_live", "p0"), ("riscv64", "riscv_v_vstate_discard", "v0")],
)
def test_registers_that_a_kernel_leaves_as_they_were_are_noted(
    arch: str, forgotten: str, register: str, riscv_spec: str
) -> None:
    """It is cheaper, and each state in which the program used the unit says why."""
    source(BASE_SPEC)
    base = {"riscv64": riscv_spec}.get(arch, BASE_SPEC)
    patch = Path(__file__).parent / "patches" / f"{forgotten}.patch"
    words = ("--arch", arch, "--case", "getppid+vec=*", "--json")
    series = json.loads(kentry("series", base, str(patch), *words).stdout)
    usual, cheaper = series["rows"]
    for row, noted in ((usual, set()), (cheaper, {"once", "each", "after"})):
        notes = [one["text"] for one in row["caveats"] if one["kind"] == "wrong-registers"]
        assert {text.partition(" ")[0] for text in notes} == {f"getppid+vec={one}" for one in noted}
        assert all(f" of {register} is 0x" in text for text in notes)
    deltas = {name: case["delta"] for name, case in cheaper["cases"].items()}
    never = deltas.pop("getppid+vec=none")
    assert len(deltas) == 3
    assert all(delta < never for delta in deltas.values())
