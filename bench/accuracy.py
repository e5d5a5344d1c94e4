# SPDX-License-Identifier: GPL-2.0-or-later
"""How far llvm-mca's estimate is from this machine: routines of a real kernel, timed and modelled.

The routines are cut out of Debian's 6.12 for x86-64: their bytes, changed only as the kernel
changes them when it boots (no tracer at the entry, plain returns); and the running kernel's
vDSO is called.  kentry's timed probe calls each
in a loop, interleaved with a chain of dependent multiplications that tells how long a cycle is.
The modelled path is the same iteration of the same loop, single-stepped.

    python -m bench.accuracy CORE [SECONDS]      # CORE: LLVM's name of this machine's core
    python -m bench.accuracy CORE --write        # and keeps the table in core/accuracy.toml

"""

from __future__ import annotations

import ctypes
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import tomli_w

from kentry.arch import Arch, find_arch
from kentry.host.native import probe_with_case
from kentry.kernels.kernel import Kernel
from kentry.kernels.payload import text_of
from kentry.kernels.resolve import resolve
from kentry.machines.open import LocalMachine
from kentry.models.estimate import find_models
from kentry.progress import progress
from kentry.results.estimate import ENTRY
from kentry.results.recording import (
    MODAL,
    CaseResult,
    Instruction,
    KernelPath,
    Metric,
    Recording,
)
from kentry.time.measurements import time_cases
from kentry.time.session import open_session

HERE = Path(__file__).parent
TABLE = HERE.parent / "src/kentry/models/accuracy.toml"
SPEC, ARCH = "debian:6.12", "x86_64"
SECONDS = 60.0
# As in accuracy.c: calls of a window, multiplications of a chain; cycles of one on any x86-64
# since 2008 (uops.info).
REPEATS, CHAIN, MULTIPLICATION = 64, 1024, 3
CLOCK = "chain"

SYMBOLS = (
    *("rb_next", "llist_reverse_order", "memcpy_orig", "memcmp", "strlen", "strcmp", "memchr"),
    *("int_sqrt", "siphash_3u64", "full_name_hash", "csum_partial", "_find_next_bit"),
    "sha1_transform",
)
# ptrace(2), and where struct user has rip.
_TRACEME, _PEEKUSER, _CONT, _STEP, _RIP = 0, 3, 7, 9, 16 * 8
_INT3, _RETURN = 0xCC, b"\xc3\xcc\xcc\xcc\xcc"
_NOP5 = bytes.fromhex("0f1f440000")


def routine(kernel: Kernel, text: bytes, start: int, name: str) -> bytes:
    """A function's bytes as they are once the kernel has booted."""
    symbols = kernel.symbols
    address = symbols.address_of(name)
    assert address, f"{kernel.spec} has no {name}"
    end = next(one for one in symbols.addresses if one > address)
    code = text[address - start : end - start]
    for target, instead in (("__fentry__", _NOP5), ("__x86_return_thunk", _RETURN)):
        goal = symbols.address_of(target)
        assert goal, f"{kernel.spec} has no {target}"
        for at in range(len(code) - 4):
            to = address + at + 5 + int.from_bytes(code[at + 1 : at + 5], "little", signed=True)
            if code[at] in (0xE8, 0xE9) and to == goal:
                code = code[:at] + instead + code[at + 5 :]
    return code


def source(kernel: Kernel) -> str:
    """accuracy.c with the routines in it."""
    text = text_of(kernel)
    blocks = []
    for name in SYMBOLS:
        code = routine(kernel, text.text, text.start, name)
        data = ",".join(map(str, code))
        lines = [".text", ".balign 64", f".globl kernel_{name}", f"kernel_{name}:", f".byte {data}"]
        blocks.append('__asm__("' + "\\n".join(lines) + '\\n");')
    return (HERE / "accuracy.c").read_text().replace("/* ROUTINES */", "\n".join(blocks))


@dataclass(frozen=True)
class Traced:
    """An iteration of a routine's loop, instruction by instruction."""

    name: str
    path: list[Instruction]


