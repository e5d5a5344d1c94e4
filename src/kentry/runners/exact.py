# SPDX-License-Identifier: GPL-2.0-or-later
"""What counts instructions exactly: a Runner boots a kernel once and returns what it counted."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from kentry.kernels.kernel import Kernel
from kentry.progress import Update
from kentry.runners.plugin_trace import PluginTrace
from kentry.runners.probe_protocol import ProbeReport


@dataclass(frozen=True)
class ExactOptions:
    """How a kernel is measured.

    Each case runs `warmup` windows that are thrown away, `windows` that are counted and
    `path_windows` whose paths are recorded.  `randomise` leaves on what makes paths vary from
    boot to boot and window to window (KASLR, stack-offset randomisation).  `timeout` is in
    seconds of wall time, `memory` the guest's in MiB.  `vector_length` is that of the cpu model's
    vectors in bits, None for the model's own.  `check` has the plugin count a second way.
    """

    cases: tuple[str, ...]
    windows: int = 1000
    path_windows: int = 128
    warmup: int = 16
    randomise: bool = False
    seed: int = 1
    timeout: float = 120.0
    memory: int = 512
    vector_length: int | None = None
    emulator: str = "installed"
    check: bool = False
    console_file: Path | None = None


@dataclass(frozen=True)
class GuestRun:
    """One boot: the probe's report, the plugin's trace, and the recording's "target"."""

    console: str
    probe: ProbeReport
    trace: PluginTrace
    target: dict[str, Any]


class Runner(Protocol):
    """Runs the probe on a kernel and counts."""

    def run(self, kernel: Kernel, options: ExactOptions, update: Update) -> GuestRun:
        """Boots the kernel and measures; GuestError if the end mark was not reached."""
