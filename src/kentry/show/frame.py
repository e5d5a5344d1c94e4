# SPDX-License-Identifier: GPL-2.0-or-later
"""What stands around every result: the kernel and the emulator above, the caveats below."""

from collections.abc import Iterable
from typing import Any

from kentry.results.caveats import Caveat
from kentry.results.recording import OnTarget
from kentry.show.table import wrapped


def kernel_name(kernel: dict[str, Any]) -> str:
    """Which kernel: "debian:6.12 (arm64): Linux 6.12.95"."""
    release = f"Linux {kernel['release']}" if kernel["release"] else "release not known"
    release = kernel["origin"].get("what", release)
    return f"{kernel['spec']} ({kernel['arch']}): {release}"


def kernel_lines(measured: OnTarget, label: str = "") -> list[str]:
    """The kernel and, below, its compiler."""
    lines = [f"{label}{kernel_name(measured.kernel)}"]
    if measured.kernel["compiler"]:
        lines.append(f"{' ' * len(label)}{measured.kernel['compiler']}")
    return lines


def emulator_lines(measured: OnTarget) -> list[str]:
    """The emulator and its cpu model, on which the counts depend."""
    target = measured.target
    return [target["emulator"], f"-cpu {target.get('cpu', '?')}"]


def caveat_lines(caveats: Iterable[Caveat]) -> list[str]:
    """An empty line and a note for each caveat; nothing without caveats."""
    notes = [wrapped(f"note: {caveat['text']}", then="      ") for caveat in caveats]
    return [""] * bool(notes) + [line for note in notes for line in note]
