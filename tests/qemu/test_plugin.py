# SPDX-License-Identifier: GPL-2.0-or-later
"""The plugin's counts against the truth, under every QEMU that can be had.

The truth comes four ways: instructions counted by hand (baremetal/*.S, which say how),
the guest's own clock under -icount, the plugin's second count by a call an instruction
(check=on), and another version of QEMU.
"""

import subprocess
from collections import Counter
from pathlib import Path

import pytest

from kentry.arch import Arch
from kentry.arch.processors import find_processor
from kentry.boot.emulator import CHOICES, Emulator
from kentry.boot.exact import ExactOptions, QemuRunner
from kentry.boot.plugin_trace import Phase, PluginTrace, parse_trace
from kentry.count.catalogue import choose
from kentry.host import native as native_module
from kentry.kernels.kernel import Kernel
from kentry.kernels.resolve import resolve
from kentry.path import metrics
from kentry.results.recording import Instruction
from tests.places import silent
from tests.processes import PATIENCE

from .conftest import GetEmulator, or_skip, tell, timed

pytestmark = pytest.mark.qemu

KERNEL = "debian:6.12"
# Cases whose path does not depend on what the emulated CPU can do.
PLAIN = ("getpid", "getppid", "getuid", "gettid", "invalid", "sched_yield")

# Per architecture and case: windows, then kernel, firmware and user instructions of each,
# and exceptions.  Counted by hand: baremetal/*.S say how.
COMMON = {"mmio": (1, 8004, 0, 1, 0), "fault": (1, 14004, 0, 1, 1000), "alias": (200, 3, 0, 1, 0)}
HAND_COUNTS: dict[str, dict[str, tuple[int, int, int, int, int]]] = {
    "arm64": COMMON,
    "riscv64": {**COMMON, "firmware": (1, 4002, 4000, 1, 0)},
    "x86_64": {
        **COMMON,
        "mmio": (1, 8007, 0, 1, 0),
        "fault": (1, 13007, 0, 1, 1000),
        "rep": (1, 53, 0, 1, 0),
        "repeated-rep": (1, 602, 0, 1, 0),
        "faulting-rep": (1, 8, 0, 1, 1),
    },
}
# The path pass records the same windows once more, with one path each.
PATH_COUNTS = {
    "arm64": {"mmio": 8004},
    "riscv64": {"mmio": 8004},
    "x86_64": {"mmio": 8007, "rep": 53},
}
# Of "metrics", counted by hand; lines are of 32, 64 and 128 bytes, pages of 4096.
TOUCHED = (
    *("loads", "stores", "bytes.loaded", "bytes.stored"),
    *("lines.data.32", "lines.data", "lines.data.128", "pages.data"),
)
HAND_TOUCHED = {
    "arm64": (5, 5, 48, 52, 7, 6, 5, 2),
    "riscv64": (6, 5, 37, 30, 6, 5, 4, 1),
    "x86_64": (8, 6, 60, 41, 7, 6, 5, 3),
}
OF_CODE = (
    *("atomics", "branches", "branches.taken", "branches.indirect", "calls", "returns"),
    *("serialising", "lines.code.32", "lines.code", "lines.code.128", "pages.code"),
)
HAND_OF_CODE = {
    "arm64": (3, 7, 6, 1, 1, 2, 2, 3, 2, 1, 1),
    "riscv64": (3, 7, 6, 1, 1, 1, 2, 3, 2, 1, 1),
    "x86_64": (2, 7, 6, 1, 1, 2, 2, 3, 2, 1, 1),
}
HAND_STACK = {"arm64": 32, "riscv64": 32, "x86_64": 24}
# Instructions that "clock" leaves out at the ends of its window: the first read, what
# follows the last one.
CLOCK_ENDS = {"arm64": 2, "riscv64": 2, "x86_64": 4}
RESET_WINDOWS = 50

