# SPDX-License-Identifier: GPL-2.0-or-later
"""What stands around every result: the kernel and the emulator."""

from collections.abc import Mapping
from typing import Any

from kentry.results.recording import OnTarget

_OF_KERNEL = ("compiler", "build_id", "config_sha256", "image_sha256")
_OF_TARGET = ("kind", "emulator", "machine", "cpu", "accelerator", "cpu_model", "host", "cmdline")

Facts = list[tuple[str, str]]


def kernel_name(kernel: Mapping[str, Any]) -> str:
    """Returns which kernel: "debian:6.12 (arm64): Linux 6.12.95".

    Of a file that lacks what it should say, it has what the file does say.
    """
    origin = kernel.get("origin")
    release = f"Linux {kernel['release']}" if kernel.get("release") else "release not known"
    release = origin.get("what", release) if isinstance(origin, dict) else release
    return f"{kernel.get('spec', '?')} ({kernel.get('arch', '?')}): {release}"


def kernel_lines(kernel: Mapping[str, Any], label: str = "") -> list[str]:
    """Returns the kernel and, below, its compiler."""
    lines = [f"{label}{kernel_name(kernel)}"]
    if kernel.get("compiler"):
        lines.append(f"{' ' * len(label)}{kernel['compiler']}")
    return lines


def emulator_lines(measured: OnTarget) -> list[str]:
    """Returns the emulator and its cpu model, on which the counts depend."""
    target = measured.target
    return [target.get("emulator", "?"), f"-cpu {target.get('cpu', '?')}"]


def kernel_facts(kernel: Mapping[str, Any], target: Mapping[str, Any]) -> Facts:
    """Returns what was measured on what, as (name, value)."""
    facts = [("kernel", kernel_name(kernel))]
    facts += [(key.replace("_", " "), str(kernel[key])) for key in _OF_KERNEL if kernel.get(key)]
    facts += [(key.replace("_", " "), str(target[key])) for key in _OF_TARGET if target.get(key)]
    return facts


def side_facts(old: Facts, new: Facts) -> Facts:
    """Returns the facts of both sides: once where they are the same."""
    before, after = dict(old), dict(new)
    facts = []
    for name in dict.fromkeys([*before, *after]):
        values = before.get(name, "not known"), after.get(name, "not known")
        if values[0] == values[1]:
            facts.append((name, values[0]))
        else:
            facts += [(f"{name}, old", values[0]), (f"{name}, new", values[1])]
    return facts
