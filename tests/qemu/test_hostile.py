# SPDX-License-Identifier: GPL-2.0-or-later
"""Real images that are there to harm who boots them: an error in a sentence, in a bounded time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kentry.errors import EXIT_MISTAKE
from tests.unit.kernels import fakes

from .conftest import timed

pytestmark = pytest.mark.qemu

SOURCE = Path(__file__).with_name("hostile") / "arm64.S"
# Seconds of a processor without progress, of which a boot has ten times as many in all; and for
# all, on a machine that does other things.
TIMEOUT, BOUND = 2, 300
GIB = 1 << 30
KERNELS = (
    *("SILENT", "OFF", "RESET", "FLOOD", "STEADY", "MARKS", "WINDOWS", "DEVICES_WRITTEN", "LIES"),
)


@pytest.mark.parametrize("kind", KERNELS)
def test_a_hostile_kernel_is_an_error(kind: str, tmp_path: Path) -> None:
    image, vmlinux = tmp_path / "Image", tmp_path / "vmlinux"
    elf, banner = str(tmp_path / "elf"), f'-DBANNER="{fakes.BANNER}"'
    compiler = ("aarch64-linux-gnu-gcc", "-nostdlib", "-static", "-Wl,--build-id=none")
    subprocess.run([*compiler, f"-D{kind}", banner, str(SOURCE), "-o", elf], check=True)
    copied = ("aarch64-linux-gnu-objcopy", "-O", "binary", "-j", ".text")
    subprocess.run([*copied, elf, str(image)], check=True)
    vmlinux.write_bytes(fakes.vmlinux())
    spec = f"image:{image},symbols={vmlinux}"
    words = ("record", spec, "--arch", "arm64", "--case", "getppid", "-v")
    patience = ("--timeout", str(TIMEOUT))
    with timed(f"a hostile kernel for arm64: {kind}"):
        done = subprocess.run(
            [*("prlimit", f"--fsize={2 * GIB}"), sys.executable, "-m", "kentry", *words, *patience],
            capture_output=True,
            text=True,
            timeout=BOUND,
            check=False,
        )
    assert done.returncode == EXIT_MISTAKE, done
    # It was booted; with -v an error has its origin, of which the last line is kentry's own.
    assert "qemu-system-aarch64" in done.stderr
    assert "kentry failed" not in done.stderr
    assert all(char.isprintable() or char in "\n\t" for char in done.stdout + done.stderr)