BOOT = (
    *("-accel", "tcg,thread=single", "-smp", "1", "-m", "128M"),
    *("-icount", "shift=0,sleep=off", "-seed", "1"),
    *("-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-nic", "none"),
    *("-monitor", "none", "-serial", "none"),
)
# Where each program lies, and how much further its counted code runs.
LOAD_OPTION = {"arm64": "-kernel", "riscv64": "-bios", "x86_64": "-kernel"}
HIGH = {"arm64": 0xFFFFFF8000000000, "riscv64": 0xFFFFFFC000000000, "x86_64": 0xFFFFFFFF80000000}
TRAP = {"arm64": ("vectors", 0x200), "riscv64": ("supervisor_trap", 0), "x86_64": ("page_fault", 0)}
FIRMWARE = {"riscv64": "firmware=80000000-80001000"}


def symbol_address(program: Path, arch: Arch, name: str) -> int:
    listing = subprocess.run(
        [f"{arch.cross}nm", str(program)], check=True, capture_output=True, text=True
    ).stdout
    return next(
        int(line.split()[0], 16) for line in listing.splitlines() if line.endswith(f" {name}")
    )


def run_program(
    arch: Arch, emulator: Emulator, native: Path, programs: Path, folder: Path
) -> PluginTrace:
    """The trace of the bare-metal program under one emulator, checked by a second count."""
    program = programs / f"{arch.name}.elf"
    symbol, offset = TRAP[arch.name]
    address = symbol_address(program, arch, symbol) + offset + HIGH[arch.name]
    (folder / "traps").write_text(f"exception {address:x}\n")
    plugin = [f"{native}/kentry.so", f"out={folder}/trace", f"traps={folder}/traps", "check=on"]
    plugin += [FIRMWARE[arch.name]] if arch.name in FIRMWARE else []
    argv = [*emulator.argv, "-machine", arch.machine, "-cpu", find_processor(arch).qemu(), *BOOT]
    argv += [LOAD_OPTION[arch.name], str(program), "-plugin", ",".join(plugin)]
    with timed(f"{program.name} under QEMU {emulator.version}"):
        subprocess.run(argv, env=emulator.env, check=True, timeout=PATIENCE)
    return parse_trace(folder / "trace")


def phase(trace: PluginTrace, case: str, name: str = "count") -> Phase:
    return next(phase for phase in trace.phases if (phase.case, phase.name) == (case, name))


def counted(phase: Phase) -> tuple[int, int, int, int, int]:
    """The phase's windows as one, which they must be."""
    assert len(phase.windows) == 1, phase.windows
    window = phase.windows[0]
    return window.times, window.kernel, window.firmware, window.user, window.exceptions


def clock(trace: PluginTrace, case: str) -> int:
    prefix = f"clock {case} "
    return next(int(text[len(prefix) :], 16) for text in trace.messages if text.startswith(prefix))


def test_counts_are_those_counted_by_hand(
    arch: Arch, emulator: Emulator, native: Path, programs: Path, tmp_path: Path
) -> None:
    trace = run_program(arch, emulator, native, programs, tmp_path)
    expected = HAND_COUNTS[arch.name]
    assert {case: counted(phase(trace, case)) for case in expected} == expected
    # The guest's clock counts instructions retired; a fault is one dispatched and not retired.
    for case in ("mmio", "fault"):
        _, kernel, firmware, _, faults = expected[case]
        assert clock(trace, case) == kernel + firmware - CLOCK_ENDS[arch.name] - faults
    assert (trace.checked, trace.mismatches) == (trace.windows, 0)
    for case, count in PATH_COUNTS[arch.name].items():
        (window,) = phase(trace, case, "path").windows
        assert window.path is not None
        assert window.kernel == trace.path_length(window.path) == count
    check_metrics(arch, trace)
    # Windows begun too early are spoilt, not wrong.
    windows = phase(trace, "reset").windows
    assert {(window.kernel, window.user) for window in windows} == {(3, 1)}
    assert trace.spoilt >= 1
    assert trace.spoilt + sum(window.times for window in windows) == RESET_WINDOWS
    # Iterations of a REP are kept apart.
    for each in trace.phases:
        rep = "rep" in each.case and each.case != "faulting-rep"
        for window in each.windows:
            assert (window.iterations > 0) == rep, each.case


