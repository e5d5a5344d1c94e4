# SPDX-License-Identifier: GPL-2.0-or-later
"""Real images that are there to harm who boots them: an error in a sentence, in a bounded time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kentry.arch import find_arch
from kentry.errors import EXIT_MISTAKE
from tests.unit.kernels import fakes

from .conftest import timed

pytestmark = pytest.mark.qemu

SOURCES = Path(__file__).with_name("hostile")
# Seconds of a processor without progress, of which a boot has ten times as many in all; and for
# all, on a machine that does other things.
TIMEOUT, BOUND = 1, 300
GIB = 1 << 30
COMPILED = {
    "arm64": ("aarch64-linux-gnu-", "-mgeneral-regs-only", "-Wl,--defsym=BASE=0x40200000"),
    "riscv64": ("riscv64-linux-gnu-", "-mcmodel=medany", "-Wl,--defsym=BASE=0x80200000"),
    "x86_64": ("x86_64-linux-gnu-", "-mgeneral-regs-only", "-Wl,--defsym=BASE=0x100000"),
}
SAY_MUCH = ("MARKS", "WINDOWS", "DEVICES_WRITTEN", "LIES")
KERNELS = [
    *(("arm64", kind) for kind in ("SILENT", "OFF", "RESET", "FLOOD", "STEADY", *SAY_MUCH)),
    *((arch, kind) for arch in ("riscv64", "x86_64") for kind in ("RESET", *SAY_MUCH)),
]


@pytest.mark.parametrize(("arch", "kind"), KERNELS)
def test_a_hostile_kernel_is_an_error(arch: str, kind: str, tmp_path: Path) -> None:
    image, vmlinux, elf = tmp_path / "Image", tmp_path / "vmlinux", tmp_path / "elf"
    cross, *own = COMPILED[arch]
    flags = ("-O1", "-ffreestanding", "-fno-stack-protector", "-fno-pie", "-no-pie")
    script = str(SOURCES / "hostile.lds")
    linked = ("-nostdlib", "-static", "-T", script, "-Wl,--build-id=none,--no-warn-rwx-segments")
    kinds = (f"-DKIND={kind}", f'-DBANNER="{fakes.BANNER}"', str(SOURCES / "hostile.c"))
    subprocess.run([f"{cross}gcc", *flags, *own, *linked, *kinds, "-o", str(elf)], check=True)
    if arch == "x86_64":
        image = elf
    else:
        copied = (f"{cross}objcopy", "-O", "binary", "-j", ".text")
        subprocess.run([*copied, str(elf), str(image)], check=True)
    vmlinux.write_bytes(fakes.vmlinux(arch=find_arch(arch)))
    spec = f"image:{image},symbols={vmlinux}"
    words = ("record", spec, "--arch", arch, "--case", "getppid", "-v")
    patience = ("--timeout", str(TIMEOUT))
    with timed(f"a hostile kernel for {arch}: {kind}"):
        done = subprocess.run(
            [*("prlimit", f"--fsize={2 * GIB}"), sys.executable, "-m", "kentry", *words, *patience],
            capture_output=True,
            text=True,
            timeout=BOUND,
            check=False,
        )
    assert done.returncode == EXIT_MISTAKE, done
    # It was booted; with -v an error has its origin, of which the last line is kentry's own.
    assert find_arch(arch).qemu in done.stderr
    assert "kentry failed" not in done.stderr
    assert all(char.isprintable() or char in "\n\t" for char in done.stdout + done.stderr)
