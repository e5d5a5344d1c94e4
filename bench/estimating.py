# SPDX-License-Identifier: GPL-2.0-or-later
"""How long it takes to estimate the cycles of a kernel's cases on six cores.

Prints the seconds of Models.estimate(), for one pass, the steady state, and the rows of every path
on every core, and the ratio to bare `llvm-mca -iterations=1` of the same instructions, one path
and core after the other.

    python -m bench.estimating [FILE...]

FILE is a recording; Debian's 6.12 for arm64 is recorded without one.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from kentry.arch import Arch, find_arch
from kentry.models.estimate import Models, find_models
from kentry.results.recording import Recording, read_recording

# Seconds, on two cores.
BAR = 10.0
ROUNDS = 3
SPEC = "debian:6.12"
CORES = {
    "arm64": ["neoverse-n2", "neoverse-n1", "neoverse-v2", "cortex-a76", "cortex-a55", "apple-m1"],
    "riscv64": [
        *("sifive-u54", "sifive-u74", "sifive-x280", "sifive-p670", "spacemit-x60"),
        "xiangshan-nanhu",
    ],
    "x86_64": ["znver2", "znver3", "znver4", "haswell", "skylake-avx512", "alderlake"],
}


def recorded(folder: Path) -> Path:
    file = folder / "recording.json"
    words = ["record", SPEC, "--arch", "arm64", "-q", "-o", str(file)]
    subprocess.run([sys.executable, "-m", "kentry", *words], check=True, stdout=subprocess.DEVNULL)
    return file


def bare(models: Models, arch: Arch, recording: Recording) -> float:
    """Seconds of llvm-mca alone, of each path and core, on the same instructions."""
    paths = [
        [insn.code for insn in recording.instructions(case.modal_path)]
        for case in recording.cases
        if case.modal_path and case.modal_path.length
    ]
    codes = list(dict.fromkeys(code for path in paths for code in path))
    took = 0.0
    for core in models.cores:
        texts = models.analyser.texts(arch, core, codes)
        for path in paths:
            text = "\n".join([*(texts.get(code, "") for code in path), ""])
            argv = [str(models.analyser.mca), f"-mtriple={arch.llvm.triple}", f"-mcpu={core}"]
            argv += [f"-mattr={arch.llvm.features}"] if arch.llvm.features else []
            argv += ["-iterations=1", "-skip-unsupported-instructions=any"]
            start = time.monotonic()
            subprocess.run(argv, input=text, text=True, capture_output=True, check=True)
            took += time.monotonic() - start
    return took


def measure(file: Path) -> bool:
    """Prints a line for the recording; whether it is within the bar."""
    recording = read_recording(file)
    arch = find_arch(recording.kernel["arch"])
    models = find_models(arch, CORES[arch.name])
    ours, cpu, alone = [], [], []
    for _ in range(ROUNDS):
        start, before = time.monotonic(), sum(os.times()[:4])
        found = models.estimate(recording, recording.cases)
        ours.append(time.monotonic() - start)
        cpu.append(sum(os.times()[:4]) - before)
        alone.append(bare(models, arch, recording))
    seconds, peer = median(ours), median(alone)
    verdict = "within" if seconds <= BAR else "over"
    print(
        f"estimate {arch.name} {len(found)} paths x {len(models.cores)} cores {seconds:6.2f} s"
        f"  ({verdict} {BAR:g} s; {median(cpu):.1f} s of cpu)"
        f"  {seconds / peer:5.2f} x llvm-mca alone"
    )
    return seconds <= BAR


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(name) for name in sys.argv[1:]] or [recorded(Path(folder))]
        within = [measure(file) for file in files]
    return 0 if all(within) else 1


if __name__ == "__main__":
    raise SystemExit(main())
