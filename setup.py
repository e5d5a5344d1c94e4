# SPDX-License-Identifier: GPL-2.0-or-later
"""Builds the C parts before the Python ones are packed; everything else is in pyproject.toml.

The plugin is for this machine's QEMU; the probes are one static program an architecture,
each where its cross compiler is installed.  A missing one is not an error here: kentry
says so, with the remedy, when it is needed (kentry doctor).
"""

import platform
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent
NATIVE = ROOT / "src" / "kentry" / "native"

# Architecture: (its compiler's prefix, the machine on which plain gcc is that compiler).
COMPILERS = {
    "arm64": ("aarch64-linux-gnu-", "aarch64"),
    "riscv64": ("riscv64-linux-gnu-", "riscv64"),
    "x86_64": ("x86_64-linux-gnu-", "x86_64"),
}


def make(folder: str, *words: str) -> None:
    if not shutil.which("make"):
        print(f"warning: make is not installed, so {folder}/ is not built", file=sys.stderr)
        return
    command = ["make", "-s", "-C", str(ROOT / folder), f"OUT={NATIVE}", *words]
    if subprocess.run(command, check=False).returncode:
        print(f"warning: {folder}/ did not build: {' '.join(command)}", file=sys.stderr)


class BuildNative(build_py):  # type: ignore[misc]
    def run(self) -> None:
        NATIVE.mkdir(exist_ok=True)
        make("plugin")
        for arch, (prefix, machine) in COMPILERS.items():
            if shutil.which(f"{prefix}gcc"):
                make("guest", f"ARCHES={arch}")
            elif platform.machine() == machine:
                make("guest", f"ARCHES={arch}", f"CROSS_{arch}=")
        super().run()


setup(cmdclass={"build_py": BuildNative})