def single_stepped(program: Path, vdso: Path) -> Iterator[tuple[int, list[int]]]:
    """Where the vDSO is, and the instruction pointers between each pair of marks.

    The vDSO is written to the file `vdso` before the first pair.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long] * 4
    libc.ptrace.restype = ctypes.c_long
    child = os.fork()
    if child == 0:
        libc.ptrace(_TRACEME, 0, 0, 0)
        os.execv(program, [str(program)])
    os.waitpid(child, 0)

    def go(how: int) -> bool:
        libc.ptrace(how, child, 0, 0)
        _, status = os.waitpid(child, 0)
        assert os.WIFEXITED(status) or os.WSTOPSIG(status) == signal.SIGTRAP, status
        return not os.WIFEXITED(status)

    proc = Path("/proc") / str(child)
    memory = (proc / "mem").open("rb", buffering=0)
    while go(_CONT):
        if not vdso.exists():
            (line,) = (one for one in (proc / "maps").read_text().splitlines() if "[vdso]" in one)
            base, end = (int(one, 16) for one in line.split()[0].split("-"))
            memory.seek(base)
            vdso.write_bytes(memory.read(end - base))
        pointers = []
        while True:
            at = libc.ptrace(_PEEKUSER, child, _RIP, 0)
            memory.seek(at)
            if memory.read(1)[0] == _INT3:
                break
            pointers.append(at)
            go(_STEP)
        go(_STEP)
        yield base, pointers


def listing(program: Path) -> dict[int, tuple[str, str]]:
    """Each instruction of a program by its address: bytes, text."""
    argv = ["objdump", "-d", "-w", str(program)]
    text = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    rows = re.findall(r"^ +([0-9a-f]+):\t((?:[0-9a-f]{2} )+)\s*(.*)$", text, re.MULTILINE)
    return {int(at, 16): (code.replace(" ", ""), words.strip()) for at, code, words in rows}


def traced(program: Path) -> list[Traced]:
    """The third call of each routine, to the fourth."""
    nm = subprocess.run(["nm", str(program)], check=True, capture_output=True, text=True).stdout
    begins = {
        int(address, 16): name
        for address, name in re.findall(r"^([0-9a-f]+) [tT] once_(\w+)$", nm, re.MULTILINE)
    }
    code, vdso = listing(program), program.with_name("vdso")
    found: list[Traced] = []
    for base, pointers in single_stepped(program, vdso):
        if not found:
            code |= {base + at: insn for at, insn in listing(vdso).items()}
        name = next(begins[at] for at in pointers if at in begins)
        starts = [n for n, at in enumerate(pointers) if begins.get(at) == name]
        path = [Instruction(at, *code[at], name, 0) for at in pointers[starts[2] : starts[3]]]
        found.append(Traced(name, path))
    return found


def recording_of(found: list[Traced]) -> Recording:
    """The paths as a recording, each a case."""
    code: list[Instruction] = []
    cases = []
    for one in found:
        runs = ((len(code), len(one.path)),)
        metric = {"instructions": Metric.of({len(one.path): 1})}
        path = KernelPath(role=MODAL, times=1, runs=runs)
        cases.append(CaseResult(one.name, metric, (), ((one.name, len(one.path)),), (path,)))
        code += one.path
    return Recording(kernel={"arch": ARCH}, target={}, options={}, cases=cases, code=code)


def measured(arch: Arch, file: Path, names: list[str], seconds: float) -> dict[str, list[float]]:
    """ns of one call of each routine: the value, and its interval."""
    machine = LocalMachine("local")
    # The cache's copy is for guests: nothing may execute it here.
    machine.probe = file.with_name("probe")
    shutil.copyfile(probe_with_case(arch, file), machine.probe)
    machine.probe.chmod(0o700)
    session = open_session(machine, -1, None)
    recording, absent = time_cases(session, [f"accuracy-{name}" for name in names], seconds)
    assert not absent, absent
    found = {}
    for name in names:
        case = recording.case(f"accuracy-{name}")
        assert case
        metric = case.noisy["ns"]
        assert metric.interval
        found[name] = [one / REPEATS for one in (metric.value, *metric.interval)]
    return found


def main() -> None:
    """Prints a row a routine, and the median and the worst error."""
    words = [word for word in sys.argv[1:] if word != "--write"]
    core, seconds = words[0], float(words[1]) if len(words) > 1 else SECONDS
    arch = find_arch(ARCH)
    assert platform.machine() == ARCH, "the routines are for x86-64"
    models = find_models(arch, [core])
    with tempfile.TemporaryDirectory() as folder, progress("resolving") as update:
        kernel = resolve(SPEC, arch, update)
        file, program = Path(folder) / "accuracy-filled.c", Path(folder) / "traced"
        file.write_text(source(kernel))
        options = ["-O2", "-ffreestanding", "-fno-stack-protector", "-fno-pic", "-no-pie"]
        options += ["-fno-tree-vectorize", "-fcf-protection=none", "-mno-sse"]
        argv = ["x86_64-linux-gnu-gcc", "-std=gnu11", *options, "-DTRACED", str(file)]
        subprocess.run([*argv, "-o", str(program)], check=True)
        found = traced(program)
        names = [one.name for one in found]
        recording = recording_of(found)
        estimates = models.estimate(recording, recording.cases)
        times = measured(arch, file, names, seconds)
    cycle = times[CLOCK][0] / (CHAIN * MULTIPLICATION)
    llvm = models.analyser.version
    print(f"{kernel.release} on {core}, LLVM {llvm}; a cycle takes {cycle:.4f} ns")
    heads = ("routine", "insns", "measured", "interval", "model", "error")
    print("{:<22} {:>5} {:>8} {:>15} {:>7} {:>8}".format(*heads))
    rows, errors = [], []
    for one in found:
        value, low, high = (round(ns / cycle, 1) for ns in times[one.name])
        (estimate,) = estimates[one.name]
        unknown = [row for row in estimate.left if row.why != ENTRY and row.low is None]
        missing = sum(row.times for row in unknown)
        row = {"name": one.name, "instructions": len(one.path), "missing": missing}
        row |= {"model": estimate.steady, "measured": value, "low": low, "high": high}
        error = estimate.steady / value - 1
        if one.name != CLOCK:
            rows.append(row)
            # Where the model does not know all of it, it is no estimate of the whole.
            errors += [] if missing else [abs(error)]
        print(
            f"{one.name:<22} {len(one.path):>5} {value:>8.1f} {f'{low:.1f} - {high:.1f}':>15}"
            f" {'>=' if missing else ''}{estimate.steady:>7.1f} {error:>+8.1%}"
        )
    print(f"median error {median(errors):.1%}, worst {max(errors):.1%}")
    if "--write" in sys.argv:
        cpu = next(
            line.partition(": ")[2]
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        )
        head = {"core": core, "cpu": cpu, "llvm": llvm, "kernel": kernel.release}
        TABLE.write_text(tomli_w.dumps({**head, "routine": rows}))


if __name__ == "__main__":
    main()
