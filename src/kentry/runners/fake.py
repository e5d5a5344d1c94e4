# SPDX-License-Identifier: GPL-2.0-or-later
"""A runner that boots nothing and reads a saved run, for tests and bug reports."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kentry.errors import UserError
from kentry.kernels.kernel import Kernel
from kentry.progress import Update
from kentry.runners.console import explain
from kentry.runners.exact import ExactOptions, GuestRun
from kentry.runners.plugin_trace import parse_trace
from kentry.runners.probe_protocol import read_report


@dataclass(frozen=True)
class FakeRunner:
    """Replays `folder`: `console` is what a guest printed, `trace` what the plugin wrote."""

    folder: Path

    def run(self, kernel: Kernel, options: ExactOptions, update: Update) -> GuestRun:
        """The saved run; GuestError where its console has no end mark."""
        try:
            console = (self.folder / "console").read_text(encoding="utf-8", errors="replace")
        except OSError as err:
            raise UserError(
                f"{self.folder} holds no saved run: {err.strerror}.",
                "It needs two files, console and trace.",
            ) from err
        report = read_report(console.splitlines())
        if report.ended_cases is None:
            raise explain(console, report.started, "the saved console ends")
        trace = parse_trace(self.folder / "trace")
        return GuestRun(console, report, trace, {"kind": "fake", "emulator": "none"})
