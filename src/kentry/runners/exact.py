# SPDX-License-Identifier: GPL-2.0-or-later
"""What every target takes and gives back."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from kentry.kernels.kernel import Kernel
from kentry.progress import Update
from kentry.runners.console import ProbeReport
from kentry.runners.plugin_trace import PluginTrace


@dataclass(frozen=True)
class ExactOptions:
    """How a kernel is measured.

    `windows`, `path_windows` and `warmup` are windows a case: counted, recorded as paths,
    and thrown away first.  `randomise` leaves on what makes paths vary from boot to boot
    and window to window (KASLR, stack-offset randomisation).  `timeout` is in seconds of
    wall time, `memory` the guest's in MiB, `vector_length` that of the cpu model's vectors in
    bits, None for its own.
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
    """What came back: the probe's report, the plugin's trace, the recording's "target"."""

    console: str
    probe: ProbeReport
    trace: PluginTrace
    target: dict[str, Any]


class Runner(Protocol):
    """Something that can run the probe on a kernel."""

    def run(self, kernel: Kernel, options: ExactOptions, update: Update) -> GuestRun:
        """Boots, measures and comes back; GuestError when the end mark was not reached."""
