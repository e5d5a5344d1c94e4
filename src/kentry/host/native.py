# SPDX-License-Identifier: GPL-2.0-or-later
"""The compiled parts: the QEMU plugins, and one probe for each architecture."""

from pathlib import Path

from kentry.arch import Arch
from kentry.errors import MissingToolError

_FOLDER = Path(__file__).parents[1] / "native"


def probe_file(arch: Arch) -> Path:
    """The probe's executable; MissingToolError if it is not built."""
    return built_file(f"probe-{arch.name}", f"the probe for {arch.name}", arch.compiler_package)


def plugin_file() -> Path:
    """The QEMU plugin; MissingToolError if it is not built."""
    return built_file("kentry.so", "the QEMU plugin", "gcc")


def tasks_plugin_file() -> Path:
    """The QEMU plugin that records tasks; MissingToolError if it is not built."""
    return built_file("tasks.so", "the QEMU plugin for tasks", "gcc")


def runner_file(arch: Arch) -> Path:
    """The program that starts workloads in a guest; MissingToolError if it is not built."""
    return built_file(f"runner-{arch.name}", f"the runner for {arch.name}", arch.compiler_package)


def built_file(name: str, what: str, package: str) -> Path:
    """A compiled part; `what` names it in the error, `package` has its compiler."""
    file = _FOLDER / name
    if not file.exists():
        raise MissingToolError(
            f"{what[0].upper()}{what[1:]} is not built.",
            f"Run: apt-get install {package} make, then install kentry again (make setup).",
        )
    return file