def check_metrics(arch: Arch, trace: PluginTrace) -> None:
    window, again = phase(trace, "metrics", "path").windows
    assert again == window
    assert window.touched == dict(zip(TOUCHED, HAND_TOUCHED[arch.name], strict=True))
    assert window.path is not None
    path = [
        Instruction(one.address, one.code, one.text, "", 0)
        for first, count in trace.paths[window.path]
        for one in trace.insns[first : first + count]
    ]
    accesses = trace.accesses["metrics", window.path]
    found = metrics.amounts(path, accesses, arch)
    totals = {name: amounts.total() for name, amounts in found.items()}
    assert {name: totals[name] for name in TOUCHED} == window.touched
    expected = dict(zip(OF_CODE, HAND_OF_CODE[arch.name], strict=True))
    assert {name: totals[name] for name in OF_CODE} == expected
    stack = metrics.stack_bytes(path, accesses, arch)
    assert stack == HAND_STACK[arch.name]


# --- a real kernel ------------------------------------------------------------------------


@pytest.fixture
def kernel(arch: Arch) -> Kernel:
    return or_skip(f"no {KERNEL} for {arch.name}", resolve, KERNEL, arch, silent)


def boot(arch: Arch, kernel: Kernel, emulator: Emulator, choice: str) -> PluginTrace:
    cases = tuple(choose(arch, ()))
    options = ExactOptions(cases=cases, windows=200, path_windows=4, emulator=choice, check=True)
    with timed(f"{kernel.release} under QEMU {emulator.version}, check=on"):
        return QemuRunner(arch).run(kernel, options, silent).trace


def clean_windows(trace: PluginTrace) -> dict[str, Counter[tuple[int, int]]]:
    """Per case: how often each (kernel, user) count was seen, interrupted windows left out."""
    found: dict[str, Counter[tuple[int, int]]] = {}
    for each in trace.phases:
        if each.name == "count":
            counts = found[each.case] = Counter()
            for window in each.windows:
                counts[window.kernel, window.user] += window.times * (not window.irqs)
    return found


def test_a_kernel_counts_the_same_everywhere(
    arch: Arch,
    kernel: Kernel,
    get_emulator: GetEmulator,
    native: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(native_module, "_FOLDER", native)
    seen = {}
    for choice in CHOICES:
        emulator = get_emulator(arch, choice)
        trace = boot(arch, kernel, emulator, choice)
        assert trace.checked
        assert trace.mismatches == 0
        assert trace.spoilt == 0
        for each in trace.phases:
            assert each.user is None or {one.user for one in each.windows} == {each.user}
        seen[emulator.version] = clean_windows(trace)
    # Cases that do no more than enter and leave must be equal; others are shown.
    for case in next(iter(seen.values())):
        values = {version: cases[case].most_common(1)[0][0] for version, cases in seen.items()}
        if len(set(values.values())) > 1:
            assert case.partition("@")[0] not in PLAIN, case
            tell(f"{case} differs: {values}")


# --- what it refuses ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "more", "complaint"),
    [
        ("", [], "out=FILE is missing"),
        ("out={0}/no/such/folder", [], "cannot write"),
        ("out={0}/trace,nonsense=1", [], "unknown argument nonsense=1"),
        ("out={0}/trace,traps={0}/none", [], "cannot read"),
        ("out={0}/trace,traps={0}/bad", [], "a line that is no trap"),
        ("out={0}/trace", ["-smp", "3"], "one vCPU or two"),
    ],
)
def test_wrong_arguments_are_refused(
    arguments: str,
    more: list[str],
    complaint: str,
    arch: Arch,
    get_emulator: GetEmulator,
    native: Path,
    tmp_path: Path,
) -> None:
    emulator = get_emulator(arch, CHOICES[0])
    (tmp_path / "bad").write_text("irq ffff\nnonsense\n")
    words = [f"{native}/kentry.so", *filter(None, [arguments.format(tmp_path)])]
    argv = [*emulator.argv, "-machine", arch.machine, *BOOT, *more, "-plugin", ",".join(words)]
    ended = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=PATIENCE)
    assert ended.returncode != 0
    assert complaint in ended.stderr
